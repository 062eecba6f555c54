"""Scenarios A6, A7, E2, E12, E13 at every line: one fault at every call of every port.

The story is played once without a fault. Then once for every call it made and
every kind of fault, and whatever was not acknowledged is delivered again. The
end has to be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from gate.errors import QueueBusyError, StorageBusyError, StoreBusyError
from gate.events import ObjectFinalized
from gate.job import State
from tests.scenarios.gates import ENVIRONMENTS
from tests.world import Crash, World, expected, raising, text

ERRORS = {
    "store": StoreBusyError("unavailable"),
    "source": StorageBusyError("503"),
    "sink": StorageBusyError("503"),
    "letters": StoreBusyError("unavailable"),
    "tasks": QueueBusyError("unavailable"),
}
FAULTS: dict[str, Callable[[World, int, str], None]] = {
    "killed before": lambda world, call, _: world.faults.before(call, raising(Crash())),
    "killed after": lambda world, call, _: world.faults.after(call, raising(Crash())),
    "refused": lambda world, call, name: world.faults.before(call, raising(ERRORS[port(name)])),
    "done but refused": lambda world, call, name: world.faults.after(
        call, raising(ERRORS[port(name)])
    ),
    "asked twice": lambda world, call, _: world.faults.repeat(call),
}


def port(call: str) -> str:
    """Return the port that a call belongs to."""
    return call.partition(".")[0]


def once(world: World) -> list[ObjectFinalized]:
    """One bundle with a sidecar, in the worst order."""
    return world.upload_bundle("in/roads", parts=(".dbf", ".shx", ".prj", ".shp"))


def replaced(world: World) -> list[ObjectFinalized]:
    """One bundle in the sink already, then its table is replaced."""
    world.settle(*once(world))
    world.clock.advance(3600)
    return [world.upload("in/roads.dbf", text(".dbf", "second"))]


def broken(world: World) -> list[ObjectFinalized]:
    """One bundle whose table has too few records."""
    shape, index = world.upload_bundle("in/roads", parts=(".shp", ".shx"))
    return [shape, index, world.upload("in/roads.dbf", text(".dbf", "first", 2))]


Story = Callable[[World], list[ObjectFinalized]]
# What no event tells the other gates is for a pass over the bucket.
STORIES: dict[str, tuple[Story, ...]] = {
    "manifest": (once, replaced, broken),
    "verify": (once, broken),
    "poll": (once, replaced, broken),
}


def calls_of(gate: str, story: Story) -> list[str]:
    """Return the calls that a story makes when nothing goes wrong."""
    world = World(**ENVIRONMENTS[gate])
    events = story(world)
    before = len(world.faults.calls)
    world.settle(*events)
    return world.faults.calls[before:]


def played(gate: str, story: Story, number: int, name: str, fault: str) -> World:
    """Return the world after a story with one fault at its nth call."""
    world = World(**ENVIRONMENTS[gate])
    events = story(world)
    call = len(world.faults.calls) + number
    FAULTS[fault](world, call, name)
    world.settle(*events)
    assert world.faults.calls[call] == name
    return world


def ending(world: World) -> dict[str, Any]:
    """Return what of a world's end has to be the same however it was reached."""
    known = world.manifest("in/roads")
    return {
        "rows": world.rows("in/roads"),
        "effects": [revision.id for revision in world.effects],
        "claims": sorted(world.store.claims),
        # Which event of a bundle completes it, and so learns the end, may differ.
        "statuses": sorted(claim["status"] for claim in world.store.claims.values()),
        "components": known.components,
        "dispatched": known.dispatched,
        "jobs": [(job.id, job.state) for job in world.jobs],
    }


@cache
def undisturbed(gate: str, story: Story) -> dict[str, Any]:
    """Return the end of a story in which nothing goes wrong."""
    world = World(**ENVIRONMENTS[gate])
    world.settle(*story(world))
    return ending(world)


CASES = [
    pytest.param(
        gate, story, number, name, fault, id=f"{gate}-{story.__name__}-{number}-{name}-{fault}"
    )
    for gate, stories in STORIES.items()
    for story in stories
    for number, name in enumerate(calls_of(gate, story))
    for fault in FAULTS
]


@pytest.mark.parametrize(("by", "story", "number", "name", "fault"), CASES)
def test_one_fault_anywhere_changes_nothing_in_the_end(
    by: str, story: Story, number: int, name: str, fault: str
) -> None:
    """A6, A7: a fault at any call of any port, then redelivery, ends as if it had not happened."""
    world = played(by, story, number, name, fault)
    assert ending(world) == undisturbed(by, story)
    for job in world.jobs:
        if job.state is State.DEAD:
            assert not job.notified or len({letter.dedupe_id for letter in world.sent.sent}) == 1


def test_the_stories_end_as_told() -> None:
    """A6: without a fault the stories end with one dataset, a replaced one, and a dead letter."""
    ends = []
    for story in STORIES["manifest"]:
        world = World()
        world.settle(*story(world))
        ends.append((world.rows("in/roads"), world.states, len(world.sent.sent)))
    assert ends == [
        (expected("first", crs="first"), [State.DONE], 0),
        (
            expected("first", records="second", crs="first"),
            [State.DONE, State.DONE],
            0,
        ),
        ([], [State.DEAD], 1),
    ]
