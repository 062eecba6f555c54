"""Whether polygons are valid, and what a repair makes of those that are not.

GEOS looks at geometries built from the positions that were decoded, with no way
through WKB, and lets other threads work meanwhile. Lines and points have nothing
that could be invalid but too few positions, which is counted elsewhere.

An invalid polygon can be read in two ways: by its lines alone, where what is
surrounded an even number of times is outside, or by its rings, where shells are
joined and holes cut out. The repair takes the second, provided that both enclose
the same area; where they do not, nobody knows what was meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import shapely

from gate.gather import Integers, Mask
from gate.policies import Validity
from gate.shapefile.findings import Example, Findings, Problem, shown
from gate.shapefile.geometry import Taken
from gate.shapefile.report import ValidityFacts
from gate.shapefile.rings import Rings, star_shaped

Geometries: TypeAlias = npt.NDArray[np.object_]

# How much of the larger of the two areas they may differ by.
AREA_TOLERANCE = 0.01

_POLYGON = 3
_POLYGONS = shapely.GeometryType.POLYGON


@dataclass(frozen=True, slots=True)
class Repair:
    """A geometry that has been repaired, or why it could not be (`fault`, in words).

    `dropped` counts points and lines that were part of it and are no polygon.
    """

    wkb: bytes | None
    dropped: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in a batch: places of its invalid rows, reasons, and repairs if asked for."""

    checked: int
    places: Integers
    reasons: tuple[str, ...]
    repairs: tuple[Repair, ...] = ()


class Validation:
    """The policy for invalid polygons, applied to the batches of one layer in order."""

    def __init__(self, policy: Validity, findings: Findings) -> None:
        self._policy = policy
        self._findings = findings
        self._checked = self._repaired = self._dropped = 0
        self._invalid: dict[str, Problem] = {}

    def inspect(self, column: pa.BinaryArray, taken: Taken | None) -> Verdict:
        """Look at the geometries of a batch; any thread may do that.

        With `taken`, the column is what `Geometries.take` has made of those rows.
        """
        present = column.is_valid().to_numpy(zero_copy_only=False)
        doubtful = np.flatnonzero(present & ~_surely_valid(present, taken))
        geometries = _built(column, taken, doubtful)
        places = doubtful[~shapely.is_valid(geometries)]
        # As they are written: wound, and with their heights, which the check does without.
        invalid = _from_wkb(column.take(pa.array(places)))
        reasons = tuple(map(_reason, invalid))
        repairs = tuple(map(repaired, invalid)) if self._policy is Validity.REPAIR else ()
        return Verdict(int(present.sum()), places, reasons, repairs)

    def settle(
        self, column: pa.BinaryArray, numbers: Integers, verdict: Verdict
    ) -> tuple[pa.BinaryArray, Mask]:
        """Count what was found; return the column as the policy has it, and which rows stay.

        `numbers` are the row numbers. The column has only the rows that stay.
        """
        self._checked += verdict.checked
        for place, reason in zip(verdict.places.tolist(), verdict.reasons, strict=True):
            code = _code(reason)
            example = Example(int(numbers[place]), shown(reason))
            self._invalid.setdefault(code, Problem(code)).add(1, (example,))
        stays = np.ones(len(column), np.bool_)
        if not verdict.repairs:
            return column, stays
        order = np.arange(len(column))
        made: list[bytes] = []
        for place, repair in zip(verdict.places.tolist(), verdict.repairs, strict=True):
            if repair.wkb is None:
                stays[place] = False
                self._findings.reject("not_repaired", int(numbers[place]), repair.fault)
                continue
            order[place] = len(column) + len(made)
            made.append(repair.wkb)
            self._repaired += 1
            self._dropped += repair.dropped
        merged = pa.concat_arrays([column, pa.array(made, pa.binary())])
        return merged.take(pa.array(order[stays])), stays

    def facts(self) -> ValidityFacts:
        """Return the facts of all batches so far."""
        return ValidityFacts(
            policy=self._policy.value,
            checked=self._checked,
            invalid=tuple(self._invalid.values()),
            repaired=self._repaired,
            parts_dropped=self._dropped,
        )


