"""Scenarios H6 and F13: bundles of which no event ever came."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from gate import reconcile
from gate.errors import PermissionDeniedError, StorageBusyError, StoreBusyError
from gate.identity import bundle_id
from gate.intake import Outcome
from gate.job import State
from tests.world import BUCKET, Answer, Crash, World, bundle_of, expected, raising, text

HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a deployment that knows its bucket, and reads it by pages of four objects."""
    monkeypatch.setattr(reconcile, "PAGE_OBJECTS", 4)
    return World(SOURCE_BUCKET=BUCKET)


def documents(world: World) -> tuple[dict[str, Any], ...]:
    """Return a copy of every document."""
    return deepcopy((world.store.claims, world.store.manifests, world.store.jobs))


def passed(world: World) -> None:
    """Sweep after an hour, when a pass over the bucket is due, until nothing is."""
    world.clock.advance(HOUR)
    world.swept()
    world.settle()


def test_a_bucket_that_nobody_was_told_of_is_loaded(world: World) -> None:
    """F13, H6: after an outage that outlived every event, the pass finds and loads all."""
    for number in range(5):
        world.upload_bundle(f"in/roads{number}", f"v{number}")
    world.swept()
    world.settle()
    assert world.states == [State.DONE] * 5
    for number in range(5):
        assert world.rows(f"in/roads{number}") == expected(f"v{number}")


def test_a_late_event_of_what_was_found_is_a_duplicate(world: World) -> None:
    """H6, A8: an event that comes after all changes nothing."""
    events = world.upload_bundle("in/roads")
    world.swept()
    world.settle()
    before = documents(world)
    for event in events:
        assert world.deliver(event) is Answer.ACK
    assert world.outcomes == [Outcome.DUPLICATE] * 3
    assert documents(world) == before


def test_a_second_pass_is_a_no_op(world: World) -> None:
    """H6: when every object is known, a pass reads and writes no document."""
    world.upload_bundle("in/roads")
    world.upload("in/readme.txt")
    begun_at = world.clock.now
    world.swept()
    world.settle()
    world.sweep()
    passed_seconds = (world.clock.now - begun_at).total_seconds()
    world.clock.advance(HOUR - 1 - passed_seconds)
    world.sweep()
    assert world.sweep().objects == 0
    before = documents(world)
    world.clock.advance(1)
    counts = world.sweep()
    assert (counts.objects, counts.recorded, counts.jobs) == (4, 0, 0)
    assert documents(world) == before


def test_an_overwrite_that_nobody_was_told_of_is_found(world: World) -> None:
    """H6: a newer generation of a known object is not known."""
    world.redeliver(*world.upload_bundle("in/roads"))
    passed(world)
    world.upload_bundle("in/roads", "second")
    passed(world)
    assert world.rows("in/roads") == expected("second")


def test_a_pass_goes_on_where_a_killed_sweep_stopped(world: World) -> None:
    """H6: the cursor is moved once a page is recorded, so no object is left out."""
    for number in range(4):
        world.upload_bundle(f"in/roads{number}")
    world.faults.before("store.move_cursor", raising(Crash()))
    assert world.swept() is Answer.NACK
    world.faults.clear()
    world.faults.calls.clear()
    world.swept()
    assert world.faults.calls.count("source.page") == 4  # 4 + 4 + 4 + 0 objects
    world.settle()
    assert world.states == [State.DONE] * 4


def test_a_pass_takes_half_of_a_sweep_at_most(world: World) -> None:
    """Issue 5: a pass over a large bucket goes on in the next sweep, a page at least."""
    for number in range(4):
        world.upload_bundle(f"in/roads{number}")
    world.source.before = lambda operation, _name: world.clock.advance(23 * (operation == "page"))
    counted = [world.sweep().objects for _ in range(5)]
    assert counted == [4, 4, 4, 0, 0]


def test_two_passes_at_once_do_no_harm(world: World) -> None:
    """H6, I3: whoever moves the cursor second leaves the rest to the other."""
    for number in range(4):
        world.upload_bundle(f"in/roads{number}")
    world.faults.before("store.move_cursor", world.sweep)
    assert world.sweep().objects == 4
    world.settle()
    assert world.states == [State.DONE] * 4
    assert len(world.effects) == 4


def test_a_pass_leaves_off_where_another_has_overtaken_it(world: World) -> None:
    """H6, I3: a cursor that was moved between two pages is not moved back."""
    for number in range(4):
        world.upload_bundle(f"in/roads{number}")
    world.faults.after("store.move_cursor", world.sweep)
    assert world.sweep().objects == 4
    world.settle()
    assert len(world.effects) == 4


def test_what_is_no_component_is_none_to_a_pass_either() -> None:
    """B7, B8, H6: the pass goes by the rules for names that events go by."""
    world = World(SOURCE_BUCKET=BUCKET, SOURCE_PREFIX="in/")
    world.upload_bundle("out/roads")
    for name in ("in/", "in/._roads.shp", "in/roads.tar.gz", "in/__MACOSX/roads.shp"):
        world.upload(name)
    counts = world.sweep()
    assert (counts.objects, counts.recorded) == (4, 0)
    assert world.store.manifests == {}


