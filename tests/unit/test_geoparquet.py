"""GeoParquet files: the metadata against the rules of the standard, the rows by another reader."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from gate.errors import CorruptError, LostRowsError, UnexpectedError, UnsupportedError
from gate.sinks import geometry, geoparquet
from tests.layers import SCHEMA, WGS84, Layer, batch, points, wkb

SQUARE = "POLYGON ((0 0, 0 1, 1 1, 1 0, 0 0))"
TWO_SQUARES = "MULTIPOLYGON (((0 0, 0 1, 1 1, 1 0, 0 0)), ((5 5, 5 6, 6 6, 6 5, 5 5)))"
LINEAGE = {"bundle": "gs://uploads/in/roads", "revision": "abc"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file is written."""
    return tmp_path / "layer.parquet"


def stored(path: Path, *texts: str | None, crs: Any = None) -> dict[str, Any]:
    """Write geometries given as WKT, and return the geometry column's metadata, checked."""
    geoparquet.write(path, Layer([batch(wkb(*texts))], geo_crs=crs), LINEAGE)
    return checked(path)


def checked(path: Path) -> dict[str, Any]:
    """Hold a file's metadata against the rules of GeoParquet 1.1 and return its column's."""
    raw = pq.read_metadata(path).metadata[b"geo"]
    geo = json.loads(raw, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    assert geo.keys() == {"version", "primary_column", "columns"}
    assert geo["version"] == "1.1.0"
    assert geo["columns"].keys() == {geo["primary_column"]} == {"geometry"}
    column: dict[str, Any] = geo["columns"]["geometry"]
    assert {"encoding", "geometry_types", "crs", "covering"} <= column.keys()
    assert column.keys() <= {"encoding", "geometry_types", "crs", "covering", "bbox"}
    assert column["encoding"] == "WKB"
    _check_types(column["geometry_types"])
    if "bbox" in column:
        _check_bbox(column["bbox"])
    _check_columns(pq.read_schema(path), column["covering"])
    return column


def _check_types(types: list[str]) -> None:
    names = ("Point", "LineString", "Polygon", "GeometryCollection")
    allowed = {*names, "MultiPoint", "MultiLineString", "MultiPolygon"}
    assert len(types) == len(set(types))
    assert {name.removesuffix(" Z") for name in types} <= allowed


def _check_bbox(bbox: list[float]) -> None:
    assert len(bbox) in (4, 6)
    half = len(bbox) // 2
    assert all(isinstance(bound, float) and math.isfinite(bound) for bound in bbox)
    assert all(low <= high for low, high in zip(bbox[:half], bbox[half:], strict=True))


def _check_columns(schema: pa.Schema, covering: dict[str, Any]) -> None:
    """Check the columns at the root: WKB is BYTE_ARRAY, a covering a struct of floats."""
    assert schema.field("geometry").type == pa.binary()
    corners = covering["bbox"]
    assert list(corners) == ["xmin", "ymin", "xmax", "ymax"]
    (name,) = {place[0] for place in corners.values()}
    assert [place[1] for place in corners.values()] == list(corners)
    box = schema.field(name).type
    assert [box.field(index).name for index in range(box.num_fields)] == list(corners)
    assert {box.field(index).type for index in range(box.num_fields)} == {pa.float32()}


def test_another_reader_sees_rows_crs_and_geometry(path: Path) -> None:
    """GeoPandas reads back what was written: attributes, geometries and CRS."""
    texts = [SQUARE, None, TWO_SQUARES]
    geoparquet.write(path, Layer([batch(wkb(*texts))], geo_crs=WGS84), LINEAGE)

    frame = geopandas.read_parquet(path)

    assert frame.crs.to_epsg() == 4326
    assert list(frame["name"]) == ["row 0", "row 1", "row 2"]
    assert frame.geometry.iloc[0].equals(shapely.from_wkt(SQUARE))
    assert frame.geometry.iloc[1] is None
    assert frame.geometry.iloc[2].area == 2


def test_another_reader_filters_by_the_covering_column(path: Path) -> None:
    """GeoPandas uses the covering column to read only what touches a box."""
    geoparquet.write(path, points(100), LINEAGE)

    assert len(geopandas.read_parquet(path, bbox=(9.5, -20, 12.5, 0))) == 3


def test_an_unknown_crs_is_null(path: Path) -> None:
    """Case 20: without CRS the key is null, for a missing key would say OGC:CRS84."""
    assert stored(path, SQUARE)["crs"] is None
    assert geopandas.read_parquet(path).crs is None


def test_a_known_crs_is_projjson(path: Path) -> None:
    """Issue 2: the CRS is stored as the PROJJSON that the table gave."""
    assert stored(path, SQUARE, crs=WGS84)["crs"] == WGS84


def test_types_are_those_of_the_geometries(path: Path) -> None:
    """Case 17: all types that occur are listed once, sorted; nulls have none."""
    column = stored(path, TWO_SQUARES, SQUARE, None, SQUARE)

    assert column["geometry_types"] == ["MultiPolygon", "Polygon"]


def test_z_is_said_and_kept(path: Path) -> None:
    """Case 18: a layer with Z says so in its types and its box, and keeps the ordinate."""
    column = stored(path, "POLYGON Z ((0 0 7, 0 1 8, 1 1 9, 0 0 7))", "POINT (3 4)")

    assert column["geometry_types"] == ["Point", "Polygon Z"]
    assert column["bbox"] == [0, 0, 7, 3, 4, 9]
    assert geopandas.read_parquet(path).geometry.iloc[0].has_z


@pytest.mark.parametrize("base", range(1, 8))
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_type_of_the_standard_is_known(base: int, order: str) -> None:
    """Both byte orders and all seven types, flat and with Z, have the standard's names."""
    mark = b"\x01" if order == "<" else b"\x00"
    flat = mark + struct.pack(f"{order}I", base)
    high = mark + struct.pack(f"{order}I", base + 1000)

    types = geometry.geometry_types(pa.array([flat, high]))

    name = min(types)
    assert types == {name, f"{name} Z"}


@pytest.mark.parametrize("code", [0, 8, 2001, 3001, 0x80000001, 0x20000001])
def test_a_type_outside_the_standard_is_refused(path: Path, code: int) -> None:
    """M, extended WKB and curves have no place in GeoParquet 1.1: never written as such."""
    value = b"\x01" + struct.pack("<Idd", code, 1, 2)

    with pytest.raises(UnsupportedError, match=str(code)):
        geoparquet.write(path, Layer([batch([value])]), LINEAGE)


@pytest.mark.parametrize("value", [b"", b"\x01\x01\x00", b"\x02\x01\x00\x00\x00"])
def test_bytes_that_are_no_wkb_are_refused(path: Path, value: bytes) -> None:
    """A geometry whose header is cut or has no byte order is refused."""
    with pytest.raises(CorruptError, match="no WKB"):
        geoparquet.write(path, Layer([batch([value])]), LINEAGE)


def test_a_cut_geometry_is_refused(path: Path) -> None:
    """A geometry whose bytes end before it does is refused, at every place it can be cut."""
    for text in [SQUARE, TWO_SQUARES, "LINESTRING (0 0, 1 1)"]:
        (value,) = wkb(text)
        assert value
        for size in range(5, len(value)):
            with pytest.raises(CorruptError, match="cut or malformed"):
                geoparquet.write(path, Layer([batch([value[:size]])]), LINEAGE)


def test_the_box_ignores_null_empty_and_nan(path: Path) -> None:
    """The box is that of finite coordinates; a row without any has no covering."""
    nan_point = b"\x01" + struct.pack("<Idd", 1, math.nan, math.nan)
    nan_vertex = b"\x01" + struct.pack("<IIdddddd", 2, 3, 5, 5, math.nan, 9, 6, 7)
    values = [*wkb("POINT (1 2)", None, "POLYGON EMPTY", "POINT (-3 8)"), nan_point, nan_vertex]
    geoparquet.write(path, Layer([batch(values)]), LINEAGE)

    assert checked(path)["bbox"] == [-3, 2, 6, 8]
    boxes = pq.read_table(path).column("bbox").to_pylist()
    assert [box is None for box in boxes] == [False, True, True, False, True, False]
    assert boxes[5] == {"xmin": 5, "ymin": 5, "xmax": 6, "ymax": 7}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_extent_of_rare_types_leaves_out_what_is_not_finite(value: float) -> None:
    """A position whose x or y is no finite number has no say in any axis, a z only in its own."""
    places = [(value, 100, 100), (100, value, 100), (1, 2, 3), (4, 5, value)]
    points = [b"\x01" + struct.pack("<I3d", 1001, *place) for place in places]
    rare = b"\x01" + struct.pack("<II", 1007, len(points)) + b"".join(points)
    found = geometry.extents(pa.array([rare, None, rare], pa.binary()))

    assert found.low.tolist() == [[1, 2, 3], [math.inf] * 3, [1, 2, 3]]
    assert found.high.tolist() == [[4, 5, 3], [-math.inf] * 3, [4, 5, 3]]


def test_a_layer_without_extent_has_no_box(path: Path) -> None:
    """Case 13: a layer of nulls and empties is valid, with its types and without a box."""
    column = stored(path, None, "POINT EMPTY")

    assert "bbox" not in column
    assert column["geometry_types"] == ["Point"]


def test_an_empty_layer_is_valid(path: Path) -> None:
    """Case 7: no rows make a file with schema, no types and no box, that others read."""
    assert geoparquet.write(path, Layer([], geo_crs=WGS84), LINEAGE) == 0

    column = checked(path)
    assert column["geometry_types"] == []
    assert "bbox" not in column
    frame = geopandas.read_parquet(path)
    assert len(frame) == 0
    assert "size" in frame


def test_a_batch_without_rows_changes_nothing(path: Path) -> None:
    """An empty batch between others neither breaks the box nor the rows."""
    pieces = [batch([]), batch(wkb("POINT (1 2)")), batch([])]

    assert geoparquet.write(path, Layer(pieces), LINEAGE) == 1
    assert checked(path)["bbox"] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "points_of_ring", [[(0, 0), (4, 4)], [(0, 0), (0, 9), (9, 9)]], ids=["two points", "open"]
)
def test_geometry_that_geos_refuses_is_kept_and_measured(
    path: Path, points_of_ring: list[tuple[float, float]]
) -> None:
    """Case 15: an invalid ring costs neither its row nor the layer, and counts in the box."""
    ring = struct.pack("<I", len(points_of_ring)) + b"".join(
        struct.pack("<dd", *point) for point in points_of_ring
    )
    polygon = b"\x01" + struct.pack("<II", 3, 1) + ring
    multi = b"\x01" + struct.pack("<II", 6, 2) + polygon + wkb(SQUARE)[0]  # type: ignore[operator]
    values = [*wkb("POINT (1 1)"), polygon, multi, None]

    assert geoparquet.write(path, Layer([batch(values)]), LINEAGE) == 4

    most = points_of_ring[-1][0]
    assert checked(path)["bbox"] == [0, 0, most, most]
    assert pq.read_table(path).column("geometry").to_pylist() == values


