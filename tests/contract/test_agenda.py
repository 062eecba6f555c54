"""The contract of `Agenda`, held by every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gate import job
from gate.errors import CorruptError, MissingCrsError, StorageBusyError
from gate.identity import Revision, bundle_id
from gate.job import Job, State
from gate.store.port import Cursor, Due, Kind, StoredManifest
from tests.contract.stores import (
    BUCKET,
    GENERATION,
    LIMITS,
    RETENTION,
    StoreBench,
)

WHOLE = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")
PAST = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def roads(bench: StoreBench) -> StoredManifest:
    """Return the manifest of the one bundle, as it is now."""
    recorded = bench.record("in/roads.shp")
    found = bench.store.manifest(recorded.manifest.bundle)
    assert found is not None
    return found


def due_again(bench: StoreBench, held: StoredManifest, at: datetime) -> StoredManifest:
    """Make a manifest due at a time, and read it again."""
    assert bench.store.rest(held, wake_at=at)
    found = bench.store.manifest(held.manifest.bundle)
    assert found is not None
    return found


# --- jobs ---------------------------------------------------------------------


def moved(running: Job, state: State) -> Job:
    """Return a job in a state, due in the past if it is due at all."""
    match state:
        case State.QUEUED | State.RUNNING:
            return replace(running, state=state, lease_expires_at=PAST)
        case State.FAILED:
            failed = job.failed(running, StorageBusyError("x"), now=PAST, limits=LIMITS)
            return replace(failed, next_attempt_at=PAST)
        case State.DEAD:
            return job.dead(running, CorruptError("cut"), now=PAST)
        case State.HELD:
            return job.held(running, MissingCrsError("none"), now=PAST)
        case State.PARTIAL:
            return job.partial(running, CorruptError("one"), now=PAST, summary={})
        case State.SUPERSEDED:
            return job.superseded(running, now=PAST, why="newer")
        case State.DONE:
            return job.done(running, now=PAST, summary={})


@pytest.mark.parametrize("state", list(State))
def test_a_job_is_due_while_somebody_has_to_take_it_up(bench: StoreBench, state: State) -> None:
    """H1, G5: an expired lease, a pause that is over and an unsent letter make a job due."""
    stored = bench.dispatched(*WHOLE)
    assert bench.store.due_jobs(10) == ()
    after = moved(stored.job, state)
    assert bench.store.replace(stored, after)
    due = bench.store.due_jobs(10)
    if state in {State.SUPERSEDED, State.DONE}:
        assert due == ()
        assert "due_at" not in bench.job_document(after.id)
        return
    assert [(one.kind, one.id, one.due_at) for one in due] == [(Kind.JOB, after.id, PAST)]
    assert due[0].now >= due[0].due_at
    if after.ended:
        found = bench.store.job(after.id)
        assert found
        assert bench.store.replace(found, job.notified(after))
        assert bench.store.due_jobs(10) == ()
        assert "due_at" not in bench.job_document(after.id)


def test_a_letter_that_was_put_off_is_due_later(bench: StoreBench) -> None:
    """H11, G5: a letter that could not be sent makes room for others until it is due again."""
    stored = bench.dispatched(*WHOLE)
    dead = job.dead(stored.job, CorruptError("cut"), now=PAST)
    held = bench.store.replace(stored, dead)
    assert held
    now = bench.store.due_jobs(1)[0].now
    assert bench.store.replace(held, job.letter_postponed(dead, now=now, limits=LIMITS))
    assert bench.store.due_jobs(1) == ()
    assert bench.job_document(dead.id)["due_at"] == now + LIMITS.retry_most


def test_jobs_come_the_longest_due_first_and_no_more_than_asked(bench: StoreBench) -> None:
    """H11: of many due jobs the sweep gets the oldest, as many as it asks for."""
    ids = []
    for number in (2, 0, 1):
        stored = bench.dispatched(*(f"in/roads{number}{part}" for part in (".shp", ".shx", ".dbf")))
        late = replace(stored.job, lease_expires_at=PAST + timedelta(seconds=number))
        assert bench.store.replace(stored, late)
        ids.append((number, late.id))
    assert [due.id for due in bench.store.due_jobs(2)] == [key for _, key in sorted(ids)[:2]]


# --- manifests ----------------------------------------------------------------


def test_a_manifest_is_due_when_its_time_has_come(bench: StoreBench) -> None:
    """Design 7.2: a manifest is due by the store's clock, and by nothing but its own time."""
    held = roads(bench)
    assert bench.store.due_manifests(10) == ()
    due_again(bench, held, PAST)
    (due,) = bench.store.due_manifests(10)
    assert (due.kind, due.id, due.due_at) == (
        Kind.MANIFEST,
        bundle_id(held.manifest.bundle),
        PAST,
    )
    found = bench.store.woken(due)
    assert found is not None
    assert found.manifest == replace(held.manifest, wake_at=PAST)


