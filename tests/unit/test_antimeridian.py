"""Lines and polygons in degrees, cut at the antimeridian."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shapely

from gate.shapefile.antimeridian import split


def cut(wkt: str) -> tuple[Any, int]:
    """Return what one geometry becomes, and how many were cut."""
    geometries, count = split(np.array([shapely.from_wkt(wkt)], dtype=object))
    return geometries[0], count


@pytest.mark.parametrize(
    ("wkt", "area"),
    [
        ("POLYGON ((170 10, -170 10, -170 20, 170 20, 170 10))", 200),
        ("POLYGON ((-170 20, 170 20, 170 10, -170 10, -170 20))", 200),
        ("MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((179 0, -179 0, -179 1, 179 1, 179 0)))", 2.5),
        (
            "POLYGON ((160 0, -160 0, -160 30, 160 30, 160 0),"
            " (175 10, -175 10, -175 20, 175 20, 175 10))",
            1100,
        ),
        (
            "POLYGON ((160 0, -160 0, -160 30, 160 30, 160 0),"
            " (-175 10, -175 20, -170 20, -170 10, -175 10))",
            1150,
        ),
        ("POLYGON ((0 70, 90 70, 180 70, -90 70, 0 70))", 7200),
        ("POLYGON ((0 -70, -90 -70, 180 -70, 90 -70, 0 -70))", 7200),
        (
            "POLYGON ((0 60, 90 60, 180 60, -90 60, 0 60), (0 80, 90 80, 180 80, -90 80, 0 80))",
            7200,
        ),
        ("POLYGON ((170 0, -170 10, -170 0, 170 10, 170 0))", 100),
    ],
)
def test_an_area_across_the_antimeridian_keeps_its_size(wkt: str, area: float) -> None:
    """Case 21: no part crosses any more, all are valid, and together they are as large as before.

    A ring around the Earth holds the nearer pole, with or without a hole around it.
    """
    geometry, count = cut(wkt)
    assert count == 1
    assert geometry.geom_type == "MultiPolygon"
    assert geometry.area == pytest.approx(area)
    assert geometry.is_valid
    west, south, east, north = geometry.bounds
    assert max(-west, east) <= 180
    assert max(-south, north) <= 90


def test_a_line_across_the_antimeridian_is_cut_where_it_crosses() -> None:
    """Case 21: the cut has the latitude, and the height, of the line there."""
    geometry, count = cut("LINESTRING Z (170 0 1, -170 10 3)")
    assert count == 1
    assert shapely.to_wkt(geometry, trim=True) == (
        "MULTILINESTRING Z ((170 0 1, 180 5 2), (-180 5 2, -170 10 3))"
    )


@pytest.mark.parametrize(
    "wkt",
    [
        "POLYGON ((-180 0, 0 0, 180 0, 180 10, 0 10, -180 10, -180 0))",
        "LINESTRING (-170 0, 0 0, 170 0)",
        "POLYGON ((0 0, 1 0, 1 1, 0 0))",
        "MULTILINESTRING ((-170 0, -160 0), (160 0, 170 0))",
    ],
)
def test_what_is_wide_and_does_not_cross_is_left_alone(wkt: str) -> None:
    """Case 21: a geometry around half the Earth by small steps crosses nothing."""
    geometry, count = cut(wkt)
    assert count == 0
    assert geometry.equals(shapely.from_wkt(wkt))
    assert geometry.geom_type.startswith("Multi")


def test_points_are_no_concern() -> None:
    """Case 21: points and multipoints stay what they are, wherever they lie."""
    wkt = ["POINT (179 0)", "MULTIPOINT (179 0, -179 0)"]
    geometries, count = split(np.array(shapely.from_wkt(wkt), dtype=object))
    assert count == 0
    assert [each.geom_type for each in geometries] == ["Point", "MultiPoint"]
