"""Newline-delimited GeoJSON: what the RFCs ask for, and what becomes of what JSON cannot hold."""

from __future__ import annotations

import datetime
import io
import json
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyogrio
import pytest
import shapely

from gate.errors import ConfigurationError, LostRowsError
from gate.sinks.formats import Loss, Origin, Written
from gate.sinks.geojson import GeoJsonSeq
from tests.layers import WGS84, Layer, batch, points, wkb

ORIGIN = Origin("roads", {})
CLOCKWISE = "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))"


def written(layer: Layer, folder: Path) -> tuple[str, Written]:
    """Return the text of a dataset and what its writer says of it."""
    target = io.BytesIO()
    outcome = GeoJsonSeq().write(target, layer, ORIGIN, folder)
    return target.getvalue().decode(), outcome


def column(values: pa.Array, folder: Path, name: str = "V") -> tuple[list[Any], Written]:
    """Return what a reader finds of the values of one column."""
    schema = pa.schema([(name, values.type), ("geometry", pa.binary())])
    piece = pa.RecordBatch.from_arrays([values, pa.nulls(len(values), pa.binary())], schema=schema)
    text, outcome = written(Layer([piece], schema=schema), folder)
    return [
        json.loads(line, parse_constant=_refused)["properties"][name] for line in text.splitlines()
    ], outcome


