"""Invalid polygons: counted with row and reason, repaired where it is clear what was meant."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import shapely

from gate.errors import RowsRejectedError
from gate.policies import Reader, Validity
from gate.shapefile.validity import repaired
from tests.reading import Reading, read
from tests.shapefiles import (
    POLYGON,
    Field,
    M,
    Shape,
    Z,
    layer,
    line,
    multipatch,
    null,
    polygon,
    square,
)

BOW_TIE = ((0, 0), (1, 1), (1, 0), (0, 1), (0, 0))
SPIKE = ((0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (1, 0), (0, 0))
OVERLAP = (square(0, 0, 2), square(1, 1, 2))


def invalid(reading: Reading) -> dict[str, list[int]]:
    """Return reason → rows of the invalid geometries in a report."""
    return {
        problem.reason: [example.row for example in problem.examples]
        for problem in reading.report.validity.invalid
    }


@pytest.mark.parametrize("reader", list(Reader))
def test_invalid_polygons_are_counted_with_row_and_reason(reader: Reader, tmp_path: Path) -> None:
    """With `flag`, the default, rows come out as they are, and the report says what is wrong."""
    shapes = [polygon(square(0, 0)), null(), polygon(BOW_TIE), polygon(square(0, 0)[:-1])]
    reading = read(layer(shapes, kind=POLYGON), tmp_path, batch_bytes=300, reader=reader)
    assert invalid(reading) == {"self_intersection": [3]}
    example = reading.report.validity.invalid[0].examples[0]
    assert example.text == "Self-intersection[0.5 0.5]"
    facts = reading.report.validity
    assert (facts.policy, facts.checked, facts.repaired) == ("flag", 3, 0)
    assert not reading.geometries[2].is_valid


def test_shells_that_overlap_are_invalid(tmp_path: Path) -> None:
    """Records of several shells are checked as the MultiPolygon that they become."""
    shapes = [polygon(*OVERLAP), polygon(square(0, 0), square(5, 5)), polygon(square(9, 9))]
    reading = read(layer(shapes), tmp_path)
    assert invalid(reading) == {"self_intersection": [1]}


def test_nobody_looks_if_not_asked_to(tmp_path: Path) -> None:
    """With `off` nothing is checked; points and lines are never."""
    assert (
        read(layer([polygon(BOW_TIE)]), tmp_path, validity=Validity.OFF).report.validity.checked
        == 0
    )
    crossing = line([(0, 0), (1, 1), (1, 0), (0, 1)])
    assert read(layer([crossing]), tmp_path, validity=Validity.REPAIR).report.validity.checked == 0


def test_case_15_a_spike_is_dropped_and_counted(tmp_path: Path) -> None:
    """Case 15: a square with a spike becomes the square; the line is counted; no collection."""
    shapes = [polygon(SPIKE), polygon(square(5, 5))]
    reading = read(layer(shapes), tmp_path, validity=Validity.REPAIR)
    facts = reading.report.validity
    assert [shape.geom_type for shape in reading.geometries] == ["MultiPolygon"] * 2
    assert [shape.area for shape in reading.geometries] == [1, 1]
    assert reading.report.geometry.types == ("MultiPolygon",)
    assert (facts.repaired, facts.parts_dropped) == (1, 1)


def test_case_16_a_bow_tie_becomes_two_triangles(tmp_path: Path) -> None:
    """Case 16: a polygon that crosses itself becomes two triangles of area 0.5, counted."""
    reading = read(layer([polygon(BOW_TIE)]), tmp_path, validity=Validity.REPAIR)
    (shape,) = reading.geometries
    assert (len(shape.geoms), shape.area, shape.is_valid) == (2, 0.5, True)
    assert all(part.exterior.is_ccw for part in shape.geoms)
    assert reading.report.validity.repaired == 1


def test_case_14_a_reversed_polygon_needs_no_repair(tmp_path: Path) -> None:
    """Case 14: with rings compared rather than trusted, the area is 96 under `repair` too."""
    rings = (tuple(reversed(square(0, 0, 10))), square(4, 4, 2))
    reading = read(layer([polygon(*rings)]), tmp_path, validity=Validity.REPAIR)
    assert reading.geometries[0].area == 96
    assert reading.report.validity.repaired == 0


@pytest.mark.parametrize("reader", list(Reader))
def test_what_can_be_read_in_two_ways_is_rejected_with_its_row(
    reader: Reader, tmp_path: Path
) -> None:
    """Where lines and rings enclose different areas, the row is rejected and the others stay."""
    shapes = [polygon(square(9, 9)), polygon(*OVERLAP), polygon(BOW_TIE)]
    reading = read(layer(shapes), tmp_path, validity=Validity.REPAIR, reader=reader)
    rows = reading.report.rows
    assert (rows.loaded, rows.rejected) == (2, 1)
    (problem,) = reading.report.rejects
    assert (problem.reason, problem.examples[0].row) == ("not_repaired", 2)
    assert problem.examples[0].text == "its lines enclose 6, its rings 7"
    assert reading.column("ID") == [1, 3]
    assert [shape.area for shape in reading.geometries] == [1, 0.5]


def star(turn: int) -> list[tuple[float, float, float]]:
    """Return a five-pointed star far away, whose lines and ring enclose different areas."""
    angles = [turn * math.tau * 2 * corner / 5 for corner in (0, 1, 2, 3, 4, 0)]
    return [(40 + 9 * math.cos(angle), 40 + 9 * math.sin(angle), 3.0) for angle in angles]


MEASURED = square(9, 9, 1, 5)
NO_REPAIR = {
    "rewound": star(1),
    "wound": star(-1),
    "collapsed": [(50, 50, 1), (51, 51, 1)],
    "open": [(50, 50, 1), (60, 50, 1), (70, 50, 1)],
    "not finite": [(50, 50, 1), (60, math.nan, 1), (70, 70, 1), (50, 50, 1)],
}


@pytest.mark.parametrize(
    ("reader", "target_crs"), [(Reader.AUTO, ""), (Reader.FIONA, ""), (Reader.AUTO, "EPSG:3857")]
)
@pytest.mark.parametrize("name", NO_REPAIR)
def test_a_row_that_is_not_repaired_counts_as_rejected_and_nowhere_else(
    name: str, reader: Reader, target_crs: str, tmp_path: Path
) -> None:
    """Bounds, facts and values of a report are those of a layer that never had the row."""
    options = {"validity": Validity.REPAIR, "reader": reader, "target_crs": target_crs}
    field = Field("V", "N", 4)
    kept = [polygon(MEASURED, kind=POLYGON + M), null()]
    lost = polygon(NO_REPAIR[name], kind=POLYGON + M)
    without = layer(kept, (field,), [(b" abc",), (2,)])
    bundle = layer([*kept, lost], (field,), [(b" abc",), (2,), (b" xyz",)])
    expected = read(without, tmp_path / "a", **options).report
    report = read(bundle, tmp_path / "b", batch_bytes=1, **options).report
    assert [problem.reason for problem in report.rejects] == ["not_repaired"]
    assert report.geometry == expected.geometry
    assert report.geometry.measures_dropped == 1
    assert report.values == expected.values


def test_the_types_are_those_of_loaded_rows(tmp_path: Path) -> None:
    """Where null shapes alone are left, the layer has no geometry type and no bounds."""
    reading = read(layer([null(), polygon(star(1))]), tmp_path, validity=Validity.REPAIR)
    assert (reading.report.geometry.types, reading.report.geometry.bounds) == ((), None)


def test_bounds_are_those_of_what_a_repair_leaves(tmp_path: Path) -> None:
    """What falls off in a repair lies outside the bounds of the layer."""
    report = read(layer([polygon(SPIKE)]), tmp_path, validity=Validity.REPAIR).report
    assert report.geometry.bounds == (0, 0, 1, 1)
    flagged = read(layer([polygon(SPIKE)]), tmp_path, validity=Validity.FLAG).report
    assert flagged.geometry.bounds == (0, 0, 2, 1)


def test_case_59_a_layer_that_nothing_is_left_of_is_no_success(tmp_path: Path) -> None:
    """Case 59: if no polygon could be repaired, the layer fails."""
    with pytest.raises(RowsRejectedError, match="not_repaired"):
        read(layer([polygon(*OVERLAP)]), tmp_path, validity=Validity.REPAIR)


def test_heights_survive_a_repair(tmp_path: Path) -> None:
    """A repaired polygon with z keeps it, in the ISO flavour."""
    spike = tuple((x, y, 7.0) for x, y in SPIKE)
    reading = read(layer([polygon(spike, kind=POLYGON + Z)]), tmp_path, validity=Validity.REPAIR)
    assert reading.geometries[0].has_z
    assert int.from_bytes(reading.column("geometry")[0][1:5], "little") == 1006


@pytest.mark.parametrize(
    ("shape", "fault"),
    [
        (polygon([(0, 0), (1, 1), (2, 2), (0, 0)]), "it encloses no area"),
        (polygon([(0, 0), (1, float("nan")), (2, 2), (0, 0)]), "its positions make no polygon"),
    ],
)
def test_what_has_no_area_is_rejected(shape: Shape, fault: str, tmp_path: Path) -> None:
    """A ring without area, or with a position that is nowhere, has no repair."""
    shapes = [polygon(square(0, 0)), shape]
    report = read(layer(shapes), tmp_path, validity=Validity.REPAIR).report
    assert report.rejects[0].examples[0].text == fault


def test_what_geos_cannot_hold_is_not_repaired() -> None:
    """A geometry that GEOS refuses to build is a fault, not a crash."""
    assert repaired(None).fault == "its positions make no polygon"


def test_multipatches_are_checked_too(tmp_path: Path) -> None:
    """Surfaces that Fiona makes of a multipatch are polygons as others are."""
    assert read(layer([multipatch((5, square(0, 0, 1, 3)))]), tmp_path).report.validity.checked == 1


def test_rings_out_of_order_are_checked(tmp_path: Path) -> None:
    """A hole that stands before its shell in the file is checked with it."""
    rings = (tuple(reversed(square(1, 1, 1))), square(0, 0, 9))
    reading = read(layer([polygon(*rings)]), tmp_path)
    assert reading.report.validity.checked == 1
    assert invalid(reading) == {}
    assert reading.geometries[0].area == 80
    assert shapely.is_valid(reading.geometries[0])
