"""Scenarios D: components that vanish, change or break between event and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from gate import wiring
from gate.errors import PermissionDeniedError, SourceChangedError, StorageBusyError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from tests import shapefiles
from tests.world import BUCKET, PARTS, Answer, World, expected, raising, text


@pytest.mark.parametrize("call", ["source.stat", "source.fetch"])
def test_an_overwritten_pin_gives_way_to_the_live_object(world: World, call: str) -> None:
    """D1, D3: a pinned generation that was replaced ends superseded and records what is live.

    The live object's own event then finds its claim, and brings the newer
    revision into the sink once the uploads have rested.
    """
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    newer = []
    world.faults.before(
        call, lambda: newer.append(world.upload("in/roads.dbf", text(".dbf", "second")))
    )
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.SUPERSEDED]
    assert world.manifest("in/roads").components["in/roads.dbf"] == newer[0].generation
    claims = len(world.store.claims)
    world.settle(*newer)
    assert len(world.store.claims) == claims
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert world.rows("in/roads") == expected("first", records="second")


def test_a_full_re_upload_under_a_run_ends_at_the_newest(world: World) -> None:
    """D1, D3: all components replaced while the first is downloaded: the newest is published."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    newer = []
    world.faults.before(
        "source.fetch", lambda: newer.extend(world.upload_bundle("in/roads", "second"))
    )
    world.settle(last)
    world.settle(*newer)
    assert world.states[0] is State.SUPERSEDED
    assert world.states[-1] is State.DONE
    assert world.rows("in/roads") == expected("second")
    assert len(world.effects) == 1


def test_a_deleted_component_is_a_dead_letter(world: World) -> None:
    """D1: a pinned component that was deleted and not replaced ends as `source_deleted`."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    world.faults.before("source.stat", lambda: world.source.delete(BUCKET, "in/roads.shx"))
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DEAD]
    [letter] = world.sent.sent
    assert letter.code == "source_deleted"
    assert "gs://uploads/in/roads.shx" in letter.body["message"]


@pytest.mark.parametrize("call", ["source.stat", "source.fetch"])
def test_a_deleted_sidecar_is_left_out(world: World, call: str) -> None:
    """D1: a pinned sidecar that was deleted, even under the download, is left out and reported."""
    *early, last = world.upload_bundle("in/roads", parts=(".prj", *PARTS))
    world.settle(*early)
    world.faults.before(call, lambda: world.source.delete(BUCKET, "in/roads.prj"))
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]
    report = world.sink.datasets["in/roads"].report
    assert report["deleted_sidecars"] == ["in/roads.prj"]
    assert "crc32c" not in report["pins"][".prj"]
    assert "crc32c" in report["pins"][".shp"]
    assert world.rows("in/roads") == expected("first")


def test_a_truncated_download_is_tried_again(world: World) -> None:
    """D5: bytes that do not match the checksum fail the attempt; whole, they are published."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    world.source.damage = lambda payload: payload[:-1]
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.states == [State.FAILED]
    assert not world.reader.opened
    world.source.damage = lambda payload: payload
    world.settle(last)
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 2)]
    assert not world.sent.sent


def test_truncated_downloads_end_as_a_dead_letter() -> None:
    """D5: after the last attempt the job is dead with `checksum`, and no file was read."""
    world = World(MAX_ATTEMPTS="3")
    world.source.damage = lambda payload: payload[:-1]
    world.settle(*world.upload_bundle("in/roads"))
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 3)]
    assert [entry.code for entry in world.jobs[0].history] == ["checksum"] * 3
    assert [letter.code for letter in world.sent.sent] == ["checksum"]
    assert not world.reader.opened