def test_geometry_with_z_that_geos_refuses_is_measured(path: Path) -> None:
    """An invalid ring with Z in big-endian order is measured in all three ordinates."""
    ring = struct.pack(">Idddddd", 2, 1, 2, 3, 4, 5, 6)
    polygon = b"\x00" + struct.pack(">II", 1003, 1) + ring
    geoparquet.write(path, Layer([batch([polygon])]), LINEAGE)

    assert checked(path)["bbox"] == [1, 2, 3, 4, 5, 6]


def test_a_covering_contains_what_it_covers(path: Path) -> None:
    """The float32 box of each row contains its float64 extent, rounding outwards."""
    texts = [f"POINT ({n / 7 - 1e-9} {5621521.123456789 + n / 3})" for n in range(-50, 50)]
    stored(path, *texts, "POINT (1e300 -1e300)")

    shapes = [shapely.from_wkt(text) for text in [*texts, "POINT (1e300 -1e300)"]]
    for shape, box in zip(shapes, pq.read_table(path).column("bbox").to_pylist(), strict=True):
        assert box["xmin"] <= shape.x <= box["xmax"]
        assert box["ymin"] <= shape.y <= box["ymax"]


def test_a_field_called_bbox_is_no_obstacle(path: Path) -> None:
    """A layer that has fields of the covering column's name keeps them."""
    schema = pa.schema([("BBOX", pa.string()), ("bbox_1", pa.string()), ("geometry", pa.binary())])
    piece = pa.RecordBatch.from_arrays([["a"], ["b"], wkb("POINT (1 2)")], schema=schema)
    geoparquet.write(path, Layer([piece], schema=schema), LINEAGE)

    assert checked(path)["covering"]["bbox"]["xmin"] == ["bbox_2", "xmin"]
    assert geopandas.read_parquet(path)["BBOX"].to_list() == ["a"]


