"""The job: every legal move, every illegal one, and what a record may carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gate import job
from gate.errors import (
    ChecksumError,
    CorruptError,
    GateError,
    HeldError,
    ShutdownError,
    StorageBusyError,
)
from gate.identity import Pin, Revision
from gate.job import (
    ENDED,
    FINISHED,
    MOVES,
    Busy,
    Claimed,
    Ended,
    HistoryEntry,
    Job,
    Limits,
    State,
)
from gate.names import Bundle

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND, MOMENT = timedelta(seconds=1), timedelta(microseconds=1)
LIMITS = Limits(lease=60 * SECOND, max_attempts=3, retry=10 * SECOND)
REVISION = Revision.of(Bundle("uploads", "in/", "roads"), {".shp": Pin("in/roads.shp", 7)})
ERROR = CorruptError("broken", where="roads.shp")


def a_job(state: State = State.RUNNING, **changes: object) -> Job:
    """Return a job that has been claimed twice."""
    made = Job(
        revision=REVISION,
        state=state,
        fence=2,
        attempts=2,
        token="holder",
        dispatched_by="claim",
        created_at=NOW - 100 * SECOND,
        lease_expires_at=NOW + 5 * SECOND,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def claimed(of: Job, now: datetime = NOW) -> Claimed | Busy | Ended:
    """Return what a claim at `now` is told."""
    return job.claim(of, token="taker", now=now, limits=LIMITS)


MOVERS: dict[State, Callable[[Job], Job]] = {
    State.RUNNING: lambda one: job.renewed(one, now=NOW, limits=LIMITS),
    State.FAILED: lambda one: job.failed(one, ERROR, now=NOW, limits=LIMITS),
    State.DONE: lambda one: job.done(one, now=NOW, summary={}),
    State.PARTIAL: lambda one: job.partial(one, ERROR, now=NOW, summary={}),
    State.DEAD: lambda one: job.dead(one, ERROR, now=NOW),
    State.SUPERSEDED: lambda one: job.superseded(one, now=NOW, why="newer"),
    State.HELD: lambda one: job.held(one, ERROR, now=NOW),
}


@pytest.mark.parametrize("target", MOVERS)
@pytest.mark.parametrize("source", State)
def test_only_the_moves_of_the_table_are_made(source: State, target: State) -> None:
    """E4: every pair of states either moves as the table says, or raises and names both."""
    if target in MOVES[source]:
        assert MOVERS[target](a_job(source)).state is target
    else:
        with pytest.raises(ValueError, match=f"from {source.value} to {target.value}"):
            MOVERS[target](a_job(source))


def test_the_table_is_the_one_of_the_design() -> None:
    """E4, G7: a running job may go anywhere; what failed can be redriven; well ended is ended."""
    redrive = {State.FAILED, State.SUPERSEDED}
    assert MOVES[State.QUEUED] == {State.RUNNING}
    assert MOVES[State.RUNNING] == set(State) - {State.QUEUED}
    assert MOVES[State.FAILED] == MOVES[State.HELD] == {State.RUNNING, *redrive}
    assert MOVES[State.DEAD] == MOVES[State.PARTIAL] == redrive
    assert not MOVES[State.DONE]
    assert not MOVES[State.SUPERSEDED]
    assert set(State) - {State.QUEUED, State.RUNNING, State.FAILED} == ENDED
    assert ENDED - {State.HELD} == FINISHED
    assert [state for state in State if a_job(state).ended] == [
        state for state in State if state in ENDED
    ]


def test_a_dispatch_opens_a_job_that_its_creator_holds() -> None:
    """E1: a new job runs, with fence and attempts at one, and its lease counted from now."""
    opened = job.opened(REVISION, dispatched_by="claim", token="t", now=NOW, limits=LIMITS)
    assert (opened.state, opened.fence, opened.attempts) == (State.RUNNING, 1, 1)
    assert opened.lease_expires_at == NOW + LIMITS.lease
    assert (opened.created_at, opened.token, opened.dispatched_by) == (NOW, "t", "claim")
    assert opened.id == REVISION.id
    assert opened.notified
    assert not opened.ended


def test_a_queued_job_is_nobodys_and_its_claim_is_the_first_attempt() -> None:
    """Issue 7: a job for a task has used no attempt, and may be claimed at once."""
    opened = job.opened(REVISION, dispatched_by="claim", token="t", now=NOW, limits=LIMITS)
    made = job.queued(opened)
    assert (made.state, made.fence, made.attempts) == (State.QUEUED, 1, 0)
    assert (made.created_at, made.token, made.dispatched_by) == (NOW, "t", "claim")
    taken = claimed(made)
    assert isinstance(taken, Claimed)
    assert (taken.job.state, taken.job.fence, taken.job.attempts) == (State.RUNNING, 2, 1)
    assert taken.job.lease_expires_at == NOW + LIMITS.lease
    assert not taken.job.history


def test_a_queued_job_is_due_once_its_task_has_been_waited_for() -> None:
    """H3: the sweep leaves a new job to its task for as long as a lease lasts."""
    opened = job.opened(
        REVISION, dispatched_by="c", token="t", now=NOW, limits=LIMITS, fence_floor=4
    )
    made = job.queued(opened)
    assert made.due_at == NOW + LIMITS.lease
    assert made.fence == 5
    assert not made.ended


def test_what_was_left_to_a_worker_is_claimed_or_revived() -> None:
    """Issue 7: a held job is revived with all its attempts, any other is claimed if it is free."""

    def taken(of: Job) -> Claimed | Busy | Ended:
        return job.taken_up(of, token="taker", now=NOW, limits=LIMITS)

    held = a_job(State.HELD)
    assert taken(held) == job.revive(held, token="taker", now=NOW, limits=LIMITS)
    for free in (a_job(State.FAILED), a_job(lease_expires_at=NOW)):
        assert taken(free) == claimed(free)
    assert taken(a_job()) == Busy(NOW + 5 * SECOND)
    assert taken(a_job(State.DONE)) == Ended(State.DONE)


def test_a_job_that_is_made_again_has_a_greater_fence() -> None:
    """E15: a new document begins above every fence that its bundle has had."""
    opened = job.opened(
        REVISION, dispatched_by="claim", token="t", now=NOW, limits=LIMITS, fence_floor=4
    )
    assert (opened.fence, opened.attempts) == (5, 1)


@pytest.mark.parametrize("state", sorted(ENDED, key=lambda state: state.value))
def test_an_ended_job_is_not_claimed(state: State) -> None:
    """E1: a claim of an ended job is told which end it was, however old its lease."""
    assert claimed(a_job(state), NOW + 999 * SECOND) == Ended(state)


def test_a_live_lease_is_respected_until_its_last_moment() -> None:
    """E2: the holder is left alone while its lease lasts; at its end the job may be taken."""
    held = a_job(lease_expires_at=NOW + MOMENT)
    assert claimed(held) == Busy(NOW + MOMENT)
    assert isinstance(claimed(held, NOW + MOMENT), Claimed)


def test_a_take_over_raises_fence_and_attempts_and_remembers_why() -> None:
    """E2: the new holder has fence + 1, attempts + 1, a lease of its own, and the old story."""
    stolen = claimed(a_job(lease_expires_at=NOW))
    assert isinstance(stolen, Claimed)
    assert (stolen.job.state, stolen.job.fence, stolen.job.attempts) == (State.RUNNING, 3, 3)
    assert (stolen.job.token, stolen.job.lease_expires_at) == ("taker", NOW + 4 * LIMITS.lease)
    [entry] = stolen.job.history
    assert (entry.code, entry.fence, entry.attempt, entry.at) == ("lease_expired", 2, 2, NOW)


def test_a_failed_job_rests_until_its_last_moment() -> None:
    """G1: the pause of a failed job is respected to the end; then it is claimed without a note."""
    resting = a_job(State.FAILED, lease_expires_at=NOW, next_attempt_at=NOW + MOMENT)
    assert claimed(resting) == Busy(NOW + MOMENT)
    taken = claimed(resting, NOW + MOMENT)
    assert isinstance(taken, Claimed)
    assert taken.job.next_attempt_at is None
    assert taken.job.history == ()


def test_the_lease_of_a_failed_job_holds_nobody_up() -> None:
    """G1: a worker that has given up holds no lease, though its record still carries one."""
    assert isinstance(claimed(a_job(State.FAILED)), Claimed)


@pytest.mark.parametrize("state", [State.RUNNING, State.FAILED])
def test_without_attempts_left_a_claim_is_only_for_the_burial(state: State) -> None:
    """G3: after the last attempt the job is claimed once more, and must not be run."""
    spent = a_job(state, attempts=3, lease_expires_at=NOW)
    taken = claimed(spent)
    assert isinstance(taken, Claimed)
    assert (taken.job.state, taken.job.fence, taken.job.attempts) == (State.RUNNING, 3, 4)
    error = job.exhausted(taken.job, LIMITS)
    assert error
    assert "3 attempts" in str(error)
    assert job.exhausted(spent, LIMITS) is None


def test_a_renewal_moves_the_lease_and_nothing_else() -> None:
    """E2: a heartbeat counts the lease from now; fence, attempts and token stay."""
    before = a_job()
    after = job.renewed(before, now=NOW, limits=LIMITS)
    assert after == replace(before, lease_expires_at=NOW + 2 * LIMITS.lease)


def test_an_end_carries_its_time_and_what_is_known() -> None:
    """G2: done has a summary; dead and held are to be told; superseded is not."""
    done = job.done(a_job(), now=NOW, summary={"rows": 3})
    assert (done.ended_at, done.summary, done.notified, done.history) == (
        NOW,
        {"rows": 3},
        True,
        (),
    )
    dead = job.dead(a_job(next_attempt_at=NOW), ERROR, now=NOW)
    assert (dead.ended_at, dead.next_attempt_at, dead.notified) == (NOW, None, False)
    held = job.held(a_job(), HeldError("no CRS"), now=NOW)
    assert (held.ended_at, held.notified, held.history[-1].code) == (NOW, False, "held")
    superseded = job.superseded(a_job(), now=NOW, why="a newer one")
    assert (superseded.ended_at, superseded.notified) == (NOW, True)
    assert superseded.history[-1].message == "a newer one"
    assert job.notified(dead) == replace(dead, notified=True)


def test_a_failure_is_due_again_after_its_pause() -> None:
    """G1: a failure notes its code, keeps the attempts and says when it is due."""
    failed = job.failed(a_job(), StorageBusyError("503"), now=NOW, limits=LIMITS)
    assert (failed.state, failed.attempts, failed.ended_at) == (State.FAILED, 2, None)
    assert failed.next_attempt_at == NOW + 20 * SECOND
    assert failed.history[-1].code == "storage_busy"
    assert failed.notified


def test_a_failure_of_the_last_attempt_is_dead() -> None:
    """G1, D5: the last attempt's failure ends the job under its own code."""
    error = ChecksumError("crc32c differs")
    dead = job.failed(a_job(attempts=3), error, now=NOW, limits=LIMITS)
    assert (dead.state, dead.history[-1].code, dead.notified) == (State.DEAD, "checksum", False)


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (8, 600), (17, 600), (10_000, 600)],
)
def test_pauses_double_up_to_a_bound(attempts: int, seconds: int) -> None:
    """G1: pauses double from the first and stop at ten minutes, however many there were."""
    assert LIMITS.wait_after(attempts) == timedelta(seconds=seconds)


