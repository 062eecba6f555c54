"""Random histories: uploads, losses, duplicates, kills and deliveries inside deliveries.

Whatever happens on the way, once everything has been delivered until it was
acknowledged the sink holds what the bucket holds, nothing older has replaced
anything newer, and no revision took effect twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.errors import StorageBusyError, StoreBusyError
from gate.events import ObjectFinalized
from gate.identity import Revision
from gate.job import FINISHED, State
from gate.manifest import Dispatched, Manifest, decide
from gate.store.documents import bundle_from, manifest_from
from tests.scenarios.gates import ENVIRONMENTS
from tests.world import (
    ALL_PARTS,
    BUCKET,
    PARTS,
    Action,
    Answer,
    Crash,
    World,
    bundle_of,
    raising,
    text,
)

# Three spellings of two bundles.
BASES = ("in/roads", "in/ROADS", "in/rivers")
BUNDLES = ("in/roads", "in/rivers")
ERRORS = {"store": StoreBusyError("unavailable"), "other": StorageBusyError("503")}

# No attempt is the last, and an event comes again for ten minutes where it waits.
PATIENCE = {
    "MAX_ATTEMPTS": "1000",
    "RETRY_SECONDS": "1",
    "SOURCE_BUCKET": BUCKET,
    "VERIFY_MAX_AGE_SECONDS": "600",
}
# What no upload of a later step mends; the gates that list give up what never becomes whole.
LETTERS = {
    "manifest": {"mixed_spellings"},
    "tasks": {"mixed_spellings"},
    "verify": {"mixed_spellings", "incomplete"},
    "poll": {"mixed_spellings", "incomplete"},
}

# What a step does is drawn as small numbers, so that a failing history shrinks.
upload = st.tuples(st.just("upload"), st.sampled_from(BASES), st.sampled_from(ALL_PARTS))
whole = st.tuples(st.just("whole"), st.sampled_from(BASES), st.just(""))
deliver = st.tuples(st.just("deliver"), st.integers(0, 40), st.just(""))
lose = st.tuples(st.just("lose"), st.integers(0, 40), st.just(""))
sweep = st.tuples(st.just("sweep"), st.just(""), st.just(""))
wait = st.tuples(st.just("wait"), st.sampled_from([1, 15, 31, 61, 3601]), st.just(""))
trouble = st.sampled_from(["kill", "refuse", "repeat", "nest", "wait", "replace"])
fault = st.tuples(
    st.sampled_from(["before", "after"]), st.tuples(st.integers(0, 12), st.integers(0, 40)), trouble
)
histories = st.lists(
    st.one_of(upload, whole, deliver, deliver, deliver, lose, wait, sweep, fault, fault),
    min_size=5,
    max_size=40,
)


@dataclass
class History:
    """A world, the events that are still to be acknowledged, and those that were."""

    world: World
    pending: list[ObjectFinalized] = field(default_factory=list)
    acknowledged: list[ObjectFinalized] = field(default_factory=list)
    version: int = 0

    def upload(self, base: str, part: str) -> None:
        """Upload one component of a new version; its event is on its way."""
        self.version += 1
        payload = text(part, f"v{self.version}")
        self.pending.append(self.world.upload(f"{base}{part}", payload))

    def deliver(self, number: int) -> None:
        """Deliver one of all events so far: for the first time, again, or as a duplicate."""
        events = [*self.pending, *self.acknowledged]
        if events:
            event = events[number % len(events)]
            answer = self.world.deliver(event)
            if answer is Answer.ACK and event in self.pending:
                self.pending.remove(event)
                self.acknowledged.append(event)

    def trouble(self, kind: str, number: int) -> Action:
        """Return what goes wrong at a call."""
        match kind:
            case "kill":
                return raising(Crash())
            case "refuse":
                return self._refuse
            case "nest":
                return lambda: self.deliver(number)
            case "wait":
                return lambda: self.world.clock.advance(number * 2)
            case _:
                base, part = BASES[number % 3], ALL_PARTS[number % 5]
                return lambda: self.upload(base, part)

    def _refuse(self) -> None:
        called = self.world.faults.calls[-1]
        raise ERRORS["store" if called.startswith("store") else "other"]

    def step(self, kind: str, first: object, second: str) -> None:
        """Take one step of a generated history."""
        match kind, first:
            case "upload", str(base):
                self.upload(base, second)
            case "whole", str(base):
                for part in ALL_PARTS:
                    self.upload(base, part)
            case "deliver", int(number):
                self.deliver(number)
            case "lose", int(number):
                if self.pending:
                    del self.pending[number % len(self.pending)]
            case "sweep", _:
                self.world.swept()
            case "wait", int(seconds):
                self.world.clock.advance(seconds)
            case moment, (int(ahead), int(number)):
                call = len(self.world.faults.calls) + ahead
                if second == "repeat":
                    self.world.faults.repeat(call)
                elif moment == "before":
                    self.world.faults.before(call, self.trouble(second, number))
                else:
                    self.world.faults.after(call, self.trouble(second, number))

    def live(self, base: str) -> list[tuple[str, str, str | None]]:
        """Return the rows that the bucket's newest objects make, none while a part is missing."""
        objects = {
            stored.facts.pin: stored.payload.decode() for stored in self.world.source._live.values()
        }
        newest = self._known(base).current()
        if not newest.keys() >= set(PARTS):
            return []
        found = {part: objects[pin] for part, pin in newest.items()}
        pairs = zip(found[".shp"].splitlines(), found[".dbf"].splitlines(), strict=True)
        return [(shape, record, found.get(".prj")) for shape, record in pairs]

    def mixed(self, base: str) -> bool:
        """Tell whether the newest objects are of two spellings of which one is whole."""
        known = self._known(base)
        return known.mixes(Revision.of(known.bundle, known.current()), PARTS)

    def _known(self, base: str) -> Manifest:
        bundle = bundle_of(f"{base}.shp")
        pins = [stored.facts.pin for stored in self.world.source._live.values()]
        return Manifest(bundle).joined(pin for pin in pins if bundle_of(pin.name) == bundle)


