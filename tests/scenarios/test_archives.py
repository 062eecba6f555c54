"""Archives: each layer by itself, whatever becomes of the others, and one account of them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gate import wiring
from gate.errors import (
    ConfigurationError,
    HeldError,
    PermissionDeniedError,
    StorageBusyError,
)
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from gate.overrides import Overrides
from gate.sinks.memory import key
from tests.archives import CRC, archive, files, patched
from tests.shapefiles import parcels, points, without
from tests.world import PARTS, Answer, Crash, World, expected, raising, text

NAME = "in/a.zip"


def layer(stem: str, version: str = "first", rows: int = 3) -> dict[str, bytes]:
    """Return the files of a layer as the reader of the world reads them."""
    return {f"{stem}{part}": text(part, version, rows) for part in PARTS}


def torn(stem: str) -> dict[str, bytes]:
    """Return the files of a layer whose table has too few records."""
    return {**layer(stem), f"{stem}.dbf": text(".dbf", "first", 2)}


def packed(*stems: str, version: str = "first") -> bytes:
    """Return an archive of good layers."""
    return archive(*(layer(stem, version) for stem in stems))


def rows(world: World, name: str, of: str = NAME) -> list[Any]:
    """Return what readers of the sink see of one layer."""
    dataset = world.sink.datasets.get(key(of, name))
    batches = dataset.batches if dataset else ()
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def index(world: World, of: str = NAME) -> Mapping[str, Any]:
    """Return the index of the archive."""
    return world.sink.indexes[of].content


def once(world: World, reached: str, number: int, action: Callable[[], object]) -> None:
    """Run `action` at the n-th time (from 1) that the sink reaches a step, and never again."""
    inner = world.sink.on
    times = [0]

    def on(step: str) -> None:
        inner(step)
        times[0] += step == reached
        if step == reached and times[0] == number:
            action()

    world.sink.on = on


# --- what an archive leads to ---------------------------------------------------


def test_each_layer_is_a_result(world: World) -> None:
    """Case 33: two layers are two datasets, the job is done, and the index has both."""
    world.settle(world.upload(NAME, archive(layer("b", "other"), layer("x/a"))))

    assert world.states == [State.DONE]
    assert rows(world, "b") == expected("other")
    assert rows(world, "x/a") == expected("first")
    assert (index(world)["found"], index(world)["done"], index(world)["failed"]) == (2, 2, 0)
    assert [(each["name"], each["state"]) for each in index(world)["layers"]] == [
        ("b", "done"),
        ("x/a", "done"),
    ]
    assert index(world)["layers"][0]["rows"]["loaded"] == 3
    summary = world.jobs[0].summary
    assert summary["layers"] == {"found": 2, "done": 2, "failed": 0}
    assert summary["loaded"] == 6
    assert summary["index"] == "memory:in/a.zip/index"
    assert not world.sent.sent


def test_one_bad_layer_does_not_undo_the_other(world: World) -> None:
    """Case 33: the object ends partial, and a dead letter names the bad layer, code and cure."""
    world.settle(world.upload(NAME, archive(torn("bad"), layer("good"))))

    assert world.answers == [Answer.ACK]
    assert world.states == [State.PARTIAL]
    assert rows(world, "good") == expected("first")
    assert rows(world, "bad") == []
    [letter] = world.sent.sent
    assert (letter.code, letter.body["state"]) == ("partial", "partial")
    assert letter.body["layers"] == {"found": 2, "done": 1, "failed": 1}
    [failed] = letter.body["failed_layers"]
    assert (failed["name"], failed["code"]) == ("bad", "torn_bundle")
    assert failed["cure"] == "upload all components of one export together"
    assert "1 of 2 layers could not be loaded: bad: torn_bundle: " in letter.body["message"]
    assert letter.body["index"] == "memory:in/a.zip/index"
    assert world.jobs[0].notified
    assert [each["state"] for each in index(world)["layers"]] == ["failed", "done"]


def test_a_partial_archive_is_noted_as_current(world: World) -> None:
    """Case 33: the manifest says which revision is current and where its index is."""
    event = world.upload(NAME, archive(torn("bad"), layer("good")))
    world.settle(event)

    stored = world.store.manifest(world.jobs[0].revision.bundle)
    assert stored
    assert stored.manifest.published
    assert stored.manifest.published.order == event.generation
    assert stored.manifest.published.location == "memory:in/a.zip/index"


def test_no_good_layer_is_a_dead_job(world: World) -> None:
    """Case 33: if none could be loaded the job is dead with the code of the first, all listed."""
    lacking = without(layer("c"), "c.dbf")
    world.settle(world.upload(NAME, archive(torn("b"), lacking)))

    assert world.states == [State.DEAD]
    [letter] = world.sent.sent
    assert letter.code == "torn_bundle"
    assert [each["code"] for each in letter.body["failed_layers"]] == [
        "torn_bundle",
        "missing_component",
    ]
    assert "none of 2 layers could be loaded: b: torn_bundle: " in letter.body["message"]
    assert "c: missing_component: in/a.zip/c.dbf: is missing" in letter.body["message"]
    assert world.jobs[0].summary["layers"] == {"found": 2, "done": 0, "failed": 2}
    assert index(world)["failed"] == 2
    assert not world.effects


def test_the_error_of_an_only_layer_is_the_jobs(world: World) -> None:
    """Cases 6, 10: an archive of one layer ends with that layer's own message."""
    world.settle(world.upload(NAME, archive(without(layer("a"), "a.shx"))))

    assert [letter.body["message"] for letter in world.sent.sent] == [
        "in/a.zip/a.shx: is missing; pack the missing file beside the others and upload"
        " the archive again"
    ]


