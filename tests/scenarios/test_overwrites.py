"""Scenarios C: any order of arrival, and objects that are replaced at any moment."""

from __future__ import annotations

from itertools import permutations

import pytest

from gate.errors import StorageBusyError
from gate.identity import Pin
from gate.intake import Outcome
from gate.job import State
from tests.world import (
    ALL_PARTS,
    PARTS,
    Answer,
    Crash,
    World,
    expected,
    raising,
    text,
)


def ingested(world: World, parts: tuple[str, ...] = PARTS) -> None:
    """Bring the first export of `in/roads` into the sink, and let the uploads rest."""
    world.settle(*world.upload_bundle("in/roads", parts=parts))
    world.clock.advance(3600)


@pytest.mark.parametrize("order", list(permutations(PARTS)), ids=" ".join)
def test_any_order_gives_one_manifest_and_one_job(world: World, order: tuple[str, ...]) -> None:
    """C1: whatever the order of the events, the manifest, the revision and the rows are the same.

    The bucket holds every object before the first event arrives.
    """
    uploaded = dict(zip(ALL_PARTS, world.upload_bundle("in/roads", parts=ALL_PARTS), strict=True))
    for extension in (*order, ".prj", ".cpg"):
        assert world.deliver(uploaded[extension]) is Answer.ACK
    known = world.manifest("in/roads")
    generations = {part: event.generation for part, event in uploaded.items()}
    assert known.components == {event.name: event.generation for event in uploaded.values()}
    assert known.dispatched == generations
    [revision] = world.effects
    assert revision.generations == generations
    assert world.rows("in/roads") == expected("first", crs="first")


def test_an_older_generation_changes_nothing(world: World) -> None:
    """C2: the late event of an older generation is stale: acknowledged, nothing merged, no job."""
    older = world.upload("in/roads.shp", text(".shp", "older"))
    world.settle(*world.upload_bundle("in/roads"))
    before = world.manifest("in/roads")
    assert world.deliver(older) is Answer.ACK
    assert world.outcomes[-1] is Outcome.STALE
    after = world.manifest("in/roads")
    assert (after.components, after.dispatched) == (before.components, before.dispatched)
    assert len(world.jobs) == 1
    assert world.deliver(older) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE


def test_an_overwrite_before_the_bundle_is_whole_pins_the_newer(world: World) -> None:
    """C3: `.shp` G1, `.dbf`, `.shp` G2, `.shx` gives one job, and it pins G2."""
    first = world.upload("in/roads.shp", text(".shp", "older"))
    table = world.upload("in/roads.dbf", text(".dbf", "first"))
    second = world.upload("in/roads.shp", text(".shp", "first"))
    index = world.upload("in/roads.shx")
    world.settle(first, table, second, index)
    [job] = world.jobs
    assert job.revision.generations[".shp"] == second.generation
    assert world.rows("in/roads") == expected("first")


def test_an_overwrite_before_the_run_supersedes_without_download(world: World) -> None:
    """C4: a job whose bundle was re-uploaded before it ran ends superseded, nothing downloaded."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(last)
    world.settle(*world.upload_bundle("in/roads", "second"))
    downloads = world.faults.calls.count("source.fetch")
    world.settle(last)
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert world.faults.calls.count("source.fetch") == downloads
    assert world.rows("in/roads") == expected("second")
    assert len(world.effects) == 1


def test_a_newer_revision_that_is_not_yet_published_supersedes_too(world: World) -> None:
    """C4: a job whose successor was dispatched, and has not run, downloads nothing."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(last)
    newer = world.upload_bundle("in/roads", "second")
    for event in newer[:-1]:
        world.deliver(event)
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(newer[-1])
    world.clock.advance(60)
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.SUPERSEDED, State.RUNNING]
    assert "source.stat" not in world.faults.calls
    assert not world.effects
    world.settle(*newer)
    assert world.rows("in/roads") == expected("second")