def repaired(geometry: Any) -> Repair:
    """Return a valid MultiPolygon in place of an invalid polygon, shells counter-clockwise."""
    if geometry is None or not np.isfinite(shapely.get_coordinates(geometry)).all():
        return Repair(None, fault="its positions make no polygon")
    by_lines = shapely.make_valid(geometry)
    by_rings = shapely.make_valid(geometry, method="structure", keep_collapsed=False)
    before, after = float(shapely.area(by_lines)), float(shapely.area(by_rings))
    if abs(before - after) > AREA_TOLERANCE * max(before, after):
        return Repair(None, fault=f"its lines enclose {before:g}, its rings {after:g}")
    polygons, _ = _parts(by_rings)
    if not len(polygons) or after == 0:
        return Repair(None, fault="it encloses no area")
    _, others = _parts(by_lines)
    shape = shapely.orient_polygons(shapely.multipolygons(polygons))
    wkb: bytes = shapely.to_wkb(shape, flavor="iso", byte_order=1)
    return Repair(wkb, dropped=len(others))


def _parts(geometry: Any) -> tuple[Geometries, Geometries]:
    """Return the polygons in a geometry, whatever they are nested in, and what else is in it."""
    parts = shapely.get_parts(shapely.get_parts(geometry))
    is_polygon = shapely.get_type_id(parts) == _POLYGON
    return parts[is_polygon], parts[~is_polygon & ~shapely.is_empty(parts)]


def _surely_valid(present: Mask, taken: Taken | None) -> Mask:
    """Return the rows of a batch that need no check."""
    sure = np.zeros(len(present), np.bool_)
    plain = taken.plain if taken else None
    if taken and plain and plain.rings and plain.rings.parts.records:
        sure[present & plain.rows[taken.kept]] = star_shaped(plain.rings)
    return sure


def _built(column: pa.BinaryArray, taken: Taken | None, places: Integers) -> Geometries:
    """Return the geometries at these places, built from positions where those are known."""
    plain = taken.plain if taken else None
    rings = plain.rings if plain else None
    if taken is None or plain is None or rings is None or not rings.in_order:
        return _from_wkb(column.take(pa.array(places)))
    # Of each row of the batch, which record of the rings it is.
    from_rings = column.is_valid().to_numpy(zero_copy_only=False) & plain.rows[taken.kept]
    record = np.cumsum(from_rings) - 1
    known = from_rings[places]
    wanted = np.zeros(rings.parts.records, np.bool_)
    wanted[record[places[known]]] = True
    geometries = np.full(len(places), None, np.object_)
    geometries[known] = _polygons(rings.of(wanted))
    geometries[~known] = _from_wkb(column.take(pa.array(places[~known])))
    return geometries


def _polygons(rings: Rings) -> Geometries:
    """Return one polygon for each record, or a MultiPolygon if it has several shells."""
    if not rings.parts.records:
        return np.empty(0, np.object_)
    shells = np.flatnonzero(rings.is_shell)
    positions = np.ascontiguousarray(rings.parts.positions[:, :2])
    offsets = (rings.parts.first, np.append(shells, len(rings.shell)))
    polygons: Geometries = shapely.from_ragged_array(_POLYGONS, positions, offsets)
    record = rings.parts.record[shells]
    if len(shells) == rings.parts.records:
        return polygons
    count = np.bincount(record, minlength=rings.parts.records)
    geometries = np.empty(rings.parts.records, np.object_)
    alone = count[record] == 1
    geometries[record[alone]] = polygons[alone]
    several = np.flatnonzero(count > 1)
    numbered = np.searchsorted(several, record[~alone])
    geometries[several] = shapely.multipolygons(polygons[~alone], indices=numbered)
    return geometries


def _from_wkb(column: pa.BinaryArray) -> Geometries:
    """Return geometries; GEOS has none for some that WKB can spell."""
    with np.errstate(invalid="ignore"):
        rows = column.to_numpy(zero_copy_only=False)
        geometries: Geometries = shapely.from_wkb(rows, on_invalid="ignore")
    return geometries


def _reason(geometry: Any) -> str:
    if geometry is None:
        return "No geometry"
    return str(shapely.is_valid_reason(geometry))


def _code(reason: str) -> str:
    """Return GEOS's reason without its place, in the form of a code."""
    return re.sub(r"\W+", "_", reason.partition("[")[0].strip().lower())