def test_layers_that_all_lack_a_fact_are_held() -> None:
    """Case 20: if a fact is all that each layer lacks, the archive is held and not dead."""
    world = World()
    world.reader.fault = HeldError("no CRS")
    world.settle(world.upload(NAME, packed("a", "b")))

    assert world.states == [State.HELD]
    assert [letter.body["state"] for letter in world.sent.sent] == ["held"]
    assert world.jobs[0].summary["layers"]["failed"] == 2


def test_a_held_layer_beside_a_dead_one_is_no_hold(world: World) -> None:
    """Case 33: a fact cannot cure an archive of which another layer is broken."""
    world.reader.fault = HeldError("no CRS")
    world.settle(world.upload(NAME, archive(layer("a"), without(layer("b"), "b.shx"))))

    assert world.states == [State.DEAD]
    assert [letter.code for letter in world.sent.sent] == ["missing_component"]


def test_a_held_layer_beside_a_good_one_is_partial(world: World) -> None:
    """Case 33: a layer that lacks a fact is named, and the good one is there."""
    hold = raising(HeldError("no CRS"))
    world.reader.on_row = lambda number: (
        number == 0 and world.reader.opened == [f"{NAME}/a"] and hold()
    )
    world.settle(world.upload(NAME, packed("a", "b")))

    assert world.states == [State.PARTIAL]
    assert [each["code"] for each in world.jobs[0].summary["failed_layers"]] == ["held"]
    assert rows(world, "b") == expected("first")


def test_required_extensions_hold_for_layers_too() -> None:
    """Case 10: what the deployment requires of a bundle, it requires of each packed layer."""
    world = World(REQUIRED_EXTS=".shp,.shx,.dbf,.prj")
    world.settle(world.upload(NAME, archive(layer("a"), layer("b"), {"b.prj": b"first"})))

    assert world.states == [State.PARTIAL]
    [failed] = world.jobs[0].summary["failed_layers"]
    assert failed["message"].startswith("in/a.zip/a.prj: is missing")


def test_a_corrected_archive_replaces_everything(world: World) -> None:
    """C6: the next upload of the archive replaces its layers and its index."""
    world.settle(world.upload(NAME, archive(torn("bad"), layer("good"))))
    world.settle(world.upload(NAME, packed("bad", "good", version="second")))

    assert world.states == [State.PARTIAL, State.DONE]
    assert rows(world, "bad") == rows(world, "good") == expected("second")
    assert index(world)["failed"] == 0


def test_a_layer_that_is_gone_is_not_in_the_index(world: World) -> None:
    """C6: the index tells which layers the newest archive has."""
    world.settle(world.upload(NAME, packed("a", "b")))
    world.settle(world.upload(NAME, packed("a", version="second")))

    assert [each["name"] for each in index(world)["layers"]] == ["a"]


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "empty_component"), (b"<html>404", "not_an_archive"), (archive(), "no_layer")],
)
def test_three_kinds_of_nothing_are_dead_once(world: World, content: bytes, code: str) -> None:
    """Case 11: each is permanent, has its own code, and is told once, without a retry."""
    world.settle(world.upload(NAME, content))

    assert world.answers == [Answer.ACK]
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 1)]
    assert [letter.code for letter in world.sent.sent] == [code]


