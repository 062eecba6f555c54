"""The numbered cases from the field that end in a dataset: read for real, written, read back."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from gate.shapefile.reader import open_layer
from gate.sinks import geoparquet
from tests.reading import read_options
from tests.shapefiles import (
    POLYGON,
    Bundle,
    Field,
    Z,
    column,
    layer,
    null,
    point,
    polygon,
    square,
    write,
)

ROOT = Path(__file__).parents[2]


def written(bundle: Bundle, folder: Path, **options: Any) -> pa.Table:
    """Return what a reader finds in the dataset that is made of a bundle."""
    path = folder / "dataset.parquet"
    opened = open_layer(write(bundle, folder / "in"), name="roads", options=read_options(**options))
    with opened as table:
        geoparquet.write(path, table, {})
    return pq.read_table(path)


def geo(table: pa.Table) -> dict[str, Any]:
    """Return the GeoParquet metadata of the geometry."""
    found: dict[str, Any] = json.loads(table.schema.metadata[b"geo"])["columns"]["geometry"]
    return found


def test_case_4_a_cut_character_does_not_stop_the_dataset(tmp_path: Path) -> None:
    """Case 4: the row with half a character is there, with a replacement sign."""
    table = written(column(Field("T", "C", 4), b"caf\xc3", b"ok"), tmp_path)
    assert table["T"].to_pylist() == ["caf\ufffd", "ok"]


def test_case_13_a_null_geometry_is_a_null(tmp_path: Path) -> None:
    """Case 13: a null shape is a null in the dataset, in its own row."""
    table = written(layer([null(), polygon(square(0, 0))]), tmp_path)
    assert [value is None for value in table["geometry"].to_pylist()] == [True, False]
    assert geo(table)["geometry_types"] == ["Polygon"]


def test_case_18_a_polygon_with_heights_says_so(tmp_path: Path) -> None:
    """Case 18: z is kept, and the metadata says Polygon Z."""
    table = written(layer([polygon(square(0, 0, 1, 1.0), kind=POLYGON + Z)]), tmp_path)
    assert geo(table)["geometry_types"] == ["Polygon Z"]
    (shape,) = shapely.from_wkb(table["geometry"].to_pylist())
    assert shape.has_z


def test_case_21_a_transformed_dataset_carries_its_crs_and_bounds(tmp_path: Path) -> None:
    """Case 21: CRS and box are those of the result, x first."""
    web = layer([point(1113194.9, 5621521.5)], prj=None)
    table = written(web, tmp_path, crs="EPSG:3857", target_crs="EPSG:4326")
    assert geo(table)["crs"]["id"] == {"authority": "EPSG", "code": 4326}
    assert geo(table)["bbox"] == pytest.approx([10, 45, 10, 45], abs=1e-3)


def test_case_22_blank_dates_are_null(tmp_path: Path) -> None:
    """Case 22: zeros and blanks are null in a column of dates."""
    table = written(column(Field("D", "D", 8), b"00000000", None, b"20200229"), tmp_path)
    assert table["D"].to_pylist() == [None, None, datetime.date(2020, 2, 29)]


def test_case_24_far_dates_are_kept_exactly(tmp_path: Path) -> None:
    """Case 24: "no end" and the first day there is are the same days in the dataset."""
    table = written(column(Field("D", "D", 8), b"99991231", b"00010101"), tmp_path)
    assert table.schema.field("D").type == pa.date32()
    assert table["D"].to_pylist() == [datetime.date(9999, 12, 31), datetime.date(1, 1, 1)]


def test_case_25_a_large_integer_is_one(tmp_path: Path) -> None:
    """Case 25: ten digits are a 64-bit integer, nineteen an exact decimal."""
    table = written(column(Field("N", "N", 10), 4294967295), tmp_path / "a")
    assert (table.schema.field("N").type, table["N"].to_pylist()) == (pa.int64(), [4294967295])
    table = written(column(Field("N", "N", 19), 9999999999999999999), tmp_path / "b")
    assert table["N"].to_pylist() == [9999999999999999999]


def test_case_26_logicals_are_booleans(tmp_path: Path) -> None:
    """Case 26: the column is boolean, and what is not known is null."""
    table = written(column(Field("L", "L", 1), b"T", b"n", b"?"), tmp_path)
    assert (table.schema.field("L").type, table["L"].to_pylist()) == (
        pa.bool_(),
        [True, False, None],
    )


def test_case_27_no_nul_reaches_the_dataset(tmp_path: Path) -> None:
    """Case 27: text ends at its first NUL; NULs alone are null."""
    table = written(column(Field("T", "C", 5), b"ab\0cd", b"\0\0\0", b"x"), tmp_path)
    assert table["T"].to_pylist() == ["ab", None, "x"]


def test_cases_28_and_29_names_stay_and_the_original_is_told(tmp_path: Path) -> None:
    """Cases 28, 29: in GeoParquet names stay as they are; of two equal ones both are there."""
    fields = [Field("a-b.c"), Field("my col"), Field("Größe"), Field("my col")]
    table = written(layer([point(0, 0)], fields, [("1", "2", "3", "4")]), tmp_path)
    assert table.schema.names[:4] == ["a-b.c", "my col", "Größe", "my col_1"]
    lineage = json.loads(table.schema.metadata[b"shapefile_gate"])
    assert lineage["original_field_names"]["my col_1"] == "my col"


def test_case_57_the_writer_needs_no_gdal() -> None:
    """Case 57: to write a dataset neither Fiona nor any GDAL is imported."""
    check = (
        "import sys; from gate.sinks import geoparquet, cloud_storage;"
        "print([name for name in ('fiona', 'osgeo', 'pyogrio', 'pyproj') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


@pytest.mark.parametrize("variable", ["PROJ_LIB", "PROJ_DATA"])
@pytest.mark.parametrize("prj", ["as it is", "missing"])
def test_case_61_a_misled_proj_blames_the_deployment(
    variable: str, prj: str, tmp_path: Path
) -> None:
    """Case 61: with PROJ's database out of reach no layer is read, and the bundle is not blamed."""
    write(layer([point(1, 2)], **({} if prj == "as it is" else {"prj": None})), tmp_path)
    check = (
        "import sys; from pathlib import Path; from gate.errors import ConfigurationError\n"
        "from gate.shapefile.reader import open_layer\n"
        "try:\n"
        "    with open_layer(Path(sys.argv[1]), name='roads'): print('read')\n"
        "except ConfigurationError as error: print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", check, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, variable: "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith("PROJ_DATA: PROJ finds no database of CRSs; do not set PROJ_LIB")
