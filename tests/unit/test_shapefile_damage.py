"""The damage matrix: whatever happens to a byte, the answer is right rows or a coded error."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.errors import BundleError, CorruptError
from gate.policies import Reader
from tests.reading import Reading, read
from tests.shapefiles import (
    LINE,
    MULTIPATCH,
    MULTIPOINT,
    NULL,
    POINT,
    POLYGON,
    Bundle,
    Field,
    M,
    Shape,
    Z,
    cut,
    flipped,
    index_entry,
    layer,
    line,
    multipatch,
    multipoint,
    null,
    patched,
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


def outcome(bundle: Bundle, folder: Path, **options: Any) -> Reading | BundleError:
    """Return what reading gives: rows that add up, or an error with a code."""
    try:
        reading = read(bundle, folder, **options)
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


def longer(shape: Shape, beyond: int) -> Shape:
    """Return a shape whose parts go on, so that its first positions are not all of its extent."""
    return replace(
        shape,
        parts=tuple(
            (*part, *((part[-1][0] + step + 1, 9.0, *part[-1][2:]) for step in range(beyond)))
            for part in shape.parts
        ),
    )


HEADS = [
    point(1, 2),
    point(1, 2, 3, kind=POINT + Z),
    point(1, 2, 3, 4, kind=POINT + Z),
    point(1, 2, 3, kind=POINT + M),
    polygon(square(0, 0, 4), tuple(reversed(square(1, 1, 1))), square(9, 9)),
    polygon(square(0, 0, 4, 7), square(9, 9, 1, 8), kind=POLYGON + Z),
    polygon(square(0, 0, 4, 7, 2), square(9, 9, 1, 8, 3), kind=POLYGON + Z),
    polygon(square(0, 0, 4, 7), kind=POLYGON + M),
    multipatch((5, square(0, 0, 1, 1))),
    *(
        longer(make((0, 0, 5, 3)[:axes], kind), beyond)
        for axes, kind in ((2, 0), (3, Z), (4, Z), (3, M))
        for beyond in range(7)
        for make in (
            lambda position, kind: multipoint(position, kind=MULTIPOINT + kind),
            lambda position, kind: line([position, position], kind=LINE + kind),
        )
    ),
]


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize("shape", HEADS)
def test_no_flipped_bit_of_a_record_head_goes_unnoticed(
    shape: Shape, reader: Reader, tmp_path: Path
) -> None:
    """Every bit of a record's type and counts flipped: refused, whatever the type."""
    bundle = layer([shape, shape])
    assert isinstance(outcome(bundle, tmp_path, reader=reader), Reading)
    counts = {0: 0, 1: 0, 8: 4}.get(shape.kind % 10, 8)
    if shape.kind == MULTIPATCH:
        counts = 8
    for offset in (*range(108, 112), *range(144, 144 + counts)):
        for bit in range(8):
            found = outcome(flipped(bundle, ".shp", offset, 1 << bit), tmp_path, reader=reader)
            assert isinstance(found, BundleError), (offset, bit)
            assert found.where == "roads.shp"


def zeroed(shape: Shape, offset: int, layout: str, *values: int) -> Bundle:
    """Return a layer of this shape with other values in the content of its record."""
    return patched(layer([shape]), ".shp", (108 + offset, layout), *values)


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (zeroed(point(1, 2), 0, "<i", NULL), "null and yet holds bytes"),
        (zeroed(multipoint((1, 2), (3, 4), (5, 6)), 36, "<i", 2), "not that of the points"),
        (zeroed(polygon(square(0, 0), square(5, 5)), 36, "<2i", 0, 0), "not that of the points"),
        (zeroed(polygon(square(0, 0), square(5, 5)), 36, "<i", 1), "not that of the points"),
        (layer([Shape(POLYGON, ())]), ""),
    ],
)
def test_bytes_that_a_record_head_hides_are_not_lost(
    bundle: Bundle, said: str, tmp_path: Path
) -> None:
    """A record that holds more than it announces is refused; an empty one holds nothing."""
    found = outcome(bundle, tmp_path)
    if not said:
        assert isinstance(found, Reading)
        assert found.report.geometry.empty == 1
    else:
        assert isinstance(found, CorruptError)
        assert said in str(found)


def test_points_in_no_part_are_refused(tmp_path: Path) -> None:
    """Positions that no part holds would be dropped, though the record has their length."""
    bundle = layer([polygon(square(0, 0))])
    content = bytearray(bundle[".shp"])
    content[144:152] = struct.pack("<2i", 0, 5)
    del content[152:156]
    content[104:108] = struct.pack(">i", (len(content) - 108) // 2)
    content[24:28] = struct.pack(">i", len(content) // 2)
    bundle[".shp"] = bytes(content)
    bundle = patched(bundle, ".shx", index_entry(0), 50, (len(content) - 108) // 2)
    found = outcome(bundle, tmp_path)
    assert isinstance(found, CorruptError)
    assert "no part" in str(found)


@pytest.mark.parametrize("kind", [MULTIPOINT + Z, MULTIPOINT + M])
@pytest.mark.parametrize("count", range(1, 9))
def test_a_wrong_extent_alone_refuses_no_record(kind: int, count: int, tmp_path: Path) -> None:
    """Writers that leave the box of a record alone are believed, as GDAL believes them."""
    more = [(index, index, 5, 6)[: 4 if kind == MULTIPOINT + Z else 3] for index in range(count)]
    bundle = layer([multipoint(*more, kind=kind)])
    bundle = patched(bundle, ".shp", (112, "<4d"), 7.0, 7.0, 7.0, 7.0)
    found = outcome(bundle, tmp_path)
    assert isinstance(found, Reading)
    assert len(found.geometries[0].geoms) == count


def test_a_wrong_extent_makes_no_empty_record_of_a_position(tmp_path: Path) -> None:
    """A MultiPointM of one position is as long as an empty one with a range of M; it is read."""
    bundle = patched(layer([multipoint((5, 5))]), ".shp", (32, "<i"), MULTIPOINT + M)
    bundle = patched(bundle, ".shx", (32, "<i"), MULTIPOINT + M)
    bundle = patched(bundle, ".shp", (108, "<i4d"), MULTIPOINT + M, 0, 0, 0, 0)
    assert read(bundle, tmp_path).wkt == ["MULTIPOINT ((5 5))"]


def test_measures_are_looked_for_in_their_own_record_only(tmp_path: Path) -> None:
    """A record with Z and no M has no measures, though bytes of the next record follow it."""
    shape = multipoint((0, 0, 1), (1, 1, 2), kind=MULTIPOINT + Z)
    assert read(layer([shape, shape]), tmp_path).report.geometry.measures_dropped == 0


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
