"""A job: one revision on its way into the sink, and who may take it there.

              create                 finish
      (none) ───────► running ───────────────► done | partial | dead | superseded | held
                       │  ▲
       fail transient  │  │ take over: lease expired, or failed and due;
                       ▼  │            fence + 1, attempts + 1
                      failed ◄──────────────── partial | dead | held
                             redrive, by a person: fence + 1, attempts 0

Where jobs are given to tasks, one is created as queued, which is nobody's yet:
the claim of its task takes it to running, as attempt 1.

A worker owns a job by its lease, and the fence says which owner is the latest:
a worker that was stalled past its lease finds that its next conditional write
is refused. Nothing is decided by a worker's clock; `now` is always the time
at which the store read the job. `attempts` counts claims, so a worker that was
killed without a word has used one up; one that gives the job back because its
instance is shut down has not.

Everything here is a value or a function from values to values. That a move
lands only on the state it was decided from is the store's promise
(`Store.replace`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from gate.errors import AttemptsExhaustedError, GateError, OutOfTimeError, TooSlowError
from gate.identity import Revision
from gate.scrubbing import bounded

HISTORY_LENGTH = 20
# The code of a history entry that says who redrove the job.
REDRIVEN = "redriven"
LAST_CURE = "once the cause has passed, redrive the job or upload the bundle again"


class State(Enum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"
    PARTIAL = "partial"
    DEAD = "dead"
    SUPERSEDED = "superseded"
    HELD = "held"


# What a person may give new attempts.
REDRIVABLE = frozenset({State.FAILED, State.PARTIAL, State.DEAD, State.HELD})
_REDRIVE = frozenset({State.FAILED, State.SUPERSEDED})

# The legal moves. A worker reaches an end only from a claim that it still owns.
# A held job is taken up again when a person may have supplied the fact. From
# where a person can redrive a job, it becomes due again, or turns out to be
# overtaken.
MOVES: Mapping[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.RUNNING}),
    State.RUNNING: frozenset(State) - {State.QUEUED},
    State.FAILED: frozenset({State.RUNNING}) | _REDRIVE,
    State.DONE: frozenset(),
    State.PARTIAL: _REDRIVE,
    State.DEAD: _REDRIVE,
    State.SUPERSEDED: frozenset(),
    State.HELD: frozenset({State.RUNNING}) | _REDRIVE,
}

ENDED = frozenset({State.DONE, State.PARTIAL, State.DEAD, State.SUPERSEDED, State.HELD})
# Held waits for a person: the time-to-live must not remove it.
FINISHED = ENDED - {State.HELD}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a lease and a run may last, how often a job is tried, and how far apart."""

    lease: timedelta
    max_attempts: int
    retry: timedelta
    retry_most: timedelta = timedelta(minutes=10)
    run: timedelta = timedelta(hours=1)

    def lease_of(self, attempt: int) -> timedelta:
        """Return how long the lease of an attempt lasts: doubling, up to the time of a run.

        What has outlasted a lease once, in one call that stops the heartbeat
        too, may do so again.
        """
        return min(self.lease * (1 << min(attempt - 1, 16)), max(self.lease, self.run))

    def wait_after(self, attempts: int) -> timedelta:
        """Return the pause after the given number of attempts: doubling, bounded."""
        return min(self.retry * (1 << min(attempts - 1, 16)), self.retry_most)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """How one attempt ended; kept in a list of bounded length.

    `message` is whole; `cure` is its last part, what a person can do, if anything.
    """

    at: datetime
    fence: int
    attempt: int
    code: str
    message: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One revision and its way into the sink.

    `token` names the call that made the latest claim; `dispatched_by` is the
    claim id of the event that created the job. `lease_expires_at` of a queued
    job is how long its task is waited for. `summary` is the bounded form
    of the report. `notified` is false while a dead letter is still to be sent.
    """

    revision: Revision
    state: State
    fence: int
    attempts: int
    token: str
    dispatched_by: str
    created_at: datetime
    lease_expires_at: datetime
    next_attempt_at: datetime | None = None
    ended_at: datetime | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[HistoryEntry, ...] = ()
    notified: bool = True

    @property
    def id(self) -> str:
        """Return the id of the job's document: the id of its revision."""
        return self.revision.id

    @property
    def ended(self) -> bool:
        """Tell whether no worker will touch the job again by itself."""
        return self.state in ENDED

    @property
    def due_at(self) -> datetime | None:
        """Return when somebody has to take the job up: a worker, or whoever sends its letter.

        `None` if nobody has to.
        """
        if self.state in (State.QUEUED, State.RUNNING):
            return self.lease_expires_at
        if self.state is State.FAILED:
            return self.next_attempt_at
        return None if self.notified else self.next_attempt_at or self.ended_at


