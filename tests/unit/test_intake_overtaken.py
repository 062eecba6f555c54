"""Events of one bundle that overtake each other between their write and their read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from gate import settings
from gate.events import ObjectFinalized
from gate.identity import Pin
from gate.intake import Intake, Outcome, Receipt
from gate.job import Job
from gate.store.memory import MemoryStore
from gate.store.port import Claim, Incomplete, Recorded, StoredJob

SETTINGS = settings.load({"SINK": "gs://datasets/layers"})
WHOLE = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")
LATE = "in/roads.prj"


class SlowReads(MemoryStore):
    """A store in which other claims may be committed between a write and its read."""

    def __init__(self) -> None:
        super().__init__(SETTINGS.retention, lambda: self.time)
        self.time = datetime(2026, 3, 1, tzinfo=UTC)
        self.meanwhile: list[Claim] = []

    def record(self, claim: Claim, required: tuple[str, ...] = ()) -> Recorded | Incomplete:
        """Record the claim, then those that are to overtake it, then read."""
        own = super().record(claim, required)
        for other in self.meanwhile:
            super().record(other)
        overtaken = bool(self.meanwhile)
        self.meanwhile = []
        if isinstance(own, Incomplete):
            return own
        return replace(
            own,
            latest=own.latest and not overtaken,
            manifest=self._read_manifest(claim.component.bundle),
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """An intake over slow reads."""

    store: SlowReads
    intake: Intake

    def deliver(self, name: str) -> Receipt:
        """Deliver the event of an object."""
        return self.intake(ObjectFinalized("uploads", name, 1, "event"))

    def overtake_with(self, name: str) -> None:
        """Let another delivery commit before the next one reads, and die before it decides."""
        component = self.intake.parsed("uploads", name)
        self.store.meanwhile.append(Claim(component, 1, "event", f"overtaker of {name}"))


@pytest.fixture
def scene() -> Scene:
    """Return a bundle of which one required component is missing."""
    store, tokens = SlowReads(), count()
    scene = Scene(store, Intake(store, SETTINGS, lambda _: (), lambda: f"token-{next(tokens)}"))
    scene.deliver(WHOLE[0])
    scene.deliver(WHOLE[1])
    return scene


def test_an_event_leaves_the_dispatch_to_the_one_recorded_after_it(scene: Scene) -> None:
    """Design 4: of two events that read the whole bundle, the last recorded dispatches it."""
    scene.overtake_with(LATE)
    receipt = scene.deliver(WHOLE[2])
    assert receipt.outcome is Outcome.INCLUDED
    assert receipt.work is None
    assert scene.store.jobs == {}


def test_the_redelivery_of_the_last_one_recorded_dispatches(scene: Scene) -> None:
    """Scenario A6: if the event that was left the dispatch died, its redelivery finishes it."""
    scene.overtake_with(LATE)
    scene.deliver(WHOLE[2])
    assert scene.deliver(LATE).outcome is Outcome.DISPATCHED
    assert len(scene.store.jobs) == 1


def test_a_duplicate_leaves_the_dispatch_to_it_too(scene: Scene) -> None:
    """Scenario A2: a duplicate that comes while the last event is at work does not race it."""
    scene.overtake_with(LATE)
    scene.deliver(WHOLE[2])
    receipt = scene.deliver(WHOLE[0])
    assert receipt.outcome is Outcome.DUPLICATE
    assert scene.store.jobs == {}


def test_whoever_comes_once_the_uploads_have_rested_dispatches(scene: Scene) -> None:
    """Scenario A7: after the settle time nothing is left to others, to the second."""
    scene.overtake_with(LATE)
    scene.deliver(WHOLE[2])
    scene.store.time += SETTINGS.retention.settle - timedelta(seconds=1)
    assert scene.deliver(WHOLE[0]).work is None
    scene.store.time += timedelta(seconds=1)
    assert scene.deliver(WHOLE[0]).outcome is Outcome.DISPATCHED


def test_an_event_that_nothing_overtook_dispatches(scene: Scene) -> None:
    """Design 4: the last event to be recorded reads the whole bundle and dispatches it."""
    assert scene.deliver(WHOLE[2]).outcome is Outcome.DISPATCHED


def test_an_event_that_completes_nothing_waits_whoever_comes_after_it(scene: Scene) -> None:
    """Design 4: what was missing as an event was committed is left to the event that brings it."""
    scene.overtake_with(WHOLE[2])
    receipt = scene.deliver(LATE)
    assert receipt.outcome is Outcome.WAITING
    assert receipt.detail == "needs .dbf"
    assert scene.deliver(WHOLE[2]).outcome is Outcome.DISPATCHED


class RacedDispatch(MemoryStore):
    """A store in which others may do something directly before the next dispatch."""

    def __init__(self) -> None:
        super().__init__(SETTINGS.retention, lambda: datetime(2026, 3, 1, tzinfo=UTC))
        self.before: Callable[[], object] | None = None

    def dispatch(self, job: Job, found: tuple[Pin, ...] = ()) -> StoredJob | None:
        """Let the others go first, once, and dispatch."""
        before, self.before = self.before, None
        if before:
            before()
        return super().dispatch(job, found)


def test_two_dispatches_that_were_joined_are_left_to_nobody() -> None:
    """C9: what became due by a dispatch is dispatched by whoever comes, without a rest."""
    store, token = RacedDispatch(), map("token-{}".format, count()).__next__
    with_prj = Intake(store, SETTINGS, lambda _: (Pin("in/roads.prj", 1),), token)
    with_cpg = Intake(store, SETTINGS, lambda _: (Pin("in/roads.cpg", 1),), token)
    first, second, last = (ObjectFinalized("uploads", name, 1, "event") for name in WHOLE)
    with_prj(first)
    with_prj(second)
    store.before = lambda: with_cpg(last)
    with_prj(last)
    assert len(store.jobs) == 2
    assert with_prj(first).outcome is Outcome.DISPATCHED
    assert len(store.jobs) == 3


class NotedDispatch(MemoryStore):
    """A store that remembers what a dispatch said was found in the bucket."""

    def __init__(self) -> None:
        super().__init__(SETTINGS.retention, lambda: datetime(2026, 3, 1, tzinfo=UTC))
        self.found: list[tuple[Pin, ...]] = []

    def dispatch(self, job: Job, found: tuple[Pin, ...] = ()) -> StoredJob | None:
        """Note what was found, and dispatch."""
        self.found.append(found)
        return super().dispatch(job, found)


def test_a_listing_adds_only_what_no_event_has_told() -> None:
    """Design 4: sidecars that the manifest knows are not written a second time."""
    store, tokens = NotedDispatch(), count()
    listed = (Pin("in/roads.prj", 1), Pin("in/roads.cpg", 1))
    intake = Intake(store, SETTINGS, lambda _: listed, lambda: f"token-{next(tokens)}")
    for name in ("in/roads.prj", *WHOLE):
        intake(ObjectFinalized("uploads", name, 1, "event"))
    assert store.found == [(Pin("in/roads.cpg", 1),)]
