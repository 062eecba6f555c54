"""Shapes that collapse, have several parts, heights or measures, under each policy."""

from __future__ import annotations

from pathlib import Path

import pytest
import shapely

from gate.errors import RowsRejectedError
from gate.policies import Heights, Measures, Multi, Reader, RowPolicy
from gate.sinks.port import GEOMETRY_TYPE
from tests.reading import read
from tests.shapefiles import (
    LINE,
    MULTIPOINT,
    POINT,
    POLYGON,
    M,
    Shape,
    Z,
    layer,
    line,
    multipatch,
    multipoint,
    null,
    point,
    polygon,
    square,
)

COLLAPSED = [
    (line(((5, 5),)), line(((0, 0), (1, 1)))),
    (line(((0, 0), (1, 1)), ((5, 5),)), line(((0, 0), (1, 1)))),
    (polygon(((0, 0), (0, 1), (0, 0))), polygon(square(0, 0))),
    (polygon(((0, 0), (0, 0))), polygon(square(0, 0))),
    (polygon(square(0, 0, 9), ((1, 1), (2, 1), (1, 1))), polygon(square(0, 0))),
]
HIGH = [
    point(1, 2, 7, kind=POINT + Z),
    multipoint((1, 2, 7), (3, 4, 8), kind=MULTIPOINT + Z),
    line(((1, 2, 7), (3, 4, 8)), kind=LINE + Z),
    line(((1, 2, 7), (3, 4, 8)), ((5, 6, 7), (7, 8, 9)), kind=LINE + Z),
    polygon(square(0, 0, 1, 7), kind=POLYGON + Z),
    polygon(square(0, 0, 1, 7)[::-1], kind=POLYGON + Z),
    multipatch((5, square(0, 0, 1, 7))),
]
MEASURED = [
    (point(1, 2, 7, kind=POINT + M), point(1, 2, -1e39, kind=POINT + M)),
    (point(1, 2, 3, 7, kind=POINT + Z), point(1, 2, 3, kind=POINT + Z)),
    (line(((0, 0, 5), (1, 1, 6)), kind=LINE + M), null()),
    (
        line(((0, 0, 1, 5), (1, 1, 1, 6)), kind=LINE + Z),
        line(((0, 0, 1), (1, 1, 1)), kind=LINE + Z),
    ),
    (multipoint((0, 0, 5), kind=MULTIPOINT + M), null()),
    (polygon(square(0, 0, 1, 4), kind=POLYGON + M), null()),
]


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize(("collapsed", "whole"), COLLAPSED)
def test_case_13_what_collapses_is_kept_and_counted_by_default(
    collapsed: Shape, whole: Shape, reader: Reader, tmp_path: Path
) -> None:
    """Case 13: a ring or line of too few positions is loaded, and the report counts it."""
    reading = read(layer([whole, collapsed], kind=whole.kind), tmp_path, reader=reader)
    assert (reading.report.rows.loaded, reading.report.rows.rejected) == (2, 0)
    assert reading.report.geometry.collapsed == 1


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize("choice", [RowPolicy.SKIP, RowPolicy.REJECT])
@pytest.mark.parametrize(("collapsed", "whole"), COLLAPSED)
def test_case_13_what_collapses_is_left_out_where_the_policy_says_so(
    collapsed: Shape, whole: Shape, choice: RowPolicy, reader: Reader, tmp_path: Path
) -> None:
    """Case 13: it is counted with its row number; what is whole, empty or null is loaded."""
    empty, of_nothing = Shape(whole.kind, ()), Shape(whole.kind, ((),))
    shapes = [whole, collapsed, null(), empty, of_nothing, collapsed, whole]
    bundle = layer(shapes, kind=whole.kind)
    reading = read(bundle, tmp_path, reader=reader, collapsed_geometry=choice)
    assert reading.column("ID") == [1, 3, 4, 5, 7]
    (problem,) = reading.report.rejects
    assert (problem.reason, problem.count) == ("collapsed_geometry", 2)
    assert [example.row for example in problem.examples] == [2, 6]
    assert reading.report.geometry.collapsed == 0
    assert reading.report.policies["collapsed_geometry"] == choice.value


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize(
    ("shape", "mixed", "always"),
    [
        (line(((0, 0), (1, 1))), "LineString", "MultiLineString"),
        (polygon(square(0, 0)), "Polygon", "MultiPolygon"),
        (polygon(square(0, 0, 1, 7), kind=POLYGON + Z), "Polygon Z", "MultiPolygon Z"),
        (point(1, 2), "Point", "Point"),
        (multipoint((1, 2)), "MultiPoint", "MultiPoint"),
    ],
)
def test_layers_from_many_hands_can_have_one_type(
    shape: Shape, mixed: str, always: str, reader: Reader, tmp_path: Path
) -> None:
    """With `always`, lines and polygons are multi types though each has one part; points never."""
    bundle = layer([shape, null()], kind=shape.kind)
    for policy, expected in ((Multi.MIXED, mixed), (Multi.ALWAYS, always)):
        folder = tmp_path / policy.value
        reading = read(bundle, folder, reader=reader, multi_geometry=policy)
        assert reading.report.geometry.types == (expected,)
        assert reading.geometries[0].geom_type == expected.removesuffix(" Z")
        assert reading.report.policies["multi_geometry"] == policy.value


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize("shape", HIGH)
def test_heights_are_dropped_where_the_policy_says_so(
    shape: Shape, reader: Reader, tmp_path: Path
) -> None:
    """With `drop`, x and y are those of the file, nothing states Z, and the rows are counted."""
    empty = null() if shape.kind == POINT + Z else Shape(shape.kind, ())
    bundle = layer([shape, null(), empty], kind=shape.kind)
    kept = read(bundle, tmp_path / "keep", reader=reader)
    flat = read(bundle, tmp_path / "drop", reader=reader, z_values=Heights.DROP)
    assert [reading.geometries[0].has_z for reading in (kept, flat)] == [True, False]
    assert [shapely.to_wkt(shapely.force_2d(each)) for each in kept.geometries] == [
        shapely.to_wkt(each) for each in flat.geometries
    ]
    assert not any("Z" in name for name in flat.report.geometry.types)
    stated = flat.table.schema.field("geometry").metadata[GEOMETRY_TYPE]
    assert not stated.endswith(b" Z")
    assert kept.table.schema.field("geometry").metadata[GEOMETRY_TYPE].endswith(b" Z")
    assert flat.report.geometry.heights_dropped == 1
    assert kept.report.geometry.heights_dropped == 0
    assert flat.report.policies["z_values"] == "drop"


