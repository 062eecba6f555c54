"""A person gives jobs new attempts, once the cause has passed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gate.errors import (
    CorruptError,
    MissingCrsError,
    PermissionDeniedError,
    StorageBusyError,
)
from gate.ingest import Ending
from gate.job import State
from gate.redrive import Redriven, Verdict, codes
from tests.archives import archive
from tests.world import BUCKET, Answer, Crash, World, expected, raising, text

DENIED = PermissionDeniedError("403", where="gs://uploads/in/roads.shp")


def ask(world: World, job_id: str = "") -> Redriven:
    """Redrive a job, the only one if none is named."""
    return world.redrive(job_id or world.jobs[0].id, actor="ana", reason="mended")


def run(world: World, redriven: Redriven) -> Ending | None:
    """Run a redriven job, as the sweep or `--now` does; `None` if it is somebody else's."""
    work = world.redrive.claimed(redriven)
    return world.ingest(work) if work else None


def dead(world: World, fault: Exception = DENIED) -> None:
    """Upload a bundle that ends dead."""
    world.reader.fault = fault
    world.settle(*world.upload_bundle("in/roads"))
    world.reader.fault = None
    assert world.states == [State.DEAD]


def test_a_job_goes_through_once_its_cause_has_passed(world: World) -> None:
    """D6, G7: dead of a missing permission, redriven after the grant: loaded, history kept."""
    dead(world)
    [before] = world.jobs
    asked = ask(world)
    assert asked.verdict is Verdict.REDRIVEN
    [due] = world.jobs
    assert (due.state, due.attempts, due.fence) == (State.FAILED, 0, before.fence + 1)
    assert due.next_attempt_at == world.clock.now
    ending = run(world, asked)
    assert ending
    assert ending.state is State.DONE
    assert world.rows("in/roads") == expected("first")
    [after] = world.jobs
    assert [entry.code for entry in after.history] == ["permission", "redriven"]
    assert after.history[-1].message == "redriven by ana: mended"
    assert len(world.sent.sent) == 1


def test_what_is_not_mended_ends_as_another_letter(world: World) -> None:
    """D6, G5: redriven too early, the job is dead again, and its letter is told apart."""
    dead(world)
    world.reader.fault = DENIED
    ending = run(world, ask(world))
    assert ending
    assert ending.state is State.DEAD
    first, second = world.sent.sent
    assert first.dedupe_id != second.dedupe_id
    assert second.body["redrive"] == f"python -m gate redrive {world.jobs[0].id}"


def test_a_redriven_job_has_all_its_attempts(world: World) -> None:
    """G7, G1: after a redrive a fault that may pass is tried as often as on the first day."""
    world = World(MAX_ATTEMPTS="2")
    world.reader.fault = StorageBusyError("503")
    world.settle(*world.upload_bundle("in/roads"))
    assert (world.states, world.jobs[0].attempts) == ([State.DEAD], 2)
    ending = run(world, ask(world))
    assert ending
    assert ending.state is State.FAILED
    assert world.jobs[0].attempts == 1


def test_a_double_click_is_one_run(world: World) -> None:
    """G7: asked twice in a row, or by two people, the job is due once and runs once."""
    dead(world)
    first, second = ask(world), ask(world)
    assert (first.verdict, second.verdict) == (Verdict.REDRIVEN, Verdict.ALREADY)
    assert second.verdict.granted
    assert len(world.jobs[0].history) == 2
    assert run(world, first)
    assert run(world, second) is None
    assert world.states == [State.DONE]
    third = ask(world)
    assert (third.verdict, third.detail) == (Verdict.NOT_NEEDED, "it is done")
    assert run(world, third) is None


def test_of_two_who_ask_at_once_one_is_told(world: World) -> None:
    """G7: the write is on the job as it was read; who comes second is told so."""
    dead(world)
    world.faults.before("store.replace", lambda: ask(world))
    late = ask(world)
    assert (late.verdict, late.verdict.granted) == (Verdict.TAKEN, False)
    assert "somebody else" in late.detail
    assert [entry.code for entry in world.jobs[0].history] == ["permission", "redriven"]


def test_a_lost_answer_is_no_second_redrive(world: World) -> None:
    """E13, G7: a write that landed and was made again is recognised as one's own."""
    dead(world)
    world.faults.repeat("store.replace")
    asked = ask(world)
    assert asked.verdict is Verdict.REDRIVEN
    assert run(world, asked)
    assert world.states == [State.DONE]


