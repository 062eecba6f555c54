"""When the sweep looks at a manifest again, and what is to be said until then.

    uploads rest, the newest revision has ended      Rest: not before something new is recorded
    it has not ended, or uploads have not rested     Again, once it should have
    a required file is missing                       Again, at doubling pauses
      and has been for `stalled_after`               Stalled, said once
      and has been for `give_up`                     GiveUp: a dead letter, then Rest
      and nothing of the bundle is left              Rest: it was taken back

Time counts from the last claim, by the store's clock: whoever goes on uploading
is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gate.job import FINISHED, Job
from gate.manifest import Decision, Dispatched, Manifest, Settling, Waiting


@dataclass(frozen=True, slots=True)
class Patience:
    """How long uploads rest, until a bundle counts as stalled, and until it is given up."""

    settle: timedelta
    stalled_after: timedelta
    give_up: timedelta


@dataclass(frozen=True, slots=True)
class Again:
    """Look again at `at`."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Stalled:
    """Tell a person what is missing, and look again at `at`."""

    missing: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Send a dead letter that names what is missing, then rest."""

    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """Do not look again before something is recorded; a finished manifest may expire."""

    finished: bool


NextLook = Again | Stalled | GiveUp | Rest


def next_look(
    known: Manifest,
    decision: Decision,
    *,
    job: Job | None,
    present: bool,
    now: datetime,
    patience: Patience,
) -> NextLook:
    """Tell what follows once a manifest has been looked at and what was due is dispatched.

    `job` is that of the decision's revision, `None` if there is none (any more).
    `present` tells whether the bucket holds anything of the bundle. `now` is
    the store's time of the look.
    """
    match decision:
        case Waiting(missing):
            if not present:
                return Rest(finished=True)
            return _waiting(known, missing, now, patience)
        case Settling(until=until):
            return Again(until)
        case Dispatched():
            return _dispatched(job, now, patience)
        case _:
            return Again(now + patience.settle)


def _waiting(
    known: Manifest, missing: tuple[str, ...], now: datetime, patience: Patience
) -> NextLook:
    rested_since = known.updated_at or now
    age = now - rested_since
    if age >= patience.give_up:
        return GiveUp(missing)
    later = now + max(age, patience.settle)
    if age < patience.stalled_after:
        return Again(min(later, rested_since + patience.stalled_after))
    at = min(later, rested_since + patience.give_up)
    return Again(at) if known.stalled else Stalled(missing, at)


def _dispatched(job: Job | None, now: datetime, patience: Patience) -> NextLook:
    if job is None:
        return Rest(finished=True)
    if job.due_at is None:
        return Rest(finished=job.state in FINISHED)
    return Again(max(job.due_at, now) + patience.settle)
