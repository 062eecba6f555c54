"""Scenarios G: attempts, poison, dead letters, and a store that fails after the publish."""

from __future__ import annotations

import json

import pytest

from gate import errors
from gate.errors import (
    BundleError,
    ConfigurationError,
    GateError,
    HeldError,
    StorageBusyError,
    StoreBusyError,
)
from gate.intake import Outcome
from gate.job import State
from tests.world import Answer, Crash, World, expected, raising


@pytest.mark.parametrize("failures", [1, 2, 4])
def test_a_passing_fault_is_tried_again_after_its_pause(world: World, failures: int) -> None:
    """G1: k transient failures make k + 1 attempts, each after its pause, and no dead letter."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    for attempt in range(failures):
        world.faults.before("source.stat", raising(errors.StorageBusyError("503")))
        assert world.deliver(last) is Answer.QUIET_NACK
        assert world.states == [State.FAILED]
        pause = 10 * 2**attempt
        assert world.jobs[0].next_attempt_at
        assert (world.jobs[0].next_attempt_at - world.clock.now).total_seconds() == pause
        world.clock.advance(pause - 0.001)
        assert world.deliver(last) is Answer.QUIET_NACK
        assert world.outcomes[-1] is Outcome.IN_PROGRESS
        world.clock.advance(0.001)
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, failures + 1)]
    assert not world.sent.sent


def tree(branch: type[GateError]) -> list[type[GateError]]:
    """Return every error below `branch`, without what only settings and events raise."""
    return [
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, branch) and error is not branch
    ]


@pytest.mark.parametrize("error", tree(BundleError))
def test_a_fault_of_the_bundle_is_dead_at_once(world: World, error: type[GateError]) -> None:
    """G2: every fault of the bundle ends on the first attempt, acknowledged, with its code."""
    world.reader.fault = error("it is so", where="in/roads.shp")
    world.settle(*world.upload_bundle("in/roads"))
    assert world.answers == [Answer.ACK] * 3
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 1)]
    [letter] = world.sent.sent
    assert (letter.code, letter.body["state"]) == (error.code, "dead")
    assert error.cure in letter.body["message"]
    assert world.jobs[0].notified


def test_a_missing_fact_holds_the_job(world: World) -> None:
    """G2: what one fact would cure is held and told; a newer revision goes its own way."""
    world.reader.fault = HeldError("no CRS", where="in/roads.shp")
    world.settle(*world.upload_bundle("in/roads"))
    assert world.states == [State.HELD]
    assert [letter.body["state"] for letter in world.sent.sent] == ["held"]
    world.reader.fault = None
    world.settle(*world.upload_bundle("in/roads", "second"))
    assert world.states == [State.HELD, State.DONE]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ConfigurationError("no such bucket"), "configuration"),
        (ZeroDivisionError("division by zero"), "unexpected"),
        (KeyError("x"), "unexpected"),
    ],
)
def test_other_faults_use_up_attempts(fault: Exception, code: str) -> None:
    """G2: a fault of the deployment, or one nobody foresaw, is tried again and then dead."""
    world = World(MAX_ATTEMPTS="2")
    world.reader.fault = fault
    world.settle(*world.upload_bundle("in/roads"))
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 2)]
    assert [entry.code for entry in world.jobs[0].history] == [code, code]
    assert [letter.code for letter in world.sent.sent] == [code]


def test_a_worker_killed_every_time_ends_without_running_again() -> None:
    """G3: kills use up attempts through claims alone; the next claim is dead and runs nothing."""
    world = World(MAX_ATTEMPTS="3")
    world.reader.on_row = lambda _number: raising(Crash())()
    world.settle(*world.upload_bundle("in/roads"))
    assert world.reader.opened == ["in/roads"] * 3
    assert world.outcomes[-1] is Outcome.BURIED
    [job] = world.jobs
    assert (job.state, job.attempts, job.fence) == (State.DEAD, 4, 4)
    assert [entry.code for entry in job.history] == ["lease_expired"] * 3 + ["attempts_exhausted"]
    assert [letter.code for letter in world.sent.sent] == ["attempts_exhausted"]
    assert job.notified


def test_a_poisoned_bundle_does_not_hold_others_up(world: World) -> None:
    """G9: a bundle that fails every time leaves the ones around it alone."""
    poisoned = world.upload_bundle("in/b", rows=2)
    healthy = [event for base in ("in/a", "in/c") for event in world.upload_bundle(base, base)]
    inner = world.reader.on_row

    def on_row(number: int) -> None:
        inner(number)
        if world.reader.opened[-1] == "in/b":
            raise Crash

    world.reader.on_row = on_row
    for poison, event in zip(poisoned * 2, healthy, strict=True):
        world.deliver(poison)
        assert world.deliver(event) is Answer.ACK
    assert world.rows("in/a") == expected("in/a")
    assert world.rows("in/c") == expected("in/c")
    world.settle(*poisoned)
    assert sorted(world.states, key=lambda state: state.value) == [
        State.DEAD,
        State.DONE,
        State.DONE,
    ]


def test_a_store_that_fails_after_the_publish_costs_no_second_run(world: World) -> None:
    """G11: an end that could not be written is not noted, and made up for without reading again."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    inner = world.sink.on

    def broken(step: str) -> None:
        inner(step)
        if step == "answer":
            world.faults.before("store.replace", raising(StoreBusyError("unavailable")))

    world.sink.on = broken
    world.deliver(last)
    assert world.manifest("in/roads").published is None
    world.settle(last)
    assert world.states == [State.DONE]
    assert len(world.reader.opened) == len(world.effects) == 1


