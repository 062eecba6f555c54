"""Workers that have to leave off: too little time, a shutdown, a store out of reach."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from functions_framework.exceptions import RequestTimeoutException

from gate.errors import StoreBusyError, StoreQuotaError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from gate.sinks.memory import key
from tests.archives import archive
from tests.world import PARTS, Answer, World, expected, raising, text

NAME = "in/a.zip"
# Nine tenths of the default FUNCTION_TIMEOUT_SECONDS.
RUN_SECONDS = 486


@pytest.fixture
def last(world: World) -> ObjectFinalized:
    """Return the event that completes `in/roads`; the others have been delivered."""
    return whole(world)


def whole(world: World) -> ObjectFinalized:
    """Upload `in/roads`, deliver all of its events but the last, and return that one."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    return last


def packed(*stems: str) -> bytes:
    """Return an archive of layers of one row."""
    return archive(*({f"{stem}{part}": text(part, stem, 1) for part in PARTS} for stem in stems))


def at_step(world: World, reached: str, action: Callable[[], object]) -> None:
    """Run `action` when the sink reaches a step for the first time."""
    inner, left = world.sink.on, [action]

    def on(step: str) -> None:
        inner(step)
        if step == reached and left:
            left.pop()()

    world.sink.on = on


def pulsing(world: World) -> Callable[[], object]:
    """Return what makes the heartbeat of the run that is under way beat once."""
    pulses: list[Callable[[], object]] = []

    @contextmanager
    def heartbeat(pulse: Callable[[], object]) -> Iterator[None]:
        pulses.append(pulse)
        yield

    world.ingest = replace(world.ingest, heartbeat=heartbeat)

    def beat() -> None:
        pulses[-1]()

    return beat


