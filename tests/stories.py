"""Stories of one bundle, which end the same wherever a process dies, once sweeps have run.

The event that a process died of does not come again: whatever is left is the
sweep's, which may be what dies. A story is told to a world of any sink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from tests.world import Crash, World, raising, text

BASE = "in/roads"
WORST_ORDER = (".dbf", ".shx", ".prj", ".shp")
MOMENTS = ("before", "after")
# No attempt is the last, and the sweep lists the bucket every time.
SETTINGS = {"MAX_ATTEMPTS": "1000", "SOURCE_BUCKET": "uploads", "RECONCILE_EVERY_SECONDS": "60"}
Rows = list[tuple[str, str, str | None]]


class SinkWorld(World):
    """A deployment over the sink in memory, or over another that it is told to publish into."""

    def __init__(self) -> None:
        super().__init__(**SETTINGS)

    def seen(self) -> Rows:
        """Return what readers of the sink see."""
        return self.rows(BASE)

    def orders(self) -> list[int]:
        """Return the orders of the revisions that took effect, in turn."""
        return [revision.order for revision in self.effects]

    def publish_into(self, sink: Any, open_layer: Any) -> None:
        """Let all that is read by `open_layer` go into another sink."""
        self.ingest = replace(self.ingest, sink=sink, open_layer=open_layer)
        look = replace(self.sweep.look, run=self.ingest)
        self.sweep = replace(self.sweep, run=self.ingest, look=look)


Story = Callable[[SinkWorld], None]
Worlds = Callable[[], SinkWorld]


def told(world: SinkWorld) -> None:
    """Deliver every event of a bundle, once."""
    for event in world.upload_bundle(BASE, parts=WORST_ORDER):
        world.deliver(event)


def lost(world: SinkWorld) -> None:
    """Lose the event that would complete a bundle: a sweep finds its object, the next loads it."""
    for event in world.upload_bundle(BASE, parts=WORST_ORDER)[:-1]:
        world.deliver(event)
    for _ in range(2):
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


def world_of(worlds: Worlds, story: Story) -> SinkWorld:
    """Return a new world that is ready for a story."""
    world = worlds()
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
def undisturbed(worlds: Worlds, story: Story) -> tuple[dict[str, Any], list[str]]:
    """Return the end of a story without a kill, and the calls that lead there."""
    world = world_of(worlds, story)
    before = len(world.faults.calls)
    story(world)
    calls = world.faults.calls[before:]
    return ending(finished(world)), calls


def disturbed(worlds: Worlds, story: Story, number: int, moment: str) -> dict[str, Any]:
    """Return the end of a story in which a process dies at a call, by number, before or after."""
    world = world_of(worlds, story)
    getattr(world.faults, moment)(len(world.faults.calls) + number, raising(Crash()))
    story(world)
    return ending(finished(world))
