"""The index of an archive: what it says, and what it means for another."""

from __future__ import annotations

import json

import pytest

from gate.errors import ConfigurationError, DatasetTakenError
from gate.sinks.index import Index, content_of, parse
from gate.sinks.port import Outdated
from tests.layers import publication, revision

HELD = revision("in/a.zip", zip=2**53 + 1)
INDEX = Index.of(publication(HELD))


def test_an_index_survives_its_json() -> None:
    """What is written is what is read back, the order as a string of digits."""
    content = content_of(publication(HELD, 3), {"layers": [{"name": "straße"}]})

    assert parse(content, "gs://x") == INDEX
    fields = json.loads(content)
    assert (fields["order"], fields["fence"]) == ("9007199254740993", 3)
    assert fields["layers"] == [{"name": "straße"}]
    assert "straße".encode() in content


@pytest.mark.parametrize("name", [*Index.__dataclass_fields__, "format_version"])
def test_no_field_may_be_missing(name: str) -> None:
    """An index that lacks anything is not guessed at."""
    content = json.loads(content_of(publication(HELD), {}))
    del content[name]

    with pytest.raises(ConfigurationError, match=f"gs://x: is no index .*{name}"):
        parse(json.dumps(content).encode(), "gs://x")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"7", b"\xff", b'{"format_version": 2}', b"<html>", b"null"]
)
def test_what_is_no_index_is_left_alone(content: bytes) -> None:
    """An object that is not the gate's stops the job with a cure."""
    with pytest.raises(ConfigurationError, match="move the object away"):
        parse(content, "gs://x")


@pytest.mark.parametrize("change", [{"revision_id": 7}, {"bundle_id": None}, {"order": "x"}])
def test_no_field_may_be_of_another_kind(change: dict[str, object]) -> None:
    """An id that is no string, an order that is no number: not an index of ours."""
    content = {**json.loads(content_of(publication(HELD), {})), **change}

    with pytest.raises(ConfigurationError):
        parse(json.dumps(content).encode(), "gs://x")


def test_an_older_or_equal_index_may_be_replaced() -> None:
    """A newer revision replaces it, and so does a later attempt at the same one."""
    assert INDEX.verdict(revision("in/a.zip", zip=2**53 + 2)) is None
    assert INDEX.verdict(HELD) is None
    assert INDEX.verdict(revision("in/a.zip", zip=2**53)) == Outdated(2**53 + 1)


def test_another_bundle_is_refused() -> None:
    """The message names who holds the place and who came too late."""
    with pytest.raises(DatasetTakenError, match=r"^gs://other/in/a\.zip: gs://uploads/in/a\.zip"):
        INDEX.verdict(revision("in/a.zip", "other", zip=1))