def test_no_pause_stays_no_pause() -> None:
    """G1: with a pause of nothing every attempt is due at once."""
    assert replace(LIMITS, retry=timedelta(0)).wait_after(5) == timedelta(0)


def test_history_is_bounded_and_keeps_the_newest() -> None:
    """F11: twenty entries are kept, the latest ones, so a record cannot grow without end."""
    lived = a_job()
    for attempt in range(1, 31):
        failed = job.failed(
            replace(lived, state=State.RUNNING, attempts=attempt),
            StorageBusyError(f"number {attempt}"),
            now=NOW,
            limits=replace(LIMITS, max_attempts=99),
        )
        lived = failed
    assert [entry.attempt for entry in lived.history] == list(range(11, 31))


def test_what_a_record_carries_of_an_error_has_an_end_and_no_secret() -> None:
    """G10, F11: message and cure of an entry are scrubbed and cut; the cure stands by itself."""
    error = CorruptError("password=hunter2 " + "y" * 1_000_000, cure="pwd=hunter2 goes")
    for move in (State.DEAD, State.HELD, State.PARTIAL, State.FAILED):
        entry = _ended_as(move, error).history[-1]
        assert "hunter2" not in f"{entry}"
        assert len(entry.message) < 2050
        assert entry.cure == "pwd=*** goes"
        assert entry.message.endswith(f"; {entry.cure}")