@dataclass(frozen=True, slots=True)
class Claimed:
    """The caller may run this job, once it has been written."""

    job: Job


@dataclass(frozen=True, slots=True)
class Busy:
    """Another worker holds the job, or its pause lasts, until `until`."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """There is nothing left to do."""

    state: State


def opened(
    revision: Revision,
    *,
    dispatched_by: str,
    token: str,
    now: datetime,
    limits: Limits,
    fence_floor: int = 0,
) -> Job:
    """Return the job that a dispatch creates: claimed by its creator.

    Its fence lies above `fence_floor`, the greatest that the bundle has had:
    a job whose document was removed and is made again has one that no worker of
    the earlier document holds.
    """
    return Job(
        revision=revision,
        state=State.RUNNING,
        fence=fence_floor + 1,
        attempts=1,
        token=token,
        dispatched_by=dispatched_by,
        created_at=now,
        lease_expires_at=now + limits.lease,
    )


def queued(job: Job) -> Job:
    """Return an opened job as one that is left to a task: nobody's, its attempts all to come."""
    return replace(job, state=State.QUEUED, attempts=0)


def claim(job: Job, *, token: str, now: datetime, limits: Limits) -> Claimed | Busy | Ended:
    """Tell whether a worker may take the job over at `now`.

    A job whose attempts are used up can be claimed once more, to be buried: see
    `exhausted`.
    """
    if job.ended:
        return Ended(job.state)
    if job.state is State.RUNNING and job.lease_expires_at > now:
        return Busy(job.lease_expires_at)
    if job.next_attempt_at is not None and job.next_attempt_at > now:
        return Busy(job.next_attempt_at)
    if job.state is State.RUNNING:
        job = _remember(job, now, "lease_expired", "the worker stopped without a word")
    return Claimed(
        replace(
            _moved(job, State.RUNNING),
            fence=job.fence + 1,
            attempts=job.attempts + 1,
            token=token,
            lease_expires_at=now + limits.lease_of(job.attempts + 1),
            next_attempt_at=None,
        )
    )


def exhausted(job: Job, limits: Limits) -> AttemptsExhaustedError | None:
    """Return why a claimed job must not be run, `None` if it may be.

    A worker that dies without a word has used up an attempt; one claim after
    the last attempt finds out what has become of the job and ends it.
    """
    if job.attempts <= limits.max_attempts:
        return None
    what = f"{limits.max_attempts} attempts ended without a result"
    return AttemptsExhaustedError(what, where=str(job.revision.bundle))


def revive(job: Job, *, token: str, now: datetime, limits: Limits) -> Claimed:
    """Take up a held job, to see whether a person has supplied the fact.

    Its attempts count from one again, since it was not they that failed. Its
    summary stays: it tells what was known when the job was held.
    """
    return Claimed(
        replace(
            _moved(job, State.RUNNING),
            fence=job.fence + 1,
            attempts=1,
            token=token,
            lease_expires_at=now + limits.lease,
            next_attempt_at=None,
            ended_at=None,
        )
    )


def still_held(job: Job, *, now: datetime) -> Job:
    """Return a revived job put aside again, since nothing has changed: no second letter."""
    return replace(_moved(job, State.HELD), ended_at=now)


def taken_up(job: Job, *, token: str, now: datetime, limits: Limits) -> Claimed | Busy | Ended:
    """Tell whether a worker may have the job that was left to it: by a claim, or a revival."""
    take = revive if job.state is State.HELD else claim
    return take(job, token=token, now=now, limits=limits)


def renewed(job: Job, *, now: datetime, limits: Limits) -> Job:
    """Return the job with its lease counted from `now`."""
    return replace(_moved(job, State.RUNNING), lease_expires_at=now + limits.lease_of(job.attempts))


def done(job: Job, *, now: datetime, summary: Mapping[str, Any]) -> Job:
    """Return the job ended well: whatever letter it may have owed is void."""
    return replace(_moved(job, State.DONE), ended_at=now, summary=summary, notified=True)


def superseded(job: Job, *, now: datetime, why: str) -> Job:
    """Return the job ended because a newer revision takes its place."""
    ended = _remember(job, now, "superseded", why)
    return replace(_moved(ended, State.SUPERSEDED), ended_at=now, notified=True)


