"""One event: record it, decide what its bundle calls for, dispatch if it is due.

The order of steps is the protocol: record (claim and manifest in one
transaction), read, decide, dispatch. Where the transaction itself shows that a
required file is missing, there is nothing to read. A call that dies between any two of them
is finished by the redelivery of its event, because a duplicate goes through
the same steps and every write is conditional.

The events of one bundle arrive together, and several may read it whole. Until
the uploads have rested, they leave the dispatch to the one that was recorded
last, which reads no less than they do. It cannot be lost: if that one dies before
it dispatches, it is not acknowledged and comes back. After that, whoever comes
dispatches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gate import job, log, manifest
from gate.errors import ConfigurationError, GateError
from gate.events import ObjectFinalized
from gate.identity import Pin, Revision
from gate.manifest import Decision, Dispatch, Dispatched, Manifest, Settling, Waiting
from gate.names import Bundle, Component, Reason, extension_of, parse
from gate.outcomes import Outcome
from gate.settings import Settings
from gate.store.port import Claim, Incomplete, Recorded, Store, StoredJob, StoredManifest

# The outcomes whose effect is not yet all in the store or the sink: the event
# comes back, since it takes a job in progress over as soon as its worker is lost,
# and since nobody else may look whether a bundle has become whole.
UNSETTLED = frozenset({Outcome.IN_PROGRESS, Outcome.LACKING})


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a delivery, why, and the job that the caller now has to run.

    `work` stands with `DISPATCHED` and `RESUMED` (run it), with `BURIED` (end it,
    or send its dead letter) and with `QUEUED` (nobody has claimed it: give it to a task).
    """

    outcome: Outcome
    detail: str
    claim: Claim | None = None
    work: StoredJob | None = None

    @property
    def redeliver(self) -> bool:
        """Tell whether the event must be delivered again."""
        return self.outcome in UNSETTLED


