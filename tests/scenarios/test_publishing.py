"""Scenarios G11, C6: what the sink is given, and what the manifest says of it afterwards."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from gate.errors import CorruptError, HeldError, StorageBusyError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from tests.world import SCHEMA, Answer, World, expected, raising, text


def purge(world: World) -> None:
    """Forget everything that the store holds, as if its collections had been deleted."""
    for documents in (world.store.claims, world.store.manifests, world.store.jobs):
        documents.clear()


def test_the_sink_is_given_the_table_and_the_report(world: World) -> None:
    """C6: the sink sees the layer's schema and rows, and a report of where they come from."""
    schemas: list[pa.Schema] = []
    publish = world.sink.publish
    world.sink.publish = lambda publication, table, report, still_owner: (  # type: ignore[method-assign]
        schemas.append(table.schema) or publish(publication, table, report, still_owner)
    )
    uploaded = world.upload_bundle("in/roads", parts=(".qix", ".shp", ".shx", ".dbf"))
    world.settle(*uploaded)
    assert schemas == [SCHEMA]
    [job] = world.jobs
    dataset = world.sink.datasets["in/roads"]
    report = dict(dataset.report)
    pins = report.pop("pins")
    assert report == {
        "bundle": "gs://uploads/in/roads",
        "revision": job.revision.id,
        "job": job.id,
        "fence": 1,
        "attempt": 1,
        "product": "test",
        "deleted_sidecars": [],
        "rows": {"in_file": 3, "loaded": 3, "deleted": 0, "rejected": 0},
    }
    assert {part: (pin["name"], pin["generation"]) for part, pin in pins.items()} == {
        event.name[-4:]: (event.name, str(event.generation)) for event in uploaded
    }
    # An index is pinned, and not read: only what was read has been proven.
    assert {part for part, pin in pins.items() if "crc32c" in pin} == {".shp", ".shx", ".dbf"}
    assert pins[".shp"]["bytes"] == str(len(text(".shp", "first")))
    assert job.summary == {
        "rows": {"in_file": 3, "loaded": 3, "deleted": 0, "rejected": 0},
        "location": "memory:in/roads",
        "loaded": 3,
    }


def test_the_manifest_notes_what_is_published(world: World) -> None:
    """G11: once done, the manifest says which revision stands where."""
    world.settle(*world.upload_bundle("in/roads"))
    note = world.manifest("in/roads").published
    assert note
    assert (note.revision_id, note.order, note.location) == (
        world.effects[0].id,
        world.effects[0].order,
        "memory:in/roads",
    )


def awake(world: World) -> None:
    """Clear the time at which the sweep is due, as the sweep does once it has looked."""
    for document in world.store.manifests.values():
        document.pop("wake_at", None)


def test_a_manifest_that_the_sweep_has_not_seen_does_not_expire(world: World) -> None:
    """H7: while a look is due something may be pending: a lost event, or a file replaced later."""
    world.settle(*world.upload_bundle("in/roads"))
    [document] = world.store.manifests.values()
    assert "expires_at" not in document


def test_a_manifest_with_nothing_pending_may_expire(world: World) -> None:
    """H7: once its newest revision is done and no look is due, a manifest may go."""
    world.reader.on_row = lambda _number: awake(world)
    world.settle(*world.upload_bundle("in/roads"))
    [document] = world.store.manifests.values()
    assert document["expires_at"] == world.clock.now + timedelta(days=1)


def test_a_manifest_with_something_pending_does_not_expire(world: World) -> None:
    """H7: a component that arrived during the run keeps the manifest, though a revision is done."""
    newer: list[ObjectFinalized] = []

    def replace_table(number: int) -> None:
        if number == 0 and not newer:
            newer.append(world.upload("in/roads.dbf", text(".dbf", "second")))
            world.deliver(newer[0])
        awake(world)

    world.reader.on_row = replace_table
    world.redeliver(*world.upload_bundle("in/roads"))
    [document] = world.store.manifests.values()
    assert document["published"]["revision"] == world.effects[0].id
    assert "expires_at" not in document
    document["wake_at"] = world.clock.now
    world.settle()
    assert document["published"]["revision"] == world.effects[1].id
    assert "expires_at" in document


def test_a_note_meets_events_and_is_written_all_the_same(world: World) -> None:
    """G11: an event between the read and the write of the note costs one more round, no note."""
    world.faults.before("store.note_published", lambda: world.deliver(world.upload("in/roads.prj")))
    world.redeliver(*world.upload_bundle("in/roads"))
    note = world.manifest("in/roads").published
    assert note
    assert note.revision_id == world.effects[0].id


