"""The contract of `History`, held over every store."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gate import job
from gate.errors import ConfigurationError, CorruptError, MissingCrsError
from gate.job import State
from gate.names import Bundle
from gate.store.history import History
from tests.contract.stores import (
    BUCKET,
    GENERATION,
    StoreBench,
    claim_of,
)

ROADS = Bundle(BUCKET, "in/", "roads")


@pytest.fixture
def history(bench: StoreBench) -> History:
    """Return what the store remembers."""
    return bench.history


def test_nothing_is_remembered_of_what_never_was(history: History) -> None:
    """G7: an empty store has no claim, no job, and counts none."""
    assert history.claim("0" * 32) is None
    assert history.claims_of(ROADS) == ()
    assert history.jobs_of(ROADS) == ()
    assert list(history.jobs_in(State)) == []
    assert history.count(State.DEAD) == 0


def test_claims_are_told_in_the_order_they_were_made(bench: StoreBench, history: History) -> None:
    """A1: each object generation is one claim, with its event, in order; other bundles' are not."""
    for name in ("in/roads.shp", "in/roads.dbf", "in/rivers.shp", "in/roads.shp"):
        bench.store.record(claim_of(name))
        bench.clock.forward(timedelta(seconds=1))
    found = history.claims_of(ROADS)
    assert [claim.name for claim in found] == ["in/roads.shp", "in/roads.dbf"]
    assert {(claim.bucket, claim.generation, claim.event_id) for claim in found} == {
        (BUCKET, GENERATION, "event-1")
    }
    assert found[0].claimed_at.tzinfo
    assert history.claim(found[0].id) == found[0]
    assert found[0].id == claim_of("in/roads.shp").id


def test_a_claim_knows_the_jobs_of_its_event(bench: StoreBench, history: History) -> None:
    """G7: the claim of the event that dispatched a job says where the job stood."""
    stored = bench.dispatched("in/roads.shp", "in/roads.shx", "in/roads.dbf")
    claim = history.claim(stored.job.dispatched_by)
    assert claim
    assert claim.jobs == {stored.job.id: "dispatched"}


def test_a_claim_that_expired_and_was_noted_again_is_no_claim(
    bench: StoreBench, history: History
) -> None:
    """H7: what a job's end writes about an expired claim is not taken for a claim."""
    stored = bench.dispatched("in/roads.shp", "in/roads.shx", "in/roads.dbf")
    bench.remove("claims", stored.job.dispatched_by)
    dead = job.dead(stored.job, CorruptError("x"), now=stored.now)
    assert bench.store.replace(stored, dead)
    assert history.claim(stored.job.dispatched_by) is None
    assert len(history.claims_of(ROADS)) == 2


def test_jobs_of_a_bundle_are_told_by_revision(bench: StoreBench, history: History) -> None:
    """C6: the jobs of a bundle come oldest revision first; those of its namesakes do not."""
    parts = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")
    newer = bench.dispatched(*parts, generation=GENERATION + 1)
    older = bench.dispatched("in/rivers.shp")
    assert [one.id for one in history.jobs_of(ROADS)] == [newer.job.id]
    newest = bench.dispatched(*parts, generation=GENERATION + 2)
    assert [one.id for one in history.jobs_of(ROADS)] == [newer.job.id, newest.job.id]
    assert history.jobs_of(Bundle("another", "in/", "roads")) == ()
    assert history.jobs_of(older.job.revision.bundle) == (older.job,)


def test_jobs_are_found_and_counted_by_state(bench: StoreBench, history: History) -> None:
    """G7: asked for several states at once, each job in one of them is told once."""
    running = bench.dispatched("in/a.shp")
    dead, held = bench.dispatched("in/b.shp"), bench.dispatched("in/c.shp")
    bench.store.replace(dead, job.dead(dead.job, CorruptError("x"), now=dead.now))
    bench.store.replace(held, job.held(held.job, MissingCrsError("x"), now=held.now))
    found = {one.id: one.state for one in history.jobs_in((State.DEAD, State.HELD, State.PARTIAL))}
    assert found == {dead.job.id: State.DEAD, held.job.id: State.HELD}
    assert [one.id for one in history.jobs_in([State.RUNNING])] == [running.job.id]
    counts = {state: history.count(state) for state in (State.RUNNING, State.DEAD, State.DONE)}
    assert counts == {State.RUNNING: 1, State.DEAD: 1, State.DONE: 0}


def test_a_document_that_holds_no_job_is_named(bench: StoreBench, history: History) -> None:
    """G9: what somebody wrote by hand is told with what to do, whoever asks for it."""
    bench.put("jobs", "bogus", {"state": "dead", "basename": "in/roads"})
    told = r"^bogus: its document is that of no job \(KeyError: 'pins'\); mend .*JOB_COLLECTION$"
    with pytest.raises(ConfigurationError, match=told):
        list(history.jobs_in((State.DEAD,)))
    with pytest.raises(ConfigurationError, match=told):
        history.jobs_of(ROADS)
    assert history.count(State.DEAD) == 1