def partial(job: Job, error: GateError, *, now: datetime, summary: Mapping[str, Any]) -> Job:
    """Return the job ended with some layers published, and a letter on the others to be sent."""
    ended = _failure(job, now, error)
    return replace(_moved(ended, State.PARTIAL), ended_at=now, summary=summary, notified=False)


def held(
    job: Job, error: GateError, *, now: datetime, summary: Mapping[str, Any] | None = None
) -> Job:
    """Return the job put aside until a person supplies a fact."""
    ended = _failure(job, now, error)
    return replace(_moved(ended, State.HELD), ended_at=now, summary=summary or {}, notified=False)


def dead(
    job: Job, error: GateError, *, now: datetime, summary: Mapping[str, Any] | None = None
) -> Job:
    """Return the job ended as a dead letter that is still to be sent."""
    ended = _failure(job, now, error)
    return replace(
        _moved(ended, State.DEAD),
        ended_at=now,
        next_attempt_at=None,
        summary=summary or {},
        notified=False,
    )


def failed(job: Job, error: GateError, *, now: datetime, limits: Limits) -> Job:
    """Return the job after a failure that may pass: due again later, or dead.

    The letter of a dead one does not promise that it is tried again.
    """
    if job.attempts >= limits.max_attempts:
        cure = f"attempt {job.attempts} was the last; {LAST_CURE}"
        return dead(job, error.with_cure(cure), now=now)
    ended = _failure(job, now, error)
    return replace(
        _moved(ended, State.FAILED), next_attempt_at=now + limits.wait_after(job.attempts)
    )


def cut_short(job: Job, *, now: datetime, limits: Limits, progress: bool) -> Job:
    """Return the job after a run that the time of the function did not suffice for.

    Due again at once, unless that was the last attempt: then it is dead. After
    `progress` the attempts count from one again, for the next has less to do.
    """
    where = str(job.revision.bundle)
    seconds = limits.run.total_seconds()
    if job.attempts >= limits.max_attempts and not progress:
        what = f"{job.attempts} attempts were stopped, the last one after {seconds:.0f} s"
        return dead(job, TooSlowError(what, where=where), now=now)
    ended = _failure(job, now, OutOfTimeError(f"not done after {seconds:.0f} s", where=where))
    attempts = 0 if progress else job.attempts
    return replace(_moved(ended, State.FAILED), next_attempt_at=now, attempts=attempts)


def interrupted(job: Job, error: GateError, *, now: datetime) -> Job:
    """Return the job given back before its time: due at once, the attempt not counted."""
    ended = _failure(job, now, error)
    return replace(_moved(ended, State.FAILED), next_attempt_at=now, attempts=job.attempts - 1)


def notified(job: Job) -> Job:
    """Return the ended job with its dead letter marked as sent."""
    return replace(job, notified=True)


def letter_postponed(job: Job, *, now: datetime, limits: Limits) -> Job:
    """Return the ended job with its dead letter due again later, behind others that are due."""
    return replace(job, next_attempt_at=now + limits.retry_most)


def redriven(job: Job, *, actor: str, reason: str, token: str, now: datetime) -> Job:
    """Return the job due at once with all its attempts to come, as a person asked.

    The fence grows and the token is new, so that a worker of an earlier claim
    stays out. The history is kept, with who asked and why. The summary is not:
    a held job is to be run even if the metadata of its objects is what it was.
    The letter it may have owed is void. Raises `ValueError` if the job is not
    one of `REDRIVABLE`.
    """
    if job.state not in REDRIVABLE:
        raise ValueError(f"job {job.id} is {job.state.value} and cannot be redriven")
    asked = f"redriven by {actor}: {reason}" if reason else f"redriven by {actor}"
    return replace(
        _moved(_remember(job, now, REDRIVEN, asked), State.FAILED),
        fence=job.fence + 1,
        attempts=0,
        token=token,
        next_attempt_at=now,
        ended_at=None,
        summary={},
        notified=True,
    )


def _failure(job: Job, now: datetime, error: GateError) -> Job:
    return _remember(job, now, error.code, str(error), bounded(error.todo))


def _remember(job: Job, now: datetime, code: str, message: str, cure: str = "") -> Job:
    entry = HistoryEntry(now, job.fence, job.attempts, code, bounded(message), cure)
    return replace(job, history=(*job.history, entry)[-HISTORY_LENGTH:])


def _moved(job: Job, state: State) -> Job:
    if state not in MOVES[job.state]:
        raise ValueError(f"job {job.id} cannot go from {job.state.value} to {state.value}")
    return replace(job, state=state)
