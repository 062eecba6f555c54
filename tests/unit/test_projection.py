"""Coordinates in the CRS that the deployment wants."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import shapely

from gate.errors import (
    ConfigurationError,
    MissingCrsError,
    NoTransformationError,
    RowsRejectedError,
)
from gate.policies import Reader
from tests.reading import read
from tests.shapefiles import (
    MULTIPOINT,
    POINT,
    POLYGON,
    WGS84,
    Field,
    M,
    Z,
    layer,
    line,
    multipoint,
    null,
    point,
    polygon,
    square,
)
from tests.unit.test_shapefile_crs import LOCAL, METRES, UTM32, WEB_MERCATOR

NZTM = (
    'PROJCS["NZGD2000_New_Zealand_Transverse_Mercator",GEOGCS["GCS_NZGD_2000",'
    'DATUM["D_NZGD_2000",SPHEROID["GRS_1980",6378137.0,298.257222101]],PRIMEM["Greenwich",0.0],'
    'UNIT["Degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["False_Easting",1600000.0],PARAMETER["False_Northing",10000000.0],'
    'PARAMETER["Central_Meridian",173.0],PARAMETER["Scale_Factor",0.9996],'
    'PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
)
NZTM_EPSG = NZTM.removesuffix("]") + ',AUTHORITY["EPSG","2193"]]'


@pytest.mark.parametrize(
    ("prj", "before", "after"),
    [
        (WEB_MERCATOR, (1113194.9, 5621521.5), (10, 45)),
        (NZTM, (1748740, 5427650), (174.776, -41.289)),
        (NZTM_EPSG, (1748740, 5427650), (174.776, -41.289)),
    ],
)
def test_case_21_x_comes_first_in_every_direction(
    prj: str, before: tuple[float, float], after: tuple[float, float], tmp_path: Path
) -> None:
    """Case 21: the golden points of the case, though both CRSs put north before east by name."""
    reading = read(layer([point(*before)], prj=prj), tmp_path, target_crs="EPSG:4326")
    (shape,) = reading.geometries
    assert (shape.x, shape.y) == pytest.approx(after, abs=1e-3)
    assert reading.report.geometry.bounds == (shape.x, shape.y, shape.x, shape.y)
    assert reading.crs is not None
    assert reading.crs["id"] == {"authority": "EPSG", "code": 4326}


def test_case_21_without_a_target_nothing_moves(tmp_path: Path) -> None:
    """Case 21: coordinates are those of the file, east first, whatever the CRS says of axes."""
    reading = read(layer([point(1748740, 5427650)], prj=NZTM_EPSG), tmp_path)
    assert reading.wkt == ["POINT (1748740 5427650)"]


def test_case_21_there_and_back_is_where_it_began(tmp_path: Path) -> None:
    """Case 21: degrees to a CRS whose axes are north and east, x first there too."""
    bundle = layer([point(174.77631817, -41.28889841)], prj=WGS84)
    (shape,) = read(bundle, tmp_path, target_crs="EPSG:2193").geometries
    assert (shape.x, shape.y) == pytest.approx((1748740, 5427650), abs=0.01)


def test_the_report_says_from_where_to_where_and_how(tmp_path: Path) -> None:
    """Case 21: source and target, the operation of PROJ and its accuracy are in the report."""
    reading = read(layer([point(*METRES)], prj=UTM32), tmp_path, target_crs="EPSG:4326")
    crs = reading.report.crs
    assert (crs.name, crs.source) == ("EPSG:25832", "prj")
    assert crs.transformed
    assert (crs.transformed.source, crs.transformed.target) == ("EPSG:25832", "EPSG:4326")
    assert "UTM zone 32N" in crs.transformed.operation
    assert crs.transformed.accuracy_metres == 1
    assert reading.report.geometry.types == ("Point",)


def test_a_layer_in_the_target_is_left_alone(tmp_path: Path) -> None:
    """Case 21: a layer that has the target CRS comes out byte for byte as without a target."""
    bundle = layer([polygon(square(10, 50))])
    plain = read(bundle, tmp_path / "plain")
    aimed = read(bundle, tmp_path / "aimed", target_crs="EPSG:4326")
    assert aimed.table.equals(plain.table)
    assert aimed.report.crs.transformed is None


def test_nulls_empties_and_heights_pass(tmp_path: Path) -> None:
    """Case 13: null stays null, empty stays empty, and z is what it was."""
    kind = MULTIPOINT + Z
    shapes = [null(), multipoint((*METRES, 7.0), kind=kind), multipoint(kind=kind)]
    reading = read(layer(shapes, kind=kind, prj=UTM32), tmp_path, target_crs="EPSG:4326")
    nothing, shape, empty = reading.geometries
    assert nothing is None
    assert empty.is_empty
    assert shapely.get_coordinates(shape, include_z=True)[0][2] == 7
    assert reading.report.geometry.types == ("MultiPoint Z",)
    assert reading.report.rows.loaded == 3


def test_a_point_at_nan_is_not_outside(tmp_path: Path) -> None:
    """Case 13: what was no position before is none afterwards, and no reason to reject a row."""
    shapes = [point(math.nan, math.nan), point(*METRES)]
    reading = read(layer(shapes, prj=UTM32), tmp_path, target_crs="EPSG:4326")
    assert reading.report.rows.rejected == 0
    assert reading.geometries[0].is_empty
    assert reading.report.geometry.bounds == pytest.approx((9, 49.65, 9, 49.65), abs=0.01)


def test_a_line_with_a_position_at_nan_passes(tmp_path: Path) -> None:
    """Case 13: a vertex that was nowhere before stays nowhere, and is no reason to reject."""
    shapes = [line(((500000, 5500000), (math.nan, 5500001), (500002, 5500002)))]
    reading = read(layer(shapes, prj=UTM32), tmp_path, target_crs="EPSG:4326")
    assert reading.report.rows.rejected == 0
    positions = shapely.get_coordinates(reading.geometries[0])
    assert [math.isfinite(x) for x, _ in positions] == [True, False, True]
    assert reading.report.geometry.bounds is not None
    assert all(map(math.isfinite, reading.report.geometry.bounds))


def test_a_ring_that_is_nowhere_is_rejected_and_one_that_begins_so_is_not(tmp_path: Path) -> None:
    """Case 13: a polygon of NaN alone cannot be transformed, its row is told; others can."""
    begun = ((math.nan, 0), (500000, 5500001), (500001, 5500001), (math.nan, 0))
    nowhere = ((math.nan, 0),) * 4
    shapes = [polygon(square(500000, 5500000)), polygon(nowhere), polygon(begun)]
    reading = read(layer(shapes, prj=UTM32), tmp_path, target_crs="EPSG:4326")
    assert reading.column("ID") == [1, 3]
    assert len(reading.geometries) == 2
    (problem,) = reading.report.rejects
    assert (problem.reason, [each.row for each in problem.examples]) == ("no_geometry", [2])


def test_positions_outside_the_domain_are_rejected_with_their_rows(tmp_path: Path) -> None:
    """Case 21: a row that has no place in the target is rejected; attributes stay with theirs."""
    shapes = [point(*METRES), point(1e12, 1e12), point(500001, 5500000), point(1e13, 1)]
    bundle = layer(shapes, [Field("ID", "N", 9)], prj=UTM32)
    reading = read(bundle, tmp_path, target_crs="EPSG:4326")
    assert reading.column("ID") == [1, 3]
    assert [shape.x > 8 for shape in reading.geometries] == [True, True]
    (problem,) = reading.report.rejects
    assert (problem.reason, problem.count) == ("outside_domain", 2)
    assert [example.row for example in problem.examples] == [2, 4]
    assert problem.examples[0].text == "Point at (1e+12 1e+12)"


def test_case_59_a_layer_outside_the_domain_is_no_success(tmp_path: Path) -> None:
    """Case 59: if no row has a place in the target, nothing is published."""
    with pytest.raises(RowsRejectedError, match="outside_domain"):
        read(layer([point(1e12, 1e12)], prj=UTM32), tmp_path, target_crs="EPSG:4326")


def test_a_transformed_layer_has_one_type(tmp_path: Path) -> None:
    """Case 17: in degrees any polygon may have to be split, so all are multi; empty ones too."""
    shapes = [polygon(square(500000, 5500000, 100)), polygon()]
    reading = read(layer(shapes, prj=UTM32), tmp_path, target_crs="EPSG:4326")
    assert [shape.geom_type for shape in reading.geometries] == ["MultiPolygon"] * 2
    assert reading.report.geometry.types == ("MultiPolygon",)
    assert reading.geometries[0].geoms[0].exterior.is_ccw


def test_a_projected_target_keeps_the_type(tmp_path: Path) -> None:
    """Case 17: in metres nothing is split, and polygons stay polygons, wound as before."""
    reading = read(layer([polygon(square(9, 50))]), tmp_path, target_crs="EPSG:25832")
    (shape,) = reading.geometries
    assert shape.geom_type == "Polygon"
    assert shape.exterior.is_ccw
    assert reading.report.geometry.types == ("Polygon",)


def test_a_parcel_on_the_antimeridian_is_split(tmp_path: Path) -> None:
    """Case 21: a Fijian square in metres becomes two parts in degrees, counted and valid."""
    fiji = WEB_MERCATOR.replace('"Central_Meridian",0.0', '"Central_Meridian",180.0').replace(
        "WGS_1984_Web_Mercator_Auxiliary_Sphere", "Pacific"
    )
    shapes = [polygon(square(-50000, -2000000, 100000)), polygon(square(60000, -2000000, 1000))]
    reading = read(layer(shapes, prj=fiji), tmp_path, target_crs="EPSG:4326")
    across, beside = reading.geometries
    assert [len(shape.geoms) for shape in (across, beside)] == [2, 1]
    assert across.is_valid
    assert across.bounds[0] == -180
    assert across.bounds[2] == 180
    assert sum(part.exterior.is_ccw for part in across.geoms) == 2
    assert reading.notices["split_at_antimeridian"] == 1
    assert reading.report.crs.transformed
    assert reading.report.crs.transformed.split == 1


def test_a_line_across_the_antimeridian_is_split(tmp_path: Path) -> None:
    """Case 21: the same for a line."""
    crs = WEB_MERCATOR.replace('"Central_Meridian",0.0', '"Central_Meridian",180.0')
    bundle = layer([line(((-50000, 0), (50000, 0)))], prj=crs.replace("WGS_1984_Web", "Pacific"))
    (shape,) = read(bundle, tmp_path, target_crs="EPSG:4326").geometries
    assert len(shape.geoms) == 2


def test_many_batches_are_one_layer(tmp_path: Path) -> None:
    """Case 21: bounds and counts are those of all batches together."""
    shapes = [point(500000 + row, 5500000 + row) for row in range(50)]
    whole = read(layer(shapes, prj=UTM32), tmp_path / "a", target_crs="EPSG:4326")
    parts = read(layer(shapes, prj=UTM32), tmp_path / "b", target_crs="EPSG:4326", batch_bytes=100)
    assert parts.table.combine_chunks().equals(whole.table.combine_chunks())
    assert parts.report.geometry.bounds == whole.report.geometry.bounds
    assert parts.report.rows.loaded == 50


def test_a_local_crs_leads_nowhere(tmp_path: Path) -> None:
    """Case 20: a local CRS cannot be transformed; a person is told how to say what it is."""
    with pytest.raises(NoTransformationError, match=r"'Baufeld 7' to EPSG:4326.*crs=EPSG:NUMBER"):
        read(layer([point(1, 2)], prj=LOCAL), tmp_path, target_crs="EPSG:4326")


def test_a_way_of_unknown_accuracy_is_not_taken(tmp_path: Path) -> None:
    """Case 20: an ellipsoid without a datum could be hundreds of metres off: held, not guessed."""
    bessel = UTM32.replace("ETRS_1989_UTM_Zone_32N", "x").replace(
        'DATUM["D_ETRS_1989",SPHEROID["GRS_1980",6378137.0,298.257222101]]',
        'DATUM["unnamed",SPHEROID["Bessel_1841",6377397.155,299.1528128]]',
    )
    with pytest.raises(NoTransformationError):
        read(layer([point(*METRES)], prj=bessel), tmp_path, target_crs="EPSG:4326")


def test_a_target_that_does_not_exist_is_a_fault_of_the_deployment(tmp_path: Path) -> None:
    """Case 20: the bundle is not blamed for a number that PROJ does not know."""
    with pytest.raises(ConfigurationError, match=r"^TARGET_CRS: PROJ does not know EPSG:999999"):
        read(layer([point(1, 2)]), tmp_path, target_crs="EPSG:999999")


def test_a_layer_without_crs_has_no_way_to_the_target(tmp_path: Path) -> None:
    """Case 20: there is nothing to transform from, whatever the policy for a missing CRS."""
    with pytest.raises(MissingCrsError, match="no CRS to transform to EPSG:4326 from"):
        read(layer([point(1, 2)], prj=None), tmp_path, target_crs="EPSG:4326")


def test_an_assumed_or_stated_crs_is_transformed_from(tmp_path: Path) -> None:
    """Case 20: the way begins at the CRS that is used, whoever said which it is."""
    bundle = layer([point(*METRES)], prj=None)
    for options in ({"missing_crs": "EPSG:25832"}, {"crs": "EPSG:25832"}):
        reading = read(bundle, tmp_path, target_crs="EPSG:4326", **options)
        assert reading.geometries[0].x == pytest.approx(9)


@pytest.mark.parametrize("reader", list(Reader))
def test_a_row_outside_the_domain_counts_as_rejected_and_nowhere_else(
    reader: Reader, tmp_path: Path
) -> None:
    """Issue 3: the facts of the report are those of a layer that never had the row."""
    kept = [polygon(square(500_000, 5_500_000, 10, 1), kind=POLYGON + M), null()]
    lost = polygon([(1e9, 9e9, 1), (2e9, 9e9, 1), (1e9, 1e10, 1)], kind=POLYGON + M)
    options = {"target_crs": "EPSG:4326", "reader": reader}
    expected = read(layer(kept, prj=UTM32), tmp_path / "a", **options).report
    report = read(layer([*kept, lost], prj=UTM32), tmp_path / "b", **options).report
    assert [problem.reason for problem in report.rejects] == ["outside_domain"]
    assert report.geometry == expected.geometry
    assert report.geometry.measures_dropped == 1


def test_edges_are_straight_in_the_target_too(tmp_path: Path) -> None:
    """Issue 3: a long edge has the transformed ends and no position between them."""
    bundle = layer([line([(400_000, 5_500_000), (600_000, 5_500_000)])], prj=UTM32)
    (shape,) = read(bundle, tmp_path, target_crs="EPSG:4326").geometries
    assert len(shapely.get_coordinates(shape)) == 2


def test_an_empty_layer_has_the_target_crs(tmp_path: Path) -> None:
    """Case 7: a layer without rows is published in the CRS that all others have."""
    for kind in (POINT, POLYGON):
        reading = read(layer([], kind=kind, prj=UTM32), tmp_path, target_crs="EPSG:4326")
        assert reading.crs is not None
        assert reading.crs["id"]["code"] == 4326
        assert reading.report.geometry.bounds is None