def _refused(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def geometries(folder: Path, *texts: str | None) -> tuple[list[Any], Written]:
    """Return the geometry member of each feature."""
    return of_wkb(wkb(*texts), folder)


def of_wkb(values: list[bytes | None], folder: Path) -> tuple[list[Any], Written]:
    """Return the geometry member of each feature."""
    text, outcome = written(Layer([batch(values)]), folder)
    lines = text.splitlines()
    return [json.loads(line, parse_constant=_refused)["geometry"] for line in lines], outcome


def test_each_row_is_a_feature_on_a_line_of_its_own(tmp_path: Path) -> None:
    """Issue 4: RFC 7946 features, each followed by a line feed and by nothing else."""
    text, outcome = written(points(2), tmp_path)

    assert text == (
        '{"type":"Feature","properties":{"name":"row 0","size":0},'
        '"geometry":{"type":"Point","coordinates":[0,0]}}\n'
        '{"type":"Feature","properties":{"name":"row 1","size":1},'
        '"geometry":{"type":"Point","coordinates":[1,-1]}}\n'
    )
    assert outcome == Written(2)


def test_another_reader_finds_rows_and_types(tmp_path: Path) -> None:
    """Issue 4: GDAL reads what was written, with its values and in WGS 84."""
    path = tmp_path / "roads.geojsonl"
    path.write_text(written(points(3), tmp_path)[0])

    frame = pyogrio.read_dataframe(path)

    assert frame.crs == "EPSG:4326"
    assert frame["size"].to_list() == [0, 1, 2]
    assert frame.geometry.to_list() == [shapely.Point(n, -n) for n in range(3)]


def test_an_empty_layer_is_an_empty_file(tmp_path: Path) -> None:
    """Case 7: no rows are no lines, whether there is a batch or not."""
    assert written(Layer([]), tmp_path) == ("", Written(0))
    assert written(Layer([batch([])]), tmp_path) == ("", Written(0))


def test_a_layer_without_fields_has_empty_properties(tmp_path: Path) -> None:
    """RFC 7946, 3.2: the member is there, whatever is in it."""
    schema = pa.schema([("geometry", pa.binary())])
    piece = pa.RecordBatch.from_arrays([pa.array(wkb("POINT (1 2)"))], schema=schema)

    text, _ = written(Layer([piece], schema=schema), tmp_path)

    assert json.loads(text)["properties"] == {}


@pytest.mark.parametrize("crs", [None, {"id": {"authority": "EPSG", "code": 25832}}, {"name": "x"}])
def test_rows_in_another_crs_are_refused(crs: Any, tmp_path: Path) -> None:
    """RFC 7946, 4: there is no other CRS, so nothing is written as if it were in it."""
    with pytest.raises(ConfigurationError, match="TARGET_CRS=EPSG:4326"):
        written(points(1, geo_crs=crs), tmp_path)


@pytest.mark.parametrize("identity", [("EPSG", 4326), ("OGC", "CRS84")])
def test_both_names_of_wgs84_are_taken(identity: tuple[str, Any], tmp_path: Path) -> None:
    """RFC 7946, 4: longitude first is what the rows have in either."""
    crs = {**WGS84, "id": {"authority": identity[0], "code": identity[1]}}

    assert written(points(1, geo_crs=crs), tmp_path)[1].rows == 1


@pytest.mark.parametrize(
    "text",
    ["plain", "", 'a "quoted" word', "back\\slash", "two\nlines", "\x00\x1f", "straße 🗺", None],
)
def test_text_is_what_it_was(text: str | None, tmp_path: Path) -> None:
    """RFC 8259, 7: quotes, backslashes and control characters are escaped, the rest is not."""
    assert column(pa.array([text, "x"]), tmp_path) == ([text, "x"], Written(2))


def test_a_name_is_escaped(tmp_path: Path) -> None:
    """A field may be called whatever it is called in the file."""
    assert column(pa.array([1]), tmp_path, 'a"b\\ß')[0] == [1]


def test_numbers_logicals_and_dates_have_their_json(tmp_path: Path) -> None:
    """Cases 22, 24, 26: dates are ISO text, first and last day included, logicals are logicals."""
    days = [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]
    assert column(pa.array(days, pa.date32()), tmp_path)[0] == ["0001-01-01", "9999-12-31", None]
    assert column(pa.array([True, False, None]), tmp_path)[0] == [True, False, None]
    assert column(pa.array([0.1, 1e300, -0.0, None]), tmp_path)[0] == [0.1, 1e300, 0, None]
    moment = pa.array([1577872800123, None], pa.timestamp("ms"))
    assert column(moment, tmp_path)[0] == ["2020-01-01T10:00:00.123", None]


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    """Issue 4: JSON has no NaN and no infinity; they are null, and are counted."""
    found = column(pa.array([math.nan, math.inf, -math.inf, 1.5, None]), tmp_path)

    assert found == ([None, None, None, 1.5, None], Written(5, (Loss("number_as_null", "V", 3),)))


def test_integers_that_readers_would_round_are_text(tmp_path: Path) -> None:
    """RFC 7493, 2.2: beyond 2^53 - 1 an integer is text, so that it stays exact, and is counted."""
    exact = 2**53 - 1
    values = pa.array([exact, -exact, exact + 1, -exact - 1, 2**62, None], pa.int64())

    found, outcome = column(values, tmp_path)

    assert found == [exact, -exact, str(exact + 1), str(-exact - 1), str(2**62), None]
    assert outcome.losses == (Loss("integer_as_text", "V", 3),)


def test_decimals_are_text(tmp_path: Path) -> None:
    """Case 25: nineteen digits and more are exact, as text, all of a column alike."""
    values = pa.array([Decimal(10**19 - 1), Decimal(5), None], pa.decimal128(19, 0))

    found, outcome = column(values, tmp_path)

    assert found == ["9999999999999999999", "5", None]
    assert outcome.losses == (Loss("decimal_as_text", "V", 2),)


def test_geometry_that_json_cannot_hold_is_null(tmp_path: Path) -> None:
    """Cases 13, 15: null, empty, not finite and no geometry to GEOS are null; each is counted."""
    nan_vertex = b"\x01" + struct.pack("<IIdddd", 2, 2, 5, 5, math.nan, 9)
    open_ring = b"\x01" + struct.pack("<IIIdddd", 3, 1, 2, 0, 0, 1, 1)
    values = [
        None,
        *wkb("POINT EMPTY", "POLYGON EMPTY"),
        nan_vertex,
        open_ring,
        *wkb("POINT (1 2)"),
    ]

    found, outcome = of_wkb(values, tmp_path)

    assert found == [None] * 5 + [{"type": "Point", "coordinates": [1, 2]}]
    assert outcome.rows == 6
    assert set(outcome.losses) == {
        Loss("empty_as_null", "", 2),
        Loss("position_as_null", "", 1),
        Loss("shape_as_null", "", 1),
    }


def test_every_type_is_kept(tmp_path: Path) -> None:
    """Issue 4: one layer may hold a type and its multi type; each stays what it is."""
    texts = ["POINT (1 2)", "MULTIPOINT ((1 2), (3 4))", "LINESTRING (0 0, 1 1)", CLOCKWISE]
    found, _ = geometries(tmp_path, *texts, "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))")

    kinds = [each["type"] for each in found]
    assert kinds == ["Point", "MultiPoint", "LineString", "Polygon", "MultiLineString"]


def test_shells_run_counter_clockwise_and_holes_do_not(tmp_path: Path) -> None:
    """RFC 7946, 3.1.6: the right-hand rule holds however the rings came."""
    for text in (CLOCKWISE, "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))"):
        (found,), _ = geometries(tmp_path, text)
        shell, hole = (shapely.LinearRing(ring) for ring in found["coordinates"])
        assert (shell.is_ccw, hole.is_ccw) == (True, False)


def test_coordinates_have_seven_decimals(tmp_path: Path) -> None:
    """RFC 7946, 11.2: no more digits than mean something; heights are kept."""
    (flat, high), _ = geometries(tmp_path, "POINT (1.123456789 -2.00000001)", "POINT Z (1 2 3.5)")

    assert flat["coordinates"] == [1.1234568, -2]
    assert high["coordinates"] == [1, 2, 3.5]


@pytest.mark.parametrize(
    "odd",
    [
        None,
        *wkb("POINT EMPTY", "POINT Z (1 2 3)", "LINESTRING (0 0, 1 1)", "MULTIPOINT ((1 2))"),
        b"\x00" + struct.pack(">Idd", 1, 5, 6),
        b"\x01" + struct.pack("<Idd", 1, math.inf, 6),
    ],
    ids=["null", "empty", "Z", "line", "multipoint", "big-endian", "infinite"],
)
def test_points_are_the_same_whatever_stands_beside_them(odd: bytes | None, tmp_path: Path) -> None:
    """Plain points take a shorter way where a batch holds nothing else, to the same result."""
    plain = wkb("POINT (1.123456789 -7)", "POINT (-180 1e-9)", "POINT (0.1 90)")
    alone, _ = of_wkb(plain, tmp_path)
    mixed, _ = of_wkb([odd, *plain], tmp_path)
    expected = [[1.1234568, -7], [-180, 0], [0.1, 90]]

    assert alone == mixed[1:] == [{"type": "Point", "coordinates": each} for each in expected]


def test_points_of_a_slice_are_its_own(tmp_path: Path) -> None:
    """A batch that is part of a larger one holds its own rows only."""
    whole = batch(wkb(*(f"POINT ({n} 0)" for n in range(9))))
    text, _ = written(Layer([whole.slice(3, 2)]), tmp_path)

    found = [json.loads(line) for line in text.splitlines()]
    assert [each["geometry"]["coordinates"] for each in found] == [[3, 0], [4, 0]]


def test_an_error_of_the_table_passes_through(tmp_path: Path) -> None:
    """A table that fails half-way fails the dataset with its own error."""
    with pytest.raises(LostRowsError):
        written(points(3, error=LostRowsError("2 of 3")), tmp_path)


def test_an_error_of_the_target_passes_through(tmp_path: Path) -> None:
    """A lost upload ends the writing, though another thread met it."""

    class Lost(io.BytesIO):
        def write(self, piece: Any, /) -> int:
            raise ConnectionError("lost")

    with pytest.raises(ConnectionError):
        GeoJsonSeq().write(Lost(), points(3), ORIGIN, tmp_path)
