"""The geometries of a layer, proven against what the records announce.

GDAL answers a damaged record with no geometry, or with a part of it. A record's
header says how many positions it holds, so the geometry that comes out is
counted against that, row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gate.errors import CorruptError, LostRowsError
from gate.policies import DEFAULTS, Heights, Measures, Policies, RowPolicy
from gate.shapefile import plain
from gate.shapefile.extent import Bounds, Extent, extent_of
from gate.shapefile.findings import Findings
from gate.shapefile.headers import NAMES, Structure
from gate.shapefile.plain import Plain
from gate.shapefile.records import (
    LINES,
    MULTIPATCH,
    MULTIPOINTS,
    NULL,
    WITH_Z,
    Block,
)
from gate.shapefile.report import GeometryFacts
from gate.shapefile.rules import Oddity, RowRules, oddity
from gate.shapefile.wkb import Encoder, UnclosableError, collapses


class Decoded(Protocol):
    """A geometry as Fiona gives it."""

    @property
    def type(self) -> str:
        """Return the type's name, as in GeoJSON."""
        ...

    @property
    def coordinates(self) -> Any:
        """Return the nested positions, as in GeoJSON."""
        ...


Feature: TypeAlias = tuple[int, Decoded | None]
NextFeature: TypeAlias = Callable[[], Feature | None]
Mask: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]

_COUNTED_AS = {Oddity.NULL: "null", Oddity.EMPTY: "empty", Oddity.NAN: "not_finite"}


