"""Scenarios E: two workers and one job: leases that expire, zombies, answers that get lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gate.errors import CorruptError, StorageBusyError, StoreBusyError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from gate.store.port import StoredJob
from tests.world import Answer, Crash, World, expected, raising

LEASE_SECONDS = 60


@pytest.fixture
def last(world: World) -> ObjectFinalized:
    """Return the event that completes `in/roads`; the others have been delivered."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    return last


def once(action: Callable[[], object]) -> Callable[[int], None]:
    """Return a row hook that runs `action` at its first call."""
    left = [action]

    def on_row(_number: int) -> None:
        if left:
            left.pop()()

    return on_row


def steal(world: World, event: ObjectFinalized) -> StoredJob:
    """Let the lease expire and take the job over, without running it."""
    world.clock.advance(LEASE_SECONDS)
    work = world.intake(event).work
    assert work
    return work


def test_two_workers_claim_one_job(world: World, last: ObjectFinalized) -> None:
    """E1: of two takers of an expired job one runs it, the other is sent back quietly."""
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(last)
    world.clock.advance(LEASE_SECONDS)
    world.faults.before("store.replace", lambda: world.deliver(last))
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.outcomes[-2:] == [Outcome.RESUMED, Outcome.IN_PROGRESS]
    assert world.reader.opened == ["in/roads"]
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 2)]


def test_a_running_job_sends_its_event_back(world: World, last: ObjectFinalized) -> None:
    """E1: while the lease lives, redeliveries of the dispatching event are not acknowledged."""
    answers: list[Answer] = []
    world.reader.on_row = once(lambda: answers.append(world.deliver(last)))
    assert world.deliver(last) is Answer.ACK
    assert answers == [Answer.QUIET_NACK]
    assert world.reader.opened == ["in/roads"]


def test_a_crashed_holder_is_replaced_after_its_lease(world: World, last: ObjectFinalized) -> None:
    """E2: killed at half its lease, the job is claimed at its end with fence + 1, attempts + 1."""
    world.reader.on_row = once(lambda: (world.clock.advance(30), raising(Crash())()))
    assert world.deliver(last) is Answer.NACK
    world.clock.advance(29.999)
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.outcomes[-1] is Outcome.IN_PROGRESS
    world.clock.advance(0.001)
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 2)]
    assert world.jobs[0].history[0].code == "lease_expired"


def test_a_zombie_cannot_complete(world: World, last: ObjectFinalized) -> None:
    """E4: a worker whose job was taken over after its publish writes nothing, and is acked."""
    calls = world.faults.calls
    inner, works = world.sink.on, []

    def stolen(step: str) -> None:
        inner(step)
        if step == "answer" and not works:
            works.append(steal(world, last))

    world.sink.on = stolen
    assert world.deliver(last) is Answer.ACK
    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    assert calls[-2:] == ["store.replace", "store.job"]
    assert world.jobs[0] == works[0].job
    ending = world.ingest(works[0])
    assert ending.state is State.DONE
    assert "it was there already" in ending.detail
    assert len(world.effects) == 1
    assert len(world.reader.opened) == 1


def test_a_zombie_cannot_fail_the_new_holder(world: World, last: ObjectFinalized) -> None:
    """E5: a worker that fails after it was replaced changes no state, attempt or output."""
    works: list[StoredJob] = []

    def stolen() -> None:
        works.append(steal(world, last))
        raise CorruptError("read too late")

    world.reader.on_row = once(stolen)
    assert world.deliver(last) is Answer.ACK
    assert world.jobs[0] == works[0].job
    assert not world.sent.sent
    world.ingest(works[0])
    assert world.states == [State.DONE]
    assert world.reader.opened == ["in/roads"] * 2
    assert world.rows("in/roads") == expected("first")


def test_a_late_completion_counts_if_nobody_took_over(world: World, last: ObjectFinalized) -> None:
    """E6: a worker ten minutes past its lease, and not replaced, completes its job."""
    inner = world.sink.on
    world.sink.on = lambda step: (inner(step), world.clock.advance(600 * (step == "answer")))
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 1, 1)]


def test_a_late_swap_counts_once(world: World, last: ObjectFinalized) -> None:
    """E8: a zombie that swaps before the new holder does publishes the same rows, counted once."""
    inner, works = world.sink.on, []

    def stolen(step: str) -> None:
        inner(step)
        if step == "swap" and not works:
            works.append(steal(world, last))

    world.sink.on = stolen
    assert world.deliver(last) is Answer.ACK
    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    ending = world.ingest(works[0])
    assert ending.state is State.DONE
    assert len(world.effects) == len(world.reader.opened) == 1