@pytest.mark.parametrize("name", ["../../x.shp", "/etc/x.shp", "C:\\x.shp"])
def test_an_archive_that_would_leave_its_folder_is_dead(world: World, name: str) -> None:
    """Case 65: nothing of it is published, not even its good layers."""
    world.settle(world.upload(NAME, archive(layer("a"), {name: b"x"})))

    assert world.states == [State.DEAD]
    assert [letter.code for letter in world.sent.sent] == ["unsafe_archive"]
    assert not world.effects


def test_an_archive_beyond_the_limits_is_held_once() -> None:
    """Cases 63, 66: what would not fit is refused before unpacking, and waits for a person."""
    world = World(MAX_UNPACKED_BYTES="100")
    world.settle(world.upload(NAME, packed("a")))

    assert [(job.state, job.attempts) for job in world.jobs] == [(State.HELD, 1)]
    assert [letter.code for letter in world.sent.sent] == ["too_large"]
    assert not world.reader.opened


def test_too_many_entries_are_held_once() -> None:
    """Case 66: so is an archive that lists more than is allowed."""
    world = World(MAX_ENTRIES="2")
    world.settle(world.upload(NAME, packed("a")))

    assert [letter.code for letter in world.sent.sent] == ["too_large"]
    assert "MAX_ENTRIES" in world.sent.sent[0].body["message"]


@pytest.mark.parametrize(
    "name", ["in/UNESCO Global [2024] (final).zip", "in/a b+c%20d#1.zip", "in/A.SHZ"]
)
def test_names_of_archives_stay_as_they_are(world: World, name: str) -> None:
    """Cases 35, 36, 38: object and layer are found under the names their user gave them."""
    stem = name.removeprefix("in/")[:-4]
    world.settle(world.upload(name, packed(stem)))

    assert world.states == [State.DONE]
    [each] = index(world, name.lower().replace("in/unesco", "in/unesco"))["layers"]
    assert (each["name"], each["spelled"]) == (stem.lower(), stem)


def test_layers_beyond_count_stay_within_the_job(world: World) -> None:
    """Case 51: 3 000 layers, every second one bad, are counts and twenty names; the index has all.

    The names are as long as Cloud Storage would never take them.
    """
    stems = [f"{number:04}{'x' * 2500}" for number in range(3000)]
    # One entry each: the .shx is missing everywhere, so nothing is read.
    shapes = {f"{stem}.shp": b"x" for stem in stems}
    content = archive(shapes, layer("good"))

    world.settle(world.upload(NAME, content))

    assert world.states == [State.PARTIAL]
    [document] = world.store.jobs.values()
    assert len(repr(document)) < 60_000
    summary = world.jobs[0].summary
    assert summary["layers"] == {"found": 3001, "done": 1, "failed": 3000}
    assert len(summary["failed_layers"]) == 20
    assert len(repr(world.sent.sent[0].body)) < 60_000
    assert "3000 of 3001 layers could not be loaded: 0000x" in world.jobs[0].history[-1].message
    assert ": missing_component: " in world.jobs[0].history[-1].message
    assert len(index(world)["layers"]) == 3001


def test_notices_on_an_archive_are_in_its_index(world: World) -> None:
    """Case 34: what was passed over and may matter is said in the index, once."""
    world.settle(world.upload(NAME, archive(layer("a"), {"codes.dbf": b"x"})))

    assert index(world)["notices"] == [
        {"code": "lone_table", "what": "codes.dbf has no .shp", "count": 1}
    ]
    dataset = world.sink.datasets[key(NAME, "a")]
    assert dataset.report["archive"] == {"layer": "a", "spelled": "a", "notices": []}
    assert dataset.report["pins"][".zip"]["name"] == NAME


# --- metadata -------------------------------------------------------------------


def test_metadata_of_a_bundle_is_stored_beside_its_report(world: World) -> None:
    """Case 34: a .shp.xml that came with a bundle is kept as it is, and the report says so."""
    described = world.upload("in/roads.shp.xml", b"<metadata/>")
    world.settle(described, *world.upload_bundle("in/roads"))

    dataset = world.sink.datasets["in/roads"]
    assert dataset.publication.metadata == b"<metadata/>"
    assert dataset.report["metadata"] == {"stored": True, "bytes": 11}