def test_an_overwrite_of_one_file_before_the_run_comes_after_settling(world: World) -> None:
    """C4: one file overwritten before the run: old job superseded, the next one after settling."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(last)
    newer = world.upload("in/roads.dbf", text(".dbf", "second"))
    assert world.deliver(newer) is Answer.ACK
    assert world.outcomes[-1] is Outcome.SETTLING
    world.settle(last)
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert world.rows("in/roads") == expected("first", records="second")
    assert len(world.effects) == 1


@pytest.mark.parametrize("beat", [0, 21], ids=["at publish", "at heartbeat"])
def test_an_overwrite_during_the_run_publishes_only_the_newer(world: World, beat: float) -> None:
    """C5: a run overtaken by a newer revision publishes nothing, ends superseded, fails nothing."""
    reached: list[int] = []

    def overtake(number: int) -> None:
        reached.append(number)
        if len(reached) == 1:
            world.clock.advance(beat)
            for event in world.upload_bundle("in/roads", "second"):
                world.deliver(event)

    world.reader.on_row = overtake
    world.settle(*world.upload_bundle("in/roads"))
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert [entry.code for entry in world.jobs[0].history] == ["superseded"]
    assert world.rows("in/roads") == expected("second")
    assert len(world.effects) == 1
    # A heartbeat that is due stops the run within one batch.
    assert len(reached) == (1 if beat else 3) + 3


def test_an_overwrite_between_proof_and_swap_is_refused_by_the_sink(world: World) -> None:
    """C5: a revision overtaken after its last proof of ownership meets the sink's comparison."""
    inner = world.sink.on

    def overtake(step: str) -> None:
        inner(step)
        if step == "swap" and not world.effects and len(world.jobs) == 1:
            world.redeliver(*world.upload_bundle("in/roads", "second"))

    world.sink.on = overtake
    world.settle(*world.upload_bundle("in/roads"))
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert "the sink holds revision order" in world.jobs[0].history[-1].message
    assert world.rows("in/roads") == expected("second")
    assert len(world.effects) == 1


def test_an_overwrite_after_publish_replaces_it_whole(world: World) -> None:
    """C6: until the swap readers see the old rows, from then on the new ones, never a mixture."""
    ingested(world)
    seen: list[object] = []
    inner = world.sink.on

    def look(step: str) -> None:
        inner(step)
        seen.append(world.rows("in/roads"))

    world.sink.on = look
    world.settle(*world.upload_bundle("in/roads", "second", rows=2))
    old, new = expected("first"), expected("second", rows=2)
    assert seen == [old, old, new]
    published = world.manifest("in/roads").published
    assert published
    assert published.revision_id == world.effects[-1].id


def test_a_re_upload_gives_one_job_of_new_parts_only(world: World) -> None:
    """C7: `.shp`, `.shx`, `.dbf` again within the settle window: one job, all pins new."""
    ingested(world)
    pending = []
    for event in world.upload_bundle("in/roads", "second"):
        pending.append(event)
        world.deliver(event)
        world.clock.advance(5)
    assert world.outcomes[-3:] == [Outcome.SETTLING, Outcome.SETTLING, Outcome.DISPATCHED]
    world.settle(*pending)
    assert world.outcomes[-3:] == [Outcome.DUPLICATE] * 3
    assert len(world.jobs) == 2
    assert set(world.jobs[1].revision.generations.values()) == {
        event.generation for event in pending
    }
    assert world.rows("in/roads") == expected("second")


def test_each_upload_starts_the_rest_again(world: World) -> None:
    """C7: the settle window counts from the last upload, so slow ones still make one job."""
    ingested(world)
    first, second, third = world.upload_bundle("in/roads", "second")
    world.deliver(first)
    world.clock.advance(20)
    world.deliver(second)
    world.clock.advance(20)
    assert world.swept() is Answer.ACK
    world.deliver(first)
    world.deliver(third)
    assert world.outcomes[-2:] == [Outcome.SETTLING, Outcome.DISPATCHED]
    assert len(world.jobs) == 2


def test_a_re_upload_that_the_listing_shows_is_not_torn(world: World) -> None:
    """C7: a replaced file comes due just as the rest is uploaded: no job pins old beside new.

    The bucket holds the new `.shp`; its event is still on its way.
    """
    ingested(world)
    table = world.upload("in/roads.dbf", text(".dbf", "second"))
    world.deliver(table)
    world.clock.advance(30)
    shape = world.upload("in/roads.shp", text(".shp", "second"))
    assert world.deliver(table) is Answer.ACK
    assert world.states == [State.DONE, State.SUPERSEDED]
    index = world.upload("in/roads.shx", text(".shx", "second"))
    world.settle(shape, index)
    newest = {".shp": shape.generation, ".shx": index.generation, ".dbf": table.generation}
    pinned = [job.revision.generations for job in world.jobs if job.state is State.DONE]
    assert pinned[1:] == [newest]
    assert world.rows("in/roads") == expected("second")
    assert len(world.effects) == 2


