"""The pointer: what it says, and what it means for a publication."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import pytest

from gate.errors import ConfigurationError, DatasetTakenError
from gate.identity import bundle_id
from gate.sinks.pointer import Pointer, Superseded, parse
from gate.sinks.port import Outdated, Published
from tests.layers import revision

HELD = revision(shp=10, dbf=10)
POINTER = Pointer(
    bundle_id=bundle_id(HELD.bundle),
    bucket="uploads",
    basename="in/straße",
    layer="",
    revision_id=HELD.id,
    order=HELD.order,
    job_id="b" * 32,
    fence=2,
    location="gs://datasets/out/in/roads/x.parquet",
    dataset="x.parquet",
    report="x.report.json",
    metadata="x.shp.xml",
    rejects="",
    rows=3,
    size_bytes=100,
    crc32c="4waSgw==",
    published_at="2026-01-02T03:04:05+00:00",
    previous=(Superseded("w.parquet", datetime(2026, 1, 2, tzinfo=UTC)),),
)


def test_a_pointer_survives_its_json() -> None:
    """What is written is what is read back."""
    assert parse(POINTER.as_json(), "gs://x") == POINTER


def test_the_order_is_a_string_of_digits() -> None:
    """Orders exceed 2^53: a reader in JavaScript must not round them."""
    large = dataclasses.replace(POINTER, order=2**63 + 1)
    content = large.as_json()

    assert json.loads(content)["order"] == "9223372036854775809"
    assert parse(content, "gs://x").order == 2**63 + 1


def test_names_are_readable_in_the_json() -> None:
    """Names are written in UTF-8, not escaped."""
    assert "in/straße".encode() in POINTER.as_json()


def test_fields_of_later_versions_are_passed_over() -> None:
    """A pointer of this format with more in it is still understood."""
    content = json.dumps({**json.loads(POINTER.as_json()), "colour": "red"}).encode()

    assert parse(content, "gs://x") == POINTER


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Pointer)])
def test_no_field_may_be_missing(name: str) -> None:
    """A pointer that lacks anything is not guessed at."""
    content = json.loads(POINTER.as_json())
    del content[name]

    with pytest.raises(ConfigurationError, match=f"gs://x: is no pointer .*{name}"):
        parse(json.dumps(content).encode(), "gs://x")


@pytest.mark.parametrize(
    "change",
    [
        {"revision_id": 7},
        {"bundle_id": None},
        {"order": None},
        {"format_version": "1"},
        {"previous": ["w.parquet"]},
        {"previous": [{"dataset": "w.parquet"}]},
        {"previous": [{"dataset": "w.parquet", "superseded_at": "yesterday"}]},
        {"previous": [{"dataset": "w.parquet", "superseded_at": "2026-01-02T00:00:00"}]},
    ],
)
def test_no_field_may_be_of_another_kind(change: dict[str, object]) -> None:
    """An id that is no string, an order that is no number: not a pointer of ours."""
    content = {**json.loads(POINTER.as_json()), **change}

    with pytest.raises(ConfigurationError):
        parse(json.dumps(content).encode(), "gs://x")


def test_an_older_pointer_may_be_replaced() -> None:
    """A revision of greater order is what the pointer gives way to."""
    assert POINTER.verdict(revision(shp=10, dbf=11)) is None


def test_the_own_revision_is_published_already() -> None:
    """The revision in the pointer needs no second publication."""
    assert POINTER.verdict(HELD) == Published(POINTER.location, 3, already=True)


@pytest.mark.parametrize("older", [revision(shp=9, dbf=10), revision(shp=9, dbf=11)])
def test_a_revision_that_is_not_newer_is_outdated(older: object) -> None:
    """Neither an older revision nor a tie replaces what is published."""
    assert POINTER.verdict(older) == Outdated(20)  # type: ignore[arg-type]


def test_another_bundle_is_refused_with_both_names() -> None:
    """The message names who holds the place and who came too late."""
    with pytest.raises(DatasetTakenError) as caught:
        POINTER.verdict(revision(bucket="elsewhere"))
    assert "gs://uploads/in/straße already publishes" in caught.value.what
    assert caught.value.where == "gs://elsewhere/in/roads"


def test_another_layer_is_refused_with_both_names() -> None:
    """Case 33: a layer of an archive does not take over the place of another, or of a bundle."""
    packed = revision("in/a.zip", zip=10)
    held = dataclasses.replace(
        POINTER, bundle_id=bundle_id(packed.bundle), basename="in/a.zip", layer="x"
    )
    assert held.verdict(revision("in/a.zip", zip=30), "x") is None

    for other in ("y", ""):
        with pytest.raises(DatasetTakenError, match=r"gs://uploads/in/a\.zip/x already") as caught:
            held.verdict(packed, other)
        assert caught.value.where == f"gs://uploads/in/a.zip/{other}".removesuffix("/")
