"""The CRS of a layer: how it is spelled, who says it, and whether coordinates fit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fiona.crs import CRS
from fiona.errors import CRSError

from gate.errors import (
    ConfigurationError,
    MissingCrsError,
    OutsideCrsError,
    UnknownOverrideError,
    UnreadableCrsError,
)
from gate.policies import MissingCrs
from gate.shapefile.crs import (
    LayerCrs,
    Source,
    check_bounds,
    known_crs,
    layer_crs,
    recognised,
)
from gate.shapefile.findings import Findings
from tests.reading import Reading, read
from tests.shapefiles import WGS84, layer, point

ETRS89 = (
    'GEOGCS["GCS_ETRS_1989",DATUM["D_ETRS_1989",SPHEROID["GRS_1980",6378137.0,298.257222101]],'
    'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]'
)
UTM32 = (
    f'PROJCS["ETRS_1989_UTM_Zone_32N",{ETRS89},PROJECTION["Transverse_Mercator"],'
    'PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",0.0],'
    'PARAMETER["Central_Meridian",9.0],PARAMETER["Scale_Factor",0.9996],'
    'PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
)
OGC_WGS84 = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,'
    'AUTHORITY["EPSG","7030"]],AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]]'
)
WEB_MERCATOR = (
    f'PROJCS["WGS_1984_Web_Mercator_Auxiliary_Sphere",{WGS84},'
    'PROJECTION["Mercator_Auxiliary_Sphere"],PARAMETER["False_Easting",0.0],'
    'PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",0.0],'
    'PARAMETER["Standard_Parallel_1",0.0],PARAMETER["Auxiliary_Sphere_Type",0.0],'
    'UNIT["Meter",1.0]]'
)
LOCAL = (
    'LOCAL_CS["Baufeld 7",LOCAL_DATUM["lokal",0],UNIT["Meter",1.0],AXIS["X",EAST],AXIS["Y",NORTH]]'
)
HEIGHT = 'VERT_CS["DHHN2016 height",VERT_DATUM["DHHN2016",2005],UNIT["metre",1.0]]'
METRES = (500000.0, 5500000.0)
DEGREES = (10.0, 50.0)


def at(folder: Path, position: tuple[float, float], prj: str | None, **options: object) -> Reading:
    """Read a layer of one point."""
    return read(layer([point(*position)], prj=prj), folder, **options)


@pytest.mark.parametrize(
    ("prj", "name", "kind"),
    [
        (WGS84, "EPSG:4326", "geographic"),
        (OGC_WGS84, "EPSG:4326", "geographic"),
        (UTM32, "EPSG:25832", "projected"),
        (WEB_MERCATOR, "EPSG:3857", "projected"),
        (f'COMPD_CS["both",{UTM32},{HEIGHT}]', "both", "compound"),
    ],
)
def test_case_19_esri_and_ogc_spellings_are_recognised(
    prj: str, name: str, kind: str, tmp_path: Path
) -> None:
    """Case 19: whoever spelled it, the CRS is known, and coordinates are what they were."""
    position = DEGREES if kind == "geographic" else METRES
    reading = at(tmp_path, position, prj)
    facts = reading.report.crs
    assert (facts.name, facts.source, facts.kind) == (name, "prj", kind)
    assert facts.transformed is None
    assert reading.notices == {}
    assert (reading.geometries[0].x, reading.geometries[0].y) == position


def test_case_19_a_crs_under_another_name_is_a_near_match(tmp_path: Path) -> None:
    """Case 19: all parameters of EPSG:25832 under a name of its own: used as written, and said."""
    reading = at(tmp_path, METRES, UTM32.replace("ETRS_1989_UTM_Zone_32N", "Mein_Gitter"))
    facts = reading.report.crs
    assert (facts.name, facts.source) == ("Mein_Gitter", "prj")
    assert facts.recognised
    assert (facts.recognised.name, facts.recognised.confidence) == ("EPSG:25832", 70)
    assert reading.crs is not None
    assert reading.crs["name"] == "Mein_Gitter"
    assert reading.notices == {"near_match": 1}
    (notice,) = reading.report.notices
    assert "EPSG:25832 with a confidence of 70 %; it is used as it is written" in notice.what


def test_case_19_a_crs_that_only_resembles_one_is_not_shifted(tmp_path: Path) -> None:
    """Case 19: ten centimetres of false easting make it another CRS, and nobody says otherwise."""
    strange = UTM32.replace("500000.0", "500000.1").replace("ETRS_1989_UTM_Zone_32N", "Mein_Gitter")
    reading = at(tmp_path, METRES, strange)
    assert reading.report.crs.recognised is None
    assert reading.crs is not None
    assert "id" not in reading.crs
    easting = next(
        each["value"]
        for each in reading.crs["conversion"]["parameters"]
        if each["name"] == "False easting"
    )
    assert easting == 500000.1


def test_a_local_crs_is_published_and_said_to_be_local(tmp_path: Path) -> None:
    """Case 19: a local CRS is a CRS; that nothing relates it to the Earth is noted."""
    reading = at(tmp_path, (1, 2), LOCAL)
    assert (reading.report.crs.name, reading.report.crs.kind) == ("Baufeld 7", "local")
    assert reading.notices == {"local_crs": 1}
    assert reading.crs is not None
    assert reading.crs["type"] == "EngineeringCRS"


@pytest.mark.parametrize("prj", [None, "rubbish", HEIGHT])
def test_case_20_by_default_a_layer_without_a_crs_is_accepted(
    prj: str | None, tmp_path: Path
) -> None:
    """Case 20: no .prj, or one that is no CRS of positions: published without, and noted."""
    reading = at(tmp_path, METRES, prj)
    assert reading.crs is None
    assert reading.notices == {"unreadable_crs" if prj else "missing_crs": 1}


@pytest.mark.parametrize(
    ("prj", "error"), [(None, MissingCrsError), ("rubbish", UnreadableCrsError)]
)
def test_case_20_a_deployment_may_hold_layers_without_a_crs(
    prj: str | None, error: type[Exception], tmp_path: Path
) -> None:
    """Case 20: with `hold`, what is missing is told together with the override that helps."""
    with pytest.raises(error, match=r"^roads.prj: .*crs=EPSG:NUMBER"):
        at(tmp_path, DEGREES, prj, missing_crs=MissingCrs.HOLD)


@pytest.mark.parametrize("prj", [None, "rubbish"])
def test_case_20_a_crs_may_be_assumed(prj: str | None, tmp_path: Path) -> None:
    """Case 20: degrees without a .prj are those of the assumed CRS, and the report says so."""
    reading = at(tmp_path, DEGREES, prj, missing_crs="EPSG:4326")
    assert (reading.report.crs.name, reading.report.crs.source) == ("EPSG:4326", "assumed")
    assert reading.notices["assumed_crs"] == 1
    assert reading.crs is not None
    assert reading.crs["id"]["code"] == 4326


@pytest.mark.parametrize(
    ("assumed", "position", "fault"),
    [
        ("EPSG:4326", METRES, "are no degrees"),
        ("EPSG:25832", DEGREES, "look like degrees"),
        ("EPSG:3857", DEGREES, "look like degrees"),
        ("EPSG:25832", (500000, 100000), "outside the area"),
        ("EPSG:25832", (1e12, 1e12), "outside the area"),
        ("EPSG:4258", (-100, 40), "outside the area"),
    ],
)
def test_case_20_metres_are_never_taken_for_degrees(
    assumed: str, position: tuple[float, float], fault: str, tmp_path: Path
) -> None:
    """Case 20: coordinates outside the domain of an assumed CRS hold the layer."""
    with pytest.raises(OutsideCrsError, match=f"{fault}.*{assumed}"):
        at(tmp_path, position, None, missing_crs=assumed)


@pytest.mark.parametrize(
    ("assumed", "position"),
    [
        ("EPSG:25832", METRES),
        ("EPSG:25832", (500000, 9500000)),
        ("EPSG:2193", (2100000, 5200000)),
        ("EPSG:4167", (-177, -44)),
        ("EPSG:4326", (270, 10)),
    ],
)
def test_case_20_coordinates_inside_the_domain_are_believed(
    assumed: str, position: tuple[float, float], tmp_path: Path
) -> None:
    """Case 20: an area may cross the antimeridian, and a little beyond its edge is still in."""
    assert at(tmp_path, position, None, missing_crs=assumed).report.crs.source == "assumed"


def test_case_20_a_layer_without_positions_fits_every_crs(tmp_path: Path) -> None:
    """Case 20: where there is no position nothing contradicts the assumption."""
    reading = read(layer([], kind=1, prj=None), tmp_path, missing_crs="EPSG:4326")
    assert reading.report.crs.source == "assumed"


def test_an_assumed_crs_that_does_not_exist_is_a_fault_of_the_deployment(tmp_path: Path) -> None:
    """Case 20: the bundle is not blamed for a number that PROJ does not know."""
    with pytest.raises(ConfigurationError, match=r"^MISSING_CRS: PROJ does not know EPSG:999999"):
        at(tmp_path, DEGREES, None, missing_crs="EPSG:999999")


@pytest.mark.parametrize(
    ("stated", "name"),
    [("EPSG:25832", "EPSG:25832"), (" epsg::25832 ", "EPSG:25832"), ("esri:102100", "ESRI:102100")],
)
@pytest.mark.parametrize("prj", [None, WGS84, "rubbish"])
def test_case_20_an_override_beats_the_file(
    stated: str, name: str, prj: str | None, tmp_path: Path
) -> None:
    """Case 20: a person's CRS replaces that of the .prj, and no coordinate is touched."""
    reading = at(tmp_path, METRES, prj, crs=stated, missing_crs=MissingCrs.HOLD)
    assert (reading.report.crs.name, reading.report.crs.source) == (name, "override")
    assert reading.wkt == ["POINT (500000 5500000)"]
    assert reading.report.overrides == {"crs": stated}
    assert reading.notices == ({"overridden_crs": 1} if prj == WGS84 else {})


