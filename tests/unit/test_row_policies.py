"""Rows whose geometry is null, empty or not finite, under each policy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import shapely

from gate.errors import RowsRejectedError
from gate.policies import DEFAULTS, Reader, RowPolicy, Validity
from gate.shapefile.reader import open_layer
from tests.reading import read, read_options
from tests.shapefiles import (
    LINE,
    MULTIPOINT,
    POINT,
    POLYGON,
    Bundle,
    M,
    Z,
    layer,
    line,
    multipoint,
    null,
    point,
    polygon,
    square,
    write,
)

SKIP, REJECT = RowPolicy.SKIP, RowPolicy.REJECT
NAN, INF = math.nan, math.inf

ODD = [
    ("null_geometry", null(), point(1, 1)),
    ("null_geometry", null(), polygon(square(0, 0))),
    ("null_geometry", null(), line(((0, 0), (1, 1)))),
    ("empty_geometry", point(NAN, NAN), point(1, 1)),
    ("empty_geometry", multipoint(), multipoint((1, 1))),
    ("empty_geometry", line(), line(((0, 0), (1, 1)))),
    ("empty_geometry", polygon(), polygon(square(0, 0))),
    ("nan_coordinates", point(NAN, 1), point(1, 1)),
    ("nan_coordinates", point(1, INF), point(1, 1)),
    ("nan_coordinates", point(INF, NAN), point(1, 1)),
    ("nan_coordinates", point(NAN, 1, 5, kind=POINT + Z), point(1, 1, 5, kind=POINT + Z)),
    ("nan_coordinates", multipoint((1, 1), (NAN, NAN)), multipoint((1, 1))),
    ("nan_coordinates", line(((0, 0), (1, NAN), (2, 0))), line(((0, 0), (1, 1)))),
    (
        "nan_coordinates",
        polygon(((0, 0), (0, 1), (INF, 1), (0, 0))),
        polygon(square(0, 0)),
    ),
]


def counts(reading: Any) -> tuple[int, int, int]:
    """Return how many rows were in the file, loaded and rejected."""
    rows = reading.report.rows
    return rows.in_file, rows.loaded, rows.rejected


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize(("policy", "odd", "plain"), ODD)
def test_case_13_by_default_rows_are_kept_and_counted(
    policy: str, odd: Any, plain: Any, reader: Reader, tmp_path: Path
) -> None:
    """Case 13: whatever is odd about its geometry, a row is loaded, and the report counts it."""
    reading = read(layer([odd, plain], kind=plain.kind), tmp_path, reader=reader)
    assert counts(reading) == (2, 2, 0)
    assert reading.column("ID") == [1, 2]
    facts = reading.report.geometry
    found = {
        "null_geometry": facts.null,
        "empty_geometry": facts.empty,
        "nan_coordinates": facts.not_finite,
    }
    assert found == {name: int(name == policy) for name in found}
    assert facts.bounds is not None
    assert all(map(math.isfinite, facts.bounds))
    json.dumps(reading.report.as_json(), allow_nan=False)


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize("choice", [SKIP, REJECT])
@pytest.mark.parametrize(("policy", "odd", "plain"), ODD)
def test_case_13_a_policy_leaves_rows_out(
    policy: str, odd: Any, plain: Any, choice: RowPolicy, reader: Reader, tmp_path: Path
) -> None:
    """Case 13: a row that is left out is counted with its number and reason; the rest is loaded."""
    shapes = [plain, odd, plain, odd]
    options = {policy: choice, "reader": reader}
    reading = read(layer(shapes, kind=plain.kind), tmp_path, **options)
    assert counts(reading) == (4, 2, 2)
    assert reading.column("ID") == [1, 3]
    (problem,) = reading.report.rejects
    assert (problem.reason, problem.count) == (policy, 2)
    assert [example.row for example in problem.examples] == [2, 4]
    facts = reading.report.geometry
    assert (facts.null, facts.empty, facts.not_finite) == (0, 0, 0)
    assert not any(shape is None or shape.is_empty for shape in reading.geometries)
    assert reading.report.policies[policy] == choice.value


@pytest.mark.parametrize("choice", [SKIP, REJECT])
@pytest.mark.parametrize(("policy", "odd", "plain"), ODD[:1] + ODD[4:5] + ODD[7:8])
def test_case_59_a_layer_whose_rows_are_all_left_out_is_no_success(
    policy: str, odd: Any, plain: Any, choice: RowPolicy, tmp_path: Path
) -> None:
    """Case 59: five rows, all left out by a policy: an error with the reason, never 0 rows."""
    with pytest.raises(RowsRejectedError, match=f"all 5 rows were rejected: {policy}"):
        read(layer([odd] * 5, kind=plain.kind), tmp_path, **{policy: choice})


def test_each_policy_is_about_its_own_kind(tmp_path: Path) -> None:
    """Case 13: null, empty and NaN are three kinds, and a policy for one leaves the others."""
    shapes = [null(), point(NAN, NAN), point(NAN, 1), point(1, 1)]
    for number, name in enumerate(("null_geometry", "empty_geometry", "nan_coordinates")):
        reading = read(layer(shapes), tmp_path, **{name: SKIP})
        assert reading.column("ID") == [row for row in (1, 2, 3, 4) if row != number + 1]


def test_deleted_rows_are_no_business_of_a_policy(tmp_path: Path) -> None:
    """Case 9: a deleted row counts as deleted, however odd its geometry is."""
    reading = read(layer([null(), null(), point(1, 1)], deleted=[0]), tmp_path, null_geometry=SKIP)
    rows = reading.report.rows
    assert (rows.in_file, rows.loaded, rows.deleted, rows.rejected) == (3, 1, 1, 1)


def test_a_measure_that_is_nan_makes_no_geometry_odd(tmp_path: Path) -> None:
    """Case 18: only x and y place a geometry; heights and measures may be missing."""
    shapes = [point(1, 2, NAN, kind=POINT + Z), point(3, 4, 5, kind=POINT + Z)]
    reading = read(layer(shapes), tmp_path / "z", nan_coordinates=REJECT)
    assert reading.report.rows.loaded == 2
    shapes = [point(1, 2, NAN, kind=POINT + M)]
    assert read(layer(shapes), tmp_path / "m", nan_coordinates=REJECT).report.rows.loaded == 1


def listed(bundle: Bundle, folder: Path, **options: Any) -> list[dict[str, Any]] | None:
    """Return the complete list of rejected rows, `None` if there is none."""
    opened = open_layer(write(bundle, folder), name="roads", options=read_options(**options))
    with opened as found:
        list(found.batches())
        path = found.rejects()
        return path and [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("batch_bytes", [1, 4 << 20])
def test_case_51_rejected_rows_are_listed_in_full(batch_bytes: int, tmp_path: Path) -> None:
    """Case 51: the list has every rejected row in file order, where the report has examples."""
    bundle = layer([point(1, 1), *[null()] * 60])
    options = {"null_geometry": REJECT, "batch_bytes": batch_bytes}
    reading = read(bundle, tmp_path / "read", **options)
    assert len(reading.report.rejects[0].examples) == 20
    found = listed(bundle, tmp_path / "listed", **options)
    assert found == [
        {"row": row, "reason": "null_geometry", "text": "Null"} for row in range(2, 62)
    ]


def test_case_51_skipped_rows_are_counted_and_not_listed(tmp_path: Path) -> None:
    """Case 51: rows that a deployment expects to be odd make no list, only a count."""
    bundle = layer([point(1, 1), *[null()] * 60])
    assert listed(bundle, tmp_path, null_geometry=SKIP) is None


def test_case_51_a_layer_without_rejects_has_no_list(tmp_path: Path) -> None:
    """Case 51: where every row is loaded there is nothing to list, and no file."""
    assert listed(layer([point(1, 1)]), tmp_path) is None
    assert not [path for path in tmp_path.iterdir() if "reject" in path.name]


def test_the_report_names_the_policies_in_force() -> None:
    """Case 13: a report can be understood without the deployment that wrote it."""
    assert DEFAULTS.as_json() == {
        "missing_crs": "accept",
        "target_crs": "",
        "null_geometry": "keep",
        "empty_geometry": "keep",
        "nan_coordinates": "keep",
        "collapsed_geometry": "keep",
        "multi_geometry": "mixed",
        "z_values": "keep",
        "m_values": "drop",
        "reader": "auto",
        "validity": "flag",
    }


@pytest.mark.parametrize("kind", [POINT, LINE, POLYGON, MULTIPOINT])
def test_case_13_a_layer_of_nulls_only_is_loaded(kind: int, tmp_path: Path) -> None:
    """Case 13: by default null rows are rows like others, even if there is nothing else."""
    reading = read(layer([null(), null()], kind=kind), tmp_path)
    assert counts(reading) == (2, 2, 0)
    assert list(shapely.is_missing(reading.geometries)) == [True, True]


def spoilt(positions: Any, value: float, axis: int, at: int) -> Any:
    """Return positions of which one, and its like at the end of a ring, has `value` in one axis."""
    ends = positions[at] == positions[-1]
    found = [list(position) for position in positions]
    found[at][axis] = value
    if ends:
        found[-1][axis] = value
    return tuple(map(tuple, found))


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize("validity", Validity)
@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_whatever_is_not_finite_the_file_can_be_read(
    value: float, axis: int, validity: Validity, reader: Reader, tmp_path: Path
) -> None:
    """Case 13: GEOS takes every geometry of a layer, wherever a NaN or an infinity stands."""
    shell, hole = square(0, 0, 4, 3), tuple(reversed(square(1, 1, 1, 3)))
    open_ring = tuple((*position[:2], index) for index, position in enumerate(shell))
    sound = (
        polygon(shell, kind=POLYGON + Z),
        line(shell, kind=LINE + Z),
        multipoint(*shell, kind=MULTIPOINT + Z),
        point(1, 2, 3, kind=POINT + Z),
    )
    makers: list[Any] = [
        lambda at: polygon(spoilt(shell, value, axis, at), kind=POLYGON + Z),
        lambda at: polygon(spoilt(open_ring, value, axis, at), kind=POLYGON + Z),
        lambda at: polygon(shell, spoilt(hole, value, axis, at), kind=POLYGON + Z),
        lambda at: polygon(shell, spoilt(square(9, 9, 1, 3), value, axis, at), kind=POLYGON + Z),
        lambda at: line(spoilt(shell, value, axis, at), kind=LINE + Z),
        lambda at: multipoint(*spoilt(shell, value, axis, at), kind=MULTIPOINT + Z),
        lambda at: point(*spoilt(shell, value, axis, at)[at], kind=POINT + Z),
    ]
    for make in makers:
        shapes = [make(0), make(1), make(4)]
        shapes.append(next(each for each in sound if each.kind == shapes[0].kind))
        reading = read(layer(shapes), tmp_path, reader=reader, validity=validity)
        rows = reading.report.rows
        assert rows.loaded == 4 or validity is Validity.REPAIR
        assert rows.loaded + rows.rejected == 4
        assert len(reading.geometries) == rows.loaded


@pytest.mark.parametrize("reader", Reader)
def test_a_ring_that_begins_at_nan_is_turned_and_loses_nothing(
    reader: Reader, tmp_path: Path
) -> None:
    """Case 13: the ring begins at its first position of numbers, all positions are there."""
    rings = (((NAN, 0), (0, 4), (4, 4), (4, 0), (NAN, 0)), ((0, NAN), (0, 4), (4, 4), (4, 0)))
    reading = read(layer([polygon(ring) for ring in rings]), tmp_path, reader=reader)
    found = [shapely.get_coordinates(geometry).tolist() for geometry in reading.geometries]
    for ring, positions in zip(rings, found, strict=True):
        assert {str(position) for position in map(list, positions)} == {
            str([float(x), float(y)]) for x, y in ring
        }
        assert len(positions) == 5
        assert positions[0] == positions[-1]
    facts = reading.report.geometry
    assert (facts.not_finite, facts.closed) == (2, 1)


@pytest.mark.parametrize("reader", Reader)
def test_a_ring_of_nan_alone_costs_its_row_and_no_other(reader: Reader, tmp_path: Path) -> None:
    """Case 13: what no reader could open is rejected with its number, and leaves no trace."""
    nothing = ((NAN, NAN), (NAN, 1), (0, NAN), (NAN, NAN))
    shapes = [polygon(square(0, 0)), polygon(nothing), polygon(square(50, 50), nothing)]
    reading = read(layer(shapes), tmp_path, reader=reader)
    assert reading.column("ID") == [1]
    (problem,) = reading.report.rejects
    assert (problem.reason, problem.count) == ("no_geometry", 2)
    facts = reading.report.geometry
    assert (facts.not_finite, facts.bounds) == (0, (0, 0, 1, 1))