@pytest.mark.parametrize(
    ("fault", "answer"),
    [(StorageBusyError("503"), Answer.QUIET_NACK), (PermissionDeniedError("403"), Answer.NACK)],
)
def test_a_bucket_that_cannot_be_listed_is_told(
    world: World, fault: Exception, answer: Answer
) -> None:
    """D6, H6: a sweep that can do nothing else fails; one that can does, and counts the failure."""
    world.faults.before("source.page", raising(fault))
    assert world.swept() is answer
    world.redeliver(*world.upload_bundle("in/roads"))
    world.clock.advance(30)
    world.faults.before("source.page", raising(fault))
    counts = world.sweep()
    assert (counts.failed, counts.manifests) == (1, 1)


def test_a_store_that_does_not_answer_stops_a_pass_where_it_is(world: World) -> None:
    """F13, H6: what could not be compared is compared by the next sweep."""
    world.upload_bundle("in/roads")
    world.faults.before("store.manifests_of", raising(StoreBusyError("unavailable")))
    assert world.swept() is Answer.QUIET_NACK
    assert world.sweep().recorded == 3


def test_a_manifest_that_is_none_stops_no_pass(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """G9, H6: an unreadable manifest is logged, and the objects of all others are recorded."""
    for number in range(3):
        world.upload_bundle(f"in/roads{number}")
    key = bundle_id(bundle_of("in/roads1.shp"))
    world.store.manifests[key] = {"components": 3}
    world.store._versions[key] = 0
    assert world.sweep().recorded == 6
    assert capsys.readouterr().out.count("manifest skipped") >= 1
    del world.store.manifests[key]
    passed(world)
    assert world.states == [State.DONE] * 3


def test_a_manifest_is_kept_while_its_objects_are_there(world: World) -> None:
    """H6, H7: passes put the expiry off, so that a bundle in the bucket never counts as unknown."""
    world.settle(*world.upload_bundle("in/roads"))
    written = 0
    for _ in range(4 * 24):
        before = documents(world)
        world.clock.advance(HOUR)
        world.sweep()
        written += documents(world) != before
        [document] = world.store.manifests.values()
        assert "expires_at" not in document or document["expires_at"] > world.clock.now
    assert written <= 2 + 2 * 4
    for name in ("in/roads.shp", "in/roads.shx", "in/roads.dbf"):
        world.source.delete(BUCKET, name)
    world.clock.advance(DAY)
    world.sweep()
    [document] = world.store.manifests.values()
    assert document["expires_at"] <= world.clock.now + timedelta(hours=1)


def test_what_a_pass_writes_about_an_expiry_meets_no_event(world: World) -> None:
    """H7: an upload between the comparison and the write keeps the manifest from expiring."""
    world.settle(*world.upload_bundle("in/roads"))
    world.clock.advance(13 * HOUR)
    world.faults.before(
        "store.rest", lambda: world.deliver(world.upload("in/roads.prj", text(".prj", "first")))
    )
    world.sweep()
    [document] = world.store.manifests.values()
    assert "expires_at" not in document
    world.settle()
    assert world.rows("in/roads") == expected("first", crs="first")


def test_a_preview_writes_nothing(world: World) -> None:
    """H6: a dry run sees every page and leaves documents and cursor alone."""
    for number in range(3):
        world.upload_bundle(f"in/roads{number}")
    pages = list(world.reconcile.preview())
    assert [page.objects for page in pages] == [4, 4, 1]
    assert sum(len(page.unknown) for page in pages) == 9
    assert documents(world) == ({}, {}, {})
    assert world.reconcile.asked().cursor is None


def test_a_pass_that_was_asked_for_goes_on_and_has_an_end(world: World) -> None:
    """H6: a backfill that was interrupted goes on; one that has ended begins anew."""
    for number in range(3):
        world.upload_bundle(f"in/roads{number}")
    steps = world.reconcile.steps(world.reconcile.asked())
    assert next(steps).objects == 4
    assert [page.objects for page in world.reconcile.steps(world.reconcile.asked())] == [4, 1]
    again = list(world.reconcile.steps(world.reconcile.asked()))
    assert [(page.objects, len(page.unknown)) for page in again] == [(4, 0), (4, 0), (1, 0)]
    assert world.sweep().objects == 9
    world.settle()
    assert world.states == [State.DONE] * 3


def test_what_a_pass_finds_can_be_handed_to_somebody_else(world: World) -> None:
    """H6: a backfill through a topic records nothing itself; the events do."""
    events = world.upload_bundle("in/roads")
    published: list[tuple[str, int]] = []
    steps = world.reconcile.steps(
        world.reconcile.asked(),
        lambda found: published.extend(
            (component.name, generation) for component, generation in found
        ),
    )
    assert len(list(steps)) == 1
    assert sorted(published) == sorted((event.name, event.generation) for event in events)
    assert world.store.claims == {}