def logged(capsys: pytest.CaptureFixture[str], message: str) -> dict[str, Any]:
    """Return the last line of the log with this message."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found: dict[str, Any] = [line for line in lines if line["message"] == message][-1]
    return found


# --- the time of the function ---------------------------------------------------


def test_a_bundle_that_never_fits_the_time_ends_as_a_dead_letter() -> None:
    """E17: a run too long for the function is tried again at once, and dead in the end."""
    world = World(MAX_ATTEMPTS="3")
    last = whole(world)
    world.reader.on_row = lambda _number: world.clock.advance(RUN_SECONDS / 2 + 1)
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.reader.folders
    assert not any(folder.exists() for folder in world.reader.folders)
    world.settle(last, pause_seconds=0)
    [job] = world.jobs
    assert (job.state, job.attempts, len(world.reader.opened)) == (State.DEAD, 3, 3)
    assert [entry.code for entry in job.history] == ["out_of_time"] * 2 + ["too_slow"]
    [letter] = world.sent.sent
    assert letter.code == "too_slow"
    assert "FUNCTION_TIMEOUT_SECONDS" in letter.body["message"]
    assert not world.effects


def test_an_archive_that_needs_several_deliveries_gets_them() -> None:
    """E17: each delivery publishes some layers and leaves the rest to the next, none read twice."""
    world = World(MAX_ATTEMPTS="1")
    event = world.upload(NAME, packed("a", "b", "c", "d", "e"))
    world.reader.on_row = lambda _number: world.clock.advance(RUN_SECONDS * 0.4)
    world.settle(event, pause_seconds=0)
    assert world.states == [State.DONE]
    assert len(world.effects) == 5
    assert [delivery.answer for delivery in world.deliveries].count(Answer.QUIET_NACK) > 1
    for name in "abcde":
        dataset = world.sink.datasets[key(NAME, name)]
        assert dataset.rows == 1


def test_an_archive_that_gets_nowhere_ends_too() -> None:
    """E17: an archive whose every layer is too slow ends after its attempts, like any bundle."""
    world = World(MAX_ATTEMPTS="2")
    event = world.upload(NAME, packed("a", "b"))
    world.reader.on_row = lambda _number: world.clock.advance(RUN_SECONDS + 1)
    world.settle(event, pause_seconds=0)
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DEAD, 2)]
    assert [letter.code for letter in world.sent.sent] == ["too_slow"]


def test_an_upload_that_outlasts_the_time_is_published(world: World, last: ObjectFinalized) -> None:
    """E6, E17: once all rows are read, only the swap is left, and it is made late or not at all."""
    at_step(world, "upload", lambda: world.clock.advance(RUN_SECONDS))
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 1)]


@pytest.mark.parametrize("fault", [TimeoutError("late"), RequestTimeoutException("504")])
def test_a_timeout_raised_into_the_work_is_tried_again(
    world: World, last: ObjectFinalized, fault: Exception
) -> None:
    """E18: a timeout in the middle of the rows is no fault of the bundle, and publishes nothing."""
    world.reader.on_row = lambda number: raising(fault)() if number == 1 else None
    assert world.deliver(last) is Answer.QUIET_NACK
    assert [(job.state, job.history[-1].code) for job in world.jobs] == [
        (State.FAILED, "unexpected")
    ]
    assert not world.effects
    world.reader.on_row = lambda _number: None
    world.settle(last)
    assert world.rows("in/roads") == expected("first")


# --- a shutdown -------------------------------------------------------------------


def test_a_shutdown_between_batches_gives_the_job_back(
    world: World, last: ObjectFinalized, capsys: pytest.CaptureFixture[str]
) -> None:
    """E2: told to stop, a worker leaves off at the next batch; the next delivery takes over."""
    rows: list[int] = []

    def on_row(number: int) -> None:
        rows.append(number)
        world.stopping = number == 1

    world.reader.on_row = on_row
    assert world.deliver(last) is Answer.QUIET_NACK
    assert rows == [0, 1]
    assert not world.reader.folders[0].exists()
    ended = logged(capsys, "ingestion ended")
    assert (ended["severity"], ended["decision"]) == ("WARNING", "shutdown")

    world.stopping, world.reader.on_row = False, lambda _number: None
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.RESUMED
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 1)]
    assert len(world.effects) == 1


def test_a_process_that_is_stopping_begins_nothing(world: World, last: ObjectFinalized) -> None:
    """E2: an event that comes to a process on its way out leaves its job to another."""
    world.stopping = True
    assert world.deliver(last) is Answer.QUIET_NACK
    assert "source.stat" not in world.faults.calls
    assert world.states == [State.FAILED]


def test_a_shutdown_between_layers_repeats_none(world: World) -> None:
    """E2: the next process finds the layers that are published, though no attempt was counted."""
    event = world.upload(NAME, packed("a", "b"))
    at_step(world, "answer", lambda: setattr(world, "stopping", True))
    assert world.deliver(event) is Answer.QUIET_NACK
    world.stopping = False
    assert world.deliver(event) is Answer.ACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 1)]
    assert sorted(world.reader.opened) == [f"{NAME}/a", f"{NAME}/b"]


def test_shutdowns_use_up_no_attempts() -> None:
    """E2, G4: however often its instance is stopped, a job is not dead for that."""
    world = World(MAX_ATTEMPTS="2")
    last = whole(world)
    world.stopping = True
    for _ in range(9):
        assert world.deliver(last) is Answer.QUIET_NACK
    world.stopping = False
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 10, 1)]


def test_a_shutdown_during_one_long_call_frees_the_job_meanwhile(
    world: World, last: ObjectFinalized
) -> None:
    """E2, E10: the heartbeat gives the job back; its worker then publishes nothing."""
    pulse = pulsing(world)
    answers: list[Answer] = []

    def long_upload() -> None:
        world.stopping = True
        pulse()
        world.stopping = False
        answers.append(world.deliver(last))

    at_step(world, "upload", long_upload)
    assert world.deliver(last) is Answer.QUIET_NACK
    assert answers == [Answer.ACK]
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 1)]
    assert world.sink.datasets["in/roads"].publication.fence == 2
    assert len(world.effects) == 1


def test_a_shutdown_after_the_swap_costs_no_second_run(world: World, last: ObjectFinalized) -> None:
    """G11: a job given back between its publication and its end is found done by the next."""
    pulse = pulsing(world)

    def stop() -> None:
        world.stopping = True
        pulse()
        world.stopping = False

    at_step(world, "answer", stop)
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]
    assert len(world.reader.opened) == len(world.effects) == 1


# --- what the heartbeat learns ------------------------------------------------------


def test_a_newer_revision_is_met_during_one_long_call(world: World, last: ObjectFinalized) -> None:
    """C5, E10: a revision dispatched meanwhile stops the older one at its next row."""
    pulse, rows = pulsing(world), []

    def on_row(number: int) -> None:
        rows.append(number)
        if len(rows) == 1:
            newer = world.upload_bundle("in/roads", "second")
            works = [world.intake(event).work for event in newer]
            assert works[-1]
            world.clock.advance(30)
            pulse()

    world.reader.on_row = on_row
    assert world.deliver(last) is Answer.ACK
    assert rows == [0]
    assert world.states == [State.SUPERSEDED, State.RUNNING]
    assert [job.attempts for job in world.jobs] == [1, 1]
    assert not world.effects
    assert not world.reader.folders[0].exists()


def test_a_store_out_of_reach_for_two_leases_ends_the_run(
    world: World, last: ObjectFinalized
) -> None:
    """E9: without a renewal the run ends with its lease; when the store is back, all is made up."""
    rows: list[int] = []
    lost = raising(StoreBusyError("unavailable"))

    def on_row(number: int) -> None:
        rows.append(number)
        world.clock.advance(40)
        world.faults.before("store.manifest", lost)
        world.faults.before("store.replace", lost)

    world.reader.on_row = on_row
    assert world.deliver(last) is Answer.QUIET_NACK
    assert rows == [0, 1]
    assert not world.effects
    world.faults.clear()
    world.reader.on_row = lambda _number: None
    world.settle(last)
    assert world.states == [State.DONE]
    assert len(world.effects) == 1


def test_a_call_that_outlasts_its_lease_gets_a_longer_one(
    world: World, last: ObjectFinalized
) -> None:
    """E16: stopped, heartbeat and all, for longer than a lease, a later attempt holds its own."""
    innermost_first: list[Answer] = []

    def on_row(number: int) -> None:
        if number == 0:
            world.clock.advance(130)
            innermost_first.append(world.deliver(last))

    world.reader.on_row = on_row
    assert world.deliver(last) is Answer.ACK
    assert innermost_first == [Answer.QUIET_NACK, Answer.ACK, Answer.ACK]
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 3)]
    assert len(world.effects) == 1


@pytest.mark.parametrize("fault", [StoreBusyError("aborted"), StoreQuotaError("exhausted")])
@pytest.mark.parametrize("call", ["store.record", "store.read", "store.job", "store.replace"])
def test_a_storm_in_the_store_uses_up_no_attempt(call: str, fault: StoreBusyError) -> None:
    """G4: contention on the way to a claim sends the event back; the job is as it was."""
    world = World(MAX_ATTEMPTS="2")
    last = whole(world)
    world.stopping = True
    world.deliver(last)
    world.stopping = False
    [before] = world.jobs
    for _ in range(20):
        world.faults.before(call, raising(fault))
        assert world.deliver(last) is Answer.QUIET_NACK
    assert world.jobs == [before]
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 1)]


# --- room ---------------------------------------------------------------------------


def test_a_bundle_larger_than_the_limit_is_held_before_a_download() -> None:
    """I9: the sizes are added up before anything is brought into the temporary folder."""
    world = World(MAX_BUNDLE_BYTES="60")
    downloads: list[str] = []
    world.source.before = lambda operation, name: (
        downloads.append(name) if operation == "fetch" else None
    )
    world.settle(*world.upload_bundle("in/roads"))
    assert world.states == [State.HELD]
    assert [letter.code for letter in world.sent.sent] == ["too_large"]
    assert downloads == []


def test_an_archive_that_unpacks_to_more_than_the_limit_is_held() -> None:
    """I9: what an archive declares is added up before it is unpacked."""
    world = World(MAX_UNPACKED_BYTES="20")
    world.settle(world.upload(NAME, packed("a", "b")))
    assert world.states == [State.HELD]
    assert [letter.code for letter in world.sent.sent] == ["too_large"]
    assert not world.reader.opened
