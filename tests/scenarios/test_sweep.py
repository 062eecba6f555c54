"""Scenarios H, and A7, C9, D1, F13, G5, G9, I2: what the sweep does when no event comes."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from gate.errors import (
    BundleError,
    ConfigurationError,
    PermissionDeniedError,
    StorageBusyError,
    StoreBusyError,
)
from gate.identity import bundle_id
from gate.intake import Outcome
from gate.job import State
from gate.names import Component, parse
from tests.world import (
    BUCKET,
    PARTS,
    Answer,
    Crash,
    World,
    bundle_of,
    expected,
    raising,
    text,
)

HOUR, DAY = 3600, 86_400


def lines(capsys: pytest.CaptureFixture[str], message: str) -> list[dict[str, Any]]:
    """Return the log lines with this message so far."""
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in found if line["message"] == message]


def document(world: World, base: str = "in/roads") -> dict[str, Any]:
    """Return the manifest document of a bundle."""
    return world.store.manifests[bundle_id(bundle_of(f"{base}.shp"))]


def died(world: World, base: str = "in/roads") -> None:
    """Upload a bundle whose worker dies once it has dispatched it; no event comes again."""
    *early, last = world.upload_bundle(base)
    world.redeliver(*early)
    world.faults.after("store.dispatch", raising(Crash()))
    assert world.deliver(last) is Answer.NACK


# --- jobs ---------------------------------------------------------------------


def test_a_job_whose_worker_died_is_taken_over_once_its_lease_has_run_out(world: World) -> None:
    """H1, A7: the sweep leaves a live lease alone, then runs the job, with the next fence."""
    died(world)
    world.clock.advance(59)
    assert world.sweep().jobs == 0
    assert world.states == [State.RUNNING]
    world.clock.advance(1)
    assert world.sweep().jobs == 1
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 2)]
    assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize("call", ["store.job", "store.replace"])
def test_of_two_sweeps_at_once_one_takes_a_job(world: World, call: str) -> None:
    """H1, I3: a sweep that begins while another is at a job finds it taken, or is refused."""
    died(world)
    world.clock.advance(60)
    world.faults.before(call, world.sweep)
    world.sweep()
    assert len(world.reader.opened) == 1
    assert [(job.state, job.fence) for job in world.jobs] == [(State.DONE, 2)]


def test_a_failed_job_waits_for_its_pause(world: World) -> None:
    """G1, H1: a job that failed is run again by the sweep when its pause is over, not before."""
    world.reader.fault = StorageBusyError("503")
    *early, last = world.upload_bundle("in/roads")
    world.redeliver(*early)
    world.deliver(last)
    world.reader.fault = None
    world.clock.advance(9)
    assert world.sweep().jobs == 0
    world.clock.advance(1)
    assert world.sweep().jobs == 1
    assert world.states == [State.DONE]


def test_a_job_that_kills_every_worker_ends_as_a_dead_letter(world: World) -> None:
    """G3, G9: sweep after sweep is killed by one job, until it is buried; others go through."""
    died(world)

    def kill(_number: int) -> None:
        raise Crash

    world.reader.on_row = kill
    for _ in range(4):
        world.clock.advance(601)
        assert world.swept() is Answer.NACK
    world.redeliver(*world.upload_bundle("in/rivers", "other")[:-1])
    world.clock.advance(601)
    world.reader.on_row = lambda _number: None
    world.sweep()
    assert world.states == [State.DEAD, State.DONE]
    assert [letter.code for letter in world.sent.sent] == ["attempts_exhausted"]
    assert world.rows("in/rivers") == expected("other")


def test_a_sweep_runs_no_more_jobs_than_it_may_and_the_oldest_first() -> None:
    """H11: five jobs are due, two are run at a time, and each gets its turn."""
    world = World(SWEEP_JOBS="2")
    for number in range(5):
        died(world, f"in/roads{number}")
        world.clock.advance(1)
    world.clock.advance(60)
    counted = [world.sweep() for _ in range(3)]
    assert [(counts.jobs, counts.left > 0) for counts in counted] == [
        (2, True),
        (2, True),
        (1, False),
    ]
    assert world.reader.opened == [f"in/roads{number}" for number in range(5)]


def test_jobs_that_keep_failing_starve_nobody() -> None:
    """H11: what fails is due later than what waits, so that one job at a time is enough."""
    world = World(SWEEP_JOBS="1", MAX_ATTEMPTS="1000")
    died(world, "in/bad")
    world.clock.advance(1)
    died(world, "in/good")
    world.clock.advance(60)
    world.reader.fault = StorageBusyError("503")
    world.sweep()
    world.reader.fault = None
    world.sweep()
    assert world.rows("in/good") == expected("first")
    assert world.rows("in/bad") == []


def test_a_sweep_ends_when_its_time_is_over() -> None:
    """H11, issue 5: what is due after `SWEEP_SECONDS` is left to the next sweep, and counted."""
    world = World(SWEEP_SECONDS="10")
    for number in range(3):
        died(world, f"in/roads{number}")
    world.clock.advance(60)
    world.reader.on_row = lambda _number: world.clock.advance(5)
    counts = world.sweep()
    assert (counts.jobs, counts.left) == (1, 2)
    world.reader.on_row = lambda _number: None
    assert world.sweep().jobs == 2


# --- dead letters -------------------------------------------------------------


def test_a_letter_that_could_not_be_sent_is_sent_by_the_sweep(world: World) -> None:
    """G5: the event is acknowledged, and the letter goes out once, when its topic is there."""
    world.reader.fault = BundleError("broken")
    world.faults.before("letters.send", raising(ConfigurationError("no topic")))
    *early, last = world.upload_bundle("in/roads")
    world.redeliver(*early)
    assert world.deliver(last) is Answer.ACK
    assert not world.jobs[0].notified
    world.clock.advance(599)
    assert world.sweep().letters == 0
    world.clock.advance(1)
    assert world.sweep().letters == 1
    assert world.jobs[0].notified
    assert [letter.code for letter in world.sent.sent] == ["bundle"]
    world.clock.advance(HOUR)
    assert world.sweep().letters == 0


def test_a_worker_that_died_before_its_letter_has_it_sent(world: World) -> None:
    """G5: killed between the dead job and its letter, without an event, the sweep sends it."""
    world.reader.fault = BundleError("broken")
    world.faults.before("letters.send", raising(Crash()))
    *early, last = world.upload_bundle("in/roads")
    world.redeliver(*early)
    world.deliver(last)
    assert world.sweep().letters == 1
    assert [letter.code for letter in world.sent.sent] == ["bundle"]


def test_of_two_sweeps_at_once_one_sends_a_letter(world: World) -> None:
    """G5, I3: a sweep that finds the letter sent meanwhile does not send it again."""
    world.reader.fault = BundleError("broken")
    world.faults.before("letters.send", raising(Crash()))
    world.redeliver(*(early := world.upload_bundle("in/roads"))[:-1])
    world.deliver(early[-1])
    world.faults.before("store.job", world.sweep)
    assert world.sweep().letters == 0
    assert len(world.sent.sent) == 1


def test_unsent_letters_keep_no_job_waiting() -> None:
    """G5, H11: while the topic is missing, letters make room for what can be done."""
    world = World(SWEEP_JOBS="1")
    world.reader.fault = BundleError("broken")
    for number in range(3):
        world.faults.before("letters.send", raising(Crash()))
        died(world, f"in/bad{number}")
        world.clock.advance(61)
        assert world.swept() is Answer.NACK
    world.reader.fault = None
    died(world, "in/good")
    world.clock.advance(61)
    for _ in range(3):
        world.faults.before("letters.send", raising(ConfigurationError("no topic")))
        world.swept()
    assert world.sent.sent == []
    world.faults.before("letters.send", raising(ConfigurationError("no topic")))
    world.swept()
    assert world.rows("in/good") == expected("first")


# --- lost events --------------------------------------------------------------


@pytest.mark.parametrize("lost", range(3))
def test_one_lost_event_costs_nothing_but_time(world: World, lost: int) -> None:
    """H5: the event of one required file never came: the listing finds the file."""
    uploaded = world.upload_bundle("in/roads")
    for number, event in enumerate(uploaded):
        if number != lost:
            assert world.deliver(event) is Answer.ACK
    world.clock.advance(30)
    counts = world.sweep()
    assert (counts.recorded, counts.jobs) == (1, 1)
    assert world.rows("in/roads") == expected("first")
    assert world.deliver(uploaded[lost]) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    assert len(world.effects) == 1


def test_the_lost_event_of_a_sidecar_is_made_up_for(world: World) -> None:
    """C9: a `.prj` whose event was lost is found at the look that follows the first revision."""
    world.redeliver(*world.upload_bundle("in/roads"))
    world.upload("in/roads.prj", b"crs")
    world.clock.advance(60)
    assert world.sweep().recorded == 1
    world.settle()

    assert set(world.effects[-1].generations) == {*PARTS, ".prj"}


def test_lost_events_of_a_whole_re_upload_leave_no_mixture(world: World) -> None:
    """C7: of a re-upload one event came; what is found is taken together, never torn."""
    world.settle(*world.upload_bundle("in/roads"))
    shape, *_ = world.upload_bundle("in/roads", "second")
    world.deliver(shape)
    world.clock.advance(30)
    world.sweep()
    world.settle()
    assert world.rows("in/roads") == expected("second")
    assert len(world.effects) == 2


def test_an_object_that_was_overwritten_unheard_is_taken_at_its_newest(world: World) -> None:
    """C3, H5: the listing finds a newer `.shp` together with the missing file: one revision."""
    shape, index, _ = world.upload_bundle("in/roads")
    world.deliver(shape)
    world.deliver(index)
    world.upload("in/roads.shp", text(".shp", "second"))
    world.clock.advance(30)
    assert world.sweep().jobs == 1
    assert world.rows("in/roads") == [
        (f".shp second {number}", f".dbf first {number}", None) for number in range(3)
    ]
    assert world.states == [State.DONE]


def test_a_listing_takes_nothing_from_bundles_beside(world: World) -> None:
    """H5, B7: objects that begin alike and are of other bundles, or of none, are left alone."""
    world.redeliver(*world.upload_bundle("in/roads", parts=PARTS[:-1]))
    for name in ("in/roads.v2.dbf", "in/roads.zip.dbf", "in/roads.txt", "in/roads.dbf/x.dbf"):
        world.upload(name)
    world.clock.advance(30)
    counts = world.sweep()
    assert (counts.manifests, counts.recorded) == (1, 0)
    assert len(world.store.manifests) == 1


def test_an_overwritten_pin_whose_event_is_lost_is_taken_after_it_rested(world: World) -> None:
    """D1: the generation that replaced a pinned one was recorded; the sweep dispatches it."""
    *early, last = world.upload_bundle("in/roads")
    world.redeliver(*early)
    newer = []
    world.faults.before(
        "source.stat",
        lambda: newer.append(world.upload("in/roads.dbf", text(".dbf", "second"))),
    )
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.SUPERSEDED]
    world.settle()
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert world.rows("in/roads") == expected("first", records="second")
    assert world.deliver(newer[0]) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE


def test_another_spelling_is_found_by_the_pass_over_the_bucket() -> None:
    """B6, H6: a listing goes by known spellings; what has another is found by the next pass."""
    world = World(SOURCE_BUCKET=BUCKET)
    world.sweep()
    shape, index, _ = world.upload_bundle("in/roads")
    world.redeliver(shape, index)
    world.source.delete(BUCKET, "in/roads.dbf")
    world.upload("in/ROADS.DBF", text(".dbf", "first"))
    world.clock.advance(30)
    assert world.sweep().recorded == 0
    world.clock.advance(HOUR)
    assert world.sweep().recorded == 1
    world.settle()
    assert world.rows("in/roads") == expected("first")


def test_what_a_killed_sweep_recorded_is_dispatched_by_the_next(world: World) -> None:
    """H5, A7: killed after it had recorded what it found, the next sweep goes on from there."""
    world.redeliver(*world.upload_bundle("in/roads")[:-1])
    world.clock.advance(30)
    world.faults.after("store.record", raising(Crash()))
    assert world.swept() is Answer.NACK
    world.settle()
    assert world.rows("in/roads") == expected("first")


# --- settling -----------------------------------------------------------------


def test_a_settled_bundle_is_dispatched_by_one_of_two_sweeps(world: World) -> None:
    """H12, I3: sweeps that overlap at a manifest dispatch it once."""
    world.settle(*world.upload_bundle("in/roads"))
    world.deliver(world.upload("in/roads.prj", b"crs"))
    world.clock.advance(30)
    world.faults.before("store.dispatch", world.sweep)
    world.sweep()
    assert len(world.effects) == 2
    assert world.states == [State.DONE, State.DONE]


def test_an_upload_during_the_look_is_not_forgotten(world: World) -> None:
    """Design 4: an event between the look and its last write keeps the manifest due."""
    world.settle(*world.upload_bundle("in/roads"))
    world.clock.advance(HOUR)
    document(world)["wake_at"] = world.clock.now
    world.faults.before("store.rest", lambda: world.deliver(world.upload("in/roads.prj", b"crs")))
    world.sweep()
    assert document(world)["wake_at"] == world.clock.now + timedelta(seconds=30)
    world.settle()
    assert len(world.effects) == 2


def test_the_manifest_of_a_running_job_is_looked_at_again(world: World) -> None:
    """H7: while its job is run, a manifest neither rests nor expires; afterwards it does both."""
    died(world)
    world.clock.advance(30)
    world.sweep()
    assert document(world)["wake_at"] == world.clock.now + timedelta(seconds=60)
    assert "expires_at" not in document(world)
    world.settle()
    world.clock.advance(120)
    world.sweep()
    assert "wake_at" not in document(world)
    assert document(world)["expires_at"] == world.clock.now + timedelta(days=1)


def test_the_manifest_of_a_held_job_rests_and_stays(world: World) -> None:
    """H7: what waits for a person is looked at no more, and never collected."""
    world.reader.demand = lambda overrides: bool(overrides.crs)
    world.redeliver(*world.upload_bundle("in/roads"))
    world.clock.advance(30)
    world.sweep()
    assert world.states == [State.HELD]
    assert "wake_at" not in document(world)
    assert "expires_at" not in document(world)


def test_a_manifest_that_was_collected_and_found_again_learns_of_its_job(world: World) -> None:
    """H6, C1: without its manifest a bundle is recorded anew, and its job is not run again."""
    world.settle(*world.upload_bundle("in/roads"))
    world.store.manifests.clear()
    world.store.claims.clear()
    for name in ("in/roads.shp", "in/roads.shx", "in/roads.dbf"):
        component = parse(BUCKET, name)
        assert isinstance(component, Component)
        generation = next(
            pin.generation for _, pin in world.jobs[0].revision.pins if pin.name == name
        )
        world.intake.note(component, generation)
    for _ in range(3):
        world.clock.advance(60)
        world.sweep()
    assert len(world.effects) == len(world.jobs) == 1
    assert world.manifest("in/roads").dispatched == world.jobs[0].revision.generations
    assert "wake_at" not in document(world)


# --- incomplete bundles ---------------------------------------------------------


def test_a_stalled_bundle_is_told_of_once_and_says_what_is_missing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """H5: an hour after the last upload one error names what is missing, however often it looks."""
    world.redeliver(*world.upload_bundle("in/roads", parts=PARTS[:-1]))
    begun = world.clock.now
    stalled = 0
    while world.clock.now < begun + timedelta(hours=20):
        world.clock.advance(300)
        stalled += world.sweep().stalled
        assert stalled == (world.clock.now - begun >= timedelta(hours=1) - timedelta(seconds=62))
    (line,) = lines(capsys, "bundle stalled")
    assert (line["severity"], line["alert"]) == ("ERROR", "bundle_stalled")
    assert (line["bundle"], line["missing"]) == ("gs://uploads/in/roads", [".dbf"])
    assert world.sent.sent == []


def test_a_file_that_comes_in_time_keeps_the_alert_away(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """H5: an event between the look and the mark that it stalled is not answered by an alarm."""
    world.redeliver(*world.upload_bundle("in/roads", parts=PARTS[:1]))
    world.clock.advance(HOUR)
    world.faults.before("store.rest", lambda: world.deliver(world.upload("in/roads.shx")))
    assert world.sweep().stalled == 0
    assert lines(capsys, "bundle stalled") == []


def test_looks_at_a_waiting_bundle_become_rarer(world: World) -> None:
    """H5: pauses double, so that a bundle costs a dozen listings, not one a minute."""
    world.redeliver(*world.upload_bundle("in/roads", parts=PARTS[:-1]))
    looks = 0
    for _ in range(24 * 60):
        world.clock.advance(60)
        looks += world.sweep().manifests
    assert 8 <= looks <= 14


def test_a_bundle_that_is_never_whole_ends_as_a_dead_letter(world: World) -> None:
    """H5: a day after the last upload a letter says what was never uploaded; then it may expire."""
    world.redeliver(*world.upload_bundle("in/roads", parts=PARTS[:-1]))
    world.clock.advance(DAY)
    world.sweep()
    (letter,) = world.sent.sent
    assert letter.code == "incomplete"
    assert ".dbf was never uploaded; .shp .shx is there" in letter.body["message"]
    assert letter.body["cure"] in letter.body["message"]
    assert sorted(letter.body["pins"]) == [".shp", ".shx"]
    assert document(world)["expires_at"] == world.clock.now + timedelta(days=1)
    assert "wake_at" not in document(world)
    world.settle(world.upload("in/roads.dbf", text(".dbf", "first")))
    assert world.rows("in/roads") == expected("first")


def test_a_letter_of_an_incomplete_bundle_is_sent_until_it_is(world: World) -> None:
    """H5, G5: a bundle is given up only once its letter is out."""
    world.redeliver(*world.upload_bundle("in/roads", parts=PARTS[:-1]))
    world.clock.advance(DAY)
    world.faults.before("letters.send", raising(StoreBusyError("unavailable")))
    world.swept()
    assert "expires_at" not in document(world)
    world.clock.advance(60)
    world.sweep()
    assert [letter.code for letter in world.sent.sent] == ["incomplete"]
    assert "expires_at" in document(world)


def test_of_two_sweeps_at_once_one_gives_a_bundle_up(world: World) -> None:
    """H5, I3: a look that finds the bundle given up meanwhile sends no second letter."""
    world.redeliver(*world.upload_bundle("in/roads", parts=PARTS[:-1]))
    world.clock.advance(DAY)
    world.faults.before("store.woken", world.sweep)
    assert world.sweep().incomplete == 0
    assert len(world.sent.sent) == 1


def test_an_upload_after_the_alert_starts_the_time_anew(world: World) -> None:
    """H5: the next file of a slow upload takes the alert back, and another may follow."""
    world.redeliver(world.upload("in/roads.shp"))
    world.clock.advance(HOUR)
    assert world.sweep().stalled == 1
    world.deliver(world.upload("in/roads.shx"))
    world.clock.advance(HOUR - 1)
    assert world.sweep().stalled == 0
    world.clock.advance(1)
    assert world.sweep().stalled == 1


def test_a_bundle_that_was_taken_back_is_dropped_quietly(world: World) -> None:
    """H5: when what there was of a bundle has been deleted, nobody is told that it lacks a file."""
    world.redeliver(world.upload("in/roads.shp"))
    world.source.delete(BUCKET, "in/roads.shp")
    world.clock.advance(DAY)
    counts = world.sweep()
    assert (counts.manifests, counts.stalled, counts.incomplete) == (1, 0, 0)
    assert "expires_at" in document(world)
    assert world.sent.sent == []


# --- what goes wrong ------------------------------------------------------------


def test_poison_is_put_off_and_others_go_through(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """G9: documents that cannot be read are logged and put behind the others."""
    died(world)
    past = world.clock.now - timedelta(hours=1)
    for kind, field in (("jobs", "due_at"), ("manifests", "wake_at")):
        documents: dict[str, Any] = getattr(world.store, kind)
        documents["poison"] = {field: past}
        world.store._versions["poison"] = 0
    world.clock.advance(60)
    assert world.swept() is Answer.ACK
    assert world.rows("in/roads") == expected("first")
    later = world.clock.now + timedelta(minutes=10)
    assert world.store.jobs["poison"] == {"due_at": later}
    del world.store.jobs["poison"]
    assert {line["id"] for line in lines(capsys, "put off by the sweep")} == {"poison"}


@pytest.mark.parametrize("put_off", [True, False], ids=["put off", "not even put off"])
def test_a_fault_at_one_manifest_is_none_of_the_others(world: World, put_off: bool) -> None:
    """G9: a listing that fails costs the one bundle time, and the sweep has done its work."""
    if not put_off:
        world.faults.before("store.postpone", raising(StoreBusyError("unavailable")))
    world.redeliver(*world.upload_bundle("in/roads")[:-1])
    world.clock.advance(1)
    world.redeliver(*world.upload_bundle("in/rivers")[:-1])
    world.clock.advance(30)
    world.faults.before("source.siblings", raising(StorageBusyError("503")))
    counts = world.sweep()
    assert (counts.failed, counts.jobs) == (1, 1)
    assert world.rows("in/rivers") == expected("first")
    world.clock.advance(10)
    world.sweep()
    assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (StorageBusyError("503"), Answer.QUIET_NACK),
        (PermissionDeniedError("403"), Answer.NACK),
        (ConfigurationError("no bucket"), Answer.NACK),
    ],
)
def test_a_sweep_that_could_do_nothing_says_so(
    world: World, fault: Exception, answer: Answer
) -> None:
    """Issue 5: where all that was due failed alike, the scheduler is told."""
    world.redeliver(*world.upload_bundle("in/roads")[:-1])
    world.clock.advance(30)
    world.faults.before("source.siblings", raising(fault))
    assert world.swept() is answer


@pytest.mark.parametrize("call", ["store.due_jobs", "store.due_manifests"])
def test_a_sweep_that_cannot_ask_says_so(world: World, call: str) -> None:
    """F13: while the store does not answer, every sweep fails, and the next one tries."""
    world.faults.before(call, raising(StoreBusyError("unavailable")))
    assert world.swept() is Answer.QUIET_NACK
    assert world.swept() is Answer.ACK


def test_a_job_that_is_gone_is_passed_over(world: World) -> None:
    """H9: a job that was collected between the query and the take-over is nobody's fault."""
    died(world)
    world.clock.advance(60)
    world.faults.before("store.job", world.store.jobs.clear)
    assert world.swept() is Answer.ACK
    assert world.reader.opened == []


def test_a_manifest_that_is_collected_during_its_look_stays_gone(world: World) -> None:
    """H9: whatever is collected under the sweep's hands is not brought back half."""
    world.redeliver(*world.upload_bundle("in/roads")[:-2])
    world.clock.advance(HOUR)
    for call in ("store.woken", "store.rest"):
        before = deepcopy(world.store.manifests)
        world.faults.before(call, world.store.manifests.clear)
        assert world.swept() is Answer.ACK
        assert world.store.manifests == {}
        world.store.manifests.update(before)


def test_refused_deliveries_change_nothing(world: World) -> None:
    """I2: events that no instance took are delivered later, to the same end."""
    uploaded = world.upload_bundle("in/roads")
    world.clock.advance(DAY / 2)
    assert world.sweep().manifests == 0
    world.redeliver(*uploaded)
    assert world.rows("in/roads") == expected("first")