def test_a_woken_manifest_that_is_gone_is_none(bench: StoreBench) -> None:
    """H9: a manifest that was collected between the query and the look is no error."""
    due_again(bench, roads(bench), PAST)
    (due,) = bench.store.due_manifests(10)
    bench.remove("manifests", due.id)
    assert bench.store.woken(due) is None


def test_a_manifest_at_rest_is_not_due(bench: StoreBench) -> None:
    """Design 7.2: without a time there is no look, and with a finished one an expiry."""
    held = roads(bench)
    assert bench.store.rest(held, wake_at=None, finished=True)
    document = bench.manifest_document(held.manifest.bundle)
    assert "wake_at" not in document
    assert document["expires_at"] == bench.clock() + RETENTION.manifests
    found = bench.store.manifest(held.manifest.bundle)
    assert found
    assert found.expires_at == document["expires_at"]
    assert bench.store.due_manifests(10) == ()
    assert bench.store.rest(found, wake_at=None)
    assert "expires_at" not in bench.manifest_document(held.manifest.bundle)


def test_a_claim_in_between_keeps_its_own_time(bench: StoreBench) -> None:
    """Design 4: an event that committed after the look was read is not forgotten."""
    held = roads(bench)
    bench.record("in/roads.dbf")
    before = bench.manifest_document(held.manifest.bundle)
    assert not bench.store.rest(held, wake_at=None, stalled=True, finished=True)
    assert bench.manifest_document(held.manifest.bundle) == before


def test_a_rest_does_not_bring_a_manifest_back(bench: StoreBench) -> None:
    """H9: a look at a manifest that was collected meanwhile writes nothing."""
    held = roads(bench)
    bench.remove("manifests", bundle_id(held.manifest.bundle))
    assert not bench.store.rest(held, wake_at=PAST)
    assert bench.store.manifest(held.manifest.bundle) is None


def test_being_told_holds_until_the_next_claim(bench: StoreBench) -> None:
    """H5: the mark of an alert stands until something new is recorded."""
    roads(bench)
    bench.clock.forward(HOUR)
    held = roads(bench)
    assert not held.manifest.stalled
    assert bench.store.rest(held, wake_at=PAST, stalled=True)
    told = due_again(bench, roads(bench), PAST)
    assert told.manifest.stalled
    bench.clock.forward(HOUR)
    bench.record("in/roads.dbf")
    assert not roads(bench).manifest.stalled


def test_a_revision_that_was_dispatched_is_noted(bench: StoreBench) -> None:
    """C1: a manifest that was lost learns what was dispatched, and takes nothing back."""
    held = roads(bench)
    revision = Revision.of(held.manifest.bundle, held.manifest.current())
    assert bench.store.rest(held, wake_at=PAST, dispatched=revision)
    found = roads(bench)
    assert found.manifest.dispatched == {".shp": GENERATION}
    assert found.manifest.dispatched_order == GENERATION
    older = Revision.of(revision.bundle, {".shp": replace(revision.pins[0][1], generation=5)})
    assert bench.store.rest(found, wake_at=PAST, dispatched=older)
    assert roads(bench).manifest.dispatched_order == GENERATION