@pytest.mark.parametrize("state", [State.RUNNING, State.DONE, State.SUPERSEDED])
def test_what_needs_nobody_is_left_alone(world: World, state: State) -> None:
    """G7: a job that runs, is done or is superseded is not touched, and that is said."""
    world.settle(*world.upload_bundle("in/roads"))
    [document] = world.store.jobs.values()
    document["state"] = state.value
    before = dict(document)
    asked = ask(world)
    assert (asked.verdict, asked.detail) == (Verdict.NOT_NEEDED, f"it is {state.value}")
    assert not asked.verdict.granted
    world.clock.advance(3600)
    assert run(world, replace(asked, stored=world.store.job(asked.job_id))) is None
    assert document == before


def test_a_job_that_nobody_knows_is_said_to_be_unknown(world: World) -> None:
    """G7: an id that leads nowhere, or to a job that has expired, is said to be so."""
    asked = ask(world, "0" * 32)
    assert asked.verdict is Verdict.UNKNOWN
    assert "there is no such job" in asked.detail
    assert run(world, asked) is None


def test_a_newer_revision_makes_a_redrive_needless(world: World) -> None:
    """G7: the job of a bundle that has gone on ends superseded, and is not run."""
    dead(world)
    world.settle(*world.upload_bundle("in/roads", "second"))
    old = world.jobs[0]
    asked = ask(world, old.id)
    assert asked.verdict is Verdict.SUPERSEDED
    assert asked.detail == "a newer revision was dispatched"
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert "as ana was told" in world.jobs[0].history[-1].message
    assert run(world, asked) is None
    assert world.rows("in/roads") == expected("second")


def test_an_overwritten_object_makes_a_redrive_needless_and_is_not_lost(world: World) -> None:
    """G7, D1: a pinned generation that was replaced ends the job; the newer one is recorded."""
    dead(world)
    newer = world.upload("in/roads.dbf", text(".dbf", "second"))
    asked = ask(world)
    assert asked.verdict is Verdict.SUPERSEDED
    assert f"generation {newer.generation} of in/roads.dbf has replaced" in asked.detail
    assert world.states == [State.SUPERSEDED]
    assert world.manifest("in/roads").components["in/roads.dbf"] == newer.generation
    world.clock.advance(31)
    assert world.deliver(newer) is Answer.ACK
    assert world.rows("in/roads") == expected("first", records="second")


def test_a_deleted_object_is_said_to_be_gone(world: World) -> None:
    """G7: a pinned generation that was deleted is told as such, and the job stays as it was."""
    dead(world)
    world.source.delete(BUCKET, "in/roads.shx")
    [before] = world.jobs
    asked = ask(world)
    assert (asked.verdict, asked.verdict.granted) == (Verdict.SOURCE_DELETED, False)
    assert "in/roads.shx" in asked.detail
    assert "upload the bundle again" in asked.detail
    assert world.jobs == [before]
    assert run(world, asked) is None


def test_who_may_not_look_may_redrive_all_the_same(world: World) -> None:
    """D6: a person without access to the objects redrives unseen; the run finds out the rest."""
    dead(world)
    world.faults.before("source.stat", raising(DENIED))
    asked = ask(world)
    assert asked.verdict is Verdict.REDRIVEN
    assert "could not be looked at from here" in asked.detail


def test_a_bucket_that_does_not_answer_leaves_the_job_alone(world: World) -> None:
    """G7: as long as the objects cannot be looked at, nothing is changed, and the error is told."""
    dead(world)
    [before] = world.jobs
    world.faults.before("source.stat", raising(StorageBusyError("503")))
    with pytest.raises(StorageBusyError):
        ask(world)
    assert world.jobs == [before]


def test_a_job_without_a_manifest_can_be_redriven(world: World) -> None:
    """H7: that the manifest has expired keeps no job from its attempts."""
    dead(world)
    world.store.manifests.clear()
    assert run(world, ask(world))
    assert world.states == [State.DONE]


def test_a_held_job_is_run_though_its_metadata_is_what_it_was(world: World) -> None:
    """Case 20, G7: what a change of settings cures is run by a redrive, not held unseen."""
    world.reader.demand = lambda _overrides: False
    events = world.upload_bundle("in/roads")
    world.settle(*events)
    assert world.states == [State.HELD]
    opened = len(world.reader.opened)
    world.deliver(events[-1])
    assert len(world.reader.opened) == opened
    world.reader.demand = None
    ending = run(world, ask(world))
    assert ending
    assert ending.state is State.DONE