def _ended_as(state: State, error: GateError) -> Job:
    if state is State.FAILED:
        return job.failed(a_job(), error, now=NOW, limits=LIMITS)
    if state is State.PARTIAL:
        return job.partial(a_job(), error, now=NOW, summary={})
    end = job.held if state is State.HELD else job.dead
    return end(a_job(), error, now=NOW)


REDRIVABLE = sorted(job.REDRIVABLE, key=lambda state: state.value)


@pytest.mark.parametrize("state", REDRIVABLE)
def test_a_redriven_job_is_due_at_once_with_all_its_attempts(state: State) -> None:
    """G7: attempts 0, fence + 1, another token, due now; whose wish it was is remembered."""
    ended = replace(
        job.dead(a_job(), ERROR, now=NOW - SECOND), state=state, summary={"overrides": {}}
    )
    again = job.redriven(ended, actor="ana", reason="access granted", token="new", now=NOW)
    assert (again.state, again.attempts, again.fence) == (State.FAILED, 0, ended.fence + 1)
    assert (again.token, again.next_attempt_at, again.ended_at) == ("new", NOW, None)
    assert (again.notified, again.summary) == (True, {})
    assert again.history[:-1] == ended.history
    assert again.history[-1] == HistoryEntry(
        NOW, ended.fence, ended.attempts, "redriven", "redriven by ana: access granted"
    )
    taken = claimed(again)
    assert isinstance(taken, Claimed)
    assert (taken.job.attempts, taken.job.fence) == (1, ended.fence + 2)
    assert job.exhausted(taken.job, LIMITS) is None


