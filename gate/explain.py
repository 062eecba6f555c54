"""What became of a bundle, told to a person in the order in which it happened.

It is put together from what the store remembers, and so has gaps where
time-to-live has collected something; nothing of it decides anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gate import manifest
from gate.identity import is_id
from gate.job import REDRIVEN, Job, State
from gate.manifest import Dispatch, Dispatched, Manifest, Waiting
from gate.names import Bundle, named
from gate.redrive import codes
from gate.settings import Settings
from gate.store.history import History, RecordedClaim
from gate.store.port import Store

# What waits for a person.
DEAD_LETTERS = (State.DEAD, State.HELD, State.PARTIAL)
ACTIVE = (State.QUEUED, State.RUNNING, State.FAILED)

_ADDRESS = re.compile(r"(?i:gs)://([^/]+)/(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened: when, of which kind, to which job or object, and how."""

    at: datetime
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Story:
    """Everything remembered of one bundle.

    `standing` says how it stands now, in words. `known` is its manifest, `None`
    if there is none.
    """

    bundle: Bundle
    standing: str
    known: Manifest | None
    claims: tuple[RecordedClaim, ...]
    jobs: tuple[Job, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """How many jobs stand in each state, and those that somebody is to run or runs."""

    counts: dict[State, int]
    active: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Explain:
    """Tell what became of bundles, over what the store remembers."""

    store: Store
    history: History
    settings: Settings

    def story(self, subject: str) -> Story | None:
        """Return the story of a bundle; `None` if nothing is known of it.

        `subject` is the id of a job or of a claim, or the address of the bundle
        or of any of its objects, as `gs://bucket/name`.
        """
        bundle = self._bundle(subject)
        if bundle is None:
            return None
        stored = self.store.manifest(bundle)
        claims, jobs = self.history.claims_of(bundle), self.history.jobs_of(bundle)
        if not (stored or claims or jobs):
            return None
        standing = "its manifest has expired"
        if stored:
            standing = self._standing(stored.manifest, stored.now)
        steps = [step for claim in claims for step in _recorded(claim)]
        steps += [step for one in jobs for step in _lived(one)]
        return Story(
            bundle,
            standing,
            stored.manifest if stored else None,
            claims,
            jobs,
            tuple(sorted(steps, key=lambda step: step.at)),
        )

    def overview(self) -> Overview:
        """Return how many jobs there are in each state, and which are on their way."""
        counts = {state: self.history.count(state) for state in State}
        active = sorted(self.history.jobs_in(ACTIVE), key=lambda one: one.created_at)
        return Overview(counts, tuple(active))

    def dead_letters(self) -> tuple[Job, ...]:
        """Return the jobs that wait for a person, the latest first."""
        found = self.history.jobs_in(DEAD_LETTERS)
        return tuple(sorted(found, key=lambda one: one.ended_at or one.created_at, reverse=True))

    def _bundle(self, subject: str) -> Bundle | None:
        if address := _ADDRESS.fullmatch(subject):
            return named(*address.groups())
        if not is_id(subject):
            return None
        if stored := self.store.job(subject):
            return stored.job.revision.bundle
        claim = self.history.claim(subject)
        return named(claim.bucket, claim.name) if claim else None

    def _standing(self, known: Manifest, now: datetime) -> str:
        decision = manifest.decide(
            known, now, required=self.settings.required, settle=self.settings.retention.settle
        )
        match decision:
            case Waiting(missing):
                return f"waits for {' '.join(missing)}"
            case Dispatched(revision):
                return f"revision {revision.id} is dispatched"
            case Dispatch(revision):
                return f"revision {revision.id} is whole and not dispatched yet"
            case settling:
                until = settling.until.isoformat("T", "seconds")
                return f"revision {settling.revision.id} settles until {until}"


def code_of(known: Job) -> str:
    """Return the code of the latest error of a job, empty if it had none."""
    return known.history[-1].code if known.history else ""


def _recorded(claim: RecordedClaim) -> Iterator[Step]:
    how = f"event {claim.event_id}" if claim.event_id else "found without an event"
    text = f"generation {claim.generation} recorded; {how}"
    yield Step(claim.claimed_at, "event", claim.name, text)


def _lived(known: Job) -> Iterator[Step]:
    pins = ", ".join(f"{extension} {pin.generation}" for extension, pin in known.revision.pins)
    yield Step(known.created_at, "dispatch", known.id, f"revision of {pins}")
    for entry in known.history:
        kind = "redrive" if entry.code == REDRIVEN else "attempt"
        which = f"attempt {entry.attempt}, fence {entry.fence}"
        text = entry.message if kind == "redrive" else f"{which}: {entry.code}: {entry.message}"
        yield Step(entry.at, kind, known.id, text)
    if known.ended_at:
        yield Step(known.ended_at, "end", known.id, _ending(known))


def _ending(known: Job) -> str:
    said = [known.state.value]
    if known.state in DEAD_LETTERS:
        said.append("letter sent" if known.notified else "letter still to be sent")
        said.append(f"codes {' '.join(sorted(codes(known)))}")
    if "loaded" in known.summary:
        place = known.summary.get("location") or known.summary.get("index", "")
        said.append(f"{known.summary['loaded']} rows in {place}")
    return "; ".join(said)
