"""The damage matrix: whatever happens to a byte, the answer is right rows or a coded error."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from gate.errors import BundleError
from tests.reading import Reading, read
from tests.shapefiles import (
    LINE,
    MULTIPOINT,
    POINT,
    Bundle,
    Field,
    M,
    Z,
    cut,
    flipped,
    layer,
    line,
    multipoint,
    null,
    point,
    polygon,
    square,
)

FIELDS = (
    Field("ID", "N", 4),
    Field("NAME", "C", 6),
    Field("DAY", "D", 8),
    Field("OK", "L", 1),
    Field("AREA", "N", 7, 2),
)
VALUES = [
    (1, "é", datetime.date(2020, 2, 29), True, 1.5),
    (2, "two", None, None, None),
    (3, "three", datetime.date(1999, 12, 31), False, -2.25),
]


def polygons() -> Bundle:
    """Return a square with a hole, a null shape and two squares, the second row deleted."""
    shapes = [
        polygon(square(0, 0, 4), tuple(reversed(square(1, 1, 1)))),
        null(),
        polygon(square(5, 5), square(8, 8)),
    ]
    return layer(shapes, FIELDS, VALUES, deleted=[1])


def lines() -> Bundle:
    """Return lines with Z and M."""
    shapes = [
        line([(0, 0, 1, 2), (1, 1, 1, 3)], [(2, 2, 0, 0), (3, 3, 0, 0)], kind=LINE + Z),
        null(),
        line([(0, 0, 1, 2), (1, 1, 1, 3), (4, 4, 4, 4)], kind=LINE + Z),
    ]
    return layer(shapes, FIELDS, VALUES)


def measured_points() -> Bundle:
    """Return multipoints with M."""
    shapes = [
        multipoint((0, 0, 5), (1, 1, 6), kind=MULTIPOINT + M),
        multipoint((7, 7, 5), kind=MULTIPOINT + M),
        null(),
    ]
    return layer(shapes, FIELDS, VALUES)


def single_points() -> Bundle:
    """Return points with Z."""
    shapes = [point(0, 0, 1, kind=POINT + Z), null(), point(2, 2, 1, kind=POINT + Z)]
    return layer(shapes, FIELDS, VALUES)


MAKERS = (polygons, lines, measured_points, single_points)
FLIPS = [(polygons, 0x01), *((make, 0xFF) for make in MAKERS)]


def outcome(bundle: Bundle, folder: Path) -> Reading | BundleError:
    """Return what reading gives: rows that add up, or an error with a code."""
    try:
        reading = read(bundle, folder)
    except BundleError as error:
        return error
    rows = reading.report.rows
    assert rows.loaded == reading.table.num_rows
    assert rows.in_file == rows.loaded + rows.deleted + rows.rejected
    return reading


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("extension", [".shp", ".shx", ".dbf"])
def test_a_required_file_cut_anywhere_is_refused(
    make: Callable[[], Bundle], extension: str, tmp_path: Path
) -> None:
    """Scenario D8: cut at every byte, each required file leads to a coded error."""
    bundle = make()
    whole = len(bundle[extension])
    end_mark = 1 if extension == ".dbf" else 0
    for size in range(whole - end_mark):
        found = outcome(cut(bundle, extension, size), tmp_path)
        assert isinstance(found, BundleError), size
        assert found.code in ("empty_component", "truncated"), size
        assert found.where == f"roads{extension}", size


@pytest.mark.parametrize(("make", "mask"), FLIPS)
def test_no_flipped_byte_of_the_shp_loses_a_row(
    make: Callable[[], Bundle], mask: int, tmp_path: Path
) -> None:
    """Every byte of the .shp flipped: the same table and no shape turned null, or an error."""
    bundle = make()
    right = read(bundle, tmp_path)
    for offset in range(len(bundle[".shp"])):
        found = outcome(flipped(bundle, ".shp", offset, mask), tmp_path)
        if isinstance(found, Reading):
            assert found.table.drop(["geometry"]) == right.table.drop(["geometry"]), offset
            assert found.report.rows == right.report.rows, offset
            nulls = [value is None for value in right.column("geometry")]
            assert [value is None for value in found.column("geometry")] == nulls, offset


@pytest.mark.parametrize(("make", "mask"), FLIPS)
def test_a_flipped_byte_of_the_shx_changes_nothing_or_is_refused(
    make: Callable[[], Bundle], mask: int, tmp_path: Path
) -> None:
    """Every byte of the .shx flipped: the same rows, or a coded error."""
    bundle = make()
    right = read(bundle, tmp_path)
    for offset in range(len(bundle[".shx"])):
        found = outcome(flipped(bundle, ".shx", offset, mask), tmp_path)
        if isinstance(found, Reading):
            assert found.table == right.table, offset


@pytest.mark.parametrize("mask", [0xFF, 0x01])
def test_no_flipped_byte_of_the_dbf_loses_a_row(mask: int, tmp_path: Path) -> None:
    """Every byte of the .dbf flipped: all rows with their geometries, or a coded error."""
    bundle = polygons()
    right = read(bundle, tmp_path)
    for offset in range(len(bundle[".dbf"])):
        found = outcome(flipped(bundle, ".dbf", offset, mask), tmp_path)
        if isinstance(found, Reading):
            assert found.column("geometry") == right.column("geometry"), offset
            assert found.report.rows == right.report.rows, offset


@pytest.mark.parametrize("extension", [".prj", ".cpg"])
def test_a_flipped_byte_of_a_sidecar_never_stops_a_layer(extension: str, tmp_path: Path) -> None:
    """Every byte of a sidecar flipped: all rows with their geometries."""
    bundle = polygons()
    right = read(bundle, tmp_path)
    for offset in range(len(bundle[extension])):
        found = outcome(flipped(bundle, extension, offset), tmp_path)
        assert isinstance(found, Reading), offset
        assert found.column("geometry") == right.column("geometry"), offset


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_a_sidecar_cut_anywhere_never_stops_a_layer(size: int, tmp_path: Path) -> None:
    """A .prj cut short costs the CRS and says so, nothing else."""
    found = outcome(cut(polygons(), ".prj", size), tmp_path)
    assert isinstance(found, Reading)
    assert found.crs is None
    assert {"missing_crs", "unreadable_crs"} & found.notices.keys()
