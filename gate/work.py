"""What tasks call: each kind of task, the one that looks at a bundle and the one that runs a job.

A task is called until a call succeeds, so what it asks for is decided anew in each:

    its job has ended, or is gone     nothing is left to do
    somebody has it, or it pauses     the call fails, and is made again later
    else                              it is claimed, run, and the call succeeds if the job has
                                      ended; another attempt is another call

A task that this function cannot carry out, and never will, is a dead letter, and succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gate import dead_letters, job
from gate.calls import Call
from gate.dead_letters import DeadLetters
from gate.events import Malformed
from gate.identity import is_id
from gate.ingest import Ending
from gate.intake import Receipt
from gate.outcomes import Outcome
from gate.poll import Poll, poll_task
from gate.settings import Settings
from gate.store.port import Store, StoredJob

# How often a job is read again that the sweep, or somebody else, has just touched.
CLAIM_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Worked:
    """What became of one call of a task, and how its job ended if one was run."""

    receipt: Receipt
    ending: Ending | None = None

    @property
    def again(self) -> bool:
        """Tell whether the task must be called again."""
        return self.receipt.redeliver or bool(self.ending and self.ending.redeliver)


# Carries out one kind of task; `None` if its payload is not what such a task carries.
Kind = Callable[[Mapping[str, object]], Worked | None]


@dataclass(frozen=True, slots=True)
class Work:
    """Carry out tasks, by the `kind` in their payload."""

    kinds: Mapping[str, Kind]
    letters: DeadLetters

    def __call__(self, call: Call) -> Worked:
        """Carry out one call. Raises what its kind raises, and what the dead letters raise."""
        kind = self.kinds.get(str(call.payload.get("kind")))
        worked = kind(call.payload) if kind else None
        if worked:
            return worked
        reason = "its body is not that of a task of ours"
        self.letters.send(dead_letters.of_event(Malformed(reason, call.raw, call.task)))
        return Worked(Receipt(Outcome.MALFORMED, reason))


@dataclass(frozen=True, slots=True)
class LookWork:
    """Look at the bundle that a task names, and run the job that this leads to.

    `run` runs a job that was claimed, or gives it to another task.
    """

    poll: Poll
    run: Callable[[StoredJob], Ending | None]

    def __call__(self, payload: Mapping[str, object]) -> Worked | None:
        """Take the look. Raises what `Poll.look` raises, and what the queue raises."""
        task = poll_task(payload)
        if task is None:
            return None
        receipt = self.poll.look(task)
        return Worked(receipt, self.run(receipt.work) if receipt.work else None)


@dataclass(frozen=True, slots=True)
class JobWork:
    """Run the job that a task names.

    `run` runs a job that was claimed, or sends the letter of one that has ended;
    `ready` raises `ConfigurationError` while this process could run none.
    """

    store: Store
    settings: Settings
    run: Callable[[StoredJob], Ending]
    new_token: Callable[[], str]
    ready: Callable[[], object]

    def __call__(self, payload: Mapping[str, object]) -> Worked | None:
        """Claim the job and run it. Raises what the store raises, and `ConfigurationError`."""
        revision_id = payload.get("revision")
        if not (isinstance(revision_id, str) and is_id(revision_id)):
            return None
        receipt = self._claimed(revision_id)
        return Worked(receipt, self.run(receipt.work) if receipt.work else None)

    def _claimed(self, revision_id: str) -> Receipt:
        for _ in range(CLAIM_ROUNDS):
            stored = self.store.job(revision_id)
            if stored is None:
                return Receipt(Outcome.NEEDLESS, f"revision {revision_id} is not known (any more)")
            receipt = self._taken(stored)
            if receipt:
                return receipt
        return Receipt(Outcome.IN_PROGRESS, f"revision {revision_id}: just taken over")

    def _taken(self, stored: StoredJob) -> Receipt | None:
        """Take the job up as it was read; `None` if somebody has moved it since."""
        known, limits = stored.job, self.settings.limits
        if known.ended and not known.notified:
            return Receipt(Outcome.BURIED, f"revision {known.id}, letter due", None, stored)
        taken = job.taken_up(known, token=self.new_token(), now=stored.now, limits=limits)
        match taken:
            case job.Ended(state):
                return Receipt(Outcome.NEEDLESS, f"revision {known.id} is {state.value}")
            case job.Busy(until):
                told = until.isoformat(timespec="seconds")
                return Receipt(Outcome.IN_PROGRESS, f"revision {known.id}, until {told}")
        self.ready()
        work = self.store.replace(stored, taken.job)
        if work is None:
            return None
        outcome = Outcome.BURIED if job.exhausted(taken.job, limits) else Outcome.RAN
        detail = f"revision {known.id}, attempt {taken.job.attempts}"
        return Receipt(outcome, detail, None, work)