def _ready() -> None:
    """Stand for a process that can run jobs."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Take in events over a store.

    `siblings` lists the live objects whose names begin as a component's does;
    it is asked once, directly before a dispatch, for sidecars whose events are
    still on their way.
    `new_token` returns a new random text for each call. `ready` raises
    `ConfigurationError` while this process could run no job: it is asked before
    one is begun, so that no attempt is spent and the event comes again. Where jobs
    are given to tasks, this process runs none.
    """

    store: Store
    settings: Settings
    siblings: Callable[[Component], Iterable[Pin]]
    new_token: Callable[[], str]
    ready: Callable[[], object] = _ready

    def __call__(self, event: ObjectFinalized) -> Receipt:
        """Take in one event.

        Raises as `admitted` does, and whatever the store raises.
        """
        component = self.admitted(event)
        if isinstance(component, Receipt):
            return component
        return self.record(component, event.generation, event.event_id)

    def admitted(self, event: ObjectFinalized) -> Component | Receipt:
        """Return the component that an event tells of, or the receipt of one that is ignored.

        Raises `ConfigurationError` if all that could trigger us counts as output
        of the sink.
        """
        if event.bucket != (self.settings.source_bucket or event.bucket):
            return Receipt(Outcome.IGNORED, Reason.BUCKET.value)
        if self.settings.swallows(event.bucket):
            raise ConfigurationError(
                f"it holds gs://{event.bucket}/{self.settings.source_prefix}, which triggers us",
                where=f"SINK={self.settings.sink}",
                cure="give it a prefix, better a bucket, of its own",
            )
        component = self.parsed(event.bucket, event.name)
        if isinstance(component, Reason):
            return Receipt(Outcome.IGNORED, component.value)
        return component

    def record(
        self,
        component: Component,
        generation: int,
        event_id: str,
        live: tuple[Pin, ...] | None = None,
    ) -> Receipt:
        """Take in one generation of a component, however it was heard of.

        `live` are the objects of its bundle, if a listing has shown that it is whole.
        What is due is then decided as if the events of all of them had come, and
        those that make up what is dispatched are recorded with it.
        """
        claim = Claim(component, generation, event_id, self.new_token())
        whole = live is not None or component.bundle.archive
        recorded = self.store.record(claim, () if whole else self.settings.required)
        if isinstance(recorded, Incomplete):
            return _recorded_only(claim, recorded.newest, Waiting(recorded.missing))
        for revision_id in recorded.unended:
            receipt = self._follow(claim, revision_id)
            if receipt is not None:
                return receipt
        return self._decided(claim, recorded, live)

    def note(self, component: Component, generation: int) -> None:
        """Record a generation that was found in the bucket, and leave what follows to the sweep.

        Its event, should it come after all, is a duplicate.
        """
        self.store.record(Claim(component, generation, "", self.new_token()))

    def again(self, stored: StoredManifest) -> Receipt:
        """Decide once more what a manifest calls for, in the name of its newest component."""
        known = stored.manifest
        newest = max(known.current().values(), key=lambda pin: pin.generation)
        component = Component(known.bundle, newest.name, extension_of(newest.name))
        claim = Claim(component, newest.generation, "", self.new_token())
        return self._decided(claim, Recorded(False, True, known, stored.now))

    def _decided(
        self, claim: Claim, recorded: Recorded, live: tuple[Pin, ...] | None = None
    ) -> Receipt:
        unheard = _newer(live or (), recorded.manifest)
        known = recorded.manifest.joined(unheard)
        if unheard:
            # How long they have rested is not known.
            known = replace(known, updated_at=recorded.now)
        decision = manifest.decide(
            known,
            recorded.now,
            required=self.settings.required,
            settle=self.settings.retention.settle,
        )
        if isinstance(decision, Dispatch):
            if self._left_to_another(recorded):
                outcome = Outcome.INCLUDED if recorded.first else Outcome.DUPLICATE
                return Receipt(outcome, "left to the event recorded last", claim)
            return self._dispatch(claim, recorded, None if live is None else unheard)
        newest = known.components.get(claim.component.name, 0)
        done = known.dispatched.get(claim.component.extension, 0)
        if isinstance(decision, Settling) and (unheard or newest == claim.generation > done):
            for pin in unheard:
                component = Component(known.bundle, pin.name, extension_of(pin.name))
                self.note(component, pin.generation)
            until = decision.until.isoformat(timespec="milliseconds")
            return Receipt(Outcome.SETTLING, f"until {until}", claim)
        if not recorded.first:
            return Receipt(Outcome.DUPLICATE, _standing(decision), claim)
        return _recorded_only(claim, newest, decision)

    def _left_to_another(self, recorded: Recorded) -> bool:
        """Tell whether the event recorded last will dispatch what is due, for it saw it become so.

        Two revisions joined became due by a dispatch and by no event: nobody is
        waited for.
        """
        known = recorded.manifest
        changed_at = known.updated_at or recorded.now
        resting = recorded.now >= changed_at + self.settings.retention.settle
        joined = sum(known.dispatched.values()) > known.dispatched_order
        return not (recorded.latest or resting or joined)

    def _dispatch(self, claim: Claim, recorded: Recorded, found: tuple[Pin, ...] | None) -> Receipt:
        """Dispatch what is due, with what was found beyond it in the bucket.

        If that is `None`, the sidecars that are already there are looked for.
        """
        hands_over = self.settings.tasks.hands_over
        if not hands_over:
            self.ready()
        known = recorded.manifest
        if found is None:
            found = self._found(claim.component, known)
        revision = Revision.of(known.bundle, known.joined(found).current())
        opened = job.opened(
            revision,
            dispatched_by=claim.id,
            token=claim.token,
            now=recorded.now,
            limits=self.settings.limits,
            fence_floor=known.fence,
        )
        work = self.store.dispatch(job.queued(opened) if hands_over else opened, found)
        if work is None:
            return Receipt(
                Outcome.INCLUDED if recorded.first else Outcome.DUPLICATE,
                f"revision {revision.id} was dispatched by another event",
                claim,
            )
        outcome = Outcome.QUEUED if hands_over else Outcome.DISPATCHED
        return Receipt(outcome, f"revision {work.job.id}", claim, work)

    def _found(self, component: Component, known: Manifest) -> tuple[Pin, ...]:
        """Return the sidecars that the bucket holds beyond what is known.

        A required component that is newer than its event shows that a
        re-upload has begun: it is left to its event, for taken along it would
        tear the bundle. A listing that fails costs nothing but a second
        revision later.
        """
        if component.bundle.archive:
            return ()
        try:
            return tuple(
                pin
                for pin in _newer(self.siblings(component), known)
                if self._is_sidecar_of(component.bundle, pin)
            )
        except GateError as error:
            log.write("siblings not listed", severity="WARNING", detail=str(error))
            return ()

    def _is_sidecar_of(self, bundle: Bundle, pin: Pin) -> bool:
        component = self.parsed(bundle.bucket, pin.name)
        return (
            isinstance(component, Component)
            and component.bundle == bundle
            and component.extension not in self.settings.required
        )

    def parsed(self, bucket: str, name: str) -> Component | Reason:
        """Return the component that an object is to this deployment, or why it is none."""
        return parse(
            bucket,
            name,
            source_prefix=self.settings.source_prefix,
            output_prefix=self.settings.output_prefix(bucket),
        )

    def _follow(self, claim: Claim, revision_id: str) -> Receipt | None:
        """Take over the job that this event once dispatched, if it needs somebody.

        A held job is taken up too, to see whether what it waits for has come, and
        one whose letter is still to be sent. `None` if the job has ended
        otherwise, or is gone.
        """
        stored = self.store.job(revision_id)
        if stored is None:
            return None
        if stored.job.ended and not stored.job.notified:
            return Receipt(Outcome.BURIED, f"revision {revision_id}, letter due", claim, stored)
        claimed = job.taken_up(
            stored.job, token=claim.token, now=stored.now, limits=self.settings.limits
        )
        if self.settings.tasks.hands_over:
            # One that is run, or pauses, is looked after by its task and the sweep.
            due = isinstance(claimed, job.Claimed)
            detail = f"revision {revision_id}"
            return Receipt(Outcome.QUEUED, detail, claim, stored) if due else None
        if isinstance(claimed, job.Ended):
            return None
        if isinstance(claimed, job.Busy):
            until = claimed.until.isoformat(timespec="seconds")
            return Receipt(Outcome.IN_PROGRESS, f"revision {revision_id}, until {until}", claim)
        self.ready()
        taken = claimed.job
        buried = job.exhausted(taken, self.settings.limits)
        outcome = Outcome.BURIED if buried else Outcome.RESUMED
        work = self.store.replace(stored, taken)
        if work is None:
            return Receipt(Outcome.IN_PROGRESS, f"revision {revision_id}: just taken over", claim)
        return Receipt(outcome, f"revision {revision_id}, attempt {taken.attempts}", claim, work)


def _newer(pins: Iterable[Pin], known: Manifest) -> tuple[Pin, ...]:
    """Return those of the objects that are newer than what is known of them."""
    return tuple(pin for pin in pins if pin.generation > known.components.get(pin.name, 0))


def _recorded_only(claim: Claim, newest: int, decision: Decision) -> Receipt:
    """Say what a new claim adds to a bundle of which nothing is due; `newest` is of its object."""
    if newest > claim.generation:
        return Receipt(Outcome.STALE, f"generation {newest} is newer", claim)
    outcome = Outcome.WAITING if isinstance(decision, Waiting) else Outcome.INCLUDED
    return Receipt(outcome, _standing(decision), claim)


def _standing(decision: Decision) -> str:
    match decision:
        case Waiting(missing):
            return f"needs {' '.join(missing)}"
        case Dispatched(revision):
            return f"revision {revision.id} is dispatched"
        case _:
            return ""