class Selective(Protocol):
    """A source of features that can be told which rows are wanted."""

    def __call__(self) -> Feature | None:
        """Return the next feature."""
        ...

    def only(self, rows: Sequence[int]) -> None:
        """Give the features of these rows from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Tally:
    """What there is to count of a batch, apart for every row that may still be left out.

    `null` are plain null shapes, which all are loaded; `rewound` are places in
    the block, one for each shell among the plain rows, and `others` the counts of
    all other rows by place. `dropped` tells of each count of the report which rows
    lose values.
    """

    extent: Extent
    null: int
    rewound: Integers
    others: Mapping[int, Counter[str]]
    dropped: Mapping[str, Mask]


@dataclass(frozen=True, slots=True)
class Taken:
    """How the rows of a batch were decoded: those of `plain` by their bytes.

    `kept` tells which rows of the block they are.
    """

    plain: Plain | None
    kept: Mask
    tally: Tally


class Geometries:
    """Turns the features of one layer into WKB and keeps the facts for its report.

    With `by_bytes`, plain rows are decoded from their bytes, and the features of
    the others alone are asked for: `next_feature` must then be `Selective`.
    Whoever does without the rings of polygons saves memory by not having them kept.

    Where any record has several parts, lines and polygons become their multi
    types throughout, so that the layer has one type; points never do.
    """

    def __init__(
        self,
        structure: Structure,
        findings: Findings,
        policies: Policies = DEFAULTS,
        *,
        multi: bool = False,
        by_bytes: bool = False,
        keep_rings: bool = True,
    ) -> None:
        self._where = structure.files.where(".shp")
        self._records = structure.records
        self._findings = findings
        self._rules = RowRules(policies, findings)
        self._policies = policies
        self._flat = policies.z_values is Heights.DROP and self._records.kind in WITH_Z
        self._encoder = Encoder(multi=structure.several_parts or multi, flat=self._flat)
        self._by_bytes = by_bytes
        self._keep_rings = keep_rings
        self._nulls = policies.null_geometry is RowPolicy.KEEP
        self._prepared: Callable[[], Plain] | None = None
        self._others: dict[int, Counter[str]] = {}
        self._counts: Counter[str] = Counter()
        self._loaded = self._in_file = Extent()
        self._read = 0

    def prepare(self, block: Block, live: Mask) -> Plain:
        """Decode the plain rows of a block; another thread may do that, ahead of `take`."""
        if self._policies.m_values is Measures.REJECT:
            live = live & ~self._records.measured(block)
        return plain.decode(
            self._records,
            block,
            live,
            multi=self._encoder.multi,
            flat=self._flat,
            nulls=self._nulls,
            keep_rings=self._keep_rings,
        )

    def expect(self, prepared: Callable[[], Plain]) -> None:
        """Let the next call of `take` use what `prepare` has returned for its block."""
        self._prepared = prepared

    def take(
        self, block: Block, live: Mask, next_feature: NextFeature
    ) -> tuple[Sequence[bytes | None] | pa.BinaryArray, Taken]:
        """Return the WKB of the live rows of `block`, and which rows these are.

        A row is left out, and noted as rejected, if its geometry has no WKB, or
        if a policy says so. The tally is for `count`, once it is known which of
        the others are loaded.
        Raises `LostRowsError` if the features are not those of the live rows,
        and `CorruptError` if a geometry is not what its record announces.
        """
        found: Plain | None = None
        self._others = {}
        if self._by_bytes:
            prepared, self._prepared = self._prepared, None
            found = prepared() if prepared else self.prepare(block, live)
            odd = live & ~found.rows
            wanted = (np.flatnonzero(odd) + block.start).tolist()
            cast(Selective, next_feature).only(wanted)
            others, kept = self._decoded(block, odd, next_feature)
            kept |= found.rows
            encoded = _merged(found.wkb, others, found.rows[kept])
        else:
            encoded, kept = self._decoded(block, live, next_feature)
        return encoded, Taken(found, kept, self._tally(found, block))

    def _tally(self, found: Plain | None, block: Block) -> Tally:
        extent = Extent(frozenset(self._encoder.types), self._encoder.bounds)
        self._encoder.types, self._encoder.bounds = set(), None
        null, rewound = 0, np.empty(0, np.int64)
        if found:
            null, rewound = found.null, found.rewound
            extent |= Extent(frozenset({found.type} - {""}), found.bounds)
        self._in_file |= extent
        dropped = {"measures_dropped": self._records.measured(block)}
        if self._flat:
            dropped["heights_dropped"] = block.points > 0
        return Tally(extent, null, rewound, self._others, dropped)

    def count(self, tally: Tally, loaded: Mask, altered: pa.BinaryArray | None = None) -> None:
        """Count the rows of a batch that are `loaded`, of those that `take` has returned.

        `altered` are their geometries, if they are others by now or not all of them.
        """
        self._loaded |= tally.extent if altered is None else extent_of(altered)
        self._counts.update(
            null=tally.null,
            rewound=int(loaded[tally.rewound].sum()),
        )
        self._counts.update(
            {name: int((each & loaded).sum()) for name, each in tally.dropped.items()}
        )
        for place, counts in tally.others.items():
            if loaded[place]:
                self._counts.update(counts)

    @property
    def bounds_in_file(self) -> Bounds | None:
        """Return the bounds of all geometries taken so far, be they loaded or not."""
        return self._in_file.bounds

    def _decoded(
        self, block: Block, wanted: Mask, next_feature: NextFeature
    ) -> tuple[list[bytes | None], Mask]:
        """Return the WKB of those rows of `block` that are wanted, feature by feature."""
        encoded: list[bytes | None] = []
        kept = wanted.copy()
        measured = self._records.measured(block)
        for index in np.flatnonzero(wanted).tolist():
            row, kind, points = (
                block.start + index,
                int(block.kinds[index]),
                int(block.points[index]),
            )
            geometry = self._expect(row, next_feature())
            if geometry is not None and geometry.type == "GeometryCollection":
                kept[index] = False
                text = f"{NAMES[kind]} of several surfaces"
                self._findings.reject("unsupported_geometry", row + 1, text)
                continue
            self._check(row, kind, points, geometry)
            odd = _oddity(kind, points, geometry)
            try:
                if not self._admitted(row, kind, geometry, odd, measured=bool(measured[index])):
                    kept[index] = False
                    continue
                encoded.append(self._wkb(row, kind, points, geometry))
            except UnclosableError:
                kept[index] = False
                text = f"{NAMES[kind]} with a ring of NaN"
                self._findings.reject("no_geometry", row + 1, text)
                continue
            if counts := self._counted(odd):
                self._others[index] = counts
        self._encoder.settle()
        return encoded, kept

    def facts(self) -> GeometryFacts:
        """Return the facts of all geometries counted so far."""
        return GeometryFacts(
            file_type=NAMES[self._records.kind],
            types=tuple(sorted(self._loaded.types)),
            bounds=self._loaded.bounds,
            null=self._counts["null"],
            empty=self._counts["empty"],
            not_finite=self._counts["not_finite"],
            measures_dropped=self._counts["measures_dropped"],
            heights_dropped=self._counts["heights_dropped"],
            rewound=self._counts["rewound"],
            closed=self._counts["closed"],
            collapsed=self._counts["collapsed"],
        )

    def _admitted(
        self, row: int, kind: int, geometry: Decoded | None, odd: Oddity | None, *, measured: bool
    ) -> bool:
        """Tell whether the policies let a row be loaded; note it as rejected if they do not."""
        found = [odd] if odd else []
        if measured:
            found.append(Oddity.MEASURED)
        if self._policies.collapsed_geometry is not RowPolicy.KEEP and _collapses(geometry, odd):
            found.append(Oddity.COLLAPSED)
        return all(self._rules.admits(each, row + 1, NAMES[kind]) for each in found)

    def _counted(self, odd: Oddity | None) -> Counter[str]:
        """Return what there is to count of the row that was encoded last."""
        encoder = self._encoder
        counts = Counter(
            rewound=encoder.rewound, closed=encoder.closed, collapsed=encoder.collapsed
        )
        encoder.rewound = encoder.closed = encoder.collapsed = 0
        if odd:
            counts[_COUNTED_AS[odd]] = 1
        return +counts

    def _expect(self, row: int, feature: Feature | None) -> Decoded | None:
        """Return the geometry of exactly this row."""
        if feature is None:
            what = f"GDAL ended after {self._read} features; row {row + 1} was never read"
            raise LostRowsError(what, where=self._where)
        if feature[0] != row:
            what = f"GDAL gave row {feature[0] + 1} where row {row + 1} is next"
            raise LostRowsError(what, where=self._where)
        self._read += 1
        return feature[1]

    def _check(self, row: int, kind: int, points: int, geometry: Decoded | None) -> None:
        """Prove that there is a geometry exactly where the record announces one."""
        if kind == NULL and geometry is not None:
            raise self._contradiction(row, "a null shape was read as a geometry")
        if kind != NULL and points and geometry is None:
            raise self._contradiction(row, f"its {points} positions were read as no geometry")

    def _wkb(self, row: int, kind: int, points: int, geometry: Decoded | None) -> bytes | None:
        if kind == NULL:
            return None
        if geometry is None or points == 0:
            return self._encoder.empty(_simple_type(kind), has_z=kind in WITH_Z and not self._flat)
        wkb, arrived = self._encoder.encode(geometry.type, geometry.coordinates)
        if arrived != points and kind != MULTIPATCH:
            raise self._contradiction(row, f"{arrived} of its {points} positions were read")
        return wkb

    def _contradiction(self, row: int, what: str) -> CorruptError:
        return CorruptError(f"record {row + 1}: {what}", where=self._where)


def _merged(some: pa.BinaryArray, others: list[bytes | None], is_some: Mask) -> pa.BinaryArray:
    """Return two columns as one, in which the rows of the first are where `is_some` says."""
    if not others:
        return some
    places = np.empty(len(is_some), np.int64)
    places[is_some] = np.arange(len(some))
    places[~is_some] = len(some) + np.arange(len(others))
    return pa.concat_arrays([some, pa.array(others, pa.binary())]).take(pa.array(places))


def _collapses(geometry: Decoded | None, odd: Oddity | None) -> bool:
    if geometry is None or odd is Oddity.EMPTY:
        return False
    return collapses(geometry.type, geometry.coordinates)


def _oddity(kind: int, points: int, geometry: Decoded | None) -> Oddity | None:
    if geometry is None:
        return oddity(kind, points, "", ())
    return oddity(kind, points, geometry.type, geometry.coordinates)


def _simple_type(kind: int) -> str:
    """Return the type that an empty record of this kind takes; a point has always one position."""
    if kind in MULTIPOINTS:
        return "MultiPoint"
    return "LineString" if kind in LINES else "Polygon"