def test_metadata_of_a_packed_layer_is_stored_beside_its_report(world: World) -> None:
    """Case 34: the same for a layer of an archive."""
    world.settle(world.upload(NAME, archive(layer("a"), {"a.shp.xml": b"<x/>"}, layer("b"))))

    assert world.sink.datasets[key(NAME, "a")].publication.metadata == b"<x/>"
    assert world.sink.datasets[key(NAME, "b")].publication.metadata == b""
    assert "metadata" not in world.sink.datasets[key(NAME, "b")].report


def test_packed_metadata_beyond_bounds_is_a_notice_of_its_layer(world: World) -> None:
    """Case 34: the index and the report of the layer say that it was left out."""
    large = {"a.shp.xml": bytes((1 << 20) + 1)}
    world.settle(world.upload(NAME, archive(layer("a"), large)))

    dataset = world.sink.datasets[key(NAME, "a")]
    [notice] = dataset.report["archive"]["notices"]
    assert notice["code"] == "metadata_too_large"
    assert index(world)["layers"][0]["notices"] == [notice]
    assert dataset.publication.metadata == b""


def test_metadata_beyond_bounds_stays_where_it_is(world: World) -> None:
    """Case 34: what no metadata could be is neither fetched nor a reason to fail."""
    large = world.upload("in/roads.shp.xml", bytes((1 << 20) + 1))
    world.settle(large, *world.upload_bundle("in/roads"))

    dataset = world.sink.datasets["in/roads"]
    assert world.states == [State.DONE]
    assert dataset.publication.metadata == b""
    assert dataset.report["metadata"] == {"stored": False, "bytes": (1 << 20) + 1}


def test_metadata_that_was_deleted_is_left_out(world: World) -> None:
    """Case 34: metadata is a sidecar: without it the layer is as readable."""
    described = world.upload("in/roads.shp.xml", b"<x/>")
    parts = world.upload_bundle("in/roads")
    world.settle(described, *parts[:-1])
    world.faults.before("source.stat", lambda: world.source.delete("uploads", "in/roads.shp.xml"))
    world.settle(parts[-1])

    assert world.states == [State.DONE]
    assert world.sink.datasets["in/roads"].report["deleted_sidecars"] == ["in/roads.shp.xml"]


# --- faults, take-over, newer revisions -----------------------------------------


@pytest.fixture
def event(world: World) -> ObjectFinalized:
    """Return the event of an archive of the layers a, b and c."""
    return world.upload(NAME, packed("a", "b", "c"))


def test_a_passing_fault_keeps_what_is_published(world: World, event: ObjectFinalized) -> None:
    """G1: the attempt fails at b; the next one reads b and c only, and each took effect once."""
    once(world, "upload", 2, raising(StorageBusyError("503")))
    assert world.deliver(event) is Answer.QUIET_NACK
    assert world.states == [State.FAILED]
    assert world.reader.opened == [f"{NAME}/a", f"{NAME}/b"]
    assert rows(world, "a") == expected("first")
    assert NAME not in world.sink.indexes
    world.settle(event)

    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 2)]
    assert sorted(world.reader.opened) == [f"{NAME}/{name}" for name in "abbc"]
    assert len(world.effects) == 3
    assert [each["state"] for each in index(world)["layers"]] == ["done"] * 3
    assert world.jobs[0].summary["loaded"] == 9


@pytest.mark.parametrize("error", [ConfigurationError("no bucket"), PermissionDeniedError("403")])
def test_a_fault_that_every_layer_would_meet_ends_the_attempt(
    world: World, event: ObjectFinalized, error: Exception
) -> None:
    """G2: a sink that may not be written is not tried again for each layer."""
    once(world, "upload", 1, raising(error))
    world.deliver(event)

    assert world.reader.opened == [f"{NAME}/a"]
    assert not world.effects


def test_a_crash_between_layers_is_made_up_for(world: World, event: ObjectFinalized) -> None:
    """A6: killed after the first layer, the next holder publishes the rest, each layer once."""
    once(world, "answer", 1, raising(Crash()))
    assert world.deliver(event) is Answer.NACK
    world.clock.advance(60)
    world.settle(event)

    assert [(job.state, job.fence) for job in world.jobs] == [(State.DONE, 2)]
    assert len(world.effects) == 3
    assert sorted(world.reader.opened) == [f"{NAME}/{name}" for name in "abc"]


