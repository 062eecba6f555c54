"""The address of a sink: what it may say, and how it is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gate.errors import ConfigurationError
from gate.sinks.address import FORMATS, WRITTEN_BY_GDAL, SinkAddress, parse

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("gs://datasets", SinkAddress("datasets")),
        ("gs://datasets/", SinkAddress("datasets")),
        ("gs://datasets/out", SinkAddress("datasets", "out")),
        ("gs://datasets/out/", SinkAddress("datasets", "out")),
        ("gs://data.example.com/a/b c%20d#1", SinkAddress("data.example.com", "a/b c%20d#1")),
        ("gs://datasets/out?keep=0", SinkAddress("datasets", "out", keep=0)),
        ("gs://datasets/out?keep=100", SinkAddress("datasets", "out", keep=100)),
        (
            "gs://datasets/out?format=geoparquet&keep=3",
            SinkAddress("datasets", "out", "geoparquet", 3),
        ),
        ("gs://datasets?", SinkAddress("datasets")),
        ("gs://datasets?format=geojsonseq", SinkAddress("datasets", format="geojsonseq")),
        ("gs://datasets?format=flatgeobuf", SinkAddress("datasets", format="flatgeobuf")),
        ("gs://datasets?format=gpkg", SinkAddress("datasets", format="gpkg")),
        ("gs://datasets?order=hilbert", SinkAddress("datasets", order="hilbert")),
        ("gs://datasets?order=file&keep=2", SinkAddress("datasets", keep=2)),
    ],
)
def test_an_address_is_read(uri: str, address: SinkAddress) -> None:
    """Bucket, prefix and parameters are read as written; all but the bucket are optional."""
    assert parse(uri) == address


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("", "begins with neither gs:// nor postgresql://"),
        ("s3://datasets/out", "begins with neither gs:// nor postgresql://"),
        ("GS://datasets/out", "begins with neither gs:// nor postgresql://"),
        ("gs://me:hunter2@datasets/out", "no user stands before a bucket"),
        ("gs://", "'' is no bucket name"),
        ("gs:///out", "'' is no bucket name"),
        ("gs://Datasets/out", "'Datasets' is no bucket name"),
        ("gs://ab/out", "'ab' is no bucket name"),
        ("gs://-ab/out", "'-ab' is no bucket name"),
        ("gs://datasets/a//b", "empty or dotted segment"),
        ("gs://datasets//a", "empty or dotted segment"),
        ("gs://datasets/../b", "empty or dotted segment"),
        ("gs://datasets/a/.", "empty or dotted segment"),
        ("gs://datasets/" + "é" * 201, "longer than 400 bytes"),
        (
            "gs://datasets?format=shapefile",
            "format 'shapefile' is unknown, there are geoparquet, geojsonseq, flatgeobuf, gpkg",
        ),
        ("gs://datasets?format=GPKG", "format 'GPKG' is unknown"),
        ("gs://datasets?order=random", "order 'random' is unknown, there are file, hilbert"),
        ("gs://datasets?order=", "order '' is unknown"),
        ("gs://datasets?order=file&order=file", "parameter order is given twice"),
        ("gs://datasets?format=gpkg&order=hilbert", "order is for geoparquet"),
        ("gs://datasets?format=", "format '' is unknown"),
        ("gs://datasets?keep=-1", "keep '-1' is no number from 0 to 100"),
        (f"gs://datasets?keep={'9' * 5000}", "is no number from 0 to 100"),
        ("gs://datasets?keep=101", "keep '101' is no number from 0 to 100"),
        ("gs://datasets?keep=", "keep '' is no number"),
        ("gs://datasets?keep=²", "keep '²' is no number"),
        ("gs://datasets?keep=1&keep=2", "parameter keep is given twice"),
        ("gs://datasets?Format=gpkg", "parameter Format is unknown"),
        ("gs://datasets?colour=red", "parameter colour is unknown, there are format, order, keep"),
    ],
)
def test_a_wrong_address_is_refused(uri: str, problem: str) -> None:
    """Every mistake is named, with what is allowed and an example."""
    with pytest.raises(ConfigurationError) as caught:
        parse(uri)
    assert problem in caught.value.what
    assert str(caught.value).startswith(f"SINK: {caught.value.what}; ")
    assert caught.value.todo.startswith("write it like gs://")


@pytest.mark.parametrize("form", ["flatgeobuf", "gpkg"])
def test_a_form_whose_writer_is_missing_is_refused_with_the_line_to_add(form: str) -> None:
    """Issue 4: at start-up, not at the first bundle; the line is the version that is tested."""
    with pytest.raises(ConfigurationError) as caught:
        parse(f"gs://datasets?format={form}", lambda package: package != "pyogrio")

    assert f"format {form} needs pyogrio, which is not installed" in caught.value.what
    line = re.search(r"add the line (\S+) to requirements.txt", caught.value.what)
    assert line
    pinned = (ROOT / "tests/requirements.txt").read_text().splitlines()
    assert line[1] in pinned


@pytest.mark.parametrize("form", ["geoparquet", "geojsonseq"])
def test_other_forms_need_no_more_than_is_deployed(form: str) -> None:
    """Case 57: without GDAL's writer all else is as it was."""
    assert parse(f"gs://datasets?format={form}", lambda _package: False).format == form


@pytest.mark.parametrize("form", FORMATS)
def test_only_the_chosen_form_is_imported(form: str) -> None:
    """Issue 4: pyogrio is asked of nobody who does not choose a form that needs it."""
    check = (
        "import sys; from gate.sinks import address, formats;"
        f"formats.chosen(address.parse('gs://datasets?format={form}'));"
        "print('pyogrio' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == str(form in WRITTEN_BY_GDAL)


def test_all_mistakes_are_told_at_once() -> None:
    """Issue 2: whoever mends an address need not deploy once per mistake."""
    with pytest.raises(ConfigurationError) as caught:
        parse("gs://X/a//b?format=csv&keep=all&colour=red")
    assert caught.value.what.count(";") == 4


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        (SinkAddress("datasets"), ""),
        (SinkAddress("datasets", "out"), "out/"),
        (SinkAddress("datasets", "a/b"), "a/b/"),
    ],
)
def test_the_output_prefix_ends_at_a_folder(address: SinkAddress, prefix: str) -> None:
    """B8: `out` guards `out/…` and not `output/…`; no prefix means the whole bucket."""
    assert address.output_prefix == prefix


def test_an_address_is_shown_as_a_place() -> None:
    """An address prints as the URI its objects begin with."""
    assert str(SinkAddress("datasets", "out", keep=3)) == "gs://datasets/out/"