def test_a_zombie_swap_after_the_new_holder_changes_nothing(
    world: World, last: ObjectFinalized
) -> None:
    """E8: a zombie whose swap comes after the new holder's finds it there and changes nothing."""
    inner = world.sink.on

    def stolen(step: str) -> None:
        inner(step)
        if step == "swap" and len(world.reader.opened) == 1:
            world.ingest(steal(world, last))

    world.sink.on = stolen
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]
    assert world.sink.datasets["in/roads"].publication.fence == 2
    assert len(world.effects) == 1


def test_without_the_store_nothing_is_published(world: World, last: ObjectFinalized) -> None:
    """E9: a worker that cannot prove its ownership when it would publish does not publish."""
    lost = raising(StoreBusyError("unavailable"))
    world.reader.on_row = once(lambda: world.faults.before("store.manifest", lost))
    world.faults.before("store.replace", lost)
    assert world.deliver(last) is Answer.QUIET_NACK
    assert not world.effects
    world.settle(last)
    assert world.states == [State.DONE]
    assert len(world.effects) == 1


def test_a_worker_stops_within_one_batch_of_being_replaced(
    world: World, last: ObjectFinalized
) -> None:
    """E10: told at a heartbeat that its job was taken over, a worker stops and leaves no file."""
    works: list[StoredJob] = []
    rows: list[int] = []

    def on_row(number: int) -> None:
        rows.append(number)
        if not works:
            works.append(steal(world, last))

    world.reader.on_row = on_row
    assert world.deliver(last) is Answer.ACK
    assert rows == [0]
    assert not world.effects
    assert not any(folder.exists() for folder in world.reader.folders)
    assert world.jobs[0] == works[0].job


def test_a_heartbeat_keeps_the_lease(world: World, last: ObjectFinalized) -> None:
    """E2: a worker that reads for many leases renews its own, so that nobody takes over."""
    answers: list[Answer] = []

    def on_row(_number: int) -> None:
        world.clock.advance(21)
        answers.append(world.deliver(last))

    world.reader.on_row = on_row
    *early, last_of_long = world.upload_bundle("in/long", rows=12)
    world.settle(*early)
    last = last_of_long
    assert world.deliver(last) is Answer.ACK
    assert answers == [Answer.QUIET_NACK] * 12
    assert [(job.fence, job.attempts) for job in world.jobs] == [(1, 1)]


@pytest.mark.parametrize("call", ["store.record", "store.dispatch"])
def test_a_lost_answer_at_dispatch_is_believed_by_its_token(
    world: World, last: ObjectFinalized, call: str
) -> None:
    """E12: asked again after a lost answer, the store knows its caller: the event dispatches."""
    world.faults.repeat(call)
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DISPATCHED
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 1, 1)]


def test_a_lost_answer_at_take_over_counts_once(world: World, last: ObjectFinalized) -> None:
    """E12: a take-over whose answer was lost is the caller's own: one fence, one attempt more."""
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(last)
    world.clock.advance(LEASE_SECONDS)
    world.faults.repeat("store.replace")
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.RESUMED
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 2)]


@pytest.mark.parametrize("number", range(3))
def test_a_lost_answer_at_the_end_is_success(
    world: World, last: ObjectFinalized, number: int
) -> None:
    """E13: renewal, completion and note each survive the loss of their answer."""
    world.faults.repeat(("store.replace", "sink.publish", "store.note_published")[number])
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]
    assert len(world.effects) == 1


def test_a_renewal_that_landed_unheard_does_not_lose_the_job(
    world: World, last: ObjectFinalized
) -> None:
    """E13: a renewal that took effect and looked like a failure leaves the job to its event."""
    world.faults.after("store.replace", raising(StoreBusyError("unavailable")))
    world.settle(last)
    assert world.states == [State.DONE]
    assert len(world.effects) == 1


def test_a_handler_that_goes_on_after_its_timeout_harms_nobody(
    world: World, last: ObjectFinalized
) -> None:
    """E17, case 44: the redelivery takes over after the lease; the first run ends nothing."""
    answers: list[Answer] = []

    def on_row(_number: int) -> None:
        if len(world.reader.opened) == 1:
            world.clock.advance(601)
            answers.append(world.deliver(last))

    world.reader.on_row = on_row
    assert world.deliver(last) is Answer.ACK
    assert answers == [Answer.ACK]
    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 2)]
    assert len(world.effects) == 1


