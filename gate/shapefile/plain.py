"""Records whose geometry is certain from their bytes, decoded many at a time.

A record is plain if its numbers are finite and its parts follow each other
(`gate.shapefile.parts`), and, of a polygon, if it is certain what each ring is
(`gate.shapefile.rings`). What is not plain is left to Fiona. The WKB is the same,
byte for byte, as `gate.shapefile.wkb` makes of what Fiona gives.

Layout of WKB: OGC 06-103r4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gate import gather
from gate.gather import Bytes, Floats, Integers, Mask
from gate.shapefile import rings
from gate.shapefile.extent import CODES
from gate.shapefile.parts import Parts, only, parts_of
from gate.shapefile.records import (
    LINES,
    MULTIPOINTS,
    NULL,
    POINTS,
    POLYGONS,
    WITH_Z,
    Block,
    Records,
)
from gate.shapefile.rings import Rings

_HEAD = np.dtype([("order", "u1"), ("code", "<u4")])
_COUNTED = np.dtype([("order", "u1"), ("code", "<u4"), ("count", "<u4")])
_COUNT = np.dtype("<u4")


def _nowhere() -> Integers:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Plain:
    """The plain rows of a block.

    `rows` tells which of the block's rows they are, null shapes included; `wkb`
    holds them in order. `type` is the GeoParquet name of the type of those that
    are not null, empty if there are none. `bounds` are xmin, ymin, xmax, ymax. `rewound` are
    places in the block, one for each shell that is wound against the format.
    `rings` are those of the polygons, if they are kept for whoever looks at them further.
    """

    rows: Mask
    wkb: pa.BinaryArray
    type: str = ""
    bounds: tuple[float, float, float, float] | None = None
    null: int = 0
    rewound: Integers = field(default_factory=_nowhere)
    rings: Rings | None = None


def decode(
    records: Records,
    block: Block,
    live: Mask,
    *,
    multi: bool,
    flat: bool = False,
    nulls: bool = True,
    keep_rings: bool = True,
) -> Plain:
    """Decode those live rows of `block` that are plain; null shapes are, with `nulls`.

    The records have been checked (`Records.check`). With `multi`, lines
    and polygons become their multi types; points never do. With `flat`, Z values are left out.
    """
    kind = records.kind
    shapes = live & (block.kinds == kind)
    null = live & (block.kinds == NULL) & nulls
    has_z = kind in WITH_Z and not flat
    found: Rings | None = None
    if kind in POINTS:
        shapes, parts = parts_of(records, block, shapes, 1, flat=flat)
        name, packed = "Point", _points(parts, has_z)
    elif kind in MULTIPOINTS:
        shapes, parts = parts_of(records, block, shapes, 1, flat=flat)
        name, packed = "MultiPoint", _multipoints(parts, has_z)
    elif kind in LINES:
        shapes, parts = parts_of(records, block, shapes, 2, flat=flat)
        name, packed = "LineString", _lines(parts, has_z, multi)
    elif kind in POLYGONS:
        shapes, parts = parts_of(records, block, shapes, 4, flat=flat)
        certain, found = rings.organise(parts)
        shapes, parts = only(shapes, certain), found.parts
        name, packed = "Polygon", _polygons(found, has_z, multi)
    else:
        return Plain(null, pa.nulls(int(null.sum()), pa.binary()), null=int(null.sum()))
    if multi and name in ("LineString", "Polygon"):
        name = f"Multi{name}"
    return Plain(
        rows=shapes | null,
        wkb=_binary(packed, null[shapes | null]),
        type=(f"{name} Z" if has_z else name) if parts.records else "",
        bounds=_bounds(found.low, found.high) if found else _bounds(parts.positions),
        null=int(null.sum()),
        rewound=_rewound(found, np.flatnonzero(shapes)),
        rings=found if keep_rings else None,
    )


def _rewound(found: Rings | None, places: Integers) -> Integers:
    """Return the places of the records of shells that are wound against the format."""
    if found is None:
        return _nowhere()
    return places[found.parts.record[found.is_shell & ~found.clockwise]]


# Bytes and where each geometry starts in them, with one more entry for the end.
_Packed: TypeAlias = tuple[Bytes, Integers]


def _points(parts: Parts, has_z: bool) -> _Packed:
    axes = parts.positions.shape[1]
    layout = np.dtype([("head", _HEAD), ("position", "<f8", axes)])
    points = np.empty(len(parts.positions), layout)
    points["head"] = _heads(_code("Point", has_z), len(points))
    points["position"] = parts.positions
    return points.view(np.uint8), np.arange(len(points) + 1) * layout.itemsize


def _multipoints(parts: Parts, has_z: bool) -> _Packed:
    points, _ = _points(parts, has_z)
    items = points.view(np.dtype((np.void, points.size // max(len(parts.positions), 1))))
    heads = _counted(_code("MultiPoint", has_z), parts.lengths).view(np.uint8)
    ends = np.arange(1, len(parts.record) + 1) * _COUNTED.itemsize
    content, ends = gather.interleaved(heads, ends, items, parts.first)
    return content, np.append(0, ends)


def _lines(parts: Parts, has_z: bool, multi: bool) -> _Packed:
    heads = _counted(_code("LineString", has_z), parts.lengths)
    frame = _Frame(parts.record, heads, np.ones(len(heads), np.bool_))
    laid, ends = frame.laid(_code("MultiLineString", has_z) if multi else 0)
    content, ends = gather.interleaved(laid, ends, _items(parts), parts.first)
    return content, frame.starts(ends)


def _polygons(found: Rings, has_z: bool, multi: bool) -> _Packed:
    parts, order = found.parts, found.order
    is_shell = found.is_shell[order]
    of_shell = np.diff(np.append(np.flatnonzero(is_shell), len(order)))
    heads = _counted(_code("Polygon", has_z), of_shell)
    frame = _Frame(parts.record[order], heads, is_shell, parts.lengths[order])
    laid, ends = frame.laid(_code("MultiPolygon", has_z) if multi else 0)
    backwards = found.clockwise == found.is_shell
    content, ends = gather.interleaved(laid, ends, _items(parts), parts.first, order, backwards)
    return content, frame.starts(ends)


class _Frame:
    """What stands before the positions of each part, the parts in the order of their output.

    `record` is the record of each part, `heads` belong to those parts that
    `is_headed` tells, and `counts`, if there are any, stand right before the
    positions.
    """

    def __init__(
        self,
        record: Integers,
        heads: npt.NDArray[np.void],
        is_headed: Mask,
        counts: Integers | None = None,
    ) -> None:
        self._record = record
        self._heads = heads
        self._is_headed = is_headed
        self._counts = counts
        self._begins = np.flatnonzero(np.diff(record, prepend=-1))

    def laid(self, multi: int) -> tuple[Bytes, Integers]:
        """Return all that stands before positions, and where that of each part ends.

        `multi` is the code of the type around the parts of one record, 0 for none.
        """
        count_bytes = 0 if self._counts is None else _COUNT.itemsize
        sizes = np.where(self._is_headed, _COUNTED.itemsize, 0) + count_bytes
        if multi:
            sizes[self._begins] += _COUNTED.itemsize
        ends = np.cumsum(sizes)
        content = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        if multi:
            headed = np.bincount(self._record[self._is_headed], minlength=len(self._begins))
            gather.put(content, (ends - sizes)[self._begins], _counted(multi, headed))
        gather.put(content, ends[self._is_headed] - count_bytes - _COUNTED.itemsize, self._heads)
        if self._counts is not None:
            gather.put(content, ends - count_bytes, self._counts.astype(_COUNT))
        return content, ends

    def starts(self, ends: Integers) -> Integers:
        """Return where each record starts, and where the last one ends, if parts end so."""
        starts: Integers = np.append(0, ends)[np.append(self._begins, len(ends))]
        return starts


def _binary(packed: _Packed, null: Mask) -> pa.BinaryArray:
    """Return packed geometries as a column, with nulls where `null` says so."""
    content, starts = packed
    offsets = starts.astype(np.int32)
    validity = None
    if null.any():
        sizes = np.zeros(len(null), np.int32)
        sizes[~null] = np.diff(offsets)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        validity = pa.py_buffer(np.packbits(~null, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(null), buffers)


def _bounds(low: Floats, high: Floats | None = None) -> tuple[float, float, float, float] | None:
    """Return the bounds of positions, or of boxes."""
    if not len(low):
        return None
    high = low if high is None else high
    (west, south), (east, north) = (
        (low[:, axis].min() for axis in (0, 1)),
        (high[:, axis].max() for axis in (0, 1)),
    )
    return (float(west), float(south), float(east), float(north))


def _items(parts: Parts) -> npt.NDArray[np.void]:
    """Return the positions as items of raw bytes."""
    raw = np.ascontiguousarray(parts.positions).view(np.uint8)
    return raw.reshape(-1).view(np.dtype((np.void, _position_bytes(parts))))


def _position_bytes(parts: Parts) -> int:
    return 8 * int(parts.positions.shape[1])


def _counted(code: int, counts: Integers) -> npt.NDArray[np.void]:
    heads = np.empty(len(counts), _COUNTED)
    heads["order"], heads["code"], heads["count"] = 1, code, counts
    return heads


def _heads(code: int, count: int) -> npt.NDArray[np.void]:
    heads = np.empty(count, _HEAD)
    heads["order"], heads["code"] = 1, code
    return heads


def _code(name: str, has_z: bool) -> int:
    return CODES[name] + (1000 if has_z else 0)