def test_many_manifests_are_read_at_once(bench: StoreBench) -> None:
    """H6: bundles without a manifest are left out, and none at all is no call."""
    known = roads(bench)
    unknown = replace(known.manifest.bundle, stem="rivers")
    found = bench.store.manifests_of([known.manifest.bundle, unknown])
    assert {bundle: one.manifest for bundle, one in found.items()} == {
        known.manifest.bundle: known.manifest
    }
    assert bench.store.manifests_of([]) == {}


# --- documents that cannot be treated -------------------------------------------


@pytest.mark.parametrize("broken", [{"due_at": PAST}, {"due_at": 7}, {"due_at": PAST, "pins": 3}])
def test_a_document_that_is_no_job_is_due_and_can_be_put_off(
    bench: StoreBench, broken: dict[str, Any]
) -> None:
    """G9: what cannot be read as a job keeps no other from being found, once it is put off."""
    bench.put("jobs", "poison", broken)
    (due,) = bench.store.due_jobs(1)
    assert due.id == "poison"
    with pytest.raises((KeyError, TypeError, AttributeError)):
        bench.store.job(due.id)
    bench.store.postpone(due, due.now + HOUR)
    assert bench.store.due_jobs(1) == ()
    assert bench.document("jobs", "poison") == {**broken, "due_at": due.now + HOUR}


def test_a_document_that_is_no_manifest_is_due_and_can_be_put_off(bench: StoreBench) -> None:
    """G9: what cannot be read as a manifest keeps no other from being found."""
    bench.put("manifests", "poison", {"wake_at": PAST})
    (due,) = bench.store.due_manifests(1)
    with pytest.raises(KeyError):
        bench.store.woken(due)
    bench.store.postpone(due, due.now + HOUR)
    assert bench.store.due_manifests(1) == ()


def test_what_somebody_moved_is_not_put_off(bench: StoreBench) -> None:
    """H1: a document that was treated after the query stays as it was left."""
    stored = bench.dispatched(*WHOLE)
    late = bench.store.replace(stored, replace(stored.job, lease_expires_at=PAST))
    assert late
    (due,) = bench.store.due_jobs(1)
    assert bench.store.replace(late, job.done(late.job, now=PAST, summary={}))
    bench.store.postpone(due, due.now + HOUR)
    assert "due_at" not in bench.job_document(stored.job.id)
    bench.store.postpone(Due(Kind.JOB, "gone", PAST, due.version, due.now), PAST)
    assert bench.document("jobs", "gone") is None


# --- the cursor -----------------------------------------------------------------


def test_a_cursor_is_kept_under_its_name(bench: StoreBench) -> None:
    """H6: a pass goes on where it stopped, and another pass has a cursor of its own."""
    none = bench.store.cursor("reconcile")
    assert none.cursor is None
    cursor = Cursor(none.now, f"{BUCKET}/é.shp")
    assert bench.store.move_cursor(none, cursor)
    held = bench.store.cursor("reconcile")
    assert held.cursor == cursor
    assert held.now >= none.now
    assert bench.store.move_cursor(held, replace(cursor, finished=True))
    assert bench.store.cursor("reconcile").cursor == replace(cursor, finished=True)
    assert bench.store.cursor("backfill").cursor is None


def test_of_two_who_move_a_cursor_one_is_refused(bench: StoreBench) -> None:
    """H6: two passes at once cannot send each other back."""
    none = bench.store.cursor("reconcile")
    first, second = Cursor(none.now, "a"), Cursor(none.now, "b")
    assert bench.store.move_cursor(none, first)
    assert not bench.store.move_cursor(none, second)
    held = bench.store.cursor("reconcile")
    assert bench.store.move_cursor(held, second)
    assert not bench.store.move_cursor(held, first)
    assert bench.store.cursor("reconcile").cursor == second