def test_a_generation_that_never_was_has_replaced_nothing(world: World) -> None:
    """D1: an event for a generation beyond the live one ends in a letter, not in a circle."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    world.deliver(replace(last, generation=last.generation + 1000))
    assert world.states == [State.DEAD]
    assert [letter.code for letter in world.sent.sent] == ["source_deleted"]


def test_a_refused_read_is_a_dead_letter_at_once(world: World) -> None:
    """D6: 403 ends the job as `permission` on the first attempt, with the cure in the letter."""
    world.faults.before("source.stat", raising(PermissionDeniedError("403", where="gs://x")))
    world.settle(*world.upload_bundle("in/roads"))
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 1)]
    [letter] = world.sent.sent
    assert letter.code == "permission"
    assert "grant the function's service account" in letter.body["message"]


@pytest.mark.parametrize("call", ["source.stat", "source.fetch", "sink.current", "sink.publish"])
def test_a_busy_service_is_tried_again(world: World, call: str) -> None:
    """D6: 429 and 5xx, at reading or publishing, fail one attempt and the next one succeeds."""
    world.faults.before(call, raising(StorageBusyError("503")))
    world.settle(*world.upload_bundle("in/roads"))
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 2)]
    assert Outcome.RESUMED in world.outcomes
    assert len(world.effects) == 1


def test_bytes_are_proven_by_crc32c_alone(world: World) -> None:
    """D7: without an md5, as composite objects are, a changed byte of the same size is found."""
    world.source.damage = lambda payload: payload[:-1] + b"~"
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.jobs[0].history[-1].code == "checksum"


@pytest.mark.parametrize("kept", [0, 100], ids=["no byte", "header only"])
@pytest.mark.parametrize("extension", PARTS)
def test_an_empty_component_is_dead_on_the_first_attempt(extension: str, kept: int) -> None:
    """D8: a required component without content ends the job at once; nothing is tried again."""
    world = World(open_layer=wiring.opener())
    bundle = shapefiles.parcels(rows=3, seed=1)
    bundle[extension] = bundle[extension][:kept]
    world.settle(*(world.upload(f"in/roads{part}", bundle[part]) for part in PARTS))
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 1)]
    assert len(world.sent.sent) == 1
    assert not world.effects


# --- sizes ------------------------------------------------------------------------


def test_a_bundle_over_the_limit_is_held_before_any_download() -> None:
    """D8: a bundle larger than the limit is held as `too_large`; not a byte is downloaded."""
    world = World(MAX_BUNDLE_BYTES="10")
    events = world.upload_bundle("in/roads")
    world.settle(*events, *events)
    assert world.states == [State.HELD]
    assert [letter.code for letter in world.sent.sent] == ["too_large"]
    assert not {"source.fetch", "source.read"} & set(world.faults.calls)


def test_a_bundle_that_was_too_large_goes_on_once_the_limit_is_raised() -> None:
    """D8: redriven under the old limit it is held again; under a larger one it is loaded."""
    world = World(MAX_BUNDLE_BYTES="10")
    world.settle(*world.upload_bundle("in/roads"))
    again = partial(world.redrive, world.jobs[0].id, actor="ana", reason="")
    again()
    world.settle()
    assert world.states == [State.HELD]
    assert len(world.sent.sent) == 2
    world.ingest = replace(world.ingest, capacity=World().ingest.capacity)
    world.sweep = replace(world.sweep, run=world.ingest)
    again()
    world.settle()
    assert world.states == [State.DONE]
    assert world.rows("in/roads") == expected("first")


def test_a_bundle_that_is_too_large_and_overwritten_is_held_all_the_same() -> None:
    """D1, D8: whatever happens to its objects meanwhile, it is not this revision that can run."""
    world = World(MAX_BUNDLE_BYTES="10")
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    stats = count()

    def before(operation: str, _name: str) -> None:
        if operation == "stat" and next(stats) == len(PARTS):
            world.upload("in/roads.shp", b"newer")

    world.source.before = before
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.HELD]


# --- in place ---------------------------------------------------------------------


@pytest.fixture
def placed() -> World:
    """Return a world that downloads nothing but sidecars."""
    return World(open_layer=wiring.opener(), whole_bytes=0)


def upload_parcels(world: World, seed: int = 1) -> list[ObjectFinalized]:
    """Upload a bundle of real components, that which every gate heeds last."""
    bundle = shapefiles.parcels(rows=9, seed=seed)
    parts = (".prj", *reversed(PARTS))
    return [world.upload(f"in/roads{part}", bundle[part]) for part in parts]


def test_a_large_bundle_is_read_where_it_lies(placed: World) -> None:
    """Issue 4: the same dataset and report as after a download, which only the sidecar needed."""
    placed.settle(*upload_parcels(placed))
    assert placed.states == [State.DONE]
    assert placed.faults.calls.count("source.fetch") == 1
    downloaded = World(open_layer=wiring.opener())
    downloaded.settle(*upload_parcels(downloaded))
    ours, theirs = placed.sink.datasets["in/roads"], downloaded.sink.datasets["in/roads"]
    assert ours.batches == theirs.batches
    assert ours.report == theirs.report


def test_an_overwrite_under_the_reader_gives_way_to_the_live_object(placed: World) -> None:
    """D1, D3, issue 4: replaced while it is read in place, a pin ends the job as superseded."""
    *early, last = upload_parcels(placed)
    placed.settle(*early)
    newer: list[ObjectFinalized] = []
    placed.faults.before("source.read", lambda: newer.extend(upload_parcels(placed, seed=2)))
    assert placed.deliver(last) is Answer.ACK
    assert placed.states == [State.SUPERSEDED]
    assert not placed.effects
    placed.settle(*newer)
    assert placed.states[-1] is State.DONE
    assert len(placed.effects) == 1


def test_a_deletion_under_the_reader_is_a_dead_letter(placed: World) -> None:
    """D1, issue 4: a component that is deleted while it is read in place ends the job at once."""
    *early, last = upload_parcels(placed)
    placed.settle(*early)
    placed.faults.before("source.read", lambda: placed.source.delete(BUCKET, "in/roads.shp"))
    assert placed.deliver(last) is Answer.ACK
    assert placed.states == [State.DEAD]
    assert [letter.code for letter in placed.sent.sent] == ["source_deleted"]
    assert not placed.effects


def test_an_object_that_seems_gone_for_a_moment_is_tried_again(placed: World) -> None:
    """D6, issue 4: an answer of 404 for what is there is no end of the job."""
    *early, last = upload_parcels(placed)
    placed.settle(*early)
    placed.faults.before("source.read", raising(SourceChangedError("404")))
    assert placed.deliver(last) is Answer.QUIET_NACK
    assert [entry.code for entry in placed.jobs[0].history] == ["source_changed"]
    placed.settle(last)
    assert placed.states == [State.DONE]


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (
            lambda world: world.faults.before("source.read", raising(StorageBusyError("503"))),
            "storage_busy",
        ),
        (
            lambda world: setattr(world.source, "damage", lambda content: content[:-1] + b"~"),
            "checksum",
        ),
    ],
    ids=["busy", "damaged"],
)
def test_a_fault_under_the_reader_fails_the_attempt_alone(
    placed: World, break_it: Callable[[World], None], code: str
) -> None:
    """D5, D6, issue 4: what passes while a bundle is read in place leaves nothing behind."""
    *early, last = upload_parcels(placed)
    placed.settle(*early)
    break_it(placed)
    assert placed.deliver(last) is Answer.QUIET_NACK
    assert [entry.code for entry in placed.jobs[0].history] == [code]
    assert not placed.effects
    placed.source.damage = lambda content: content
    placed.settle(last)
    assert placed.states == [State.DONE]
