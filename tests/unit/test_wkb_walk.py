"""Extents read from the bytes of WKB: those that GEOS tells, or none at all."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.sinks import walk
from gate.sinks.geometry import extents
from gate.sinks.walk import STEP_LIMIT

NUMBER = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e9, 1e9))
WKT = (
    "POINT (1 2)",
    "POINT Z (1 2 3)",
    "LINESTRING (0 0, 5 -1)",
    "LINESTRING EMPTY",
    "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1))",
    "POLYGON Z ((0 0 1, 4 0 2, 4 4 3, 0 0 1))",
    "POLYGON EMPTY",
    "MULTIPOINT ((3 3), (1 9))",
    "MULTILINESTRING ((0 0, 1 1), (7 7, 8 8, 9 -9))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 8 5, 8 8, 5 5), (6 5.2, 7 5.2, 7 5.3, 6 5.2)))",
    "MULTIPOLYGON Z (((0 0 1, 1 0 1, 1 1 9, 0 0 1)))",
)


def column(wkb: Sequence[bytes | None]) -> pa.BinaryArray:
    """Return a WKB column."""
    return pa.array(wkb, pa.binary())


def iso(*texts: str) -> list[bytes]:
    """Return WKB of each text."""
    return [shapely.to_wkb(shapely.from_wkt(text), flavor="iso") for text in texts]


def test_extents_of_every_type_are_those_of_its_vertices() -> None:
    """All types in one column, a null among them, are measured as GEOS measures them."""
    (low, high), measured = walk.extents(column([None, *iso(*WKT)]))
    assert measured.all()
    for row, text in enumerate(WKT, start=1):
        geometry = shapely.from_wkt(text)
        if geometry.is_empty:
            assert np.isinf(low[row]).all()
            continue
        vertices = shapely.get_coordinates(geometry, include_z=True)
        axes = 3 if geometry.has_z else 2
        assert low[row, :axes].tolist() == vertices[:, :axes].min(axis=0).tolist()
        assert high[row, :axes].tolist() == vertices[:, :axes].max(axis=0).tolist()
        assert np.isinf(low[row, axes:]).all()


def test_a_slice_of_a_column_is_measured_by_its_own_rows() -> None:
    """A column that begins in the middle of its bytes is read from there."""
    whole = column(iso(*WKT))
    (low, _), measured = walk.extents(whole.slice(4, 3))
    (all_low, _), _ = walk.extents(whole)
    assert measured.all()
    assert low.tolist() == all_low[4:7].tolist()


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.lists(st.tuples(NUMBER, NUMBER), min_size=2, max_size=60), max_size=6),
    null=st.booleans(),
)
def test_any_lines_are_measured(lines: list[list[tuple[float, float]]], null: bool) -> None:
    """Any number of lines of any length has the extent of its vertices."""
    rows = [shapely.LineString(line) for line in lines] + [shapely.MultiLineString(lines)]
    (low, high), measured = walk.extents(
        column([*map(shapely.to_wkb, rows), None][: None if null else -1])
    )
    assert measured.all()
    for row, geometry in enumerate(rows):
        if not geometry.is_empty:
            assert (*low[row, :2], *high[row, :2]) == geometry.bounds


RING = struct.pack("<I8d", 4, 0, 0, 1, 0, 1, 1, 0, 0)
POLYGON = struct.pack("<BII", 1, 3, 1) + RING


@pytest.mark.parametrize(
    "wkb",
    [
        b"",
        b"\x01\x03",
        POLYGON[:-1],
        POLYGON + b"\0",
        struct.pack("<BII", 1, 3, 9) + RING,
        struct.pack("<BIII", 1, 3, 1, 2**31) + bytes(64),
        struct.pack("<BIII", 1, 3, 1, 2**28) + bytes(64),
        struct.pack("<BII", 1, 4, 2**30) + bytes(21),
        struct.pack("<BII", 1, 6, 1) + struct.pack("<BII", 1, 2, 0),
        struct.pack("<BI2d", 1, 1, float("nan"), 1),
        struct.pack("<BI2d", 1, 1, float("inf"), 1),
        struct.pack("<BI3d", 1, 1001, 1, 1, float("inf")),
        struct.pack("<BI3d", 1, 2001, 1, 1, 1),
        struct.pack(">BI2d", 0, 1, 1, 1),
        struct.pack("<BII", 1, 7, 0),
        struct.pack("<BII", 1, 3, STEP_LIMIT + 1) + RING * (STEP_LIMIT + 1),
    ],
)
def test_what_is_damaged_or_rare_is_left_alone(wkb: bytes) -> None:
    """Rows that do not end where their bytes do, and rare ones, are not measured here."""
    (low, _), measured = walk.extents(column([wkb]))
    assert not measured.any()
    assert np.isinf(low).all()


def test_rows_that_are_left_alone_are_measured_by_geos() -> None:
    """Beside ordinary rows, those of the other byte order get their extent too."""
    rows = [POLYGON, shapely.to_wkb(shapely.Point(7, 8), byte_order=0), None]
    found = extents(column(rows))
    assert found.low[:, 0].tolist() == [0, 7, np.inf]
    assert found.high[:, 1].tolist() == [1, 8, -np.inf]
    assert found.known.tolist() == [True, True, False]
