"""Scenarios A: events that come twice, late, broken, or to nobody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from gate import events
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from tests.world import BUCKET, Answer, Crash, World, expected, raising

FINALIZED = {"type": events.FINALIZED_TYPE, "id": "1"}
RESOURCE = {"bucket": BUCKET, "name": "in/roads.shp", "generation": "1700000000000001"}


def test_an_event_delivered_twice_runs_ingestion_once(world: World) -> None:
    """The seed: delivering every event of a bundle twice opens its layer once."""
    for event in world.upload_bundle("in/roads"):
        assert world.deliver(event) is Answer.ACK
        assert world.deliver(event) is Answer.ACK
    assert world.reader.opened == ["in/roads"]
    assert len(world.effects) == 1
    assert world.rows("in/roads") == expected("first")


def test_the_worst_order_waits_three_times_and_dispatches_once(world: World) -> None:
    """The seed: `.dbf .shx .prj .shp` gives three waits, one dispatch, and a manifest of four."""
    parts = (".dbf", ".shx", ".prj", ".shp")
    for event in world.upload_bundle("in/roads", parts=parts):
        assert world.deliver(event) is Answer.ACK
    assert [delivery.receipt.detail for delivery in world.deliveries[:3] if delivery.receipt] == [
        "needs .shp .shx",
        "needs .shp",
        "needs .shp",
    ]
    assert world.outcomes == [Outcome.WAITING] * 3 + [Outcome.DISPATCHED]
    manifest = world.manifest("in/roads")
    assert manifest.seen == (".dbf", ".prj", ".shp", ".shx")
    assert set(manifest.dispatched) == set(parts)
    assert manifest.dispatched == {
        extension: pin.generation for extension, pin in manifest.current().items()
    }


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_duplicate_changes_nothing(world: World, position: int) -> None:
    """A1: the second delivery is a duplicate: acknowledged, no document changed, no new job."""
    uploaded = world.upload_bundle("in/roads")
    for event in uploaded[: position + 1]:
        world.deliver(event)
    before = deepcopy((world.store.claims, world.store.manifests, world.store.jobs))
    world.clock.advance(1)
    assert world.deliver(uploaded[position]) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    assert (world.store.claims, world.store.manifests, world.store.jobs) == before


def at_once(world: World, event: ObjectFinalized, times: int) -> list[Answer]:
    """Deliver one event from many threads that start together."""
    start = Barrier(times)

    def deliver(_number: int) -> Answer:
        start.wait()
        return world.deliver(event)

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(deliver, range(times)))


def test_twenty_duplicates_at_once_record_one_component(world: World) -> None:
    """A2: of twenty deliveries of a waiting event at once one is first, nineteen duplicates."""
    event = world.upload("in/roads.shp")
    assert at_once(world, event, 20) == [Answer.ACK] * 20
    assert sorted(outcome.value for outcome in world.outcomes if outcome) == [
        *["duplicate"] * 19,
        "waiting",
    ]


def test_twenty_duplicates_at_once_start_one_job(world: World) -> None:
    """A2: of twenty deliveries of the completing event at once one runs the only job."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    answers = at_once(world, last, 20)
    assert Answer.NACK not in answers
    assert world.outcomes.count(Outcome.DISPATCHED) == 1
    # While the job runs, its event's other deliveries are sent back quietly; the
    # one that was recorded first need not be the one that dispatches.
    assert set(world.outcomes[2:]) <= {
        Outcome.DISPATCHED,
        Outcome.DUPLICATE,
        Outcome.INCLUDED,
        Outcome.IN_PROGRESS,
    }
    world.settle(last)
    assert len(world.jobs) == len(world.reader.opened) == len(world.effects) == 1


def test_the_event_id_is_never_a_key(world: World) -> None:
    """A4: two generations under one event id are both processed."""
    first = world.upload("in/roads.shp")
    second = world.upload("in/roads.shp")
    world.deliver(replace(first, event_id="same"))
    world.deliver(replace(second, event_id="same"))
    assert world.outcomes == [Outcome.WAITING, Outcome.WAITING]
    assert len(world.store.claims) == 2
    assert world.manifest("in/roads").components == {"in/roads.shp": second.generation}


def test_the_same_version_under_two_event_ids_is_a_duplicate(world: World) -> None:
    """A4: the other way round: a replayed event has a new id and is still a duplicate."""
    event = world.upload("in/roads.shp")
    world.deliver(event)
    world.deliver(replace(event, event_id="replayed"))
    assert world.outcomes == [Outcome.WAITING, Outcome.DUPLICATE]