@pytest.mark.parametrize("state", sorted(set(State) - job.REDRIVABLE, key=lambda one: one.value))
def test_what_runs_or_ended_well_is_not_redriven(state: State) -> None:
    """G7: a job that is running, done or superseded has no attempts to be given."""
    with pytest.raises(ValueError, match=f"is {state.value} and cannot be redriven"):
        job.redriven(a_job(state), actor="ana", reason="", token="new", now=NOW)


def test_a_redrive_needs_no_reason() -> None:
    """G7: without a reason the history says who asked, and no more; secrets are masked."""
    again = job.redriven(a_job(State.DEAD), actor="ana", reason="", token="new", now=NOW)
    assert again.history[-1].message == "redriven by ana"
    told = job.redriven(a_job(State.DEAD), actor="ana", reason="pwd=x", token="new", now=NOW)
    assert told.history[-1].message == "redriven by ana: pwd=***"


def test_a_held_job_is_taken_up_with_its_attempts_anew() -> None:
    """Case 20: who revives a held job owns it under a new fence, with all attempts to come."""
    held = replace(job.held(a_job(State.RUNNING), ERROR, now=NOW, summary={"a": 1}), attempts=5)
    taken = job.revive(held, token="taker", now=NOW, limits=LIMITS).job
    assert (taken.state, taken.fence, taken.attempts) == (State.RUNNING, held.fence + 1, 1)
    assert (taken.token, taken.lease_expires_at) == ("taker", NOW + LIMITS.lease)
    assert taken.ended_at is None
    assert taken.summary == {"a": 1}


def test_a_job_that_is_held_again_writes_no_second_letter() -> None:
    """Case 20: without anything new a revived job is held as it was, its letter sent or not."""
    for notified in (True, False):
        held = replace(job.held(a_job(State.RUNNING), ERROR, now=NOW), notified=notified)
        taken = job.revive(held, token="taker", now=NOW, limits=LIMITS).job
        again = job.still_held(taken, now=NOW)
        assert (again.state, again.notified) == (State.HELD, notified)
        assert again.history == held.history


@pytest.mark.parametrize("end", [State.DONE, State.SUPERSEDED])
def test_a_job_that_ends_well_owes_no_letter(end: State) -> None:
    """G5: a held job that goes on and ends well has no dead letter to send."""
    assert MOVERS[end](a_job(notified=False)).notified


