"""What the store makes of every way in which a call to Firestore can go wrong.

The emulator locks as a database in pessimistic mode does (a write outside a
transaction that has read the document waits two seconds, then ABORTED), and it
has no switch for the optimistic mode. That one differs for the store in nothing
but where ABORTED comes from: no read is made inside a transaction, so there is
none that a later commit could invalidate. Hence the injected ABORTED below
stands for it (scenario F9).
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.api_core import exceptions as api

from gate import job
from gate.errors import ConfigurationError, StoreBusyError, StoreQuotaError
from gate.store.firestore import CALL_SECONDS, PAUSE_MOST_SECONDS, PAUSE_SECONDS, ROUNDS
from tests.contract.stores import (
    GENERATION,
    LIMITS,
    FirestoreBench,
    claim_of,
)
from tests.emulator.firestore import Wire, connected

NAME = "in/roads.shp"
WHOLE = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")
WRITE, READ = "Commit", "BatchGetDocuments"
FOR_EVER = 1000

PASSING = [
    api.Aborted("too much contention on these documents"),
    api.Cancelled("gone"),
    api.DeadlineExceeded("too slow"),
    api.InternalServerError("sorry"),
    api.RetryError("gave up", cause=api.ServiceUnavailable("away")),
    api.ServiceUnavailable("away"),
    api.Unknown("what"),
]
QUOTA = [
    api.ResourceExhausted("quota exceeded"),
    api.RetryError("gave up", cause=api.ResourceExhausted("quota exceeded")),
]


def kind(error: Exception) -> str:
    """Return the name of an error for the name of a test."""
    return type(error).__name__


# --- what passes by itself ----------------------------------------------------


@pytest.mark.parametrize("method", [WRITE, READ])
@pytest.mark.parametrize("error", PASSING, ids=kind)
def test_a_fault_that_passes_is_tried_again(
    bench: FirestoreBench, wire: Wire, method: str, error: Exception
) -> None:
    """Scenario F1: a record whose call fails and then succeeds is first, after one pause."""
    wire.fail(method, error)
    recorded = bench.record(NAME)
    assert recorded.first
    assert recorded.manifest.components == {NAME: GENERATION}
    assert len(bench.pauses) == 1


@pytest.mark.parametrize("error", PASSING, ids=kind)
def test_a_commit_that_keeps_failing_is_busy_and_never_a_duplicate(
    bench: FirestoreBench, wire: Wire, error: Exception
) -> None:
    """Scenarios F2, F7: after a bounded number of commits the event is to be redelivered."""
    wire.fail(WRITE, error, times=FOR_EVER)
    with pytest.raises(StoreBusyError, match="Firestore did not answer well"):
        bench.record(NAME)
    assert wire.calls == [WRITE] * ROUNDS
    wire.clear()
    assert bench.written() == {}
    assert bench.record(NAME).first


def test_a_read_that_keeps_failing_is_busy(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F1: the record that could not be read back is finished by its redelivery."""
    wire.fail(READ, api.Aborted("contention"), times=FOR_EVER)
    claim = claim_of(NAME)
    with pytest.raises(StoreBusyError):
        bench.store.record(claim)
    assert wire.calls == [WRITE, *[READ] * ROUNDS]
    wire.clear()
    redelivered = bench.record(NAME)
    assert not redelivered.first
    assert redelivered.manifest.components == {NAME: GENERATION}


