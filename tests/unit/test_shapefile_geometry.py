"""Geometries: proven against their records, encoded so that any reader accepts them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from gate.errors import CorruptError, LostRowsError, RowsRejectedError, UnreadableError
from gate.shapefile.files import map_files
from gate.shapefile.findings import Findings
from gate.shapefile.geometry import Feature, Geometries
from gate.shapefile.headers import check
from gate.shapefile.wkb import Encoder
from tests.reading import read
from tests.shapefiles import (
    LINE,
    MULTIPOINT,
    POINT,
    POLYGON,
    Bundle,
    M,
    Shape,
    Z,
    layer,
    line,
    multipatch,
    multipoint,
    null,
    patched,
    point,
    points,
    polygon,
    square,
    write,
)


@dataclass(frozen=True, slots=True)
class Given:
    """A geometry as a faulty library might give it."""

    type: str
    coordinates: Any


def taken(bundle: Bundle, features: list[Feature], folder: Path) -> Geometries:
    """Feed these features to the checks for the rows of the bundle."""
    findings = Findings()
    structure = check(map_files(write(bundle, folder), "roads.shp"), findings)
    geometries = Geometries(structure, findings)
    rows = structure.table.block(0, structure.rows)
    remaining: Iterator[Feature] = iter(features)
    block = structure.records.block(0, structure.rows)
    geometries.take(block, rows[:, 0] != ord("*"), lambda: next(remaining, None))
    return geometries


def test_an_early_end_is_lost_rows(tmp_path: Path) -> None:
    """If the library ends before the files do, nobody believes that this was all."""
    with pytest.raises(LostRowsError, match=r"^roads.shp: GDAL ended after 1 features; row 2"):
        taken(points(2), [(0, Given("Point", (0.0, 0.0)))], tmp_path)


def test_a_skipped_row_is_lost_rows(tmp_path: Path) -> None:
    """If the library leaves a row out, the next geometry is not taken for it."""
    with pytest.raises(LostRowsError, match="GDAL gave row 2 where row 1 is next"):
        taken(points(2), [(1, Given("Point", (1.0, 1.0)))], tmp_path)


def test_a_shape_read_as_nothing_is_corrupt(tmp_path: Path) -> None:
    """A null geometry for a record with positions is damage, not a null shape."""
    with pytest.raises(CorruptError, match="record 1: its 1 positions were read as no geometry"):
        taken(points(1), [(0, None)], tmp_path)


def test_a_null_shape_read_as_something_is_corrupt(tmp_path: Path) -> None:
    """A geometry for a null record does not come from this file."""
    with pytest.raises(CorruptError, match="record 1: a null shape"):
        taken(layer([null()], kind=POINT), [(0, Given("Point", (0.0, 0.0)))], tmp_path)


def test_missing_positions_are_corrupt(tmp_path: Path) -> None:
    """A geometry with fewer positions than its record announces was read in part."""
    bundle = layer([line([(0, 0), (1, 1), (2, 2)])])
    with pytest.raises(CorruptError, match="record 1: 2 of its 3 positions"):
        taken(bundle, [(0, Given("LineString", [(0.0, 0.0), (1.0, 1.0)]))], tmp_path)


def test_gdal_dropping_the_first_positions_is_noticed(tmp_path: Path) -> None:
    """If the first part does not start at 0, GDAL drops what stands before it, unsaid."""
    bundle = layer([polygon(square(0, 0), square(5, 5))])
    with pytest.raises(CorruptError, match="9 of its 10 positions"):
        read(patched(bundle, ".shp", (152, "<i"), 1), tmp_path)


@pytest.mark.parametrize("start", [0, 10, 11, -1])
def test_an_error_in_gdals_log_fails_the_layer(start: int, tmp_path: Path) -> None:
    """Parts that start nowhere make GDAL log an error and give null: the layer is refused."""
    bundle = layer([polygon(square(0, 0), square(5, 5)), polygon(square(0, 0))])
    with pytest.raises(UnreadableError, match=r"^roads.shp: GDAL reported: Corrupted .shp file"):
        read(patched(bundle, ".shp", (156, "<i"), start), tmp_path)


@pytest.mark.parametrize(
    ("shape", "wkt"),
    [
        (point(1, 2), "POINT (1 2)"),
        (point(1, 2, 3, kind=POINT + Z), "POINT Z (1 2 3)"),
        (multipoint((1, 2), (3, 4)), "MULTIPOINT ((1 2), (3 4))"),
        (multipoint((1, 2, 3), kind=MULTIPOINT + Z), "MULTIPOINT Z ((1 2 3))"),
        (line([(0, 0), (1, 1)]), "LINESTRING (0 0, 1 1)"),
        (line([(0, 0, 5), (1, 1, 6)], kind=LINE + Z), "LINESTRING Z (0 0 5, 1 1 6)"),
        (
            line([(0, 0), (1, 1)], [(2, 2), (3, 3)]),
            "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))",
        ),
        (polygon(square(0, 0)), "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))"),
    ],
)
def test_every_type_comes_out_as_it_is(shape: Shape, wkt: str, tmp_path: Path) -> None:
    """Each shape type becomes the geometry it means, in the order of its file."""
    (found,) = read(layer([shape]), tmp_path).geometries
    assert shapely.to_wkb(found) == shapely.to_wkb(shapely.from_wkt(wkt))


def test_case_17_lines_are_promoted_too(tmp_path: Path) -> None:
    """Case 17: a line beside one of two parts becomes a MultiLineString."""
    shapes = [line([(0, 0), (1, 1)]), line([(0, 0), (1, 1)], [(2, 2), (3, 3)])]
    reading = read(layer(shapes), tmp_path)
    assert reading.report.geometry.types == ("MultiLineString",)
    assert reading.wkt[0] == "MULTILINESTRING ((0 0, 1 1))"


def test_z_is_marked_as_iso_does(tmp_path: Path) -> None:
    """The type in the WKB of a point with Z is 1001, not the older flag."""
    reading = read(layer([point(1, 2, 3, kind=POINT + Z)]), tmp_path)
    assert struct.unpack("<BI3d", reading.column("geometry")[0]) == (1, 1001, 1, 2, 3)


@pytest.mark.parametrize(
    ("shapes", "dropped"),
    [
        ([point(1, 2, 7, kind=POINT + M), point(1, 2, -1e39, kind=POINT + M)], 1),
        ([point(1, 2, 3, 7, kind=POINT + Z), point(1, 2, 3, kind=POINT + Z)], 1),
        ([line([(0, 0, 5), (1, 1, 6)], kind=LINE + M), null()], 1),
        ([line([(0, 0, 1, 5), (1, 1, 1, 6)], kind=LINE + Z)], 1),
        ([line([(0, 0, 1), (1, 1, 1)], kind=LINE + Z)], 0),
        ([multipoint((0, 0, 5), kind=MULTIPOINT + M)], 1),
        ([polygon(square(0, 0, 1, 9, 4), kind=POLYGON + Z)], 1),
        ([polygon(square(0, 0, 1, 4), kind=POLYGON + M)], 1),
        ([polygon(square(0, 0))], 0),
    ],
)
def test_dropped_measures_are_counted(shapes: list[Shape], dropped: int, tmp_path: Path) -> None:
    """M values have no place in GeoParquet: the rows that lose theirs are counted."""
    assert read(layer(shapes), tmp_path).report.geometry.measures_dropped == dropped


def test_empty_records_stay_empty(tmp_path: Path) -> None:
    """A record of no positions is an empty geometry, not a null one, and is counted."""
    for shape, wkt in (
        (polygon(), "POLYGON EMPTY"),
        (Shape(POLYGON, ((),)), "POLYGON EMPTY"),
        (line(), "LINESTRING EMPTY"),
        (multipoint(), "MULTIPOINT EMPTY"),
    ):
        reading = read(layer([shape, null()]), tmp_path)
        assert reading.wkt == [wkt, None]
        assert (reading.report.geometry.empty, reading.report.geometry.null) == (1, 1)


def test_case_17_an_empty_record_is_promoted_too(tmp_path: Path) -> None:
    """Case 17: among multi-part shapes an empty one is of the same type as they are."""
    reading = read(layer([polygon(), polygon(square(0, 0), square(5, 5))]), tmp_path)
    assert reading.wkt[0] == "MULTIPOLYGON EMPTY"
    assert reading.report.geometry.types == ("MultiPolygon",)


def test_points_without_coordinates_are_empty(tmp_path: Path) -> None:
    """A point at NaN is an empty point, counted, and spoils no bounds."""
    reading = read(layer([point(math.nan, math.nan), point(1, 2)]), tmp_path)
    assert reading.wkt == ["POINT EMPTY", "POINT (1 2)"]
    assert reading.report.geometry.empty == 1
    assert reading.report.geometry.bounds == (1, 2, 1, 2)


def test_collapsed_shapes_are_kept_and_counted(tmp_path: Path) -> None:
    """Rings and lines of too few positions are padded until readers take them, and counted."""
    rings = [polygon([(0, 0), (1, 1)]), polygon([(0, 0)]), polygon([(0, 0), (1, 1), (1, 0)])]
    facts = read(layer(rings), tmp_path / "rings").report.geometry
    assert (facts.collapsed, facts.closed) == (2, 2)
    reading = read(layer([line([(3, 3)])]), tmp_path / "line")
    assert reading.wkt == ["LINESTRING (3 3, 3 3)"]
    assert reading.report.geometry.collapsed == 1


def test_gdals_warnings_are_counted(tmp_path: Path) -> None:
    """What GDAL only warns of is a notice with its count."""
    reading = read(layer([polygon(square(0, 0)[:-1]), polygon(square(3, 3)[:-1])]), tmp_path)
    assert reading.notices == {"gdal_warning": 2}
    assert reading.report.geometry.closed == 2
    assert [shape.area for shape in reading.geometries] == [1, 1]


def test_bounds_are_of_what_was_read(tmp_path: Path) -> None:
    """Bounds come from positions of live rows, whatever the header claims."""
    bundle = layer([point(1, 2), point(5, 6), point(99, 99)], deleted=[2])
    wrong = patched(bundle, ".shp", (36, "<4d"), -9, -9, 9, 9)
    assert read(wrong, tmp_path, batch_bytes=1).report.geometry.bounds == (1, 2, 5, 6)


def test_a_multipatch_of_surfaces_is_a_multipolygon(tmp_path: Path) -> None:
    """A multipatch of one kind of part is read as polygons with Z."""
    reading = read(layer([multipatch((5, square(0, 0, 1, 3)))]), tmp_path)
    assert reading.report.geometry.types == ("MultiPolygon Z",)


def test_a_multipatch_that_has_no_wkb_is_rejected_with_its_row(tmp_path: Path) -> None:
    """A row whose geometry cannot be carried over is rejected, by number and reason."""
    mixed = multipatch((0, square(0, 0, 1, 3)), (5, square(0, 0, 1, 3)))
    plain = multipatch((5, square(0, 0, 1, 3)))
    report = read(layer([plain, mixed, plain]), tmp_path).report
    assert (report.rows.loaded, report.rows.rejected) == (2, 1)
    (problem,) = report.rejects
    assert (problem.reason, problem.examples[0].row) == ("unsupported_geometry", 2)


def test_case_59_a_layer_of_rejected_rows_is_no_success(tmp_path: Path) -> None:
    """Case 59: a layer that had rows, of which none could be loaded, is an error."""
    mixed = multipatch((0, square(0, 0, 1, 3)), (5, square(0, 0, 1, 3)))
    with pytest.raises(RowsRejectedError, match="all 2 rows were rejected: unsupported_geometry"):
        read(layer([mixed, mixed]), tmp_path)


def test_holes_are_wound_against_their_shell() -> None:
    """Whatever way rings come in, shells come out counter-clockwise and holes clockwise."""
    for shell in (square(0, 0, 9), tuple(reversed(square(0, 0, 9)))):
        for hole in (square(1, 1), tuple(reversed(square(1, 1)))):
            wkb, _ = Encoder(multi=False).encode("Polygon", [shell, hole])
            shape = shapely.from_wkb(wkb)
            assert shape.exterior.is_ccw
            assert not shape.interiors[0].is_ccw


def test_winding_is_told_far_from_the_origin() -> None:
    """Small rings at large coordinates are wound right: areas are taken around the ring itself."""
    ring = np.array(square(500_000.123, 5_500_000.456, 0.001))
    encoder = Encoder(multi=False)
    wkb, _ = encoder.encode("Polygon", [ring.tolist()])
    assert shapely.from_wkb(wkb).exterior.is_ccw
    assert encoder.rewound == 0


def test_a_geometry_no_record_makes_is_refused() -> None:
    """The encoder takes the types that shapefile records make, and no other."""
    with pytest.raises(ValueError, match="GeometryCollection"):
        Encoder(multi=False).encode("GeometryCollection", None)