def test_a_crash_before_the_end_repeats_nothing(world: World, event: ObjectFinalized) -> None:
    """A6: killed once the index is written, the next holder reads no layer again."""
    once(world, "index", 1, raising(Crash()))
    world.deliver(event)
    world.clock.advance(60)
    world.settle(event)

    assert world.states == [State.DONE]
    assert sorted(world.reader.opened) == [f"{NAME}/{name}" for name in "abc"]
    assert world.sink.indexes[NAME].publication.fence == 2


def test_a_layer_that_kills_its_worker_keeps_no_other_out(world: World) -> None:
    """G3: attempts take the layers from either end, so only the deadly one stays out."""
    deadly = world.upload(NAME, packed("a", "b", "c", "d"))

    def on_row(_number: int) -> None:
        if world.reader.opened[-1] == f"{NAME}/b":
            raise Crash

    world.reader.on_row = on_row
    world.settle(deadly, pause_seconds=61)

    assert world.states == [State.DEAD]
    assert [letter.code for letter in world.sent.sent] == ["attempts_exhausted"]
    for name in "acd":
        assert rows(world, name) == expected("first")


def test_an_unforeseen_fault_waits_for_the_other_layers(world: World) -> None:
    """G2: a layer that crashes the reader every time costs attempts, and ends partial."""
    event = world.upload(NAME, packed("a", "b", "c"))

    def on_row(_number: int) -> None:
        if world.reader.opened[-1] == f"{NAME}/a":
            raise ZeroDivisionError

    world.reader.on_row = on_row
    assert world.deliver(event) is Answer.QUIET_NACK
    assert world.states == [State.FAILED]
    assert rows(world, "b") == rows(world, "c") == expected("first")
    world.settle(event, pause_seconds=601)

    assert [(job.state, job.attempts) for job in world.jobs] == [(State.PARTIAL, 5)]
    assert [each["code"] for each in world.jobs[0].summary["failed_layers"]] == ["unexpected"]
    assert len(world.effects) == 2


def test_a_replaced_worker_publishes_no_further_layer(world: World, event: ObjectFinalized) -> None:
    """E4, E10: a zombie stops at the layer at which it was replaced; the holder finishes."""
    works: list[Any] = []

    def steal() -> None:
        world.clock.advance(60)
        works.append(world.intake(event).work)

    once(world, "answer", 1, steal)
    assert world.deliver(event) is Answer.ACK
    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    assert world.reader.opened == [f"{NAME}/a"]
    assert rows(world, "b") == []
    assert NAME not in world.sink.indexes
    ending = world.ingest(works[0])

    assert ending.state is State.DONE
    assert len(world.effects) == 3
    assert [world.sink.datasets[key(NAME, name)].publication.fence for name in "abc"] == [1, 2, 2]


def test_a_worker_replaced_within_a_layer_opens_no_other(
    world: World, event: ObjectFinalized
) -> None:
    """E4, E10: replaced while it publishes b, a zombie neither publishes b nor looks at c."""

    def steal() -> None:
        world.clock.advance(60)
        world.intake(event)

    once(world, "upload", 2, steal)
    world.deliver(event)

    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    assert world.reader.opened == [f"{NAME}/a", f"{NAME}/b"]
    assert len(world.effects) == 1


def test_a_worker_that_lost_its_job_writes_no_index(world: World, event: ObjectFinalized) -> None:
    """E4: replaced after the last layer, a zombie leaves the index to the holder."""
    works: list[Any] = []

    def steal() -> None:
        world.clock.advance(60)
        works.append(world.intake(event).work)

    once(world, "answer", 3, steal)
    world.deliver(event)

    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    assert NAME not in world.sink.indexes
    assert world.ingest(works[0]).state is State.DONE


def test_a_newer_archive_between_layers_supersedes(world: World, event: ObjectFinalized) -> None:
    """E10: a revision dispatched between two layers ends the older one; the newer one is whole."""
    newer: list[ObjectFinalized] = []

    def replace() -> None:
        newer.append(world.upload(NAME, packed("a", "b", version="second")))
        world.deliver(newer[0])

    once(world, "answer", 1, replace)
    world.settle(event)

    assert world.states == [State.SUPERSEDED, State.DONE]
    assert rows(world, "a") == rows(world, "b") == expected("second")
    assert rows(world, "c") == []
    assert [each["name"] for each in index(world)["layers"]] == ["a", "b"]