def test_concurrent_runs_use_folders_of_their_own(world: World, last: ObjectFinalized) -> None:
    """E20: two jobs at once in one process read from separate folders, both removed afterwards."""
    existing: list[list[Path]] = []
    other = world.upload_bundle("in/rivers", "other")

    def nested() -> None:
        world.redeliver(*other)
        existing.append([folder for folder in world.reader.folders if folder.exists()])

    world.reader.on_row = once(nested)
    world.deliver(last)
    assert len(set(world.reader.folders)) == 2
    assert existing == [[world.reader.folders[0]]]
    assert not world.reader.folders[0].exists()
    assert world.rows("in/roads") == expected("first")
    assert world.rows("in/rivers") == expected("other")


def test_a_job_that_vanished_is_not_completed(
    world: World, last: ObjectFinalized, capsys: pytest.CaptureFixture[str]
) -> None:
    """E15: a worker whose job and manifest were removed publishes nothing and says so loudly."""

    def vanish() -> None:
        world.store.jobs.clear()
        world.store.manifests.clear()

    world.reader.on_row = once(vanish)
    assert world.deliver(last) is Answer.ACK
    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    assert not world.effects
    assert not world.jobs
    ended = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (ended["severity"], ended["decision"]) == ("ERROR", "vanished")


def test_a_job_that_is_made_again_does_not_repeat_a_fence(
    world: World, last: ObjectFinalized
) -> None:
    """E15: a job that was removed under its worker, and is made again, fences that worker out."""
    fences: list[int] = []

    def remade() -> None:
        fences.append(world.jobs[0].fence)
        world.store.jobs.clear()
        for document in world.store.manifests.values():
            document.update(dispatched={}, dispatched_order=0)
        assert world.deliver(last) is Answer.ACK

    world.reader.on_row = once(remade)
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-2:] == [Outcome.DISPATCHED, Outcome.DISPATCHED]
    assert world.deliveries[-1].ending
    assert world.deliveries[-1].ending.state is None
    assert [job.fence for job in world.jobs] == [fences[0] + 1]
    assert len(world.effects) == 1


def test_a_superseded_worker_that_was_replaced_writes_nothing(
    world: World, last: ObjectFinalized
) -> None:
    """E10: overtaken by a newer revision and replaced as well, a worker leaves both alone."""
    works: list[StoredJob] = []

    def stolen() -> None:
        works.append(steal(world, last))
        for event in world.upload_bundle("in/roads", "second"):
            world.deliver(event)

    world.reader.on_row = once(stolen)
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.RUNNING, State.DONE]
    assert world.ingest(works[0]).state is State.SUPERSEDED
    assert world.rows("in/roads") == expected("second")


def test_a_busy_sink_after_the_swap_is_found_done(world: World, last: ObjectFinalized) -> None:
    """E13: a publish that took effect and looked like a failure is found at the next attempt."""
    world.faults.after("sink.publish", raising(StorageBusyError("503")))
    world.settle(last)
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 2)]
    assert len(world.reader.opened) == len(world.effects) == 1


def test_a_job_that_ends_under_a_duplicates_eyes_is_a_duplicate(
    world: World, last: ObjectFinalized
) -> None:
    """E1: a job that ends between the claim's word and the look at it leaves nothing to do."""
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(last)
    world.clock.advance(LEASE_SECONDS)
    world.faults.before("store.job", lambda: world.deliver(last))
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-2:] == [Outcome.RESUMED, Outcome.DUPLICATE]
    assert len(world.effects) == 1


def test_a_job_that_is_gone_is_not_followed(world: World, last: ObjectFinalized) -> None:
    """E15: a duplicate whose job was removed finds its revision dispatched and is acknowledged."""
    world.faults.after("store.dispatch", raising(Crash()))
    world.deliver(last)
    world.store.jobs.clear()
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    assert not world.jobs


def test_slow_downloads_keep_the_lease(world: World, last: ObjectFinalized) -> None:
    """E2: a worker that downloads for longer than its lease renews it from file to file."""
    answers: list[Answer] = []

    def slowly(operation: str, _name: str) -> None:
        if operation == "fetch":
            world.clock.advance(25)
            answers.append(world.deliver(last))

    world.source.before = slowly
    assert world.deliver(last) is Answer.ACK
    assert answers == [Answer.QUIET_NACK] * 3
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 1, 1)]