def test_a_manifest_that_never_rests_keeps_its_old_note(world: World) -> None:
    """G11: when every round meets an event the note is given up; job and dataset are done."""

    def disturb() -> None:
        world.faults.before("store.note_published", disturb)
        world.intake(world.upload("in/roads.prj"))

    disturb()
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]
    assert world.manifest("in/roads").published is None
    assert world.faults.calls.count("store.note_published") == 5


def test_a_manifest_that_is_gone_needs_no_note(world: World) -> None:
    """G11: a manifest that was removed during the run is not made again for a note."""
    inner = world.sink.on

    def vanish(step: str) -> None:
        inner(step)
        if step == "answer":
            world.store.manifests.clear()

    world.sink.on = vanish
    world.settle(*world.upload_bundle("in/roads"))
    assert world.states == [State.DONE]
    assert not world.store.manifests


def test_a_late_end_does_not_note_an_older_revision(world: World) -> None:
    """C6: a worker that ends after its successor was published leaves the successor's note."""
    inner = world.sink.on

    def overtake(step: str) -> None:
        inner(step)
        if step == "answer" and len(world.effects) == 1:
            world.redeliver(*world.upload_bundle("in/roads", "second"))

    world.sink.on = overtake
    world.settle(*world.upload_bundle("in/roads"))
    assert world.states == [State.DONE, State.DONE]
    note = world.manifest("in/roads").published
    assert note
    assert note.revision_id == world.effects[1].id
    assert world.rows("in/roads") == expected("second")


def test_a_store_that_lost_everything_reads_nothing_again(world: World) -> None:
    """G11: events redelivered to an empty store end done: the sink holds their revision already."""
    uploaded = world.upload_bundle("in/roads")
    world.settle(*uploaded)
    purge(world)
    world.settle(*uploaded)
    assert world.states == [State.DONE]
    assert len(world.reader.opened) == len(world.effects) == 1


def test_a_store_that_lost_everything_does_not_go_back(world: World) -> None:
    """C2, G11: older events redelivered to an empty store end superseded: the sink is newer."""
    older = world.upload_bundle("in/roads")
    world.settle(*older)
    world.settle(*world.upload_bundle("in/roads", "second"))
    purge(world)
    world.faults.before("source.siblings", raising(StorageBusyError("503")))
    asked = world.faults.calls.count("source.stat")
    world.settle(*older)
    assert world.outcomes[-1] is Outcome.DISPATCHED
    assert world.states == [State.SUPERSEDED]
    assert "the sink holds revision order" in world.jobs[0].history[-1].message
    assert world.faults.calls.count("source.stat") == asked
    assert world.rows("in/roads") == expected("second")


def test_only_finished_jobs_may_expire(world: World) -> None:
    """H7: a job that runs, waits for its next attempt or is held never carries an expiry."""
    carried: dict[str, set[bool]] = {}

    def look() -> None:
        for document in world.store.jobs.values():
            carried.setdefault(document["state"], set()).add("expires_at" in document)

    world.faults.watch = look
    world.faults.before("source.stat", raising(StorageBusyError("503")))
    world.settle(*world.upload_bundle("in/done"))
    world.reader.fault = HeldError("no CRS")
    world.settle(*world.upload_bundle("in/held"))
    world.reader.fault = CorruptError("broken")
    world.settle(*world.upload_bundle("in/dead"))
    world.reader.fault = None
    world.reader.on_row = lambda number: (
        [world.deliver(event) for event in world.upload_bundle("in/old", "second")]
        if number == 0 and world.reader.opened.count("in/old") == 1
        else None
    )
    world.settle(*world.upload_bundle("in/old"))
    assert carried == {
        "running": {False},
        "failed": {False},
        "held": {False},
        "done": {True},
        "dead": {True},
        "superseded": {True},
    }


def test_a_new_component_takes_the_expiry_of_its_manifest_away(world: World) -> None:
    """H7: a manifest that was finished does not expire under an upload that has just begun."""
    world.reader.on_row = lambda _number: awake(world)
    world.settle(*world.upload_bundle("in/roads"))
    [document] = world.store.manifests.values()
    assert "expires_at" in document
    world.deliver(world.upload("in/roads.dbf", text(".dbf", "second")))
    [document] = world.store.manifests.values()
    assert "expires_at" not in document


def test_a_job_whose_manifest_was_collected_is_run_all_the_same(world: World) -> None:
    """H7: nothing is decided by the absence of a manifest: its dispatched job still publishes."""
    *others, last = world.upload_bundle("in/roads")
    for event in others:
        world.deliver(event)
    world.faults.after("store.dispatch", world.store.manifests.clear)
    assert world.deliver(last) is Answer.ACK
    assert world.rows("in/roads") == expected("first")
