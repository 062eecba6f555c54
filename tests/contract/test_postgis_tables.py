"""What a table of PostGIS is made from: types, names, CRS, comments, and whatever COPY refuses."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gate.errors import UnsupportedError
from gate.sinks.port import Published
from tests.contract.postgis_bench import PostgisBench
from tests.layers import SCHEMA, WGS84, Layer, batch, points, publication, revision, wkb
from tests.reading import read_options
from tests.shapefiles import (
    LINE,
    MULTIPATCH,
    MULTIPOINT,
    POINT,
    POLYGON,
    Bundle,
    Field,
    M,
    Shape,
    Z,
    column,
    layer,
    line,
    multipatch,
    multipoint,
    null,
    parcels,
    point,
    polygon,
    square,
    write,
)

pytestmark = pytest.mark.emulator

OF = revision(shp=10)


def publish(bench: PostgisBench, bundle: Bundle, folder: Path, **options: Any) -> Published:
    """Read a bundle for real and publish it as `in/roads`."""
    from gate.shapefile.reader import open_layer

    opened = open_layer(write(bundle, folder), name="roads", options=read_options(**options))
    with opened as table:
        outcome = bench.sink.publish(
            publication(OF), table, lambda: table.report().as_json(), lambda: True
        )
    assert isinstance(outcome, Published)
    return outcome


def columns(bench: PostgisBench, table: str = "in__roads") -> dict[str, tuple[str, str | None]]:
    """Return the type and the comment of each column."""
    found = bench.rows(
        "select attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum)"
        " from pg_attribute where attrelid = %s::regclass and attnum > 0",
        (table,),
    )
    return {name: (of, comment) for name, of, comment in found}


def test_columns_have_types_and_the_names_of_the_file(
    postgis_sink_bench: PostgisBench, tmp_path: Path
) -> None:
    """Issue 4: each field has the type it means, a plain name, and its own name as a comment."""
    fields = (
        Field("ID", "N", 9),
        Field("Big", "N", 25),
        Field("AREA", "N", 12, 2),
        Field("Größe", "C", 10),
        Field("DAY", "D", 8),
        Field("BUILT", "L", 1),
        Field("MOMENT", "@", 8),
    )
    moment = datetime.datetime.fromisoformat("2020-05-06 07:08:09")
    day = datetime.date(2020, 1, 31)
    values = (7, 10**24, 1.25, "Höfe", day, True, moment)
    bundle = layer([point(1, 2), point(3, 4)], fields, [values, (None,) * 7])
    publish(postgis_sink_bench, bundle, tmp_path)

    assert columns(postgis_sink_bench) == {
        "id": ("bigint", "ID"),
        "big": ("numeric", "Big"),
        "area": ("double precision", "AREA"),
        "grosse": ("text", "Größe"),
        "day": ("date", "DAY"),
        "built": ("boolean", "BUILT"),
        "moment": ("timestamp without time zone", "MOMENT"),
        "geometry": ("geometry(Point,4326)", None),
    }
    first, second = postgis_sink_bench.rows(
        "select id, big, area, grosse, day, built, moment, st_astext(geometry) from in__roads"
    )
    assert first == (7, Decimal(10**24), 1.25, "Höfe", day, True, moment, "POINT(1 2)")
    assert second == (*(None,) * 7, "POINT(3 4)")


TRIANGLE = ((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0))
PATH = ((0.0, 0.0), (1.0, 1.0))
PATH_Z = ((0.0, 0.0, 5.0), (1.0, 1.0, 6.0))


@pytest.mark.parametrize(
    ("shapes", "of"),
    [
        ([point(1, 2), null()], "geometry(Point,4326)"),
        ([point(1, 2, 3, kind=POINT + Z)], "geometry(PointZ,4326)"),
        ([point(1, 2, 3, kind=POINT + M)], "geometry(Point,4326)"),
        ([multipoint((1, 2), (3, 4)), multipoint((5, 6))], "geometry(MultiPoint,4326)"),
        ([multipoint((1, 2, 3), kind=MULTIPOINT + Z)], "geometry(MultiPointZ,4326)"),
        ([line(PATH), line(PATH, PATH)], "geometry(MultiLineString,4326)"),
        ([line(PATH_Z, kind=LINE + Z)], "geometry(MultiLineStringZ,4326)"),
        ([line(PATH_Z, kind=LINE + M)], "geometry(MultiLineString,4326)"),
        (
            [polygon(square(0, 0)), polygon(square(0, 0), square(5, 5)), null()],
            "geometry(MultiPolygon,4326)",
        ),
        ([polygon(square(0, 0, 1.0, 9.0), kind=POLYGON + Z)], "geometry(MultiPolygonZ,4326)"),
        ([polygon(square(0, 0, 1.0, 9.0), kind=POLYGON + M)], "geometry(MultiPolygon,4326)"),
        ([multipatch((0, TRIANGLE))], "geometry(MultiPolygonZ,4326)"),
        ([Shape(LINE), line(PATH)], "geometry(MultiLineString,4326)"),
        ([Shape(POLYGON + Z), Shape(MULTIPATCH)][:1], "geometry(MultiPolygonZ,4326)"),
        ([point(float("nan"), float("nan")), point(1, float("inf"))], "geometry(Point,4326)"),
        ([polygon(((0, 0), (1, 1)))], "geometry(MultiPolygon,4326)"),
        ([line(((1, 1),))], "geometry(MultiLineString,4326)"),
        ([null()], "geometry(Geometry,4326)"),
    ],
)
def test_the_geometry_is_typed(
    postgis_sink_bench: PostgisBench, tmp_path: Path, shapes: list[Shape], of: str
) -> None:
    """Issue 4: each kind of layer has the column of one type that holds all of its rows."""
    outcome = publish(postgis_sink_bench, layer(shapes), tmp_path)

    assert columns(postgis_sink_bench)["geometry"] == (of, None)
    nulls = sum(shape.kind == 0 for shape in shapes)
    found = postgis_sink_bench.rows("select count(*), count(geometry) from in__roads")
    assert found == [(outcome.rows, outcome.rows - nulls)]


def test_a_table_is_indexed_and_analysed(postgis_sink_bench: PostgisBench, tmp_path: Path) -> None:
    """Issue 4: the geometry has a GiST index, and the planner knows the table."""
    publish(postgis_sink_bench, parcels(300), tmp_path)

    (definition,) = postgis_sink_bench.rows(
        "select indexdef from pg_indexes where tablename = 'in__roads' and schemaname = %s",
        (postgis_sink_bench.schema,),
    )
    assert "USING gist (geometry)" in definition[0]
    counted = postgis_sink_bench.rows(
        "select reltuples::int from pg_class where oid = 'in__roads'::regclass"
    )
    assert counted == [(300,)]
    inside = "select count(*) from in__roads where geometry && st_makeenvelope(0, 50, 1, 51, 4326)"
    assert postgis_sink_bench.rows(inside) == [(300,)]


@pytest.mark.parametrize(
    ("crs", "srid", "told"),
    [
        (WGS84, 4326, ""),
        ({"type": "ProjectedCRS", "id": {"authority": "ESRI", "code": 102100}}, 102100, ""),
        (
            {"type": "ProjectedCRS", "id": {"authority": "EPSG", "code": 999999}, "name": "N"},
            0,
            "N",
        ),
        ({"type": "ProjectedCRS", "name": "Grid of the mine"}, 0, "Grid of the mine"),
        (None, 0, "no CRS"),
    ],
)
def test_the_srid_is_that_of_the_authority(
    postgis_sink_bench: PostgisBench, crs: Any, srid: int, told: str
) -> None:
    """Issue 4: a CRS that PostGIS does not know by its authority has SRID 0, and is told whole."""
    postgis_sink_bench.publish(OF, points(2, geo_crs=crs))

    assert postgis_sink_bench.rows("select distinct st_srid(geometry) from in__roads") == [(srid,)]
    ((comment,),) = postgis_sink_bench.rows("select obj_description('in__roads'::regclass)")
    assert comment.startswith("gs://uploads/in/roads")
    assert (told in comment) if told else ("CRS" not in comment)
    assert postgis_sink_bench.rows("select crs from _gate_ledger") == [(crs,)]


def test_case_58_a_cut_character_does_not_stop_the_table(
    postgis_sink_bench: PostgisBench, tmp_path: Path
) -> None:
    """Case 58: a text that was cut inside a character is loaded with a replacement sign."""
    publish(postgis_sink_bench, column(Field("T", "C", 4), b"caf\xc3", b"ok"), tmp_path)

    assert postgis_sink_bench.rows("select t from in__roads") == [("caf\ufffd",), ("ok",)]


def test_nul_in_values_costs_no_row(postgis_sink_bench: PostgisBench, tmp_path: Path) -> None:
    """Case 27: NUL, which no text of PostgreSQL holds, ends a value, and that is counted."""
    publish(postgis_sink_bench, column(Field("T", "C", 5), b"ab\0cd", b"\0\0\0"), tmp_path)

    assert postgis_sink_bench.rows("select t from in__roads") == [("ab",), (None,)]
    ((report,),) = postgis_sink_bench.rows("select report from _gate_ledger")
    assert "cut_at_nul" in str(report)


def test_nul_in_names_and_reports_costs_no_layer(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a sign stands for NUL, which no text of PostgreSQL holds."""
    schema = pa.schema(
        [
            pa.field("na\0me", pa.string(), metadata={"original_name": "NA\0ME"}),
            pa.field("size", pa.int64()),
            pa.field("geometry", pa.binary()),
        ]
    )
    texts = pa.array(["ab", None, "", "plain"], pa.string())
    shapes = pa.array(wkb(*["POINT (1 2)"] * 4), pa.binary())
    rows = pa.RecordBatch.from_arrays([texts, pa.array([1, 2, 3, 4]), shapes], schema=schema)
    layer_ = Layer([rows, rows.slice(1, 2)], schema=schema)
    outcome = postgis_sink_bench.sink.publish(
        publication(OF), layer_, lambda: {"text": "x\0y", "deep": [{"k\0": "\0"}]}, lambda: True
    )

    assert isinstance(outcome, Published)
    found = postgis_sink_bench.rows("select na_me from in__roads order by ctid")
    assert [text for (text,) in found] == ["ab", None, "", "plain", None, ""]
    ((report,),) = postgis_sink_bench.rows("select report from _gate_ledger")
    assert report["deep"] == [{"k\ufffd": "\ufffd"}]
    assert columns(postgis_sink_bench)["na_me"][1] == "NA\ufffdME"