def test_a_duplicate_of_a_settling_bundle_is_acknowledged(world: World) -> None:
    """C8: while one file settles, duplicates of the events of the others need not come back."""
    first = world.upload_bundle("in/roads")
    world.settle(*first)
    world.deliver(world.upload("in/roads.dbf", text(".dbf", "second")))
    assert world.deliver(first[0]) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE


@pytest.mark.parametrize(
    ("times", "outcome"), [(1, Outcome.INCLUDED), (2, Outcome.DUPLICATE)], ids=["first", "again"]
)
def test_two_events_that_see_a_bundle_whole_make_one_job(
    world: World, times: int, outcome: Outcome
) -> None:
    """C1: of two events about to dispatch one revision one does, and the other has nothing left."""
    shape, index, table = world.upload_bundle("in/roads")
    world.settle(shape, index)
    if times > 1:
        world.faults.after("store.record", raising(Crash()))
        world.deliver(table)

    def other() -> None:
        world.clock.advance(world.settings.retention.settle.total_seconds())
        world.deliver(index)

    world.faults.before("store.dispatch", other)
    assert world.deliver(table) is Answer.ACK
    assert world.outcomes[-2:] == [Outcome.DISPATCHED, outcome]
    assert len(world.jobs) == len(world.effects) == 1


def test_of_events_that_read_a_whole_bundle_the_last_recorded_dispatches(world: World) -> None:
    """C1: an event that reads more than was recorded with it leaves the dispatch to the later one.

    The later one is killed before it gets there; its redelivery dispatches.
    """
    *others, table = world.upload_bundle("in/roads")
    for event in others:
        world.deliver(event)
    sidecar = world.upload("in/roads.prj", text(".prj", "first"))

    def later() -> None:
        world.faults.after("store.record", raising(Crash()))
        world.deliver(sidecar)

    world.faults.after("store.record", later)
    assert world.deliver(table) is Answer.ACK
    assert world.outcomes[-1] is Outcome.INCLUDED
    assert not world.jobs
    assert world.deliver(sidecar) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DISPATCHED
    assert world.rows("in/roads") == expected("first", crs="first")


def test_one_replaced_file_is_taken_once_the_uploads_have_rested(world: World) -> None:
    """C8, H12: only the `.dbf` replaced: one job with it and the old others, once it rested."""
    ingested(world)
    newer = world.upload("in/roads.dbf", text(".dbf", "second"))
    assert world.deliver(newer) is Answer.ACK
    world.clock.advance(29.999)
    assert world.sweep().jobs == 0
    assert len(world.jobs) == 1
    world.clock.advance(0.001)
    assert world.sweep().jobs == 1
    assert world.states == [State.DONE, State.DONE]
    assert world.rows("in/roads") == expected("first", records="second")


def test_one_replaced_file_that_does_not_fit_is_a_dead_letter(world: World) -> None:
    """C8: a `.dbf` with another number of records ends as `torn_bundle`; readers keep the old."""
    ingested(world)
    world.settle(world.upload("in/roads.dbf", text(".dbf", "second", 2)))
    assert world.states == [State.DONE, State.DEAD]
    assert [letter.code for letter in world.sent.sent] == ["torn_bundle"]
    assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize("extension", [".prj", ".cpg", ".shp.xml"])
def test_a_late_sidecar_makes_a_new_revision(world: World, extension: str) -> None:
    """C9: a sidecar that comes after the publish is ingested too, under the same output name."""
    ingested(world)
    world.settle(world.upload(f"in/roads{extension}", text(extension, "first")))
    assert world.states == [State.DONE, State.DONE]
    assert list(world.sink.datasets) == ["in/roads"]
    assert world.effects[-1].generations.keys() == {*PARTS, extension}
    crs = "first" if extension == ".prj" else None
    assert world.rows("in/roads") == expected("first", crs=crs)


def test_a_sidecar_in_the_bucket_is_taken_along_before_its_event(world: World) -> None:
    """C9: a sidecar whose event is still on its way is dispatched with the rest, and only once."""
    *parts, sidecar = world.upload_bundle("in/roads", parts=(*PARTS, ".prj"))
    world.settle(*parts)
    assert world.rows("in/roads") == expected("first", crs="first")
    assert world.deliver(sidecar) is Answer.ACK
    assert world.outcomes[-1] is Outcome.INCLUDED
    assert len(world.jobs) == 1