@pytest.mark.parametrize("call", ["store.manifest", "store.note_published"])
@pytest.mark.parametrize("fault", [StoreBusyError("unavailable"), ConfigurationError("denied")])
def test_a_note_that_fails_after_the_end_is_logged_and_acknowledged(
    world: World, capsys: pytest.CaptureFixture[str], call: str, fault: GateError
) -> None:
    """G11: once the job is done, a manifest that cannot be noted is a loud line and no retry."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    inner = world.sink.on

    def broken(step: str) -> None:
        inner(step)
        if step == "answer":
            world.faults.after("store.replace", lambda: world.faults.before(call, raising(fault)))

    world.sink.on = broken
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]
    assert world.manifest("in/roads").published is None
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "ERROR" in {line["severity"] for line in lines}


@pytest.mark.parametrize("fault", [StoreBusyError("unavailable"), ConfigurationError("no topic")])
def test_a_letter_that_cannot_be_sent_stays_marked(world: World, fault: GateError) -> None:
    """G5: the state flips first; a letter that failed is sent once when its event comes again."""
    world.reader.fault = BundleError("broken")
    world.faults.before("letters.send", raising(fault))
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.notified) for job in world.jobs] == [(State.DEAD, False)]
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.BURIED
    assert [(job.state, job.notified) for job in world.jobs] == [(State.DEAD, True)]
    assert [letter.code for letter in world.sent.sent] == ["bundle"]
    assert world.deliver(last) is Answer.ACK
    assert len(world.sent.sent) == 1
    assert len(world.reader.opened) == 1


def test_a_worker_killed_before_its_letter_is_not_forgotten(world: World) -> None:
    """G5, A7: killed between the dead job and its letter, the redelivered event sends it."""
    world.reader.fault = BundleError("broken")
    world.faults.before("letters.send", raising(Crash()))
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    assert world.deliver(last) is Answer.NACK
    assert world.deliver(last) is Answer.ACK
    assert [letter.code for letter in world.sent.sent] == ["bundle"]
    assert world.jobs[0].notified


def test_what_was_published_in_the_last_attempt_is_no_dead_letter() -> None:
    """G11: the last attempt publishes and then fails; the job is done, for readers see it."""
    world = World(MAX_ATTEMPTS="1")
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    inner = world.sink.on

    def broken(step: str) -> None:
        inner(step)
        if step == "answer":
            world.faults.before("store.replace", raising(StoreBusyError("unavailable")))

    world.sink.on = broken
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 1)]
    assert not world.sent.sent


def test_a_sink_that_does_not_answer_after_the_last_attempt_hides_no_end() -> None:
    """G1, G11: where nobody can tell whether something was published, the job ends dead."""
    world = World(MAX_ATTEMPTS="1")
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)

    def broken(step: str) -> None:
        if step == "upload":
            world.faults.before("sink.current", raising(StorageBusyError("503")))
            raise StorageBusyError("503")

    world.sink.on = broken
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DEAD]
    assert [letter.code for letter in world.sent.sent] == ["storage_busy"]


def test_a_worker_killed_after_its_last_publish_is_found_done() -> None:
    """G11, G3: one claim after the last attempt finds what was published, and runs nothing."""
    world = World(MAX_ATTEMPTS="1")
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    inner = world.sink.on

    def killed(step: str) -> None:
        inner(step)
        if step == "answer":
            raise Crash

    world.sink.on = killed
    assert world.deliver(last) is Answer.NACK
    world.clock.advance(61)
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]
    assert len(world.reader.opened) == 1
    assert not world.sent.sent


def test_the_letter_of_a_last_attempt_promises_no_other(world: World) -> None:
    """G1: what ends dead after its attempts says that no more are made, and what to do."""
    world = World(MAX_ATTEMPTS="1")
    world.reader.fault = StorageBusyError("503", where="gs://uploads/in/roads.shp")
    world.settle(*world.upload_bundle("in/roads"))
    [letter] = world.sent.sent
    assert letter.code == "storage_busy"
    assert letter.body["message"] == (
        "gs://uploads/in/roads.shp: 503; attempt 1 was the last;"
        " once the cause has passed, redrive the job or upload the bundle again"
    )


def test_a_letter_whose_job_has_moved_on_is_no_crash(world: World) -> None:
    """G3: a buried job that somebody moves while its letter is sent is left to them."""
    world.settle(*(early := world.upload_bundle("in/roads"))[:-1])
    world.reader.on_row = lambda _number: raising(Crash())()
    last = early[-1]
    for _ in range(5):
        world.deliver(last)
        world.clock.advance(600)
    world.faults.before("letters.send", world.store.jobs.clear)
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.BURIED
    assert len(world.sent.sent) == 1


def test_a_letter_that_was_due_and_whose_job_is_gone_is_no_crash(world: World) -> None:
    """G5: a job that somebody moves while its letter is sent after all is left to them."""
    world.reader.fault = BundleError("broken")
    world.faults.before("letters.send", raising(Crash()))
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    assert world.deliver(last) is Answer.NACK
    world.faults.before("letters.send", world.store.jobs.clear)
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.BURIED
    assert len(world.sent.sent) == 1


def test_a_store_that_fails_throughout_is_a_quiet_nack(world: World) -> None:
    """G11: what the store refuses before anything could be recorded comes back without a crash."""
    world.faults.before("store.record", raising(StoreBusyError("unavailable")))
    event = world.upload("in/roads.shp")
    assert world.deliver(event) is Answer.QUIET_NACK
    assert world.deliver(event) is Answer.ACK
    assert world.outcomes[-1] is Outcome.WAITING
