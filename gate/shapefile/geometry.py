"""The geometries of a layer, proven against what the records announce.

GDAL answers a damaged record with no geometry, or with a part of it. A record's
header says how many positions it holds, so the geometry that comes out is
counted against that, row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from gate.errors import CorruptError, LostRowsError
from gate.shapefile.findings import Findings
from gate.shapefile.headers import NAMES, Structure
from gate.shapefile.records import (
    LINES,
    MULTIPATCH,
    MULTIPOINTS,
    NULL,
    WITH_Z,
    Block,
)
from gate.shapefile.report import GeometryFacts
from gate.shapefile.wkb import Encoder


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


class Geometries:
    """Turns the features of one layer into WKB and keeps the facts for its report.

    Where any record has several parts, lines and polygons become their multi
    types throughout, so that the layer has one type; points never do.
    """

    def __init__(self, structure: Structure, findings: Findings) -> None:
        self._where = structure.files.where(".shp")
        self._records = structure.records
        self._findings = findings
        self._encoder = Encoder(multi=structure.several_parts)
        self._null = self._empty = self._measures = self._read = 0

    def take(
        self, block: Block, live: npt.NDArray[np.bool_], next_feature: NextFeature
    ) -> tuple[list[bytes | None], npt.NDArray[np.bool_]]:
        """Return the WKB of the live rows of `block`, and which rows these are.

        A row is left out, and noted as rejected, if its geometry has no WKB.
        Raises `LostRowsError` if the features are not those of the live rows,
        and `CorruptError` if a geometry is not what its record announces.
        """
        encoded: list[bytes | None] = []
        kept = live.copy()
        kinds, points = block.kinds.tolist(), block.points.tolist()
        for index in np.flatnonzero(live).tolist():
            row = block.start + index
            geometry = self._expect(row, next_feature())
            if geometry is not None and geometry.type == "GeometryCollection":
                kept[index] = False
                text = f"{NAMES[kinds[index]]} of several surfaces"
                self._findings.reject("unsupported_geometry", row + 1, text)
                continue
            encoded.append(self._wkb(row, kinds[index], points[index], geometry))
        self._encoder.settle()
        self._measures += int((self._records.measured(block) & kept).sum())
        return encoded, kept

    def facts(self) -> GeometryFacts:
        """Return the facts of all geometries taken so far."""
        return GeometryFacts(
            file_type=NAMES[self._records.kind],
            types=tuple(sorted(self._encoder.types)),
            bounds=self._encoder.bounds,
            null=self._null,
            empty=self._empty,
            measures_dropped=self._measures,
            rewound=self._encoder.rewound,
            closed=self._encoder.closed,
            collapsed=self._encoder.collapsed,
        )

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

    def _wkb(self, row: int, kind: int, points: int, geometry: Decoded | None) -> bytes | None:
        if kind == NULL:
            if geometry is not None:
                raise self._contradiction(row, "a null shape was read as a geometry")
            self._null += 1
            return None
        if points == 0:
            self._empty += 1
            return self._encoder.empty(_simple_type(kind), has_z=kind in WITH_Z)
        if geometry is None:
            raise self._contradiction(row, f"its {points} positions were read as no geometry")
        wkb, arrived = self._encoder.encode(geometry.type, geometry.coordinates)
        if arrived != points and kind != MULTIPATCH:
            raise self._contradiction(row, f"{arrived} of its {points} positions were read")
        if geometry.type == "Point" and geometry.coordinates[0] != geometry.coordinates[0]:
            self._empty += 1
        return wkb

    def _contradiction(self, row: int, what: str) -> CorruptError:
        return CorruptError(f"record {row + 1}: {what}", where=self._where)


def _simple_type(kind: int) -> str:
    """Return the type that an empty record of this kind takes; a point has always one position."""
    if kind in MULTIPOINTS:
        return "MultiPoint"
    return "LineString" if kind in LINES else "Polygon"