def test_a_newer_archive_while_a_layer_is_uploaded_supersedes(
    world: World, event: ObjectFinalized
) -> None:
    """E10: overtaken within a layer, the older archive opens no further one."""

    def replace() -> None:
        world.deliver(world.upload(NAME, packed("z", version="second")))

    once(world, "upload", 2, replace)
    world.settle(event)

    assert world.states == [State.SUPERSEDED, State.DONE]
    assert world.reader.opened == [f"{NAME}/{name}" for name in "abz"]


def test_a_newer_archive_before_the_index_supersedes(world: World, event: ObjectFinalized) -> None:
    """E10: overtaken after its last layer, an archive is not done, and its index not written."""
    newer: list[ObjectFinalized] = []

    def replace() -> None:
        newer.append(world.upload(NAME, packed("z", version="second")))
        world.reader.fault = StorageBusyError("503")
        world.deliver(newer[0])
        world.reader.fault = None

    once(world, "answer", 3, replace)
    world.deliver(event)

    assert world.states == [State.SUPERSEDED, State.FAILED]
    assert NAME not in world.sink.indexes
    world.clock.advance(60)
    world.settle(newer[0])
    assert [each["name"] for each in index(world)["layers"]] == ["z"]


def test_a_newer_layer_in_the_sink_supersedes(world: World, event: ObjectFinalized) -> None:
    """C5: an older archive that is overtaken at the sink itself gives way there."""
    newer: list[ObjectFinalized] = []

    def replace() -> None:
        newer.append(world.upload(NAME, packed("a", "b", "c", version="second")))
        world.deliver(newer[0])

    once(world, "swap", 2, replace)
    world.settle(event)

    assert [(job.state, job.attempts) for job in world.jobs] == [
        (State.SUPERSEDED, 1),
        (State.DONE, 1),
    ]
    assert rows(world, "b") == rows(world, "c") == expected("second")


def test_an_older_retry_gives_way_to_a_newer_layer(world: World, event: ObjectFinalized) -> None:
    """C5: a retry that finds a newer revision of a layer current reads nothing."""
    once(world, "upload", 2, raising(StorageBusyError("503")))
    world.deliver(event)
    opened = len(world.reader.opened)
    world.settle(world.upload(NAME, packed("a", version="second")))
    world.faults.before("store.manifest", world.store.manifests.clear)
    world.clock.advance(60)
    world.deliver(event)

    assert world.states == [State.SUPERSEDED, State.DONE]
    assert len(world.reader.opened) == opened + 1
    assert rows(world, "a") == expected("second")


def test_a_newer_index_supersedes(world: World, event: ObjectFinalized) -> None:
    """C5: an archive whose index is overtaken at the last step is superseded."""
    newer: list[ObjectFinalized] = []

    def replace() -> None:
        newer.append(world.upload(NAME, packed("z", version="second")))
        world.deliver(newer[0])

    once(world, "index", 1, replace)
    world.settle(event)

    assert world.states == [State.SUPERSEDED, State.DONE]
    assert [each["name"] for each in index(world)["layers"]] == ["z"]


def test_an_archive_that_was_replaced_before_it_was_read_gives_way(
    world: World, event: ObjectFinalized
) -> None:
    """D1: the pinned generation is gone and a newer one live: superseded, and that one is known."""
    newer = world.upload(NAME, packed("a", version="second"))
    world.deliver(event)
    world.settle(newer)

    assert world.states == [State.SUPERSEDED, State.DONE]
    assert rows(world, "a") == expected("second")


def test_an_archive_that_was_deleted_is_dead(world: World, event: ObjectFinalized) -> None:
    """D2: without the object there is no layer."""
    world.source.delete("uploads", NAME)
    world.settle(event)

    assert [letter.code for letter in world.sent.sent] == ["source_deleted"]


def test_a_lease_is_kept_while_unpacking_and_between_layers(world: World) -> None:
    """E2: a worker busy with many layers renews its lease, so that nobody takes over."""
    event = world.upload(NAME, packed(*(f"layer {number}" for number in range(8))))
    answers: list[Answer] = []

    def on_row(number: int) -> None:
        world.clock.advance(21 if number == 0 else 0)
        answers.append(world.deliver(event))

    world.reader.on_row = on_row
    assert world.deliver(event) is Answer.ACK
    assert set(answers) == {Answer.QUIET_NACK}
    assert [(job.fence, job.attempts) for job in world.jobs] == [(1, 1)]


