"""When a manifest is looked at again, from values alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gate import job
from gate.errors import CorruptError, MissingCrsError, StorageBusyError
from gate.identity import Pin, Revision
from gate.job import Job, Limits
from gate.manifest import Dispatch, Dispatched, Manifest, Settling, Waiting
from gate.names import Bundle
from gate.next_look import Again, GiveUp, NextLook, Patience, Rest, Stalled, next_look

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
PATIENCE = Patience(settle=30 * SECOND, stalled_after=HOUR, give_up=DAY)
LIMITS = Limits(lease=60 * SECOND, max_attempts=3, retry=10 * SECOND)
BUNDLE = Bundle("uploads", "in/", "roads")
REVISION = Revision.of(BUNDLE, {".shp": Pin("in/roads.shp", 7)})
RUNNING = job.opened(REVISION, dispatched_by="c", token="t", now=NOW, limits=LIMITS)
MISSING = (".dbf",)


def waiting(age: timedelta, *, told: timedelta | None = None, present: bool = True) -> NextLook:
    """Return what follows a look at a bundle that lacks a file, so long after its last claim."""
    known = Manifest(BUNDLE, updated_at=NOW - age, stalled_at=None if told is None else NOW - told)
    return next_look(known, Waiting(MISSING), job=None, present=present, now=NOW, patience=PATIENCE)


def dispatched(standing: Job | None) -> NextLook:
    """Return what follows a look at a bundle whose newest revision has this job."""
    known = Manifest(BUNDLE, updated_at=NOW)
    decision = Dispatched(REVISION)
    return next_look(known, decision, job=standing, present=True, now=NOW, patience=PATIENCE)


@pytest.mark.parametrize(
    ("age_seconds", "pause_seconds"),
    [(0, 30), (30, 30), (60, 60), (900, 900), (1800, 1800), (1801, 1799), (3599, 1)],
)
def test_pauses_double_up_to_the_alert(age_seconds: int, pause_seconds: int) -> None:
    """H5: a waiting bundle is looked at after as long as it has waited, and when it stalls."""
    assert waiting(age_seconds * SECOND) == Again(NOW + pause_seconds * SECOND)


@pytest.mark.parametrize(
    ("age", "pause"), [(HOUR, HOUR), (13 * HOUR, 11 * HOUR), (DAY - SECOND, SECOND)]
)
def test_an_alert_is_given_once(age: timedelta, pause: timedelta) -> None:
    """H5: after an hour a person is told, and not again until something new comes."""
    assert waiting(age) == Stalled(MISSING, NOW + pause)
    assert waiting(age, told=age / 2) == Again(NOW + pause)
    assert waiting(age, told=age + SECOND) == Stalled(MISSING, NOW + pause)


@pytest.mark.parametrize("told", [None, HOUR])
def test_a_bundle_is_given_up_after_a_day(told: timedelta | None) -> None:
    """H5: after `MANIFEST_TTL_SECONDS` there is a dead letter, alert or not."""
    assert waiting(DAY, told=told) == GiveUp(MISSING)


def test_a_bundle_that_was_taken_back_rests() -> None:
    """H5: where nothing of a bundle is left, nothing is missing."""
    assert waiting(DAY, present=False) == Rest(finished=True)
    assert waiting(SECOND, present=False) == Rest(finished=True)


def test_a_manifest_without_a_claim_is_as_old_as_its_first_look() -> None:
    """H5: where no claim tells when the last upload was, nobody is alarmed."""
    known = Manifest(BUNDLE)
    following = next_look(
        known, Waiting(MISSING), job=None, present=True, now=NOW, patience=PATIENCE
    )
    assert following == Again(NOW + 30 * SECOND)
    assert replace(known, stalled_at=NOW).stalled


def test_what_settles_is_looked_at_when_it_has() -> None:
    """H12: the end of the settle window is the next look."""
    decision = Settling(REVISION, NOW + 7 * SECOND)
    following = next_look(
        Manifest(BUNDLE), decision, job=None, present=True, now=NOW, patience=PATIENCE
    )
    assert following == Again(NOW + 7 * SECOND)


def test_what_could_not_be_dispatched_is_due_again() -> None:
    """Design 7.2: a dispatch that fell to somebody else is looked for once more."""
    following = next_look(
        Manifest(BUNDLE), Dispatch(REVISION), job=None, present=True, now=NOW, patience=PATIENCE
    )
    assert following == Again(NOW + 30 * SECOND)


def test_the_look_follows_the_end_of_the_lease() -> None:
    """H7: while a job may still be run, its manifest is looked at after it is due."""
    assert dispatched(RUNNING) == Again(NOW + 90 * SECOND)
    overdue = replace(RUNNING, lease_expires_at=NOW - HOUR)
    assert dispatched(overdue) == Again(NOW + 30 * SECOND)
    failed = job.failed(RUNNING, StorageBusyError("x"), now=NOW, limits=LIMITS)
    assert dispatched(failed) == Again(NOW + 40 * SECOND)
    unsent = job.dead(RUNNING, CorruptError("cut"), now=NOW)
    assert dispatched(unsent) == Again(NOW + 30 * SECOND)


def test_a_manifest_rests_when_its_job_has_ended() -> None:
    """H7: it may expire, unless the job waits for a person."""
    assert dispatched(job.done(RUNNING, now=NOW, summary={})) == Rest(finished=True)
    assert dispatched(job.superseded(RUNNING, now=NOW, why="newer")) == Rest(finished=True)
    dead = job.notified(job.dead(RUNNING, CorruptError("cut"), now=NOW))
    assert dispatched(dead) == Rest(finished=True)
    held = job.notified(job.held(RUNNING, MissingCrsError("none"), now=NOW))
    assert dispatched(held) == Rest(finished=False)
    assert dispatched(None) == Rest(finished=True)
