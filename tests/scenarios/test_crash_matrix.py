"""A6, A7, E2, H1: the process is killed at every call of every port, and nobody redelivers.

What a story makes of it without a kill is compared with what it ends in when the
process dies at one call, before or after that takes effect. The event that it was
about does not come again: whatever is left is the sweep's, which may be what is
killed. Each sink is tried, down to its own calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pytest

from gate.sinks.address import SinkAddress
from gate.sinks.cloud_storage import CloudStorageSink
from tests.clouds import BUCKET, PREFIX, Located, MemoryCloud
from tests.world import Crash, World, bundle_of, expected, raising, text

BASE = "in/roads"
WORST_ORDER = (".dbf", ".shx", ".prj", ".shp")
Rows = list[tuple[str, str, str | None]]


class MemoryWorld(World):
    """A deployment whose sink is in memory."""

    def seen(self) -> Rows:
        """Return what readers of the sink see."""
        return self.rows(BASE)

    def orders(self) -> list[int]:
        """Return the orders of the revisions that took effect, in turn."""
        return [revision.order for revision in self.effects]


class CloudWorld(World):
    """A deployment whose sink is on Cloud Storage, each request to which is a call."""

    def __init__(self, **environment: str) -> None:
        super().__init__(**environment)
        self.cloud = MemoryCloud(self.faults.run)
        tokens = count(1)
        storage: Any = self.cloud
        sink = CloudStorageSink(
            storage,
            SinkAddress(BUCKET, PREFIX.rstrip("/")),
            now=lambda: self.clock.now,
            token=lambda: f"{next(tokens):08x}",
        )
        self.ingest = replace(self.ingest, sink=sink, open_layer=Located())
        look = replace(self.sweep.look, run=self.ingest)
        self.sweep = replace(self.sweep, run=self.ingest, look=look)

    def seen(self) -> Rows:
        """Return what readers of the sink see."""
        return self.cloud.rows(bundle_of(f"{BASE}.shp"))

    def orders(self) -> list[int]:
        """Return the orders of the revisions that took effect, in turn."""
        return [int(pointer["order"]) for pointer in self.cloud.pointers]


SinkWorld = MemoryWorld | CloudWorld
Story = Callable[[SinkWorld], None]


def told(world: SinkWorld) -> None:
    """Deliver every event of a bundle, once."""
    for event in world.upload_bundle(BASE, parts=WORST_ORDER):
        world.deliver(event)


def lost(world: SinkWorld) -> None:
    """Lose the event that would complete a bundle: the sweep finds its object."""
    for event in world.upload_bundle(BASE, parts=WORST_ORDER)[:-1]:
        world.deliver(event)
    world.clock.advance(61)
    world.swept()


def replaced(world: SinkWorld) -> None:
    """Replace the table of a bundle that is in the sink: the sweep dispatches it."""
    world.deliver(world.upload(f"{BASE}.dbf", text(".dbf", "second")))
    world.clock.advance(61)
    world.swept()


def torn(world: SinkWorld) -> None:
    """Upload a table with too few records: the bundle becomes a dead letter."""
    events = world.upload_bundle(BASE, parts=(".shp", ".shx"))
    for event in (*events, world.upload(f"{BASE}.dbf", text(".dbf", "first", 2))):
        world.deliver(event)


def published(world: SinkWorld) -> None:
    """Have the bundle in the sink, since long ago."""
    told(world)
    finished(world)
    world.clock.advance(3600)


def nothing(_world: SinkWorld) -> None:
    """Have nothing yet."""


# What is there before anything is killed, and the story.
STORIES: dict[Story, Story] = {
    told: nothing,
    lost: nothing,
    replaced: published,
    torn: nothing,
}
SINKS: tuple[type[SinkWorld], ...] = (MemoryWorld, CloudWorld)
MOMENTS = ("before", "after")


def world_of(sink: type[SinkWorld], story: Story) -> SinkWorld:
    """Return a world that is ready for a story, and in which no attempt is the last."""
    world = sink(MAX_ATTEMPTS="1000", SOURCE_BUCKET="uploads", RECONCILE_EVERY_SECONDS="60")
    STORIES[story](world)
    return world


def finished(world: SinkWorld) -> SinkWorld:
    """Let sweeps do what is left, time passing between."""
    for _ in range(4):
        world.clock.advance(61)
        world.swept()
    world.settle()
    return world


def ending(world: SinkWorld) -> dict[str, Any]:
    """Return what of a world's end has to be the same however it was reached."""
    known = world.manifest(BASE)
    return {
        "rows": world.seen(),
        "effects": world.orders(),
        "components": known.components,
        "dispatched": known.dispatched,
        "jobs": [(job.id, job.state, job.notified) for job in world.jobs],
        "letters": {letter.code for letter in world.sent.sent},
    }


@cache
def undisturbed(sink: type[SinkWorld], story: Story) -> tuple[dict[str, Any], list[str]]:
    """Return the end of a story without a kill, and the calls that lead there."""
    world = world_of(sink, story)
    before = len(world.faults.calls)
    story(world)
    calls = world.faults.calls[before:]
    return ending(finished(world)), calls


CASES = [
    pytest.param(
        sink, story, number, moment, id=f"{sink.__name__}-{story.__name__}-{number}-{name}-{moment}"
    )
    for sink in SINKS
    for story in STORIES
    for number, name in enumerate(undisturbed(sink, story)[1])
    for moment in MOMENTS
]


@pytest.mark.parametrize(("sink", "story", "number", "moment"), CASES)
def test_a_kill_anywhere_changes_nothing_in_the_end(
    sink: type[SinkWorld], story: Story, number: int, moment: str
) -> None:
    """A6, A7, E2, H1: after a kill at any call, sweeps alone end as if it had not happened."""
    world = world_of(sink, story)
    getattr(world.faults, moment)(len(world.faults.calls) + number, raising(Crash()))
    story(world)
    assert ending(finished(world)) == undisturbed(sink, story)[0]


@pytest.mark.parametrize("sink", SINKS)
def test_the_stories_end_as_told(sink: type[SinkWorld]) -> None:
    """A6: without a kill the stories end with a dataset, or with a dead letter and none."""
    rows = [undisturbed(sink, story)[0]["rows"] for story in STORIES]
    assert rows == [
        expected("first", crs="first"),
        expected("first", crs="first"),
        expected("first", records="second", crs="first"),
        [],
    ]