def wrong_expiries(world: World) -> Iterator[str]:
    """Yield every document whose expiry is missing, too early, or no timestamp."""
    for key, claim in world.store.claims.items():
        if not isinstance(claim.get("expires_at"), datetime):
            yield f"claim {key} has no expiry"
    for key, job in world.store.jobs.items():
        finished = State(job["state"]) in FINISHED
        if finished is not isinstance(job.get("expires_at"), datetime):
            yield f"job {key} is {job['state']} and its expiry is {job.get('expires_at')}"
    for key, document in world.store.manifests.items():
        if "expires_at" in document and not is_finished(world, document):
            yield f"manifest {key} expires with something pending"


def is_finished(world: World, document: dict[str, Any]) -> bool:
    """Tell whether a manifest's newest revision has ended, and its expiry is a time."""
    decision = decide(
        manifest_from(bundle_from(document), document),
        world.clock.now,
        required=world.settings.required,
        settle=world.settings.retention.settle,
    )
    return (
        isinstance(document["expires_at"], datetime)
        and isinstance(decision, Dispatched)
        and State(world.store.jobs[decision.revision.id]["state"]) in FINISHED
    )


def check_effects(world: World) -> None:
    """Prove that the sink only ever moved forward, and to each revision once."""
    for base in BUNDLES:
        orders = [revision.order for revision in world.effects if revision.bundle.basename == base]
        assert orders == sorted(set(orders))
    ids = [revision.id for revision in world.effects]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("gate", ENVIRONMENTS)
@settings(max_examples=300, deadline=None, derandomize=True)
@given(steps=histories)
def test_every_history_ends_at_the_newest_complete_version(
    gate: str, steps: list[tuple[str, object, str]]
) -> None:
    """C1-C9, A6, A7, E2-E13, H1, H5, H6: after any history the sink ends up to date.

    B6: unless the newest files are of two bundles that differ in case only.
    All is delivered until it is acknowledged, but for what is lost, which sweeps make up for.
    H7: after every single write, the expiry stands on finished documents only.
    """
    world = World(**{**ENVIRONMENTS[gate], **PATIENCE})
    wrong: list[str] = []
    world.faults.watch = lambda: wrong.extend(wrong_expiries(world))
    history = History(world)
    for step in steps:
        history.step(*step)
    world.faults.clear()
    world.settle(*history.pending)
    world.clock.advance(3601)
    world.swept()
    world.settle()
    assert not wrong
    check_effects(world)
    for base in BUNDLES:
        assert history.mixed(base) or world.rows(base) == history.live(base)
    assert {letter.code for letter in world.sent.sent} <= LETTERS[gate]
    assert all(job.ended for job in world.jobs)
