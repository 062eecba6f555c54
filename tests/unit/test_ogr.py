"""FlatGeobuf and GeoPackage: what GDAL makes of a layer, and the weak points of both forms."""

from __future__ import annotations

import datetime
import io
import json
import math
import sqlite3
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyogrio
import pyogrio.raw
import pytest
import shapely

from gate.errors import LostRowsError, UnexpectedError, UnsupportedError
from gate.shapefile.reader import open_layer
from gate.sinks import ogr
from gate.sinks.formats import Format, Loss, Origin, Written
from gate.sinks.ogr import MOST_COLUMNS, FlatGeobuf, GeoPackage, table_name
from gate.sinks.port import GEOMETRY_TYPE
from tests import shapefiles
from tests.layers import Layer, batch, points, wkb
from tests.shapefiles import POINT, POLYGON, Z, line, multipoint, null, point, polygon, square

# What the module itself asks for; pytest forgets it from test to test.
pytestmark = pytest.mark.filterwarnings("ignore:'crs' was not provided:UserWarning")

ORIGIN = Origin("roads", {"bundle": "gs://uploads/in/roads"})
BOTH = pytest.mark.parametrize("form", [FlatGeobuf(), GeoPackage()], ids=["fgb", "gpkg"])
NAN_FIRST = b"\x01" + struct.pack("<IIdddd", 2, 2, math.nan, 3, 5, 5)
SQUARE = "POLYGON ((0 0, 1 0, 1 1, 0 0))"