NASTY = 'x"); drop table "victim"; --'


@pytest.mark.parametrize(
    "name",
    [
        f"in/{NASTY}.shp",
        "in/%s %(x)s {table} {}.shp",
        "in/'; drop table victim; --.shp",
        "in/" + "\U0001f5fa" * 60 + ".shp",
        "in/" + "long" * 60 + ".shp",
        "select.shp",
        "_gate_ledger.shp",
        "spatial_ref_sys.shp",
        "../../etc/passwd.shp",
        "in/nul\0name.shp",
    ],
)
def test_a_name_cannot_become_sql(postgis_sink_bench: PostgisBench, name: str) -> None:
    """Issue 4: whatever bundle, field and layer are called, exactly their table comes of it."""
    postgis_sink_bench.run("create table victim ()")
    of = revision(name)
    schema = pa.schema(
        [
            pa.field(NASTY, pa.string(), metadata={"original_name": NASTY}),
            pa.field("SELECT", pa.int64(), metadata={"original_name": "%s {table} '"}),
            SCHEMA.field("geometry"),
        ]
    )
    pieces = [pa.RecordBatch.from_arrays(batch(wkb("POINT (1 2)")).columns, schema=schema)]
    outcome = postgis_sink_bench.publish(of, Layer(pieces, schema=schema))

    assert isinstance(outcome, Published)
    (made,) = set(postgis_sink_bench.tables()) - {"victim"}
    assert len(made.encode()) <= 63
    assert not made.startswith("_")
    assert outcome.location.endswith(f"/{postgis_sink_bench.schema}.{made}")
    found = columns(postgis_sink_bench, made)
    assert {comment for _, comment in found.values()} == {NASTY, "%s {table} '", None}
    assert postgis_sink_bench.sink.current(of) == Published(outcome.location, 1, already=True)


