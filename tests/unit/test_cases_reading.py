"""The numbered cases from the field, as far as reading one shapefile goes."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import shapely

from gate.errors import CorruptError, MissingComponentError, UnknownOverrideError
from tests.reading import read
from tests.shapefiles import (
    DBF_COUNT,
    POLYGON,
    SHP_WORDS,
    WGS84,
    Field,
    Z,
    column,
    layer,
    null,
    parcels,
    patched,
    point,
    points,
    polygon,
    square,
    without,
)

TEXT = Field("T", "C", 10)


# --- text encoding ----------------------------------------------------------


def test_case_1_language_byte_0x57_is_windows_text(tmp_path: Path) -> None:
    """Case 1: with language byte 0x57 and no .cpg, byte 80 is the euro sign, as reported."""
    bundle = column(TEXT, b"caf\xe9", b"\x80 eur", language=0x57, cpg=None)
    reading = read(bundle, tmp_path)
    assert reading.column("T") == ["café", "€ eur"]
    assert (reading.report.encoding.name, reading.report.encoding.source) == (
        "cp1252",
        "language_byte",
    )
    assert reading.notices == {"encoding_guessed": 1}


def test_case_1_utf8_under_language_byte_0x57_is_not_garbled(tmp_path: Path) -> None:
    """Case 1: many programs write 0x57 whatever the text is; text that is UTF-8 stays so."""
    bundle = column(TEXT, "Größe", language=0x57, cpg=None)
    reading = read(bundle, tmp_path)
    assert reading.column("T") == ["Größe"]
    assert reading.report.encoding.source == "detected"


def test_case_1_no_control_character_reaches_a_sink(tmp_path: Path) -> None:
    """Case 1: a byte that would be a C1 control character is replaced and counted with its row."""
    bundle = column(TEXT, b"ok", b"a\x80b", cpg="ISO 8859-15")
    reading = read(bundle, tmp_path)
    assert reading.column("T") == ["ok", "a\ufffdb"]
    assert reading.problems == {("T", "undecodable_text"): [2]}


def test_case_1_no_control_character_reaches_a_sink_in_utf8(tmp_path: Path) -> None:
    """Case 1: a C1 control character spelled in UTF-8 is replaced and counted too."""
    reading = read(column(TEXT, b"a\xc2\x80b"), tmp_path)
    assert reading.column("T") == ["a\ufffdb"]
    assert reading.problems == {("T", "undecodable_text"): [1]}


@pytest.mark.parametrize(
    "cpg",
    ["1252", "ANSI 1252", "88591", " cp1252\r\n", "CP-1252", "windows_1252", "LDID/87", "Latin1"],
)
def test_case_2_common_spellings_of_a_cpg_are_understood(cpg: str, tmp_path: Path) -> None:
    """Case 2: a bare number, a prefix, blanks, case and line ends do not matter."""
    reading = read(column(TEXT, b"\x80", cpg=cpg), tmp_path)
    assert reading.column("T") == ["€"]
    assert (reading.report.encoding.name, reading.report.encoding.source) == ("cp1252", "cpg")


@pytest.mark.parametrize("cpg", ["UTF-8", "utf8", "65001", "\ufeffutf-8\n", "UTF-8\0"])
def test_case_2_spellings_of_utf8_are_understood(cpg: str, tmp_path: Path) -> None:
    """Case 2: UTF-8 has many spellings as well."""
    reading = read(column(TEXT, "Größe", cpg=cpg), tmp_path)
    assert reading.column("T") == ["Größe"]
    assert (reading.report.encoding.name, reading.report.encoding.source) == ("utf-8", "cpg")


def test_case_2_a_language_number_in_the_cpg_is_understood(tmp_path: Path) -> None:
    """Case 2: `LDID/200` in a .cpg means what 200 means as a language byte."""
    reading = read(column(TEXT, b"\xa3\xf3d\x9f", cpg="LDID/200"), tmp_path)
    assert reading.column("T") == ["Łódź"]


@pytest.mark.parametrize("cpg", ["", " \r\n", "\0"])
def test_case_2_a_blank_cpg_says_nothing(cpg: str, tmp_path: Path) -> None:
    """Case 2: a .cpg without a word is as good as none, and no fault."""
    reading = read(column(TEXT, "é", cpg=cpg, language=0x03, text="cp1252"), tmp_path)
    assert reading.column("T") == ["é"]
    assert reading.report.encoding.source == "language_byte"
    assert reading.notices == {}


@pytest.mark.parametrize("cpg", ["klingon", "utf-16", "base64", "hex", "99999"])
def test_case_2_an_unknown_cpg_is_a_notice(cpg: str, tmp_path: Path) -> None:
    """Case 2: an unknown spelling, or a codec no table can be in, is noted and never a crash."""
    reading = read(column(TEXT, "Größe", cpg=cpg), tmp_path)
    assert reading.column("T") == ["Größe"]
    assert reading.notices == {"unknown_cpg": 1}
    assert reading.report.encoding.source == "detected"


def test_case_3_the_override_beats_the_cpg(tmp_path: Path) -> None:
    """Case 3: an encoding given by the caller wins, and the report says override."""
    reading = read(column(TEXT, b"caf\xe9", cpg="UTF-8"), tmp_path, encoding="cp1252")
    assert reading.column("T") == ["café"]
    assert (reading.report.encoding.name, reading.report.encoding.source) == ("cp1252", "override")


def test_case_3_an_unknown_override_is_refused(tmp_path: Path) -> None:
    """Case 3: a person who names an encoding that does not exist is told so."""
    with pytest.raises(UnknownOverrideError, match="klingon"):
        read(column(TEXT, "x"), tmp_path, encoding="klingon")


def test_case_4_text_cut_inside_a_character_keeps_its_row(tmp_path: Path) -> None:
    """Case 4: half a UTF-8 character becomes a replacement sign, counted with its row."""
    reading = read(column(Field("T", "C", 4), b"caf\xc3", b"ok", cpg="UTF-8"), tmp_path)
    assert reading.column("T") == ["caf\ufffd", "ok"]
    assert reading.problems == {("T", "undecodable_text"): [1]}


def test_case_5_cp1252_is_read_as_the_cpg_says(tmp_path: Path) -> None:
    """Case 5: E9, FC and DF under CP1252 are é, ü and ß."""
    reading = read(column(TEXT, b"\xe9", b"\xfc", b"\xdf", cpg="CP1252"), tmp_path)
    assert reading.column("T") == ["é", "ü", "ß"]
    assert reading.problems == {}


# --- completeness -----------------------------------------------------------


@pytest.mark.parametrize("extension", [".shx", ".dbf", ".shp"])
def test_cases_6_and_10_a_missing_component_is_named(extension: str, tmp_path: Path) -> None:
    """Cases 6 and 10: a missing .shx or .dbf is an error that names the file as the user does."""
    with pytest.raises(MissingComponentError, match=rf"^roads\{extension}: is missing"):
        read(without(points(), extension), tmp_path)


def test_case_7_a_layer_without_records_is_a_success(tmp_path: Path) -> None:
    """Case 7: no rows, the schema, one notice; again on a second run."""
    for _ in range(2):
        reading = read(layer([], kind=POLYGON), tmp_path)
        assert reading.table.num_rows == 0
        assert reading.table.schema.names == ["ID", "geometry"]
        assert reading.notices == {"no_rows": 1}
        assert reading.report.geometry.bounds is None


@pytest.mark.parametrize("words", [50, 100_000, -1])
def test_case_8_a_wrong_declared_length_is_noted(words: int, tmp_path: Path) -> None:
    """Case 8: with a wrong length in the .shp header all records are read, and it is noted."""
    reading = read(patched(points(2), ".shp", SHP_WORDS, words), tmp_path)
    assert reading.wkt == ["POINT (0 0)", "POINT (1 1)"]
    assert reading.notices == {"declared_length": 1}


def test_case_9_deleted_rows_are_counted(tmp_path: Path) -> None:
    """Case 9: of 3 rows with one deleted, 2 are loaded, each with its own geometry."""
    bundle = layer([point(0, 0), point(1, 1), point(2, 2)], deleted=[1])
    reading = read(bundle, tmp_path)
    rows = reading.report.rows
    assert (rows.in_file, rows.loaded, rows.deleted, rows.rejected) == (3, 2, 1, 0)
    assert reading.column("ID") == [1, 3]
    assert reading.wkt == ["POINT (0 0)", "POINT (2 2)"]


def test_case_9_a_layer_of_deleted_rows_is_empty(tmp_path: Path) -> None:
    """Case 9: when every row is deleted the layer is empty, and the report says why."""
    reading = read(layer([point(0, 0), point(1, 1)], deleted=[0, 1]), tmp_path)
    assert (reading.report.rows.loaded, reading.report.rows.deleted) == (0, 2)


def test_case_12_a_header_that_denies_its_rows_is_refused(tmp_path: Path) -> None:
    """Case 12: a table whose header says 0 rows while it holds 2 is never a success of 0 rows."""
    with pytest.raises(CorruptError, match="says 0 rows while it holds 2"):
        read(patched(points(2), ".dbf", DBF_COUNT, 0), tmp_path)


# --- geometry ---------------------------------------------------------------


def test_case_13_a_null_shape_first_is_kept(tmp_path: Path) -> None:
    """Case 13: a null record before a square: a polygon layer of two rows, one null, counted."""
    reading = read(layer([null(), polygon(square(0, 0))]), tmp_path)
    assert reading.geometries[0] is None
    assert reading.geometries[1].area == 1
    assert reading.report.geometry.null == 1
    assert reading.report.geometry.types == ("Polygon",)


def test_case_14_reversed_rings_are_read_by_what_they_enclose(tmp_path: Path) -> None:
    """Case 14: shell and hole reversed: area 96, one hole, shell counter-clockwise, counted."""
    rings = (tuple(reversed(square(0, 0, 10))), square(4, 4, 2))
    reading = read(layer([polygon(*rings)]), tmp_path)
    (shape,) = reading.geometries
    assert shape.area == 96
    (part,) = shape.geoms
    assert len(part.interiors) == 1
    assert part.exterior.is_ccw
    assert not part.interiors[0].is_ccw
    assert reading.report.geometry.rewound == 1


def test_case_14_rings_of_the_format_come_out_counter_clockwise(tmp_path: Path) -> None:
    """Case 14: a shell stored clockwise, as it should be, comes out counter-clockwise."""
    reading = read(layer([polygon(square(0, 0))]), tmp_path)
    assert reading.geometries[0].exterior.is_ccw
    assert reading.report.geometry.rewound == 0


def test_case_17_polygons_and_multipolygons_become_one_type(tmp_path: Path) -> None:
    """Case 17: one square, then two squares: both come out as MultiPolygon."""
    shapes = [polygon(square(0, 0)), polygon(square(0, 0), square(5, 5))]
    reading = read(layer(shapes), tmp_path)
    assert [shape.geom_type for shape in reading.geometries] == ["MultiPolygon"] * 2
    assert [shape.area for shape in reading.geometries] == [1, 2]
    assert reading.report.geometry.types == ("MultiPolygon",)


def test_case_17_points_are_never_promoted(tmp_path: Path) -> None:
    """Case 17: a point layer stays one of points."""
    assert read(points(), tmp_path).report.geometry.types == ("Point",)


def test_case_18_z_is_kept(tmp_path: Path) -> None:
    """Case 18: a PolygonZ keeps its z, and the report says Polygon Z."""
    reading = read(layer([polygon(square(0, 0, 1, 7.0), kind=POLYGON + Z)]), tmp_path)
    assert shapely.get_coordinates(reading.geometries[0], include_z=True)[:, 2].tolist() == [7] * 5
    assert reading.report.geometry.types == ("Polygon Z",)


# --- CRS --------------------------------------------------------------------


def test_case_19_esri_spelling_with_metadata_is_recognised(tmp_path: Path) -> None:
    """Case 19: WGS 84 as Esri spells it, with METADATA, is EPSG:4326; coordinates are untouched."""
    metadata = ',METADATA["World",-180.0,-90.0,180.0,90.0,0.0,0.0174532925199433,0.0,1262]]'
    reading = read(layer([point(10, 50)], prj=WGS84[:-1] + metadata), tmp_path)
    assert (reading.report.crs.name, reading.report.crs.source) == ("EPSG:4326", "prj")
    assert reading.crs is not None
    assert reading.crs["id"] == {"authority": "EPSG", "code": 4326}
    assert reading.wkt == ["POINT (10 50)"]


def test_case_19_an_unknown_datum_is_still_a_crs(tmp_path: Path) -> None:
    """Case 19: a geographic CRS with an unnamed datum is read as what it says."""
    prj = WGS84.replace("D_WGS_1984", "unknown")
    reading = read(layer([point(10, 50)], prj=prj), tmp_path)
    assert reading.report.crs.source == "prj"
    assert reading.crs is not None
    assert reading.crs["type"] == "GeographicCRS"


@pytest.mark.parametrize("prj", [None, "", " \r\n", "\0"])
def test_case_20_a_missing_prj_is_noted(prj: str | None, tmp_path: Path) -> None:
    """Case 20: without a .prj, or with a blank one, there is no CRS, and the report says so."""
    reading = read(layer([point(10, 50)], prj=prj), tmp_path)
    assert reading.crs is None
    assert (reading.report.crs.name, reading.report.crs.source) == ("", "missing")
    assert reading.notices == {"missing_crs": 1}


@pytest.mark.parametrize("prj", ["rubbish", "GEOGCS[", "EPSG:4326", WGS84[:40], "GEOGCS[\xff"])
def test_case_20_an_unreadable_prj_costs_the_crs_only(prj: str, tmp_path: Path) -> None:
    """Case 20: a .prj that GDAL cannot read is noted with its beginning; the rows are read."""
    bundle = {**points(1), ".prj": prj.encode("latin-1")}
    reading = read(bundle, tmp_path)
    assert reading.crs is None
    assert reading.report.crs.source == "unreadable"
    assert reading.notices == {"unreadable_crs": 1}
    assert reading.table.num_rows == 1


# --- values -----------------------------------------------------------------


def test_case_22_blank_and_zero_dates_are_null(tmp_path: Path) -> None:
    """Case 22: eight zeros and eight blanks are null and no problem, 29 February is a date."""
    reading = read(column(Field("D", "D", 8), b"00000000", None, b"20200229"), tmp_path)
    assert reading.column("D") == [None, None, datetime.date(2020, 2, 29)]
    assert reading.problems == {}


def test_case_22_an_impossible_date_is_null_and_counted(tmp_path: Path) -> None:
    """Case 22: a date that does not exist is null, counted with its row and text."""
    values = (b"20210229", b"20201301", b"2020-1-1", b"20200100", b"00000101", b"20201231")
    reading = read(column(Field("D", "D", 8), *values), tmp_path)
    assert reading.column("D") == [None] * 5 + [datetime.date(2020, 12, 31)]
    assert reading.problems == {("D", "not_a_date"): [1, 2, 3, 4, 5]}
    assert reading.report.values[0].examples[0].text == "20210229"


@pytest.mark.parametrize("decimals", [0, 2])
def test_case_23_overflow_is_null_never_zero(decimals: int, tmp_path: Path) -> None:
    """Case 23: ten stars are null, counted as overflow; 12 stays 12."""
    reading = read(column(Field("N", "N", 10, decimals), b"*" * 10, b"        12"), tmp_path)
    assert reading.column("N") == [None, 12]
    assert reading.problems == {("N", "overflow"): [1]}


def test_case_24_far_dates_are_exact(tmp_path: Path) -> None:
    """Case 24: 9999-12-31 and 0001-01-01 are kept."""
    reading = read(column(Field("D", "D", 8), b"99991231", b"00010101"), tmp_path)
    assert reading.column("D") == [datetime.date(9999, 12, 31), datetime.date(1, 1, 1)]


def test_case_25_ten_digits_are_a_64_bit_integer(tmp_path: Path) -> None:
    """Case 25: 4294967295 in N(10,0) is that integer."""
    reading = read(column(Field("N", "N", 10), 4294967295), tmp_path)
    assert reading.column("N") == [4294967295]
    assert reading.table.schema.field("N").type == pa.int64()


def test_case_25_nineteen_digits_stay_exact(tmp_path: Path) -> None:
    """Case 25: an N(19,0), which GDAL turns into a float, keeps every digit."""
    reading = read(column(Field("N", "N", 19), 9223372036854775807, 9999999999999999999), tmp_path)
    assert reading.column("N") == [Decimal(9223372036854775807), Decimal(9999999999999999999)]


def test_case_26_logicals_are_booleans(tmp_path: Path) -> None:
    """Case 26: T F Y n ? are true false true false null; a blank is null; the rest is counted."""
    values = (b"T", b"F", b"Y", b"n", b"?", b" ", b"x")
    reading = read(column(Field("L", "L", 1), *values), tmp_path)
    assert reading.column("L") == [True, False, True, False, None, None, None]
    assert reading.table.schema.field("L").type == pa.bool_()
    assert reading.problems == {("L", "not_a_logical"): [7]}


def test_case_27_nul_bytes_end_a_text(tmp_path: Path) -> None:
    """Case 27: text ends at a NUL; what followed is counted; NULs alone are null."""
    values = (b"ab\0cd", b"\0\0\0", b"ef\0\0\0", b"gh\0  ")
    reading = read(column(Field("T", "C", 5), *values), tmp_path)
    assert reading.column("T") == ["ab", None, "ef", "gh"]
    assert reading.problems == {("T", "cut_at_nul"): [1]}


# --- names ------------------------------------------------------------------


def test_case_28_fields_of_one_name_are_both_kept(tmp_path: Path) -> None:
    """Case 28: NAME twice gives NAME and NAME_1 with their own values; the report has the map."""
    bundle = layer([point(0, 0)], [Field("NAME"), Field("NAME")], [("a", "b")])
    reading = read(bundle, tmp_path)
    assert (reading.column("NAME"), reading.column("NAME_1")) == (["a"], ["b"])
    names = [(each.original_name, each.name) for each in reading.report.fields]
    assert names == [("NAME", "NAME"), ("NAME", "NAME_1")]
    assert reading.table.schema.field("NAME_1").metadata == {b"original_name": b"NAME"}
    assert reading.notices["renamed_field"] == 1


def test_case_28_a_new_name_never_meets_an_old_one(tmp_path: Path) -> None:
    """Case 28: where the file has a NAME_1, the second NAME becomes NAME_2; case is ignored."""
    fields = [Field("NAME"), Field("name"), Field("Name_1"), Field("GEOMETRY")]
    reading = read(layer([point(0, 0)], fields, [("a", "b", "c", "d")]), tmp_path)
    expected = ["NAME", "name_2", "Name_1", "GEOMETRY_1", "geometry"]
    assert reading.table.schema.names == expected
    assert [reading.column(name) for name in expected[:4]] == [["a"], ["b"], ["c"], ["d"]]


def test_case_30_names_of_ten_characters_stay_distinct(tmp_path: Path) -> None:
    """Case 30: ABCDEFGHIJ and ABCDEFGH_1 are two names, the same on every upload."""
    fields = [Field("ABCDEFGHIJ"), Field("ABCDEFGH_1")]
    for _ in range(2):
        reading = read(layer([point(0, 0)], fields, [("a", "b")]), tmp_path)
        assert reading.table.schema.names == ["ABCDEFGHIJ", "ABCDEFGH_1", "geometry"]


@pytest.mark.parametrize(
    ("name", "stem"), [("PARCELS.SHP", "PARCELS"), ("a.b.shp", "a.b"), ("x", "x")]
)
def test_case_35_the_users_name_is_used_in_messages(name: str, stem: str, tmp_path: Path) -> None:
    """Case 35: whatever the case of the extension, reports and messages carry the user's name."""
    assert read(points(), tmp_path / "good", name).report.layer == stem
    with pytest.raises(MissingComponentError, match=f"^{stem}.dbf: "):
        read(without(points(), ".dbf"), tmp_path / "bad", name)


def test_case_51_examples_are_bounded_and_counts_are_not(tmp_path: Path) -> None:
    """Case 51: of 500 bad values the report counts all and shows the first twenty."""
    reading = read(column(Field("N", "N", 5), *[b"abc"] * 500), tmp_path)
    (problem,) = reading.report.values
    assert problem.count == 500
    assert [example.row for example in problem.examples] == list(range(1, 21))


def test_a_cadastre_is_read_whole(tmp_path: Path) -> None:
    """A parcel layer with holes and several shells comes out with all its rows and areas."""
    reading = read(parcels(rows=100), tmp_path)
    assert reading.report.rows.loaded == 100
    assert reading.column("PARCEL_ID") == list(range(1, 101))
    types = [each.file_type for each in reading.report.fields]
    assert types == ["N(10,0)", "C(24)", "N(14,2)", "D(8)", "L(1)"]
    assert all(shape.is_valid for shape in reading.geometries)
    holes = [len(part.interiors) for shape in reading.geometries for part in shape.geoms]
    assert sum(holes) == 5
    assert len(holes) == 102