def test_an_override_that_the_file_agrees_with_is_not_noted(tmp_path: Path) -> None:
    """Case 20: only a contradiction is worth a notice."""
    assert at(tmp_path, DEGREES, WGS84, crs="EPSG:4326").notices == {}


@pytest.mark.parametrize("stated", ["wgs84", "EPSG:999999", "EPSG:", "4326", "EPSG:5773", "a" * 99])
def test_case_20_an_override_that_is_no_crs_is_told(stated: str, tmp_path: Path) -> None:
    """Case 20: an unknown CRS, or one of heights alone, is refused with a form that works."""
    with pytest.raises(
        UnknownOverrideError, match="use a form such as EPSG:25832, and redrive the job"
    ):
        at(tmp_path, METRES, WGS84, crs=stated)


@pytest.mark.parametrize("options", [{"prj": WGS84}, {"prj": None, "crs": "EPSG:4326"}])
def test_coordinates_that_contradict_a_stated_crs_are_noted(
    options: dict[str, str | None], tmp_path: Path
) -> None:
    """Case 20: a stated CRS is believed; that metres cannot be degrees is said all the same."""
    prj = options.pop("prj")
    reading = at(tmp_path, METRES, prj, **options)
    assert reading.report.rows.loaded == 1
    assert reading.notices == {"outside_crs": 1}