def test_a_lease_is_kept_while_layers_fail(world: World) -> None:
    """E2: a worker that finds one layer after the other broken still renews its lease."""
    event = world.upload(NAME, packed(*(f"layer {number}" for number in range(8))))
    answers: list[Answer] = []

    def refuse(_overrides: Overrides) -> bool:
        world.clock.advance(21)
        answers.append(world.deliver(event))
        return False

    world.reader.demand = refuse
    assert world.deliver(event) is Answer.ACK
    assert answers == [Answer.QUIET_NACK] * 8
    assert [(job.state, job.fence) for job in world.jobs] == [(State.HELD, 1)]


def test_a_letter_that_failed_is_not_lost(world: World) -> None:
    """G5: the letter of a partial job that could not be sent is sent by the sweep."""
    world.faults.before("letters.send", raising(ConfigurationError("no topic")))
    event = world.upload(NAME, archive(torn("bad"), layer("good")))
    assert world.deliver(event) is Answer.ACK
    assert [(job.state, job.notified) for job in world.jobs] == [(State.PARTIAL, False)]
    world.settle()
    assert [(job.state, job.notified) for job in world.jobs] == [(State.PARTIAL, True)]
    assert len(world.sent.sent) == 1


def test_a_duplicate_of_an_archive_runs_nothing(world: World, event: ObjectFinalized) -> None:
    """A1: an archive's event that comes again is a duplicate, also once its job is partial."""
    world.settle(event)
    opened = len(world.reader.opened)
    assert world.deliver(event) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    assert len(world.reader.opened) == opened


def test_no_folder_is_left_behind(world: World, event: ObjectFinalized) -> None:
    """Case 63: each layer's files go as soon as it is done with, and the rest at the end."""
    left: list[int] = []

    def on_row(_number: int) -> None:
        left.append(sum(folder.exists() for folder in world.reader.folders))
        whole = world.reader.folders[0].parents[1]
        assert [path.name for path in whole.iterdir()] == ["layers"]

    world.reader.on_row = on_row
    world.settle(event)

    assert world.states == [State.DONE]
    assert set(left) == {1}
    assert not any(folder.exists() for folder in world.reader.folders)


# --- with the real reader -------------------------------------------------------


def real() -> World:
    """Return a world with the reader of the deployment."""
    return World(open_layer=wiring.opener())


def test_real_layers_of_a_real_archive() -> None:
    """Cases 31, 32, 33: points and parcels in folders, with a Mac's twins, are two datasets."""
    world = real()
    twins = {"__MACOSX/data/._parcels.shp": b"\0\5\x16\7" + bytes(78), "data/.DS_Store": b"x"}
    content = archive(files("data/Parcels", parcels(30)), files("points", points(4)), twins)

    world.settle(world.upload(NAME, content))

    assert world.states == [State.DONE]
    assert world.sink.datasets[key(NAME, "data/parcels")].rows == 30
    assert world.sink.datasets[key(NAME, "points")].rows == 4


@pytest.mark.parametrize(
    ("gone", "code"), [(".shx", "missing_component"), (".dbf", "missing_component")]
)
def test_real_layers_that_lack_a_file(gone: str, code: str) -> None:
    """Cases 6, 10: a layer without .shx or .dbf is dead at once, and the missing file is named."""
    world = real()
    world.settle(world.upload(NAME, archive(files("a", without(points(3), gone)))))

    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 1)]
    [letter] = world.sent.sent
    assert letter.code == code
    assert letter.body["message"].startswith(f"in/a.zip/a{gone}: is missing")


def test_a_real_layer_whose_checksum_is_wrong() -> None:
    """Case 33: damage of one packed file is that layer's fault alone."""
    world = real()
    content = archive(files("a", points(3)), files("b", points(3)))

    world.settle(world.upload(NAME, patched(content, "a.dbf", CRC, 7)))

    assert world.states == [State.PARTIAL]
    [failed] = world.jobs[0].summary["failed_layers"]
    assert failed["message"].startswith("in/a.zip/a.dbf: cannot be unpacked (Bad CRC-32")


def test_a_layer_of_no_rows_beside_another() -> None:
    """Case 7: an empty layer in an archive is a success like any other."""
    world = real()
    world.settle(world.upload(NAME, archive(files("a", points(0)), files("b", points(3)))))

    assert world.states == [State.DONE]
    assert world.jobs[0].summary["loaded"] == 3
