"""Facts about WKB columns, taken from the bytes themselves: types and extents."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from gate.errors import CorruptError, UnsupportedError
from gate.sinks import walk

Coordinates = NDArray[np.float64]

_BASE_TYPES = {
    1: "Point",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
# ISO WKB (SQL/MM part 3, OGC 06-103r4) adds 1000 for Z. M is not in GeoParquet 1.1.
_ISO_Z = 1000
_TYPES = _BASE_TYPES | {_ISO_Z + code: f"{name} Z" for code, name in _BASE_TYPES.items()}
_HEADER_BYTES = 5


@dataclass(frozen=True, slots=True)
class Extents:
    """The extent of each row: `low` and `high` are rows × (x, y, z).

    A row without any finite coordinate (null, empty) has `low` = inf and
    `high` = -inf; so has z where there is none. Minimum and maximum over rows
    therefore need no special case.
    """

    low: Coordinates
    high: Coordinates

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return which rows have an extent."""
        return np.isfinite(self.low[:, 0])


def geometry_types(column: pa.Array) -> frozenset[str]:
    """Return the GeoParquet names of the types in a WKB column, nulls left out.

    Raises `CorruptError` for what is no WKB, `UnsupportedError` for a type that
    GeoParquet 1.1 does not have (M, extended WKB, curves).
    """
    return frozenset(
        map(_type_name, pc.unique(pc.binary_slice(column, 0, 5)).drop_null().to_pylist())
    )


def _type_name(header: bytes) -> str:
    if len(header) < _HEADER_BYTES or header[0] > 1:
        raise CorruptError(f"a geometry begins with {header.hex()}, which is no WKB")
    code = int.from_bytes(header[1:], "little" if header[0] else "big")
    if code not in _TYPES:
        raise UnsupportedError(f"GeoParquet 1.1 has no geometry type {code}")
    return _TYPES[code]


def extents(column: pa.Array) -> Extents:
    """Return the extent of each row of a WKB column.

    Vertices whose x or y is not finite are left out. Rows that GEOS refuses (an
    open ring, a ring of two points) are measured by their bytes: invalid
    geometry still has an extent.
    """
    found, measured = walk.extents(column)
    rest = np.flatnonzero(~measured)
    if not len(rest):
        return Extents(*found)
    low, high = found
    others = _extents(column.take(pa.array(rest)))
    low[rest], high[rest] = others.low, others.high
    return Extents(low, high)


def _extents(column: pa.Array) -> Extents:
    rows = column.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        geometries = shapely.from_wkb(rows, on_invalid="ignore")
    coordinates, owners = shapely.get_coordinates(geometries, include_z=True, return_index=True)
    found = _reduce(coordinates, owners, len(rows))
    for row in np.flatnonzero(shapely.is_missing(geometries) & column.is_valid().to_numpy(False)):
        vertices = np.array(list(_vertices(rows[row])), dtype=float).reshape(-1, 3)
        alone = _reduce(vertices, np.zeros(len(vertices), dtype=np.int64), 1)
        found.low[row], found.high[row] = alone.low[0], alone.high[0]
    return found


def _reduce(coordinates: Coordinates, owners: NDArray[np.int64], count: int) -> Extents:
    """Fold vertices, which stand in the order of the rows that own them."""
    usable = np.isfinite(coordinates[:, :2]).all(axis=1)
    coordinates, owners = coordinates[usable], owners[usable]
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    if len(owners):
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        finite = np.isfinite(coordinates)
        first = owners[starts]
        low[first] = np.minimum.reduceat(np.where(finite, coordinates, np.inf), starts)
        high[first] = np.maximum.reduceat(np.where(finite, coordinates, -np.inf), starts)
    return Extents(low, high)


def _vertices(wkb: bytes) -> Iterator[tuple[float, float, float]]:
    """Yield every vertex of one geometry whose header has been checked.

    Raises `CorruptError` if the bytes end before the geometry does.
    """
    try:
        vertices, _ = _walk(memoryview(wkb))
    except (struct.error, KeyError, IndexError) as error:
        raise CorruptError(f"a geometry of {len(wkb)} bytes is cut or malformed") from error
    yield from vertices


def _walk(wkb: memoryview) -> tuple[list[tuple[float, float, float]], memoryview]:
    """Return the vertices of the geometry that `wkb` begins with, and what follows it."""
    order = "<" if wkb[0] else ">"
    (code,) = struct.unpack_from(f"{order}I", wkb, 1)
    wkb = wkb[_HEADER_BYTES:]
    kind = _TYPES[code].removesuffix(" Z")
    point = struct.Struct(f"{order}{3 if code > _ISO_Z else 2}d")
    if kind == "Point":
        return _points(wkb, point, 1)
    (count,) = struct.unpack_from(f"{order}I", wkb)
    wkb = wkb[4:]
    if kind == "LineString":
        return _points(wkb, point, count)
    vertices: list[tuple[float, float, float]] = []
    for _ in range(count):
        if kind == "Polygon":
            (length,) = struct.unpack_from(f"{order}I", wkb)
            part, wkb = _points(wkb[4:], point, length)
        else:
            part, wkb = _walk(wkb)
        vertices += part
    return vertices, wkb


def _points(
    wkb: memoryview, point: struct.Struct, count: int
) -> tuple[list[tuple[float, float, float]], memoryview]:
    end = count * point.size
    if end > len(wkb):
        raise struct.error("cut")
    found = [(x, y, *(z or [np.nan])) for x, y, *z in point.iter_unpack(wkb[:end])]
    return found, wkb[end:]