def test_a_crs_of_a_registry_is_projjson() -> None:
    """Case 19: a CRS by its code has the name, the id and the area that the registry gives it."""
    found = known_crs("EPSG:25832")
    assert found
    assert found["id"] == {"authority": "EPSG", "code": 25832}
    assert found["bbox"]["west_longitude"] == 6


class Unspeakable(CRS):
    """A CRS that GDAL has and cannot write down."""

    def __bool__(self) -> bool:
        """Be a CRS that is not empty."""
        return True

    def to_dict(self, projjson: bool = False) -> dict[str, Any]:
        """Fail as Fiona does."""
        raise CRSError("cannot be exported")


def test_a_crs_that_cannot_be_written_down_is_unreadable() -> None:
    """Case 19: what GDAL reads and cannot export costs the CRS, not the layer."""
    findings = Findings()
    found = layer_crs(b"PROJCS", Unspeakable(), findings, where="roads.prj")
    assert (found.source, found.projjson) == (Source.UNREADABLE, None)
    assert [notice.code for notice in findings.notices()] == ["unreadable_crs"]


def test_text_that_is_no_crs_is_recognised_as_none() -> None:
    """Case 19: PROJ refuses it, and nothing is thrown."""
    assert recognised("no WKT at all") is None


def test_an_assumed_crs_that_leads_nowhere_fits_nothing() -> None:
    """Case 20: if the middle of a layer has no place on Earth, the CRS is not assumed."""
    area = {"west_longitude": 6, "east_longitude": 12, "south_latitude": 40, "north_latitude": 80}
    identity = {"authority": "EPSG", "code": 999999}
    projjson = {"type": "ProjectedCRS", "id": identity, "bbox": area}
    with pytest.raises(OutsideCrsError, match="outside the area"):
        check_bounds(LayerCrs(Source.ASSUMED, projjson), (5e5, 5e6, 6e5, 6e6), "a.shp", Findings())