def written(
    form: Format, layer: Layer, folder: Path, origin: Origin = ORIGIN
) -> tuple[Path, Written]:
    """Return the path of a dataset and what its writer says of it."""
    work = folder / "work"
    work.mkdir(parents=True)
    target = io.BytesIO()
    outcome = form.write(target, layer, origin, work)
    path = folder / f"roads{form.extension}"
    path.write_bytes(target.getvalue())
    return path, outcome


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows that another reader finds, without geometry, in the order of `n`."""
    table = pyogrio.raw.read_arrow(path, read_geometry=False)[1]
    return sorted(table.to_pylist(), key=lambda row: row.get("n") or 0)


def geometry_type(path: Path) -> str:
    """Return the type of a layer; "2.5D" is another word for Z."""
    stated: str = pyogrio.read_info(path)["geometry_type"]
    return f"{stated.removeprefix('2.5D ')} Z" if stated.startswith("2.5D ") else stated


def fields(**columns: pa.Array) -> Layer:
    """Return a layer of points with these columns and their number, `n`."""
    count = len(next(iter(columns.values())))
    columns = {"n": pa.array(range(count), pa.int64()), **columns}
    places = pa.array(wkb(*(f"POINT ({n} 0)" for n in range(count))), pa.binary())
    piece = pa.RecordBatch.from_pydict({**columns, "geometry": places})
    return Layer([piece], schema=piece.schema)


def shapes(kind: str, *pieces: list[bytes | None]) -> Layer:
    """Return a layer of a stated geometry type."""
    schema = batch([]).schema
    stated = schema.field("geometry").with_metadata({GEOMETRY_TYPE: kind.encode()})
    return Layer([batch(piece) for piece in pieces], schema=schema.set(2, stated))


@BOTH
def test_rows_crs_and_lineage_are_kept(form: Format, tmp_path: Path) -> None:
    """Issue 4: an independent reader finds rows, CRS, original names and lineage."""
    path, outcome = written(form, points(3), tmp_path)

    facts = pyogrio.read_info(path)
    lineage = json.loads(facts["layer_metadata"]["shapefile_gate"])
    assert outcome == Written(3)
    assert (facts["features"], facts["crs"], facts["layer_name"]) == (3, "EPSG:4326", "roads")
    assert lineage["bundle"] == "gs://uploads/in/roads"
    assert lineage["original_field_names"] == {"name": "NAME", "size": "SIZE"}
    assert lineage["versions"] == {"pyogrio": pyogrio.__version__}
    frame = pyogrio.read_dataframe(path).sort_values("size")
    assert frame["name"].to_list() == ["row 0", "row 1", "row 2"]
    assert frame.geometry.to_list() == [shapely.Point(n, -n) for n in range(3)]


@BOTH
def test_an_empty_layer_has_its_schema(form: Format, tmp_path: Path) -> None:
    """Case 7: no rows make a valid file with every field."""
    path, outcome = written(form, Layer([]), tmp_path)

    assert outcome == Written(0)
    assert list(pyogrio.read_info(path)["fields"]) == ["name", "size"]


@BOTH
def test_a_layer_without_crs_has_none(form: Format, tmp_path: Path) -> None:
    """Case 19: what is not known is not made up."""
    path, _ = written(form, points(1, geo_crs=None), tmp_path)

    assert pyogrio.read_info(path)["crs"] is None


@BOTH
def test_the_spatial_index_answers(form: Format, tmp_path: Path) -> None:
    """Issue 4: a reader that asks for a box gets what lies in it."""
    path, _ = written(form, points(1000), tmp_path)

    assert pyogrio.read_info(path)["capabilities"]["fast_spatial_filter"]
    assert len(pyogrio.raw.read_arrow(path, bbox=(9.5, -12.5, 12.5, -9.5))[1]) == 3


@BOTH
@pytest.mark.parametrize("first", [True, False], ids=["in the first batch", "later"])
@pytest.mark.parametrize(
    "odd",
    [None, *wkb("POINT EMPTY", "GEOMETRYCOLLECTION EMPTY"), NAN_FIRST],
    ids=["null", "empty", "empty collection", "not finite"],
)
def test_case_56_a_row_without_extent_costs_no_row(
    form: Format, first: bool, odd: bytes | None, tmp_path: Path
) -> None:
    """Case 56: every row is there, in FlatGeobuf without the index, which has no place for it."""
    plain = [batch(wkb(*(f"POINT ({n} {n})" for n in range(50))), "plain")] * 3
    strange = batch([*wkb("POINT (1 1)"), odd], "strange")
    pieces = [strange, *plain] if first else [*plain, strange, *plain]

    path, outcome = written(form, Layer(pieces), tmp_path)

    indexed = pyogrio.read_info(path)["capabilities"]["fast_spatial_filter"]
    assert outcome.rows == sum(piece.num_rows for piece in pieces)
    assert indexed == isinstance(form, GeoPackage)
    assert outcome.losses == (() if indexed else (Loss("no_spatial_index", "", 1),))
    found = pyogrio.raw.read_arrow(path)[1]
    names = [name for piece in pieces for name in piece.column("name").to_pylist()]
    assert sorted(found.column("name").to_pylist()) == sorted(names)
    assert found.num_rows == outcome.rows


def test_many_parts_cost_no_index(tmp_path: Path) -> None:
    """A geometry that only the slower way can measure has a place in the index like any other."""
    many = shapely.MultiPoint([(n, n) for n in range(300)])
    nested = shapely.GeometryCollection([many])

    _, outcome = written(FlatGeobuf(), Layer([batch([shapely.to_wkb(nested)])]), tmp_path)

    assert not outcome.losses


def test_rows_that_were_indexed_first_keep_their_values(tmp_path: Path) -> None:
    """Case 56: what is read back to leave the index out is what was written, dates included."""
    day = pa.array([datetime.date(2020, 2, 29), None], pa.date32())
    moment = pa.array([1577872800123, None], pa.timestamp("ms"))
    columns = {
        "i": pa.array([2**62, None]),
        "b": pa.array([True, None]),
        "d": day,
        "t": moment,
        "s": pa.array(["straße", None]),
        "x": pa.array([0.1, None]),
    }
    layer = fields(**columns)
    odd = layer.pieces[0].set_column(
        layer.schema.get_field_index("geometry"), "geometry", pa.nulls(2, pa.binary())
    )
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    plain, _ = written(FlatGeobuf(), layer, tmp_path / "1")
    mixed, _ = written(
        FlatGeobuf(), Layer([*layer.pieces, odd], schema=layer.schema), tmp_path / "2"
    )

    assert rows(mixed)[::2] == rows(plain)


@pytest.mark.parametrize(
    "texts",
    [
        ["POLYGON ((0 0, 1 0, 1 1, 0 0))", "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))", None],
        ["POLYGON ((0 0, 1 0, 1 1, 0 0))", None],
        ["MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))"] * 2,
        ["LINESTRING (0 0, 1 1)", "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))"],
        ["LINESTRING Z (0 0 5, 1 1 6)", None, "MULTILINESTRING Z ((0 0 5, 1 1 6))"],
        [None],
    ],
)
def test_single_shapes_become_the_only_part_of_multi_types(texts: list[str | None]) -> None:
    """Of a column, single shapes are wrapped, multi types and nulls are left as they are."""
    found = ogr._multi(pa.array(wkb(*texts), pa.binary())).to_pylist()
    for text, value in zip(texts, found, strict=True):
        if text is None:
            assert value is None
            continue
        shape, parts = shapely.from_wkb(value), shapely.get_parts(shapely.from_wkt(text))
        assert shape.geom_type.startswith("Multi")
        assert [part.wkt for part in shapely.get_parts(shape)] == [part.wkt for part in parts]


@BOTH
def test_integers_text_and_logicals_keep_type_and_value(form: Format, tmp_path: Path) -> None:
    """Cases 25, 26: 64-bit integers are exact, logicals are logicals, nulls are nulls."""
    columns = {
        "i": pa.array([2**62, None]),
        "b": pa.array([False, None]),
        "s": pa.array(["ß", None]),
    }
    path, outcome = written(form, fields(**columns), tmp_path)

    assert rows(path) == [
        {"n": 0, "i": 2**62, "b": False, "s": "ß"},
        {"n": 1, "i": None, "b": None, "s": None},
    ]
    assert not outcome.losses


def test_nan_is_counted_where_it_becomes_null(tmp_path: Path) -> None:
    """Issue 4: SQLite has no NaN; infinity it has."""
    values = pa.array([math.nan, math.inf, None])
    path, outcome = written(GeoPackage(), fields(v=values), tmp_path)

    assert [row["v"] for row in rows(path)] == [None, math.inf, None]
    assert outcome.losses == (Loss("number_as_null", "v", 1),)


def test_more_fields_than_a_geopackage_has_columns_are_refused(tmp_path: Path) -> None:
    """Issue 4: a layer that can never be written is told so at once; one field less is written."""
    numbers = {f"c{number}": pa.array([number]) for number in range(MOST_COLUMNS - 3)}
    _, outcome = written(GeoPackage(), fields(**numbers), tmp_path)
    assert outcome.rows == 1

    with pytest.raises(
        UnsupportedError, match=r"1999 fields are more than .* 1998; .*fewer fields"
    ):
        written(GeoPackage(), fields(**numbers, one=pa.array([1])), tmp_path / "more")


@BOTH
def test_decimals_are_text(form: Format, tmp_path: Path) -> None:
    """Case 25: GDAL would make another number of nineteen digits, so they are text."""
    values = pa.array([Decimal(10**19 - 1), None], pa.decimal128(19, 0))
    path, outcome = written(form, fields(v=values), tmp_path)

    assert [row["v"] for row in rows(path)] == ["9999999999999999999", None]
    assert outcome.losses == (Loss("decimal_as_text", "v", 1),)


def test_dates_become_times_in_flatgeobuf(tmp_path: Path) -> None:
    """Case 24: FlatGeobuf has no dates; first and last day are times at midnight, and counted."""
    days = [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]
    path, outcome = written(FlatGeobuf(), fields(d=pa.array(days, pa.date32())), tmp_path)

    midnights = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31), None]  # noqa: DTZ001
    assert [row["d"] for row in rows(path)] == midnights
    assert outcome.losses == (Loss("date_as_time", "d", 2),)


def test_dates_are_dates_in_a_geopackage(tmp_path: Path) -> None:
    """Case 24: first and last day are dates there."""
    days = [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]
    path, outcome = written(GeoPackage(), fields(d=pa.array(days, pa.date32())), tmp_path)

    assert [row["d"] for row in rows(path)] == days
    assert not outcome.losses


@BOTH
@pytest.mark.parametrize(
    "name", ["fid", "FID", "Geom", "geometry_1", "OGC_FID", "ogc_fid", "rowid"]
)
def test_no_name_of_a_field_gets_lost(form: Format, name: str, tmp_path: Path) -> None:
    """Issue 4: a field that is called like a column of the form's own keeps name and values."""
    path, outcome = written(form, fields(**{name: pa.array([7, 7, None])}), tmp_path)

    kept = "OGC_FID_1" if name == "OGC_FID" else name
    assert [row[kept] for row in rows(path)] == [7, 7, None]
    renamed = (Loss("renamed_column", name, 1),) if kept != name else ()
    assert outcome.losses == renamed