def test_a_layer_without_heights_loses_none(tmp_path: Path) -> None:
    """`Z_VALUES=drop` counts no row of a layer that has no Z."""
    reading = read(layer([point(1, 2)]), tmp_path, z_values=Heights.DROP)
    assert reading.report.geometry.heights_dropped == 0


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize(("measured", "plain"), MEASURED)
def test_rows_with_measures_are_left_out_where_the_policy_says_so(
    measured: Shape, plain: Shape, reader: Reader, tmp_path: Path
) -> None:
    """With `reject`, no M value is lost without its row being listed; others are loaded."""
    bundle = layer([measured, plain, measured], kind=measured.kind)
    reading = read(bundle, tmp_path, reader=reader, m_values=Measures.REJECT)
    assert reading.column("ID") == [2]
    (problem,) = reading.report.rejects
    assert (problem.reason, [example.row for example in problem.examples]) == ("m_values", [1, 3])
    assert reading.report.geometry.measures_dropped == 0
    assert reading.report.policies["m_values"] == "reject"


def test_a_layer_of_measures_only_is_no_success_then(tmp_path: Path) -> None:
    """Case 59: where every row has measures, `reject` leaves nothing to publish."""
    shapes = [point(1, 2, 7, kind=POINT + M)]
    with pytest.raises(RowsRejectedError, match="m_values"):
        read(layer(shapes), tmp_path, m_values=Measures.REJECT)
