"""Bundles go from a bucket through Pub/Sub and the function into the sink."""

from __future__ import annotations

import io

import pyarrow.parquet as pq

from gate.local.stack import UPLOADS_TOPIC, Stack
from gate.local.topics import Message
from tests.e2e.conftest import World
from tests.shapefiles import parcels

REFUSED = "Failed to push to endpoint"  # in the log of the Pub/Sub emulator


def test_the_worst_order_waits_then_dispatches_once(world: World) -> None:
    """C1: `.dbf`, `.shx`, `.cpg` wait and `.shp` dispatches; the job has run once."""
    files = parcels(rows=50)
    for extension, decision in ((".dbf", "waiting"), (".shx", "waiting"), (".shp", "dispatched")):
        world.upload(f"roads{extension}", files[extension])
        world.wait_for(f"roads{extension}", decision)
    pointer = world.wait_until_current("roads")
    manifest = world.manifest("roads")
    assert sorted(manifest["seen"]) == [".dbf", ".shp", ".shx"]
    assert manifest["dispatched"] == {
        extension: world.generations[f"roads{extension}"] for extension in (".dbf", ".shx", ".shp")
    }
    assert pointer["rows"] == 50
    assert world.count("reading", "roads") == 1


def test_a_late_prj_gives_a_revision_with_the_crs(world: World) -> None:
    """C9: a `.prj` after the first ingestion settles, and the dataset gets its CRS."""
    files = parcels(rows=20)
    world.upload_all("late", files, ".dbf", ".shx", ".shp")
    before = world.wait_until_current("late")
    world.upload("late.prj", files[".prj"])
    world.wait_for("late.prj", "settling")
    after = world.wait_until_current("late")
    assert before["revision_id"] != after["revision_id"]
    metadata = pq.read_schema(io.BytesIO(world.dataset("late"))).metadata[b"geo"]
    assert b'"crs":null' not in metadata.replace(b" ", b"")
    assert world.count("reading", "late") == 2


def test_a_replaced_bundle_converges_on_its_new_rows(world: World) -> None:
    """C6: a full re-upload with fewer rows replaces the dataset; the old rows are gone."""
    old, new = parcels(rows=60), parcels(rows=25, seed=2)
    order = (".shp", ".shx", ".dbf", ".prj")
    world.upload_all("plots", old, *order)
    assert world.wait_until_current("plots")["rows"] == 60
    world.upload_all("plots", new, *order)
    pointer = world.wait_until_current("plots")
    assert pointer["rows"] == 25
    assert pq.read_metadata(io.BytesIO(world.dataset("plots"))).num_rows == 25


def test_a_failed_attempt_is_redelivered_and_arrives_once(stack: Stack, world: World) -> None:
    """G1: a first attempt fails for want of its sink; Pub/Sub brings the event back, once."""
    files = parcels(rows=30)
    stack.restart_function({"SINK": "gs://not-there-yet/layers"})
    world.upload_all("again", files, ".prj", ".dbf", ".shx", ".shp")
    world.wait(
        "the failing attempt",
        lambda: any(
            entry.get("decision") == "failed"
            for entry in world.decisions.of("ingestion ended")
            if entry["bundle"] == str(world.bundle("again"))
        ),
    )
    assert world.pointer("again") is None
    stack.restart_function()
    pointer = world.wait_until_current("again")
    job = world.job(pointer["revision_id"])
    world.wait("the job's end", lambda: world.job(pointer["revision_id"])["state"] == "done")
    assert job["attempts"] == job["fence"]
    assert job["attempts"] >= 2
    assert pointer["rows"] == 30
    datasets = [blob.name for blob in world.sink.list_blobs(prefix=f"layers/{world.folder}again/")]
    assert sum(name.endswith(".parquet") for name in datasets) == 1


def test_events_of_a_time_without_a_function_are_not_lost(stack: Stack, world: World) -> None:
    """I2: bundles uploaded while nothing answers, for long, are ingested once it does."""
    refusals = (stack.folder / "pubsub.log").read_text().count(REFUSED)
    stack.stop_function()
    world.upload_all("night", parcels(rows=10), ".shp", ".shx", ".dbf", ".prj")
    world.wait(
        "four refusals of each event",
        lambda: (stack.folder / "pubsub.log").read_text().count(REFUSED) >= refusals + 16,
    )
    stack.restart_function()
    assert world.wait_until_current("night")["rows"] == 10
    assert world.count("reading", "night") == 1


def test_every_event_twice_reads_the_bundle_once(stack: Stack, world: World) -> None:
    """A1: the bucket's own notifications, published a second time, are duplicates."""
    stack.topics.collect("twice", topic=UPLOADS_TOPIC)
    world.upload_all("twice", parcels(rows=15), ".prj", ".shx", ".dbf", ".shp")
    pointer = world.wait_until_current("twice")
    world.wait("the job's end", lambda: world.job(pointer["revision_id"])["state"] == "done")
    heard = [one for one in stack.topics.pull("twice") if _about(one, world)]
    assert len(heard) == 4
    again = {stack.topics.publish(UPLOADS_TOPIC, one) for one in heard}
    world.wait("the repetitions", lambda: again <= world.decisions.outcomes().keys())
    outcomes = world.decisions.outcomes()
    assert {outcomes[event] for event in again} == {"duplicate"}
    assert world.count("reading", "twice") == 1


def _about(message: Message, world: World) -> bool:
    return message.attributes["objectId"].startswith(world.folder)