def test_foreign_neighbours_are_not_taken_along(world: World) -> None:
    """C9: what merely begins like the bundle in the listing is not part of its revision."""
    for name in ("in/roads2.prj", "in/roads.old.prj", "in/roads.txt", "in/roads/x.prj"):
        world.upload(name)
    world.settle(*world.upload_bundle("in/roads"))
    assert world.effects[0].generations.keys() == set(PARTS)


def test_the_same_bytes_again_are_a_new_revision(world: World) -> None:
    """C11, C12: deleted and uploaded again, or rewritten, the same bytes are a new revision."""
    ingested(world)
    for part in PARTS:
        world.source.delete("uploads", f"in/roads{part}")
    world.settle(*world.upload_bundle("in/roads"))
    assert world.states == [State.DONE, State.DONE]
    assert world.effects[0].order < world.effects[1].order
    assert world.rows("in/roads") == expected("first")


def test_a_listing_that_fails_does_not_hold_a_dispatch_up(world: World) -> None:
    """C9: without the listing the bundle is dispatched; the sidecar's event brings it later."""
    *parts, sidecar = world.upload_bundle("in/roads", parts=(*PARTS, ".prj"))
    world.faults.before("source.siblings", raising(StorageBusyError("503")))
    world.settle(*parts)
    assert world.rows("in/roads") == expected("first")
    world.settle(sidecar)
    assert world.rows("in/roads") == expected("first", crs="first")


def test_an_archive_is_whole_on_arrival(world: World) -> None:
    """C1: an archive is dispatched by its only event, never listed, and not a part of `roads`."""
    world.upload("in/roads.zip.prj")
    world.settle(world.upload("in/roads.zip"))
    assert world.outcomes == [Outcome.DISPATCHED]
    assert "source.siblings" not in world.faults.calls
    assert [letter.code for letter in world.sent.sent] == ["not_an_archive"]
    assert world.manifest("in/roads").components == {}


@pytest.mark.parametrize("killed", [False, True], ids=["one after the other", "both at once"])
def test_mixed_spellings_dispatched_at_once_still_converge(world: World, killed: bool) -> None:
    """C9: two events that each list only their own spelling end at both sidecars.

    Both see the bundle whole. One is about to dispatch it with `roads.prj` when the
    other dispatches it with `ROADS.CPG`; neither revision holds the other.
    """
    shape = world.upload("in/roads.shp", text(".shp", "first"))
    index = world.upload("in/roads.shx")
    table = world.upload("in/ROADS.DBF", text(".dbf", "first"))
    projection = world.upload("in/roads.prj", text(".prj", "first"))
    encoding = world.upload("in/ROADS.CPG")
    world.settle(shape, table)

    def other() -> None:
        world.clock.advance(world.settings.retention.settle.total_seconds())
        if killed:
            world.faults.after("store.dispatch", raising(Crash()))
        world.deliver(table)

    world.faults.before("store.dispatch", other)
    world.deliver(index)
    assert len(world.jobs) == 2
    world.settle(index, table)
    assert world.effects
    world.settle(projection, encoding)
    assert world.effects[-1].generations.keys() == set(ALL_PARTS)
    assert world.rows("in/roads") == expected("first", crs="first")
    assert world.manifest("in/roads").current()[".cpg"] == Pin("in/ROADS.CPG", encoding.generation)


def test_a_join_of_two_dispatches_is_left_to_nobody(world: World) -> None:
    """C9: when the last recorded event was acknowledged before, the next one to come dispatches.

    The `.prj` settles beside the revision with the `.cpg`; then the revision with
    the `.prj` alone is dispatched after all, and both joined are due at once.
    """
    shape = world.upload("in/roads.shp", text(".shp", "first"))
    index = world.upload("in/roads.shx")
    table = world.upload("in/ROADS.DBF", text(".dbf", "first"))
    projection = world.upload("in/roads.prj", text(".prj", "first"))
    encoding = world.upload("in/ROADS.CPG")
    world.settle(shape, table)

    def meanwhile() -> None:
        world.clock.advance(31)
        assert world.deliver(table) is Answer.ACK
        assert world.deliver(projection) is Answer.ACK
        assert world.deliver(encoding) is Answer.ACK

    world.faults.before("store.dispatch", meanwhile)
    world.deliver(index)
    assert len(world.jobs) == 2
    world.settle()
    assert world.effects[-1].generations.keys() == set(ALL_PARTS)
    assert world.rows("in/roads") == expected("first", crs="first")