def test_a_partial_archive_is_redriven_for_its_failed_layers_alone(world: World) -> None:
    """G7: only the layer that failed is read again; the archive is then done."""
    files = {
        f"{stem}{part}": text(part, stem)
        for stem in ("a", "b")
        for part in (".shp", ".shx", ".dbf")
    }
    world.reader.demand = lambda _overrides: world.reader.opened[-1].endswith("/a")
    world.settle(world.upload("in/parts.zip", archive(files)))
    [before] = world.jobs
    assert before.state is State.PARTIAL
    assert codes(before) == {"partial", MissingCrsError.code}
    world.reader.demand = None
    world.reader.opened.clear()
    ending = run(world, ask(world))
    assert ending
    assert ending.state is State.DONE
    assert world.reader.opened == ["in/parts.zip/b"]


def test_a_worker_from_before_the_redrive_stays_out(world: World) -> None:
    """E4, G7: a zombie that wakes up after a redrive can write nothing, however it tries."""
    world = World(MAX_ATTEMPTS="1")
    events = world.upload_bundle("in/roads")
    world.settle(*events[:-1])

    def stalled(_number: int) -> None:
        world.reader.on_row = lambda _number: None
        world.clock.advance(61)
        world.reader.fault = CorruptError("x")
        assert world.deliver(events[-1]) is Answer.ACK
        world.reader.fault = None
        assert ask(world).verdict is Verdict.REDRIVEN

    world.reader.on_row = stalled
    assert world.deliver(events[-1]) is Answer.ACK
    ending = world.deliveries[-1].ending
    assert ending
    assert ending.state is None
    assert world.states == [State.FAILED]
    assert not world.effects


def test_a_letter_that_was_due_is_void_after_a_redrive(world: World) -> None:
    """G5: a job that is run again owes no letter of its earlier end."""
    world.faults.before("letters.send", raising(StorageBusyError("503")))
    world.reader.fault = DENIED
    for event in world.upload_bundle("in/roads"):
        world.deliver(event)
    world.reader.fault = None
    assert not world.jobs[0].notified
    assert run(world, ask(world))
    assert world.jobs[0].notified
    assert not world.sent.sent


def test_all_with_a_code_are_found_and_no_others(world: World) -> None:
    """D6: after a grant, every job that lacked the permission is found, and only those."""
    for number, fault in enumerate((DENIED, CorruptError("x"), DENIED)):
        world.reader.fault = fault
        world.settle(*world.upload_bundle(f"in/roads{number}"))
    world.reader.fault = None
    world.settle(*world.upload_bundle("in/good"))
    found = set(world.redrive.with_code("permission"))
    wanted = {one.id for one in world.jobs if one.history and one.history[-1].code == "permission"}
    assert found == wanted
    assert len(found) == 2
    for job_id in found:
        assert ask(world, job_id).verdict is Verdict.REDRIVEN
    assert set(world.redrive.with_code("permission")) == set()


def test_a_layer_that_failed_is_found_by_its_code(world: World) -> None:
    """D6: a job that ended partial is found by the code of each layer that it names."""
    dead(world)
    [one] = world.jobs
    layered = replace(one, summary={"failed_layers": [{"code": "torn_bundle"}]})
    assert codes(layered) == {"permission", "torn_bundle"}
    assert codes(replace(one, history=())) == frozenset()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_redrive_that_dies_can_be_asked_for_again(world: World, moment: str) -> None:
    """G7: killed before or after its write, a redrive is made good by the next."""
    dead(world)
    getattr(world.faults, moment)("store.replace", raising(Crash()))
    with pytest.raises(Crash):
        ask(world)
    assert ask(world).verdict.granted
    assert world.states == [State.FAILED]


def test_the_sweep_runs_what_was_redriven_once(world: World) -> None:
    """G7, H1: a redriven job is the sweep's to run, once, however many sweeps follow."""
    dead(world)
    assert ask(world).verdict is Verdict.REDRIVEN
    opened = len(world.reader.opened)
    assert [world.swept(), world.swept()] == [Answer.ACK, Answer.ACK]
    assert world.states == [State.DONE]
    assert len(world.reader.opened) == opened + 1
    assert world.rows("in/roads") == expected("first")
