"""One look at a manifest whose time has come: finish what no event will finish.

    list the prefix       an object that is newer than what is known is recorded, as its
                          event would have been: that one was lost, or is on its way
    decide again          what is due is dispatched, and its job run
    write the next look   on the version it was decided from: a claim that came in
                          between has set a time of its own, and keeps it

A look that dies anywhere leaves the manifest due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gate import dead_letters, log, manifest
from gate.dead_letters import DeadLetters
from gate.intake import Intake
from gate.listing import Listing, Live
from gate.manifest import Decision, Dispatch, Dispatched, Manifest
from gate.names import Component, extension_of
from gate.next_look import Again, GiveUp, Rest, Stalled, next_look
from gate.settings import Settings
from gate.source.port import Source
from gate.store.port import Agenda, Due, StoredJob, StoredManifest


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look led to: objects recorded, whether a job was run, and what was told."""

    recorded: int = 0
    ran: bool = False
    stalled: bool = False
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Look at manifests. `run` runs a job that was claimed."""

    store: Agenda
    source: Source
    intake: Intake
    run: Callable[[StoredJob], object]
    letters: DeadLetters
    settings: Settings

    def __call__(self, due: Due) -> Looked:
        """Look at one manifest, unless somebody else has done so meanwhile.

        Raises what the store, the source and the dead letters raise, and
        whatever comes of a document that is no manifest.
        """
        stored = self.store.woken(due)
        if stored is None or not _is_due(stored):
            return Looked()
        live = self._live(stored.manifest)
        lost = [
            (component, pin)
            for component, pin in live
            if pin.generation > stored.manifest.components.get(pin.name, 0)
        ]
        for component, pin in lost:
            self.intake.note(component, pin.generation)
        if lost:
            stored = self.store.woken(due)
        ran = False
        if stored and isinstance(self._decision(stored), Dispatch):
            receipt = self.intake.again(stored)
            _tell(stored, receipt.outcome.value, receipt.detail, receipt.work)
            if receipt.work:
                self.run(receipt.work)
                ran = True
            stored = self.store.woken(due)
        told = self._rest(stored, present=bool(live)) if stored else None
        if stored and told:
            _tell(stored, type(told).__name__.lower(), f"{len(lost)} objects were not known")
        return Looked(len(lost), ran, isinstance(told, Stalled), isinstance(told, GiveUp))

    def _live(self, known: Manifest) -> Live:
        """Return the objects of a bundle in the bucket, under the spellings that are known."""
        starts = {
            Component(known.bundle, name, extension_of(name)).sibling_start
            for name in known.components
        }
        return Listing(self.source, self.intake.parsed).spelt(known.bundle, sorted(starts))

    def _decision(self, stored: StoredManifest) -> Decision:
        return manifest.decide(
            stored.manifest,
            stored.now,
            required=self.settings.required,
            settle=self.settings.retention.settle,
        )

    def _rest(
        self, stored: StoredManifest, *, present: bool
    ) -> Again | Stalled | GiveUp | Rest | None:
        """Write when to look again, and tell a person what that calls for.

        Return what was decided, `None` if a claim came in between.
        """
        decision = self._decision(stored)
        revision = decision.revision if isinstance(decision, Dispatch | Dispatched) else None
        standing = self.store.job(revision.id) if revision else None
        following = next_look(
            stored.manifest,
            decision,
            job=standing.job if standing else None,
            present=present,
            now=stored.now,
            patience=self.settings.sweep.patience,
        )
        match following:
            case Again(at):
                # A job whose manifest was collected, and is known by its objects again.
                known_by_job = revision if standing and isinstance(decision, Dispatch) else None
                written = self.store.rest(stored, wake_at=at, dispatched=known_by_job)
            case Stalled(missing, at):
                written = self.store.rest(stored, wake_at=at, stalled=True)
                if written:
                    log.write(
                        "bundle stalled",
                        severity="ERROR",
                        alert="bundle_stalled",
                        bundle=str(stored.manifest.bundle),
                        missing=missing,
                        since=stored.manifest.updated_at,
                    )
            case GiveUp(missing):
                self.letters.send(dead_letters.of_incomplete(stored.manifest, missing))
                written = self.store.rest(stored, wake_at=None, finished=True)
            case _:
                written = self.store.rest(stored, wake_at=None, finished=following.finished)
        return following if written else None


def _tell(
    stored: StoredManifest, decision: str, detail: str, work: StoredJob | None = None
) -> None:
    log.write(
        "look",
        decision=decision,
        detail=detail,
        bundle=str(stored.manifest.bundle),
        job=work.job.id if work else None,
    )


def _is_due(stored: StoredManifest) -> bool:
    wake_at = stored.manifest.wake_at
    return wake_at is not None and wake_at <= stored.now