def test_a_type_without_a_column_is_refused(postgis_sink_bench: PostgisBench) -> None:
    """A field that PostgreSQL has no type for is named, and nothing is stored."""
    schema = pa.schema([pa.field("d", pa.duration("s")), SCHEMA.field("geometry")])

    with pytest.raises(UnsupportedError, match="field d: duration"):
        postgis_sink_bench.publish(OF, Layer([], schema=schema))
    assert postgis_sink_bench.tables() == []


@pytest.mark.parametrize(("fields", "limit"), [(1600, "1600 columns"), (1100, "row is too big")])
def test_a_layer_beyond_the_limits_is_refused(
    postgis_sink_bench: PostgisBench, fields: int, limit: str
) -> None:
    """Issue 4: too many columns, or rows that fit no page, are told at once and not retried."""
    columns = [pa.field(f"c{number}", pa.int64()) for number in range(fields)]
    schema = pa.schema([*columns, SCHEMA.field("geometry")])
    values = [pa.array([1], pa.int64())] * fields
    piece = pa.RecordBatch.from_arrays([*values, pa.array(wkb("POINT (1 2)"))], schema=schema)

    with pytest.raises(UnsupportedError, match=f"{limit}.*fewer or shorter fields"):
        postgis_sink_bench.publish(OF, Layer([piece], schema=schema))
    assert postgis_sink_bench.tables() == []


def test_the_ledger_says_what_is_published(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a row names bucket, basename and layer, revision, order, job, rows and time."""
    packed = revision("in/a.zip", zip=2**62)
    outcome = postgis_sink_bench.publish(packed, points(2), 7, name="x/b")

    assert isinstance(outcome, Published)
    (row,) = postgis_sink_bench.rows(
        "select bucket, basename, layer, revision_id, revision_order, job_id, fence, row_count,"
        " location, published_at > now() - interval '1 hour' from _gate_ledger"
    )
    assert row == (
        *("uploads", "in/a.zip", "x/b", packed.id, Decimal(2**62), "b" * 32, 7, 2),
        *(outcome.location, True),
    )
    assert "gate@" not in outcome.location
