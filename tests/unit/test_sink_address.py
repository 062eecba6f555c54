"""The address of a sink: what it may say, and how it is refused."""

from __future__ import annotations

import pytest

from gate.errors import ConfigurationError
from gate.sinks.address import SinkAddress, parse


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
    ],
)
def test_an_address_is_read(uri: str, address: SinkAddress) -> None:
    """Bucket, prefix, format and keep are read as written; the last two are optional."""
    assert parse(uri) == address


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("", "does not begin with gs://"),
        ("s3://datasets/out", "does not begin with gs://"),
        ("GS://datasets/out", "does not begin with gs://"),
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
        ("gs://datasets?format=shapefile", "format 'shapefile' is unknown, there is geoparquet"),
        ("gs://datasets?format=", "format '' is unknown"),
        ("gs://datasets?keep=-1", "keep '-1' is no number from 0 to 100"),
        (f"gs://datasets?keep={'9' * 5000}", "is no number from 0 to 100"),
        ("gs://datasets?keep=101", "keep '101' is no number from 0 to 100"),
        ("gs://datasets?keep=", "keep '' is no number"),
        ("gs://datasets?keep=²", "keep '²' is no number"),
        ("gs://datasets?keep=1&keep=2", "parameter keep is given twice"),
        ("gs://datasets?colour=red", "parameter colour is unknown, there are format and keep"),
    ],
)
def test_a_wrong_address_is_refused(uri: str, problem: str) -> None:
    """Every mistake is named, with what is allowed and an example."""
    with pytest.raises(ConfigurationError) as caught:
        parse(uri)
    assert problem in caught.value.what
    assert str(caught.value).startswith(f"SINK={uri}: ")
    assert caught.value.todo.startswith("write it like gs://")


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