def test_two_consumers_each_process_once() -> None:
    """A5: of two consumers with collections of their own each takes every event as the first."""
    worlds = World(), World()
    uploaded = worlds[0].upload_bundle("in/roads")
    worlds[1].upload_bundle("in/roads")
    for event in uploaded:
        for world in worlds:
            assert world.deliver(event) is Answer.ACK
    for world in worlds:
        assert world.outcomes == [Outcome.WAITING, Outcome.WAITING, Outcome.DISPATCHED]
        assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize("position", [0, 2])
def test_a_crash_before_commit_leaves_it_to_the_redelivery(world: World, position: int) -> None:
    """A6: killed before the claim commits, the redelivery makes the claim and the whole effect."""
    uploaded = world.upload_bundle("in/roads")
    for event in uploaded[:position]:
        world.deliver(event)
    world.faults.before("store.record", raising(Crash()))
    assert world.deliver(uploaded[position]) is Answer.NACK
    assert len(world.store.claims) == position
    world.settle(*uploaded[position:])
    assert Outcome.DUPLICATE not in world.outcomes
    assert world.rows("in/roads") == expected("first")
    assert len(world.effects) == 1


def test_a_crash_between_claim_and_dispatch_is_finished_by_the_duplicate(world: World) -> None:
    """A7: killed once the claim has committed, the duplicate dispatches and runs the one job."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    world.faults.after("store.record", raising(Crash()))
    assert world.deliver(last) is Answer.NACK
    assert not world.jobs
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DISPATCHED
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    assert world.reader.opened == ["in/roads"]


def test_a_crash_after_dispatch_is_finished_once_the_lease_has_expired(world: World) -> None:
    """A7: killed once the job was created, the redelivery waits for the lease, then runs it."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    world.faults.after("store.dispatch", raising(Crash()))
    assert world.deliver(last) is Answer.NACK
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.outcomes[-1] is Outcome.IN_PROGRESS
    world.clock.advance(60)
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.RESUMED
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 2)]
    assert len(world.effects) == 1


@pytest.mark.parametrize("days", [1, 30])
def test_age_never_matters(world: World, days: int) -> None:
    """A8: an event that arrives days late is processed while its generation is the greatest."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    world.clock.advance(days * 86_400)
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DISPATCHED
    assert world.rows("in/roads") == expected("first")


BROKEN: dict[str, Any] = {
    "bytes": b"\xff\xfe",
    "nothing": None,
    "a list": [RESOURCE],
    "text": "gs://uploads/in/roads.shp",
    "no bucket": {**RESOURCE, "bucket": None},
    "no name": {key: RESOURCE[key] for key in ("bucket", "generation")},
    "no generation": {key: RESOURCE[key] for key in ("bucket", "name")},
    "generation in words": {**RESOURCE, "generation": "one"},
}


@pytest.mark.parametrize("payload", BROKEN.values(), ids=BROKEN)
def test_a_malformed_event_is_one_dead_letter(world: World, payload: object) -> None:
    """A10: what cannot be read is acknowledged and kept as one dead letter with its beginning."""
    assert world.post(FINALIZED, payload) is Answer.ACK
    assert world.outcomes == [Outcome.MALFORMED]
    [letter] = world.sent.sent
    assert letter.code == letter.body["code"] == "malformed_event"
    assert letter.body["raw"] == repr(payload)[:500]
    assert letter.body["message"]
    assert world.faults.calls == ["letters.send"]


@pytest.mark.parametrize("change", ["deleted", "archived", "metadataUpdated"])
def test_other_types_are_ignored_without_a_call(world: World, change: str) -> None:
    """A11: an event of another type is acknowledged, and no port is called."""
    event_type = f"google.cloud.storage.object.v1.{change}"
    assert world.post({**FINALIZED, "type": event_type}, RESOURCE) is Answer.ACK
    assert world.outcomes == [Outcome.IGNORED]
    assert world.faults.calls == []


def test_waiting_events_write_once_and_duplicates_read_too(world: World) -> None:
    """A1: a waiting event makes one call of the store, its duplicate one more, and no other."""
    event = world.upload("in/roads.shp")
    world.deliver(event)
    world.deliver(event)
    assert world.faults.calls == ["store.record", "store.record", "store.read"]