def test_small_batches_are_merged_into_row_groups(path: Path) -> None:
    """Row groups hold 65,536 rows whatever the batches hold, and the rest comes last."""
    small = points(3000).pieces[0]
    large = points(140_000).pieces[0]
    rows = geoparquet.write(path, Layer([small] * 23 + [large]), LINEAGE)

    footer = pq.read_metadata(path)
    sizes = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
    assert rows == 209_000
    assert sizes == [65536, 65536, 65536, 12392]
    sizes_read = pq.read_table(path).column("size").to_pylist()
    assert sizes_read == [*list(range(3000)) * 23, *range(140_000)]


def test_large_rows_make_smaller_row_groups(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded: a row group closes when its bytes reach the limit."""
    monkeypatch.setattr(geoparquet, "ROW_GROUP_BYTES", 10_000)
    geoparquet.write(path, Layer([points(100).pieces[0]] * 10), LINEAGE)

    assert pq.read_metadata(path).num_row_groups > 1


def test_lineage_and_original_names_travel_with_the_file(path: Path) -> None:
    """Issue 2: the file says where it comes from and what its fields were called."""
    geoparquet.write(path, points(1), LINEAGE)

    lineage = json.loads(pq.read_metadata(path).metadata[b"shapefile_gate"])
    assert lineage["bundle"] == LINEAGE["bundle"]
    assert lineage["original_field_names"] == {"name": "NAME", "size": "SIZE"}
    assert lineage["versions"] == {
        "geoparquet": "1.1.0",
        "pyarrow": pa.__version__,
        "shapely": shapely.__version__,
    }


def test_readers_of_the_schema_find_the_metadata(path: Path) -> None:
    """A reader that looks at the Arrow schema only finds `geo` there too."""
    geoparquet.write(path, points(1), LINEAGE)

    assert b"geo" in pq.read_table(path).schema.metadata


def test_the_same_table_makes_the_same_bytes(tmp_path: Path) -> None:
    """E8: nothing in the file depends on when or how often it is written."""
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"
    geoparquet.write(first, points(10), LINEAGE)
    geoparquet.write(second, points(10), LINEAGE)

    assert first.read_bytes() == second.read_bytes()


def test_attribute_types_are_kept(path: Path) -> None:
    """Integers, reals, dates, booleans and text come back as the types they were."""
    values: dict[str, pa.Array] = {
        "i": pa.array([2**62, None], pa.int64()),
        "f": pa.array([0.1, None], pa.float64()),
        "d": pa.array([18321, None], pa.date32()),
        "b": pa.array([True, None], pa.bool_()),
        "s": pa.array(["straße", None], pa.string()),
        "geometry": pa.array([None, None], pa.binary()),
    }
    piece = pa.RecordBatch.from_pydict(values)
    geoparquet.write(path, Layer([piece], schema=piece.schema), LINEAGE)

    read = pq.read_table(path).drop_columns(["bbox"])
    assert read.schema.types == piece.schema.types
    assert read.to_pydict() == piece.to_pydict()


def test_an_error_of_the_table_passes_through(path: Path) -> None:
    """Issue 2: a table that fails half-way fails the file with its own error."""
    with pytest.raises(LostRowsError):
        geoparquet.write(path, points(3, error=LostRowsError("2 of 3")), LINEAGE)


def test_a_footer_that_misses_rows_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Principle 6: rows that were given and are not in the file are noticed."""
    real = geoparquet._row_groups

    def losing(*arguments: Any) -> Any:
        for group in real(*arguments):
            yield group.slice(1)

    monkeypatch.setattr(geoparquet, "_row_groups", losing)

    with pytest.raises(UnexpectedError, match="2 of 3 rows"):
        geoparquet.write(path, points(3), LINEAGE)


def test_the_layer_is_compressed_with_zstd(path: Path) -> None:
    """Issue 2: every column is stored with zstd."""
    geoparquet.write(path, points(10), LINEAGE)

    group = pq.read_metadata(path).row_group(0)
    assert {group.column(index).compression for index in range(group.num_columns)} == {"ZSTD"}
    assert SCHEMA.names == pq.read_schema(path).names[:3]
