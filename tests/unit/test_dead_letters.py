"""Dead letters: whole, bounded and countable."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gate import dead_letters, job
from gate.dead_letters import LoggedDeadLetters
from gate.errors import CorruptError, IncompleteError, MalformedEventError
from gate.events import Malformed
from gate.identity import Pin, Revision
from gate.job import Job, Limits
from gate.manifest import Manifest
from gate.names import Bundle

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = Limits(lease=timedelta(seconds=60), max_attempts=5, retry=timedelta(seconds=10))
REVISION = Revision.of(
    Bundle("uploads", "in/", "roads"), {".shp": Pin("in/Roads.shp", 1700000000000001)}
)


def a_dead_job() -> Job:
    """Return a job that ended on its first attempt."""
    opened = job.opened(REVISION, dispatched_by="claim", token="t", now=NOW, limits=LIMITS)
    return job.dead(opened, CorruptError("the header is wrong", where="roads.shp"), now=NOW)


def test_a_letter_of_a_job_needs_nothing_else_to_be_understood() -> None:
    """G2: the letter says what failed, why, what to do, and which objects at which generation."""
    letter = dead_letters.of_job(a_dead_job())
    message = f"roads.shp: the header is wrong; {CorruptError.cure}"
    assert letter.code == "corrupt"
    assert letter.dedupe_id == f"{REVISION.id}-1"
    assert letter.body == {
        "kind": "job",
        "state": "dead",
        "code": "corrupt",
        "message": message,
        "cause": "roads.shp: the header is wrong",
        "cure": CorruptError.cure,
        "redrive": f"python -m gate redrive {REVISION.id}",
        "bundle": "gs://uploads/in/roads",
        "bucket": "uploads",
        "basename": "in/roads",
        "job": REVISION.id,
        "fence": 1,
        "attempts": 1,
        "pins": {".shp": {"name": "in/Roads.shp", "generation": "1700000000000001"}},
        "history": [
            {
                "at": "2026-03-01T12:00:00+00:00",
                "fence": 1,
                "attempt": 1,
                "code": "corrupt",
                "message": message,
            }
        ],
    }
    assert json.loads(json.dumps(letter.body)) == letter.body


def test_the_same_letter_twice_counts_once() -> None:
    """G5: letters of one end share their dedupe id; another attempt's end has another."""
    first = dead_letters.of_job(a_dead_job())
    assert dead_letters.of_job(a_dead_job()).dedupe_id == first.dedupe_id
    stored = a_dead_job()
    opened = job.opened(REVISION, dispatched_by="c", token="t", now=NOW, limits=LIMITS)
    later = job.claim(opened, token="u", now=NOW + LIMITS.lease, limits=LIMITS)
    assert isinstance(later, job.Claimed)
    ended = job.dead(later.job, CorruptError("x"), now=NOW)
    assert ended.id == stored.id
    assert dead_letters.of_job(ended).dedupe_id == f"{REVISION.id}-2"


def test_a_letter_of_an_incomplete_bundle_names_what_there_is() -> None:
    """H5: the letter of a bundle without a job says what is missing, what is there and the cure."""
    known = Manifest(REVISION.bundle, components={"in/Roads.shp": 7, "in/roads.shp": 5})
    letter = dead_letters.of_incomplete(known, (".dbf", ".shx"))
    cause = "gs://uploads/in/roads: .dbf .shx was never uploaded; .shp is there"
    assert letter.code == letter.body["code"] == "incomplete"
    assert letter.body == {
        "kind": "bundle",
        "code": "incomplete",
        "message": f"{cause}; {IncompleteError.cure}",
        "cause": cause,
        "cure": IncompleteError.cure,
        "bundle": "gs://uploads/in/roads",
        "bucket": "uploads",
        "basename": "in/roads",
        "pins": {".shp": {"name": "in/Roads.shp", "generation": "7"}},
    }
    newer = replace(known, components={"in/Roads.shp": 8})
    assert dead_letters.of_incomplete(known, (".dbf", ".shx")).dedupe_id == letter.dedupe_id
    assert dead_letters.of_incomplete(newer, (".dbf", ".shx")).dedupe_id != letter.dedupe_id


def test_a_letter_of_an_event_holds_its_beginning() -> None:
    """A10: the letter of a malformed event tells the reason, whose it is and how it began."""
    letter = dead_letters.of_event(Malformed("name is missing", "{'bucket': 'uploads'}", "e1"))
    assert letter.code == "malformed_event"
    assert letter.body == {
        "kind": "event",
        "code": "malformed_event",
        "message": f"event e1: name is missing; {MalformedEventError.cure}",
        "cause": "event e1: name is missing",
        "cure": MalformedEventError.cure,
        "event": "e1",
        "raw": "{'bucket': 'uploads'}",
    }


def test_a_letter_of_an_event_has_no_secret_and_may_lack_an_id() -> None:
    """G10: secrets in a body are masked; an event without an id says so."""
    letter = dead_letters.of_event(Malformed("x", "{'password=hunter2'}", ""))
    assert "hunter2" not in json.dumps(letter.body)
    assert letter.body["message"].startswith("event without id: ")


@pytest.mark.parametrize(
    "other",
    [Malformed("y", "raw", "e"), Malformed("x", "raw!", "e"), Malformed("x", "raw", "f")],
)
def test_letters_of_events_are_told_apart(other: Malformed) -> None:
    """A10: the same event again has the same dedupe id, another one has another."""
    one = dead_letters.of_event(Malformed("x", "raw", "e"))
    assert one.dedupe_id == dead_letters.of_event(Malformed("x", "raw", "e")).dedupe_id
    assert one.dedupe_id != dead_letters.of_event(other).dedupe_id


def test_without_a_topic_letters_stand_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """G2: the letter is one error line, with all it says and its dedupe id."""
    letter = dead_letters.of_job(a_dead_job())
    LoggedDeadLetters().send(letter)
    line = json.loads(capsys.readouterr().out)
    assert (line["severity"], line["dedupe_id"]) == ("ERROR", letter.dedupe_id)
    assert line["letter"] == letter.body
