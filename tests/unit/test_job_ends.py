"""What a job carries once it has ended, or has been put aside again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gate import job
from gate.errors import CorruptError, MissingCrsError
from gate.job import Claimed, HistoryEntry, Job, Limits, State
from tests.layers import revision

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
LIMITS = Limits(timedelta(seconds=60), max_attempts=3, retry=timedelta(seconds=10))
ERROR = CorruptError("a header contradicts itself", where="roads.shp")


def running() -> Job:
    """Return a job that was claimed at `NOW`."""
    return job.opened(revision(), dispatched_by="c", token="t", now=NOW, limits=LIMITS)


def test_a_partial_job_carries_what_was_published_and_owes_a_letter() -> None:
    """G2: some layers failed: the end has its time, its summary, its error, and a letter due."""
    ended = job.partial(running(), ERROR, now=LATER, summary={"layers": 2})
    assert (ended.state, ended.ended_at, ended.summary) == (State.PARTIAL, LATER, {"layers": 2})
    assert ended.notified is False
    assert [(one.at, one.code) for one in ended.history] == [(LATER, "corrupt")]


def test_a_superseded_job_says_when_and_why() -> None:
    """C4: the last line of the history tells what has taken the place of the revision."""
    ended = job.superseded(running(), now=LATER, why="a newer one")
    [last] = ended.history
    assert isinstance(last, HistoryEntry)
    assert (last.at, last.code, last.message) == (LATER, "superseded", "a newer one")
    assert (ended.ended_at, ended.notified) == (LATER, True)


def test_a_job_held_again_counts_from_then() -> None:
    """Design 5: a job for which nothing new has come is put aside with the time of that look."""
    held = job.held(running(), MissingCrsError("there is no .prj"), now=NOW)
    taken = job.revive(held, token="u", now=LATER, limits=LIMITS)
    assert job.still_held(taken.job, now=LATER).ended_at == LATER


@pytest.mark.parametrize(
    "end",
    [
        lambda one: job.dead(one, ERROR, now=LATER),
        lambda one: job.held(one, MissingCrsError("there is no .prj"), now=LATER),
        lambda one: job.failed(one, ERROR, now=LATER, limits=LIMITS),
    ],
    ids=["dead", "held", "failed"],
)
def test_every_failure_is_remembered_with_its_time(end: object) -> None:
    """G1, G2: the history of a job tells when each attempt ended."""
    ended = end(running())  # type: ignore[operator]
    assert ended.history[-1].at == LATER


def test_a_job_that_ends_badly_without_a_summary_has_an_empty_one() -> None:
    """F11: what is not known of a run is an empty map, not nothing."""
    assert job.dead(running(), ERROR, now=LATER).summary == {}
    assert job.dead(running(), ERROR, now=LATER, summary={"layers": 1}).summary == {"layers": 1}
    assert job.held(running(), MissingCrsError("no"), now=LATER).summary == {}


def test_the_last_failure_of_all_ends_the_job_then_and_promises_no_retry() -> None:
    """G1: a passing fault at the last attempt is dead with its time, and says what to do now."""
    one = running()
    for _ in range(LIMITS.max_attempts - 1):
        paused = job.failed(one, ERROR, now=NOW, limits=LIMITS)
        taken = job.claim(paused, token="u", now=NOW + timedelta(hours=1), limits=LIMITS)
        assert isinstance(taken, Claimed)
        one = taken.job
    ended = job.failed(one, ERROR, now=LATER, limits=LIMITS)
    assert (ended.state, ended.ended_at) == (State.DEAD, LATER)
    assert "attempt 3 was the last; " in ended.history[-1].message


def test_a_worker_that_stopped_without_a_word_is_remembered_as_such() -> None:
    """E2: who takes a job over writes down what became of the last attempt, and of which bundle."""
    one = running()
    for hours in range(1, 4):
        at = NOW + timedelta(hours=hours)
        taken = job.claim(one, token="u", now=at, limits=LIMITS)
        assert isinstance(taken, Claimed)
        one = taken.job
    assert {entry.message for entry in one.history} == {"the worker stopped without a word"}
    error = job.exhausted(one, LIMITS)
    assert error is not None
    assert error.where == "gs://uploads/in/roads"
