"""The gate that looks after a while: `GATE=poll`.

    any event of a bundle    enqueue a task, due one to two delays after the upload
    a task                   list the bucket
      all required is there    record, decide and dispatch, as `gate.intake` does
      something is missing     enqueue the next task, after a pause twice as long
      too many times           a dead letter that names what never came

Nothing is stored of a bundle before it is whole.

The name of a task says what it will see. Time is cut into slots of one delay. The
uploads of a bundle, in one spelling, that fall into one slot share a task, and it is due when
the slot after theirs has ended: whenever it runs, it lists the bucket after all of them. So
it does not matter whether a name is taken by a task that waits, runs, or has long
been done with: the upload was, or will be, in its listing. An upload in another
slot has another name. The slot of an upload is that of the event's own time, which is
the time of Cloud Storage and the same in every delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gate import dead_letters
from gate.dead_letters import DeadLetters
from gate.events import ObjectFinalized
from gate.gating import Gating
from gate.identity import bundle_id, digest, is_id
from gate.intake import Intake, Receipt
from gate.listing import Listing, Live, missing_of
from gate.manifest import Manifest
from gate.names import Bundle, Reason
from gate.outcomes import Outcome
from gate.tasks.port import Task, Tasks

KIND = "poll"


@dataclass(frozen=True, slots=True)
class PollTask:
    """The `attempt`-th look, counted from 1, at the bundle of an object.

    `chain` is the digest of the bundle, its spelling and the slot of the uploads that it
    is for.
    """

    bucket: str
    name: str
    chain: str
    attempt: int

    def task(self, due_at: datetime | None) -> Task:
        """Return it as a task of the queue."""
        payload: dict[str, str | int] = {
            "kind": KIND,
            "bucket": self.bucket,
            "name": self.name,
            "chain": self.chain,
            "attempt": self.attempt,
        }
        return Task(f"{self.chain}-{self.attempt}", payload, due_at)


def poll_task(payload: Mapping[str, object]) -> PollTask | None:
    """Return what a task carries; `None` if that is not what such a task does."""
    match payload:
        case {
            "bucket": str(bucket),
            "name": str(name),
            "chain": str(chain),
            "attempt": int(attempt),
        } if is_id(chain) and attempt > 0:
            return PollTask(bucket, name, chain, attempt)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Poll:
    """Take in events by tasks that list.

    `clock` tells the time of this process; it decides only when tasks are due.
    """

    intake: Intake
    listing: Listing
    letters: DeadLetters
    tasks: Tasks
    required: tuple[str, ...]
    gating: Gating
    clock: Callable[[], datetime]

    def __call__(self, event: ObjectFinalized) -> Receipt:
        """Take in one event: see to it that a task looks at its bundle after the upload.

        Raises what `Intake` and the queue raise.
        """
        component = self.intake.admitted(event)
        if isinstance(component, Receipt):
            return component
        if component.bundle.archive:
            return self.intake.record(component, event.generation, event.event_id)
        slot, due_at = self._slot(event)
        chain = digest(bundle_id(component.bundle), component.sibling_start, slot)
        return self._scheduled(PollTask(event.bucket, event.name, chain, 1), due_at)

    def look(self, task: PollTask) -> Receipt:
        """Take a look: dispatch what is whole, come back for what is not, or give it up.

        What is recorded is the newest object of the bundle: the same task, called
        again, goes on with the job that it has dispatched. Raises what `Intake`,
        the listing, the queue and the dead letters raise.
        """
        component = self.intake.parsed(task.bucket, task.name)
        if isinstance(component, Reason):
            return Receipt(Outcome.IGNORED, component.value)
        found = self.listing.whole(component, self.required)
        missing = missing_of(found, self.required)
        if not missing:
            newest, pin = max(found, key=lambda one: (one[1].generation, one[1].name))
            return self.intake.record(newest, pin.generation, "", tuple(pin for _, pin in found))
        if not found:
            return Receipt(Outcome.WITHDRAWN, "nothing of it is in the bucket any more")
        return self._lacking(task, component.bundle, found, missing)

    def _lacking(
        self, task: PollTask, bundle: Bundle, found: Live, missing: tuple[str, ...]
    ) -> Receipt:
        needs = f"needs {' '.join(missing)}"
        if task.attempt >= self.gating.most_looks:
            known = Manifest(bundle).joined(pin for _, pin in found)
            self.letters.send(dead_letters.of_incomplete(known, missing))
            return Receipt(Outcome.INCOMPLETE, f"{needs} after {task.attempt} looks")
        due_at = self.clock() + self.gating.pause_after(task.attempt)
        return self._scheduled(replace(task, attempt=task.attempt + 1), due_at, f"{needs}; ")

    def _scheduled(self, task: PollTask, due_at: datetime | None, why: str = "") -> Receipt:
        by = "a task" if self.tasks.enqueue(task.task(due_at)) else "the task that is there"
        due = due_at.isoformat(timespec="seconds") if due_at else "at once"
        return Receipt(Outcome.SCHEDULED, f"{why}look {task.attempt} by {by}, due {due}")

    def _slot(self, event: ObjectFinalized) -> tuple[str, datetime | None]:
        """Return the name of the slot that an upload falls into, and when its task is due.

        An event that does not say when its object was uploaded, or says a time to
        come, has a slot of its own.
        """
        now, delay, at = self.clock(), self.gating.delay, event.occurred_at
        if at is None or at - now > delay:
            return f"generation {event.generation}", now + delay
        delay_seconds = int(delay.total_seconds())
        number = int(at.timestamp()) // delay_seconds
        due_seconds = (number + 2) * delay_seconds
        past = due_seconds <= now.timestamp()
        due_at = None if past else datetime.fromtimestamp(due_seconds, UTC)
        return f"slot {number} of {delay_seconds} s", due_at