@BOTH
def test_stated_types_are_those_of_the_layer(form: Format, tmp_path: Path) -> None:
    """Issue 4: polygons and multipolygons are one type, the multi one, and nulls have none."""
    pieces = [wkb(SQUARE, f"MULTI{SQUARE.replace('((', '(((').replace('))', ')))')}"), wkb(None)]
    path, _ = written(form, shapes("MultiPolygon", *pieces), tmp_path)

    found = pyogrio.read_dataframe(path)
    assert geometry_type(path) == "MultiPolygon"
    assert {each.geom_type for each in found.geometry if each} == {"MultiPolygon"}
    assert {each.area for each in found.geometry if each} == {0.5}


@BOTH
def test_heights_are_kept(form: Format, tmp_path: Path) -> None:
    """Case 18: a layer with Z is one with Z, and its coordinates have it."""
    layer = shapes("MultiLineString Z", wkb("LINESTRING Z (0 0 1, 1 1 2)"))
    path, _ = written(form, layer, tmp_path)

    (line,) = pyogrio.read_dataframe(path).geometry
    assert geometry_type(path) == "MultiLineString Z"
    assert shapely.get_coordinates(line, include_z=True)[:, 2].tolist() == [1, 2]


@BOTH
def test_a_layer_without_a_stated_type_takes_any(form: Format, tmp_path: Path) -> None:
    """Issue 4: where nobody says which shapes there are, each stays what it is."""
    path, _ = written(form, shapes("", wkb(SQUARE, "POINT (1 2)", None)), tmp_path)

    found = pyogrio.read_dataframe(path).geometry
    assert geometry_type(path) == "Unknown"
    assert {each.geom_type for each in found if each} == {"Polygon", "Point"}


