"""Laws of the manifest, and of what is decided from it, over generated bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gate.identity import Pin
from gate.intake import Outcome
from gate.manifest import Dispatch, Dispatched, Manifest, Settling, Waiting, decide
from gate.names import Bundle
from tests.world import ALL_PARTS, PARTS, Answer, World, expected

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SETTLE = timedelta(seconds=30)
BUNDLE = Bundle("uploads", "in/", "roads")

names = st.sampled_from([f"in/{stem}{part}" for stem in ("roads", "ROADS") for part in ALL_PARTS])
pins = st.builds(Pin, names, st.integers(1, 2**63 - 1))
many = st.lists(pins, max_size=12)


def verdict(known: Manifest, now: datetime = NOW) -> Waiting | Dispatch | Dispatched | Settling:
    """Return what a manifest calls for under the default rules."""
    return decide(known, now, required=PARTS, settle=SETTLE)


def generations(known: Manifest) -> Mapping[str, int]:
    """Return extension → newest generation."""
    return {extension: pin.generation for extension, pin in known.current().items()}


@settings(deadline=None, derandomize=True)
@given(st.permutations(ALL_PARTS), st.lists(st.integers(0, 4), max_size=5))
def test_every_order_of_arrival_gives_one_manifest_and_one_job(
    order: list[str], again: list[int]
) -> None:
    """C1: five components, all in the bucket, in any order, some of them twice: the same end."""
    world = World()
    uploaded = dict(zip(ALL_PARTS, world.upload_bundle("in/roads", parts=ALL_PARTS), strict=True))
    deliveries = [uploaded[part] for part in order]
    deliveries += [uploaded[ALL_PARTS[number]] for number in again]
    assert {world.deliver(event) for event in deliveries} == {Answer.ACK}
    assert world.outcomes.count(Outcome.DISPATCHED) == 1
    known = world.manifest("in/roads")
    assert known.components == {event.name: event.generation for event in uploaded.values()}
    assert known.dispatched == generations(known)
    [revision] = world.effects
    assert dict(revision.pins) == known.current()
    assert world.rows("in/roads") == expected("first", crs="first")


@given(many, st.randoms(use_true_random=False))
def test_joining_is_commutative_and_idempotent(found: list[Pin], random: object) -> None:
    """C1, C2: the same pins in any order, any number of times, give the same manifest."""
    shuffled = [*found, *found]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one = Manifest(BUNDLE).joined(found)
    assert Manifest(BUNDLE).joined(shuffled) == one
    assert one.joined(found) == one
    assert one.joined(shuffled).current() == one.current()


@given(many, many, many)
def test_joining_is_associative(first: list[Pin], second: list[Pin], third: list[Pin]) -> None:
    """C1: pins joined one group after the other, or all together, give the same manifest."""
    stepwise = Manifest(BUNDLE).joined(first).joined(second).joined(third)
    assert stepwise == Manifest(BUNDLE).joined(first).joined([*second, *third])
    assert stepwise == Manifest(BUNDLE).joined([*first, *second, *third])


@given(many, pins)
def test_an_older_generation_is_absorbed(found: list[Pin], pin: Pin) -> None:
    """C2: joining a generation that is not greater changes nothing."""
    known = Manifest(BUNDLE).joined([*found, pin])
    for generation in {1, pin.generation - 1, pin.generation} - {0}:
        assert known.joined([Pin(pin.name, generation)]) == known


@given(st.lists(st.tuples(many, st.integers(0, 60)), min_size=1, max_size=6))
def test_the_order_grows_from_dispatch_to_dispatch(steps: list[tuple[list[Pin], int]]) -> None:
    """C6: whatever arrives, each revision that is dispatched has a greater order than any before.

    What was dispatched is not dispatched again, and a settling bundle always comes due.
    """
    known, now, orders, ids = Manifest(BUNDLE), NOW, [0], set()
    for found, pause in steps:
        now += timedelta(seconds=pause)
        known = replace(known.joined(found), updated_at=now)
        decision = verdict(known, now)
        if isinstance(decision, Settling):
            assert isinstance(verdict(known, decision.until), Dispatch)
        if isinstance(decision, Dispatch):
            assert decision.revision.order > orders[-1]
            assert decision.revision.id not in ids
            orders.append(decision.revision.order)
            ids.add(decision.revision.id)
            known = known.with_dispatched(decision.revision.generations)
            assert verdict(known, now) == Dispatched(decision.revision)
            assert known.dispatched_order == decision.revision.order


@given(many, many)
def test_marks_of_dispatch_join_as_components_do(first: list[Pin], second: list[Pin]) -> None:
    """C1: the marks of two revisions give the same manifest in either order, and once is enough."""
    one, other = (generations(Manifest(BUNDLE).joined(found)) for found in (first, second))
    marked = Manifest(BUNDLE).with_dispatched(one).with_dispatched(other)
    assert marked == Manifest(BUNDLE).with_dispatched(other).with_dispatched(one)
    assert marked.with_dispatched(one) == marked