@pytest.mark.parametrize(
    ("standing", "due_at"),
    [
        (a_job(), NOW + 5 * SECOND),
        (a_job(State.FAILED, next_attempt_at=NOW + SECOND), NOW + SECOND),
        (a_job(State.DEAD, ended_at=NOW, notified=False), NOW),
        (
            a_job(State.HELD, ended_at=NOW, notified=False, next_attempt_at=NOW + SECOND),
            NOW + SECOND,
        ),
        (a_job(State.DEAD, ended_at=NOW), None),
        (a_job(State.DONE, ended_at=NOW), None),
    ],
    ids=["running", "failed", "letter", "letter put off", "told", "done"],
)
def test_a_job_is_due_while_somebody_has_to_act(standing: Job, due_at: datetime | None) -> None:
    """H1, G5: due are an expired lease, a pause that is over, and a letter that was not sent."""
    assert standing.due_at == due_at


def test_a_revived_job_waits_for_nothing_that_its_letter_waited_for() -> None:
    """G5: a letter that was put off keeps nobody from taking the job over later."""
    held = a_job(State.HELD, ended_at=NOW, notified=False)
    late = job.letter_postponed(held, now=NOW, limits=LIMITS)
    assert late.due_at == NOW + LIMITS.retry_most
    assert job.notified(late).due_at is None
    revived = job.revive(job.notified(late), token="t", now=NOW, limits=LIMITS).job
    assert isinstance(claimed(revived, NOW + LIMITS.lease), Claimed)


def test_a_run_that_was_cut_short_is_due_at_once() -> None:
    """E17: a run that the function's time did not suffice for costs an attempt and no pause."""
    after = job.cut_short(a_job(), now=NOW, limits=LIMITS, progress=False)
    assert (after.state, after.attempts, after.next_attempt_at) == (State.FAILED, 2, NOW)
    [entry] = after.history
    assert (entry.code, entry.attempt, entry.at) == ("out_of_time", 2, NOW)
    assert entry.message.startswith("gs://uploads/in/roads: not done after 3600 s; ")
    assert isinstance(claimed(after), Claimed)


def test_a_bundle_that_never_fits_the_time_is_dead_with_advice() -> None:
    """E17: the last attempt that is cut short ends the job, and its letter says what helps."""
    after = job.cut_short(a_job(attempts=3), now=NOW, limits=LIMITS, progress=False)
    assert (after.state, after.attempts, after.notified) == (State.DEAD, 3, False)
    [entry] = after.history
    assert (entry.code, entry.at) == ("too_slow", NOW)
    told = "gs://uploads/in/roads: 3 attempts were stopped, the last one after 3600 s; "
    assert entry.message.startswith(f"{told}split the layer")


def test_progress_gives_a_run_that_was_cut_short_its_attempts_back() -> None:
    """E17: a run that has published something leaves less to do, so counting begins anew."""
    after = job.cut_short(a_job(attempts=3), now=NOW, limits=LIMITS, progress=True)
    again = claimed(after)
    assert isinstance(again, Claimed)
    assert (again.job.attempts, again.job.fence) == (1, 3)


def test_an_interrupted_run_costs_no_attempt() -> None:
    """E2: a job that was given back in a shutdown can be claimed at once for the same attempt."""
    after = job.interrupted(a_job(), ShutdownError("stopped"), now=NOW)
    assert (after.due_at, after.history[-1].at) == (NOW, NOW)
    again = claimed(after)
    assert isinstance(again, Claimed)
    assert (again.job.attempts, again.job.fence) == (2, 3)
    assert [entry.code for entry in again.job.history] == ["shutdown"]


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 60), (2, 120), (3, 240), (4, 480), (5, 486), (6, 486), (99, 486)]
)
def test_each_attempt_has_twice_the_lease_up_to_the_time_of_a_run(
    attempt: int, seconds: int
) -> None:
    """E16: a call that outlasted a lease, heartbeat and all, gets a longer one the next time."""
    limits = replace(LIMITS, run=486 * SECOND)
    assert limits.lease_of(attempt) == seconds * SECOND


def test_a_lease_longer_than_a_run_stays_as_it_is() -> None:
    """E16: the time of a run bounds how a lease grows, not what the deployment has chosen."""
    assert replace(LIMITS, run=SECOND).lease_of(3) == LIMITS.lease