def of_shapefile(*shapes: shapefiles.Shape) -> shapefiles.Bundle:
    """Return a shapefile of these shapes, each with its number."""
    numbers = [(number,) for number in range(len(shapes))]
    return shapefiles.layer(list(shapes), [shapefiles.Field("n", "N", 9)], numbers)


@BOTH
@pytest.mark.parametrize(
    ("bundle", "kind"),
    [
        (of_shapefile(point(1, 2), point(math.nan, math.nan), null()), "Point"),
        (of_shapefile(point(1, 2, 3, kind=POINT + Z), null()), "Point Z"),
        (of_shapefile(multipoint((1, 2), (3, 4)), multipoint()), "MultiPoint"),
        (of_shapefile(line([(0, 0), (1, 1)]), line(), null()), "MultiLineString"),
        (
            of_shapefile(
                polygon(square(0, 0)), polygon(square(0, 0), square(5, 5)), polygon(), null()
            ),
            "MultiPolygon",
        ),
        (
            of_shapefile(
                polygon(square(0, 0, 1, 7.0), kind=POLYGON + Z), polygon(kind=POLYGON + Z), null()
            ),
            "MultiPolygon Z",
        ),
        (of_shapefile(null(), null()), "Unknown"),
    ],
    ids=["points", "points Z", "multipoints", "lines", "polygons", "polygons Z", "nulls"],
)
def test_every_kind_of_shapefile_has_one_type(
    form: Format, bundle: shapefiles.Bundle, kind: str, tmp_path: Path
) -> None:
    """Cases 13, 18: what is read of any kind is written, null and empty shapes included."""
    with open_layer(shapefiles.write(bundle, tmp_path / "in"), name="roads") as layer:
        path, outcome = written(form, layer, tmp_path)
        count = layer.report().rows.in_file

    assert outcome.rows == count == len(rows(path))
    assert geometry_type(path) == kind


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("roads", "roads"),
        ("Straße der 1", "strasse_der_1"),
        ("gpkg_contents", "layer_gpkg_contents"),
        ("SQLite_x", "layer_sqlite_x"),
        ("a'; DROP TABLE x", "a_drop_table_x"),
    ],
)
def test_the_table_has_a_plain_name(name: str, table: str, tmp_path: Path) -> None:
    """Issue 4: no name of a layer meets a table of the form's own or becomes SQL."""
    assert table_name(name) == table
    path, _ = written(GeoPackage(), points(1), tmp_path, Origin(name, {}))

    with sqlite3.connect(path) as database:
        found = database.execute("SELECT table_name, identifier FROM gpkg_contents").fetchall()
    database.close()
    assert found == [(table, name)]


@BOTH
def test_an_error_of_the_table_passes_through(form: Format, tmp_path: Path) -> None:
    """A table that fails half-way fails the dataset with its own error, not with GDAL's."""
    with pytest.raises(LostRowsError):
        written(form, points(3, error=LostRowsError("2 of 3")), tmp_path)


@BOTH
def test_an_error_of_gdal_is_unexpected(form: Format, tmp_path: Path) -> None:
    """A file that cannot be made (a full disk, say) is tried again, and says what GDAL said."""
    with pytest.raises(UnexpectedError, match="GDAL"):
        form.write(io.BytesIO(), points(1), ORIGIN, tmp_path / "nowhere")


@BOTH
def test_rows_that_are_missing_are_noticed(
    form: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Principle 6: a file that holds fewer rows than were given is no dataset."""
    real = ogr._Layer.cast
    monkeypatch.setattr(ogr._Layer, "cast", lambda self, given: real(self, given).slice(1))

    with pytest.raises(UnexpectedError, match="2 of 3 rows"):
        written(form, points(3), tmp_path)