def test_pauses_grow_and_are_bounded(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F1: each pause is longer than the one before, up to the longest."""
    wire.fail(WRITE, api.Aborted("contention"), times=FOR_EVER)
    with pytest.raises(StoreBusyError):
        bench.record(NAME)
    assert bench.pauses == sorted(set(bench.pauses))
    assert bench.pauses[0] == PAUSE_SECONDS
    assert max(bench.pauses) <= PAUSE_MOST_SECONDS


def test_jitter_halves_a_pause_at_most(firestore_address: str, wire: Wire) -> None:
    """Scenario F1: rivals that failed together do not come back together."""
    hasty = FirestoreBench(connected(firestore_address, wire), jitter=0.0)
    wire.fail(WRITE, api.Aborted("contention"))
    hasty.record(NAME)
    assert hasty.pauses == [PAUSE_SECONDS / 2]


def test_an_event_ends_before_its_function_times_out() -> None:
    """Scenario F10: all rounds of the calls of one event take less than the platform's least."""
    calls_of_an_event = 4
    pauses = (ROUNDS - 1) * PAUSE_MOST_SECONDS
    assert calls_of_an_event * (ROUNDS * CALL_SECONDS + pauses) < timedelta(minutes=9).seconds


def test_no_transaction_is_begun(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F3: a begin cannot fail, and nothing is to be rolled back, for there is none."""
    stored = bench.dispatched(*WHOLE)
    bench.store.replace(stored, job.done(stored.job, now=stored.now, summary={}))
    assert set(wire.calls) == {WRITE, READ}
    assert not any(request.transaction for request in wire.requests)


def test_a_real_lock_of_the_emulator_is_waited_for(bench: FirestoreBench, wire: Wire) -> None:
    """Case 49, scenario F9: a lock time-out of a pessimistic database passes by itself."""
    bundle = bench.record(NAME).manifest.bundle
    release = bench.locked(bundle)
    bench.while_paused = lambda _seconds: release()
    wire.clear()
    assert bench.record("in/roads.dbf").first
    assert wire.calls == [WRITE, "Rollback", WRITE, READ]
    assert bench.pauses == [PAUSE_SECONDS]


# --- quota --------------------------------------------------------------------


@pytest.mark.parametrize("method", [WRITE, READ])
@pytest.mark.parametrize("error", QUOTA, ids=kind)
def test_an_exhausted_quota_is_not_hammered(
    bench: FirestoreBench, wire: Wire, method: str, error: Exception
) -> None:
    """Scenario F4: the longest pause at once, one more try, then the event is redelivered."""
    wire.fail(method, error, times=FOR_EVER)
    with pytest.raises(StoreQuotaError, match="over its quota"):
        bench.record(NAME)
    assert wire.calls.count(method) == 2
    assert bench.pauses == [PAUSE_MOST_SECONDS]


def test_a_quota_that_recovers_costs_one_pause(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F4: after the long pause the same event is first."""
    wire.fail(WRITE, api.ResourceExhausted("quota exceeded"))
    assert bench.record(NAME).first
    assert bench.pauses == [PAUSE_MOST_SECONDS]


# --- what only a person can mend ----------------------------------------------


@pytest.mark.parametrize("method", [WRITE, READ])
@pytest.mark.parametrize(
    "error", [api.PermissionDenied("no"), api.Unauthenticated("who")], ids=kind
)
def test_a_refusal_names_what_to_check(
    bench: FirestoreBench, wire: Wire, method: str, error: Exception
) -> None:
    """Design 8: a missing role is a fault of the deployment; it is not tried again."""
    wire.fail(method, error, times=FOR_EVER)
    with pytest.raises(ConfigurationError, match=r"roles/datastore\.user"):
        bench.record(NAME)
    assert wire.calls.count(method) == 1
    assert bench.pauses == []


@pytest.mark.parametrize(
    "error", [api.NotFound("no database"), api.FailedPrecondition("Datastore mode")], ids=kind
)
def test_a_missing_database_is_no_failed_condition(
    bench: FirestoreBench, wire: Wire, error: Exception
) -> None:
    """Design 10: an answer that a condition could give is checked by a read, which tells."""
    wire.fail(WRITE, error, times=FOR_EVER)
    wire.fail(READ, error, times=FOR_EVER)
    with pytest.raises(ConfigurationError, match="FIRESTORE_DATABASE"):
        bench.record(NAME)
    assert wire.calls == [WRITE, READ]


def test_what_nobody_foresaw_is_left_as_it_is(bench: FirestoreBench, wire: Wire) -> None:
    """Design 10: an error of another kind is not dressed up as a passing one."""
    wire.fail(READ, api.InvalidArgument("bad request"))
    with pytest.raises(api.InvalidArgument):
        bench.record(NAME)


# --- answers that were lost ---------------------------------------------------

LOST = [
    api.ServiceUnavailable("connection reset"),
    api.DeadlineExceeded("too slow"),
    api.Aborted("unknown outcome"),
    api.RetryError("gave up", cause=api.ServiceUnavailable("away")),
]


@pytest.mark.parametrize("error", LOST, ids=kind)
def test_a_claim_whose_answer_was_lost_is_ones_own(
    bench: FirestoreBench, wire: Wire, error: Exception
) -> None:
    """Scenario E12: the second answer says that it exists; the token says whose it is."""
    claim = claim_of(NAME)
    wire.fail(WRITE, error, after=True)
    recorded = bench.store.record(claim)
    assert recorded.first
    assert wire.calls == [WRITE, WRITE, READ]
    assert bench.claim_document(claim)["token"] == claim.token


@pytest.mark.parametrize(
    "second", [api.InvalidArgument("already committed"), api.FailedPrecondition("no")], ids=kind
)
def test_any_second_answer_is_checked_by_the_token(
    bench: FirestoreBench, wire: Wire, second: Exception
) -> None:
    """Scenario F6: an odd answer to a repeated write is about one's own first write."""
    wire.fail(WRITE, api.ServiceUnavailable("connection reset"), after=True)
    wire.fail(WRITE, second)
    assert bench.record(NAME).first


def test_a_claim_lost_to_another_is_a_duplicate(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F7: a write that failed before it landed may find that somebody was faster."""
    rival = claim_of(NAME)
    wire.fail(WRITE, api.ServiceUnavailable("away"), then=lambda: bench.store.record(rival))
    recorded = bench.record(NAME)
    assert not recorded.first
    assert bench.claim_document(rival)["token"] == rival.token


@pytest.mark.parametrize(
    "error",
    [api.AlreadyExists("there"), api.InvalidArgument("odd"), api.FailedPrecondition("odd")],
    ids=kind,
)
def test_a_refused_claim_that_is_not_there_is_no_duplicate(
    bench: FirestoreBench, wire: Wire, error: Exception
) -> None:
    """Scenario F7: only a claim that can be read makes a duplicate."""
    wire.fail(WRITE, error, times=FOR_EVER)
    with pytest.raises(StoreBusyError, match="refused and is not there"):
        bench.record(NAME)


@pytest.mark.parametrize("error", LOST, ids=kind)
def test_a_dispatch_whose_answer_was_lost_is_ones_own(
    bench: FirestoreBench, wire: Wire, error: Exception
) -> None:
    """Scenario E12: the worker owns the job, fence and attempts counted once."""
    due = bench.due(*WHOLE)
    wire.fail(WRITE, error, after=True)
    stored = bench.store.dispatch(due)
    assert stored is not None
    assert stored.job == due
    assert (stored.job.fence, stored.job.attempts) == (1, 1)
    renewed = job.renewed(due, now=stored.now + timedelta(seconds=1), limits=LIMITS)
    assert bench.store.replace(stored, renewed) is not None


def test_a_refused_dispatch_that_is_not_there_is_busy(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F7: a job that cannot be read was not dispatched by another."""
    due = bench.due(*WHOLE)
    wire.fail(WRITE, api.AlreadyExists("there"), times=FOR_EVER)
    with pytest.raises(StoreBusyError, match="refused and is not there"):
        bench.store.dispatch(due)


@pytest.mark.parametrize("error", LOST, ids=kind)
def test_an_end_whose_answer_was_lost_is_a_success(
    bench: FirestoreBench, wire: Wire, error: Exception
) -> None:
    """Scenario E13: the job is read again, and it shows the very end that was written."""
    stored = bench.dispatched(*WHOLE)
    done = job.done(stored.job, now=stored.now, summary={"loaded": 3})
    wire.fail(WRITE, error, after=True)
    ended = bench.store.replace(stored, done)
    assert ended is not None
    assert ended.job == done
    assert bench.job_document(done.id)["state"] == "done"


def test_a_take_over_whose_answer_was_lost_counts_once(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario E12: the fence is not bumped twice, and the attempt counts once."""
    stored = bench.dispatched(*WHOLE)
    taken = job.claim(stored.job, token="next", now=stored.now + LIMITS.lease, limits=LIMITS)
    assert isinstance(taken, job.Claimed)
    wire.fail(WRITE, api.ServiceUnavailable("connection reset"), after=True)
    held = bench.store.replace(stored, taken.job)
    assert held is not None
    assert (held.job.fence, held.job.attempts) == (2, 2)


def test_an_end_that_another_undid_meanwhile_is_refused(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario E4: a write that landed, whose answer was lost, and that was moved on from, is none.

    The worker must not go on in the belief that it still holds the job.
    """
    stored = bench.dispatched(*WHOLE)
    renewed = job.renewed(stored.job, now=stored.now + timedelta(seconds=1), limits=LIMITS)

    def steal() -> None:
        current = bench.store.job(stored.job.id)
        assert current is not None
        later = current.now + LIMITS.lease * 2
        taken = job.claim(current.job, token="thief", now=later, limits=LIMITS)
        assert isinstance(taken, job.Claimed)
        assert bench.store.replace(current, taken.job) is not None

    wire.fail(WRITE, api.ServiceUnavailable("connection reset"), after=True, then=steal)
    assert bench.store.replace(stored, renewed) is None


def test_the_writes_of_every_round_are_the_same(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F8: what is committed is built anew for each round and does not add up."""
    stored = bench.dispatched(*WHOLE)
    wire.clear()
    wire.fail(WRITE, api.Aborted("contention"), times=ROUNDS - 1)
    bench.store.replace(stored, job.done(stored.job, now=stored.now, summary={}))
    wire.fail(WRITE, api.Aborted("contention"), times=ROUNDS - 1)
    bench.record("in/roads.prj")
    commits = [
        request for call, request in zip(wire.calls, wire.requests, strict=True) if call == WRITE
    ]
    assert len(commits) == 2 * ROUNDS
    for rounds in (commits[:ROUNDS], commits[ROUNDS:]):
        assert all(request == rounds[0] for request in rounds)


def test_every_call_has_a_deadline(bench: FirestoreBench, wire: Wire) -> None:
    """Scenario F10: no call waits longer than its round, whatever the library's defaults are."""
    stored = bench.dispatched(*WHOLE)
    bench.store.replace(stored, job.done(stored.job, now=stored.now, summary={}))
    assert {*wire.calls} == {WRITE, READ}
    assert all(timeout and timeout <= CALL_SECONDS for timeout in wire.timeouts)
