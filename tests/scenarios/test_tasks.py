"""Jobs given to tasks: the event only dispatches, `work` runs, and a lost task is no lost job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gate.errors import ConfigurationError, QueueBusyError, StorageBusyError, StoreBusyError
from gate.events import ObjectFinalized
from gate.job import State
from gate.outcomes import Outcome
from tests.world import Answer, Crash, Faults, World, expected, raising, text

TASKS = {
    "EXECUTOR": "tasks",
    "TASK_QUEUE": "projects/p/locations/l/queues/q",
    "WORK_URL": "https://work.example",
    "TASK_SERVICE_ACCOUNT": "tasks@p.iam.gserviceaccount.com",
    "SOURCE_BUCKET": "uploads",
}
WAITED_FOR = 60
PUT_OFF = 600


@pytest.fixture
def world() -> World:
    """Return a deployment whose jobs are run by tasks, in functions of half an hour."""
    return World(**TASKS, FUNCTION_TIMEOUT_SECONDS="1800")


@pytest.fixture
def once() -> World:
    """Return a deployment that tries a job once, and whose downloads are damaged."""
    world = World(**TASKS, MAX_ATTEMPTS="1")
    world.source.damage = lambda payload: payload[:-1]
    return world


def dispatched(world: World) -> ObjectFinalized:
    """Have a bundle uploaded and its events delivered; return the event that dispatched it."""
    *early, last = world.upload_bundle("in/roads")
    for event in (*early, last):
        assert world.deliver(event) is Answer.ACK
    return last


def called(world: World) -> list[Outcome | None]:
    """Return the outcomes of all calls of tasks so far; `None` for one that raised."""
    return [one.receipt.outcome if one else None for one in world.called]


def test_the_event_dispatches_and_a_task_runs_the_job(world: World) -> None:
    """Issue 7: an event is acknowledged before anything is read, and its task does the rest."""
    dispatched(world)
    assert world.outcomes[-1] is Outcome.QUEUED
    assert world.states == [State.QUEUED]
    assert not world.reader.opened
    assert world.queue.run(world.call) == 1
    assert world.rows("in/roads") == expected("first")
    assert (world.states, called(world)) == ([State.DONE], [Outcome.RAN])
    assert [job.attempts for job in world.jobs] == [1]


def test_a_layer_of_twenty_minutes_is_ingested(world: World) -> None:
    """Issue 7: a bundle too long for the nine minutes of an event has the half hour of a task."""
    world.reader.on_row = lambda _number: world.clock.advance(400)
    dispatched(world)
    world.queue.run(world.call)
    assert world.clock.passed_seconds >= 1200
    assert world.states == [State.DONE]
    assert [job.attempts for job in world.jobs] == [1]


def test_the_same_layer_is_too_long_for_an_event() -> None:
    """Issue 7: what an event of nine minutes cannot do shows what the tasks are for."""
    world = World()
    world.reader.on_row = lambda _number: world.clock.advance(400)
    for event in world.upload_bundle("in/roads"):
        world.deliver(event)
    assert [job.history[-1].code for job in world.jobs] == ["out_of_time"]


def test_events_that_come_again_add_no_task(world: World) -> None:
    """A1: duplicates of the dispatching event mean the task that is there."""
    last = dispatched(world)
    for _ in range(3):
        assert world.deliver(last) is Answer.ACK
    assert len(world.queue.waiting) == 1
    world.queue.run(world.call)
    assert world.deliver(last) is Answer.ACK
    assert not world.queue.waiting
    assert world.reader.opened == ["in/roads"]


@pytest.mark.parametrize("lost", [True, False], ids=["the queue is silent", "the process dies"])
def test_an_event_whose_task_was_not_made_comes_back(world: World, lost: bool) -> None:
    """H3: between the job and its task lies a crash or a silent queue, and the event makes it."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    fault = QueueBusyError("no answer") if lost else Crash()
    world.faults.before("tasks.enqueue", raising(fault))
    assert world.deliver(last) is (Answer.QUIET_NACK if lost else Answer.NACK)
    assert (world.states, world.queue.waiting) == ([State.QUEUED], ())
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.QUEUED
    world.queue.run(world.call)
    assert world.states == [State.DONE]


def test_a_queue_that_refuses_is_a_fault_of_the_deployment(world: World) -> None:
    """Issue 7: an event whose task may not be made is not acknowledged, nor quiet about it."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    world.faults.before("tasks.enqueue", raising(ConfigurationError("no such queue")))
    assert world.deliver(last) is Answer.NACK


def test_a_job_whose_task_was_never_made_is_found_by_the_sweep(world: World) -> None:
    """H3: a task that is missing after its time is made by the sweep, which runs nothing itself."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    world.faults.before("tasks.enqueue", raising(Crash()))
    world.deliver(last)
    world.clock.advance(WAITED_FOR - 1)
    assert world.sweep().jobs == 0
    world.clock.advance(1)
    assert world.sweep().jobs == 1
    assert not world.reader.opened
    assert world.queue.run(world.call) == 1
    assert world.rows("in/roads") == expected("first")


def test_a_task_that_was_lost_is_made_again_under_another_name(world: World) -> None:
    """H3, H4: a name that is taken proves nothing: the job is looked at again, and gets a task."""
    dispatched(world)
    [task] = world.queue.waiting
    world.queue.lose(task.name)
    world.clock.advance(WAITED_FOR)
    world.swept()
    assert not world.queue.waiting
    assert world.states == [State.QUEUED]
    world.clock.advance(PUT_OFF)
    world.swept()
    [again] = world.queue.waiting
    assert again.name != task.name
    world.queue.run(world.call)
    assert world.states == [State.DONE]


def test_two_sweeps_make_one_task(world: World) -> None:
    """H1: sweeps that overlap find the job at the same stand, and mean the same task."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    world.faults.before("tasks.enqueue", raising(Crash()))
    world.deliver(last)
    world.clock.advance(WAITED_FOR)
    world.faults.before("tasks.enqueue", world.sweep)
    world.swept()
    assert len(world.queue.waiting) == 1


def test_a_task_that_waits_for_long_is_joined_by_few(world: World) -> None:
    """H11: a job whose task waits for its turn gets another every ten minutes, and runs once."""
    dispatched(world)
    for _ in range(60):
        world.clock.advance(60)
        world.swept()
    assert 1 < len(world.queue.waiting) <= 7
    world.queue.run(world.call)
    assert world.reader.opened == ["in/roads"]
    assert not world.queue.waiting
    assert set(called(world)) == {Outcome.RAN, Outcome.NEEDLESS}


def test_a_task_that_is_called_twice_runs_once(world: World) -> None:
    """A1: Cloud Tasks may call twice, and what the first call has ended the second leaves alone."""
    dispatched(world)
    [task] = world.queue.waiting
    assert world.call(task.payload)
    assert world.call(task.payload)
    assert called(world) == [Outcome.RAN, Outcome.NEEDLESS]
    assert world.reader.opened == ["in/roads"]


def test_of_two_calls_at_once_one_runs_and_the_other_comes_again(world: World) -> None:
    """E1: a call that meets a job with a live lease fails, and is made again."""
    dispatched(world)
    [task] = world.queue.waiting
    second: list[bool] = []
    world.faults.before("source.stat", lambda: second.append(world.call(task.payload)))
    assert world.call(task.payload)
    assert second == [False]
    assert called(world) == [Outcome.IN_PROGRESS, Outcome.RAN]
    assert world.reader.opened == ["in/roads"]


def test_a_worker_killed_in_the_middle_is_followed_by_its_own_task(world: World) -> None:
    """E2: the call that is made again goes on once the lease of the dead worker has run out."""
    dispatched(world)
    world.faults.before("source.fetch", raising(Crash()))
    assert not world.queue.run(world.call)
    world.clock.advance(10)
    assert not world.queue.run(world.call)
    assert called(world) == [None, Outcome.IN_PROGRESS]
    world.clock.advance(60)
    assert world.queue.run(world.call) == 1
    assert world.rows("in/roads") == expected("first")
    [job] = world.jobs
    assert (job.attempts, [entry.code for entry in job.history]) == (2, ["lease_expired"])


def test_a_worker_killed_whose_task_is_lost_too_is_followed_by_another(world: World) -> None:
    """E2, H1: without its task, the sweep sees the lease run out and makes another."""
    dispatched(world)
    world.faults.before("source.fetch", raising(Crash()))
    world.queue.run(world.call)
    world.queue.lose(world.queue.waiting[0].name)
    world.clock.advance(61)
    world.swept()
    assert world.states == [State.RUNNING]
    assert world.queue.run(world.call) == 1
    assert world.rows("in/roads") == expected("first")


def test_a_failed_attempt_comes_again_by_its_task_after_the_pause(world: World) -> None:
    """G4: a fault that passes costs one attempt; the task is called until the job has ended."""
    dispatched(world)
    world.faults.before("source.fetch", raising(StorageBusyError("503")))
    assert not world.queue.run(world.call)
    assert world.states == [State.FAILED]
    [task] = world.queue.waiting
    assert not world.call(task.payload)
    assert called(world)[-1] is Outcome.IN_PROGRESS
    world.clock.advance(10)
    assert world.queue.run(world.call) == 1
    assert [job.attempts for job in world.jobs] == [2]


def test_a_later_attempt_is_not_kept_out_by_a_tombstone(world: World) -> None:
    """H4: a task whose last attempt failed and whose queue gave it up is followed by a new name."""
    dispatched(world)
    world.faults.before("source.fetch", raising(StorageBusyError("503")))
    world.queue.run(world.call)
    world.queue.lose(world.queue.waiting[0].name)
    world.clock.advance(10)
    world.swept()
    assert world.queue.run(world.call) == 1
    assert world.states == [State.DONE]


def test_a_later_upload_is_not_kept_out_by_a_tombstone(world: World) -> None:
    """H4: the task of the next revision has a name of its own, minutes after the last one ended."""
    dispatched(world)
    world.queue.run(world.call)
    world.settle(*world.upload_bundle("in/roads", "second"))
    assert world.rows("in/roads") == expected("second")
    assert world.states == [State.DONE, State.DONE]


def test_attempts_that_all_fail_end_as_a_dead_letter(world: World) -> None:
    """G4: claims count, however the task comes to be called; after the last the job is dead."""
    world.source.damage = lambda payload: payload[:-1]
    dispatched(world)
    for _ in range(20):
        world.queue.run(world.call)
        world.clock.advance(300)
    assert world.states == [State.DEAD]
    assert [job.attempts for job in world.jobs] == [5]
    assert [letter.code for letter in world.sent.sent] == ["checksum"]
    assert not world.queue.waiting


def test_a_job_that_kills_its_workers_is_buried_by_a_task(world: World) -> None:
    """G5: the claim after the last attempt ends the job, and says so as its outcome."""
    dispatched(world)
    for _ in range(5):
        world.faults.before("source.fetch", raising(Crash()))
        world.queue.run(world.call)
        world.clock.advance(2000)
    assert world.queue.run(world.call) == 1
    assert called(world)[-1] is Outcome.BURIED
    assert world.states == [State.DEAD]


def test_a_letter_that_could_not_be_sent_is_sent_by_a_task(once: World) -> None:
    """G2: the sweep gives an unsent letter to a task, and counts it as a letter."""
    dispatched(once)
    once.faults.before("letters.send", raising(StoreBusyError("no answer")))
    once.queue.run(once.call)
    assert not once.sent.sent
    once.clock.advance(PUT_OFF)
    counts = once.sweep()
    assert (counts.letters, counts.jobs) == (1, 0)
    assert once.queue.run(once.call) == 1
    assert called(once)[-1] is Outcome.BURIED
    assert [letter.code for letter in once.sent.sent] == ["checksum"]


def test_an_event_whose_letter_is_unsent_gives_it_to_a_task(once: World) -> None:
    """G2: the dispatching event, delivered again, leaves the letter to a task as well."""
    last = dispatched(once)
    once.faults.before("letters.send", raising(StoreBusyError("no answer")))
    once.queue.run(once.call)
    assert once.deliver(last) is Answer.ACK
    assert once.outcomes[-1] is Outcome.BURIED
    assert once.queue.run(once.call) == 1
    assert len(once.sent.sent) == 1


def test_an_event_of_a_job_in_progress_is_acknowledged(world: World) -> None:
    """E1: an event need not come again for a job that a task runs: the task does, and the sweep."""
    last = dispatched(world)
    answers: list[Answer] = []
    world.faults.before("source.stat", lambda: answers.append(world.deliver(last)))
    world.queue.run(world.call)
    assert answers == [Answer.ACK]
    assert world.outcomes[-1] is Outcome.DUPLICATE


def test_a_held_job_is_revived_by_a_task(world: World) -> None:
    """G6: the event of a held job, delivered again, has a task see whether the fact has come."""
    world.reader.demand = lambda told: told.crs == "EPSG:25832"
    last = dispatched(world)
    world.queue.run(world.call)
    assert world.states == [State.HELD]
    for _ in range(2):
        assert world.deliver(last) is Answer.ACK
        assert world.queue.run(world.call) == 1
        assert world.states == [State.HELD]
    world.describe("in/roads.shp", crs="EPSG:25832")
    world.deliver(last)
    world.queue.run(world.call)
    assert world.states == [State.DONE]


def test_a_bundle_that_settles_is_given_to_a_task_by_the_sweep(world: World) -> None:
    """C8: the sweep dispatches what has rested, and does not run it."""
    dispatched(world)
    world.queue.run(world.call)
    world.deliver(world.upload("in/roads.dbf", text(".dbf", "second")))
    world.clock.advance(31)
    world.swept()
    assert world.states == [State.DONE, State.QUEUED]
    assert world.rows("in/roads") == expected("first")
    world.queue.run(world.call)
    assert world.rows("in/roads") == expected("first", records="second")


def test_a_task_of_an_overtaken_revision_reads_nothing(world: World) -> None:
    """E10: of two revisions in the queue, the older is superseded without a download."""
    dispatched(world)
    world.clock.advance(31)
    for event in world.upload_bundle("in/roads", "second"):
        world.deliver(event)
    assert len(world.queue.waiting) == 2
    world.queue.run(world.call)
    assert sorted(state.value for state in world.states) == ["done", "superseded"]
    assert world.rows("in/roads") == expected("second")
    assert world.reader.opened == ["in/roads"]


def test_a_job_that_somebody_touches_while_it_is_claimed_is_read_again(world: World) -> None:
    """H1: the sweep puts a job off while its task claims it, and the claim is made all the same."""
    *early, last = world.upload_bundle("in/roads")
    for event in early:
        world.deliver(event)
    world.faults.before("tasks.enqueue", raising(Crash()))
    world.deliver(last)
    world.clock.advance(WAITED_FOR)

    def put_off() -> None:
        [due] = world.store.due_jobs(1)
        world.store.postpone(due, due.now + timedelta(minutes=10))

    world.faults.before("store.replace", put_off)
    assert world.call({"kind": "job", "revision": world.jobs[0].id})
    assert called(world) == [Outcome.RAN]


def test_a_claim_that_is_always_refused_comes_again(world: World) -> None:
    """E1: a job that others move all the time is left to the next call, after three readings."""
    dispatched(world)
    [task] = world.queue.waiting
    reads = 0

    def put_off() -> None:
        nonlocal reads
        reads += 1
        world.store._versions[world.jobs[0].id] += 1_000
        world.faults.before("store.replace", put_off)

    world.faults.before("store.replace", put_off)
    assert not world.call(task.payload)
    assert (called(world), reads) == ([Outcome.IN_PROGRESS], 3)


def test_a_process_that_can_run_nothing_claims_nothing(world: World) -> None:
    """Issue 3: without its libraries, `work` spends no attempt; the task comes again."""
    dispatched(world)
    world.faults.before("ready", raising(ConfigurationError("PROJ data is missing")))
    assert not world.queue.run(world.call)
    assert world.states == [State.QUEUED]
    world.clock.advance(10)
    assert world.queue.run(world.call) == 1


def test_a_job_that_is_gone_needs_no_task(world: World) -> None:
    """E15: a task whose job was collected succeeds without a word to anybody."""
    dispatched(world)
    world.store.jobs.clear()
    assert world.queue.run(world.call) == 1
    assert called(world) == [Outcome.NEEDLESS]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"kind": "brew"},
        {"kind": "job"},
        {"kind": "job", "revision": "../jobs/other"},
        {"kind": "job", "revision": 7},
    ],
    ids=str,
)
def test_a_task_that_nobody_can_carry_out_is_a_dead_letter(
    world: World, payload: dict[str, str | int]
) -> None:
    """A10: it succeeds, so that it is not called for days, and says what it was."""
    assert world.call(payload)
    assert called(world) == [Outcome.MALFORMED]
    [letter] = world.sent.sent
    assert letter.code == "malformed_event"
    assert "event a-task: its body is not that of a task of ours" in letter.body["message"]
    assert world.faults.calls == ["letters.send"]


def test_a_redriven_job_is_given_to_a_task_by_the_sweep(once: World) -> None:
    """G7: redrive makes the job due, and the sweep makes it a task."""
    dispatched(once)
    once.queue.run(once.call)
    once.source.damage = lambda payload: payload
    assert once.redrive(once.jobs[0].id, actor="somebody", reason="").verdict.granted
    once.swept()
    assert once.queue.run(once.call) == 1
    assert once.states == [State.DONE]


def test_a_job_redriven_now_is_run_where_that_is_asked(once: World) -> None:
    """G7: `redrive --now` claims the job as a task would, and a task finds nothing left to do."""
    dispatched(once)
    once.queue.run(once.call)
    once.source.damage = lambda payload: payload
    asked = once.redrive(once.jobs[0].id, actor="somebody", reason="")
    work = once.redrive.claimed(asked)
    assert work
    once.ingest(work)
    assert once.states == [State.DONE]
    assert once.call({"kind": "job", "revision": once.jobs[0].id})
    assert called(once)[-1] is Outcome.NEEDLESS


def test_what_is_queued_is_run_once_jobs_are_run_by_events_again(world: World) -> None:
    """Issue 7: after `EXECUTOR` went back to inline, the sweep runs what no task has taken."""
    dispatched(world)
    world.sweep = replace(world.sweep, handover=None, run=world.ingest)
    world.clock.advance(WAITED_FOR)
    world.swept()
    assert world.rows("in/roads") == expected("first")
    assert world.queue.run(world.call) == 1
    assert called(world) == [Outcome.NEEDLESS]


def test_status_and_explain_tell_of_a_queued_job(world: World) -> None:
    """G10: a job that waits for its task is on its way, and is told as such."""
    dispatched(world)
    overview = world.explain.overview()
    assert overview.counts[State.QUEUED] == 1
    assert [job.id for job in overview.active] == [world.jobs[0].id]


def test_a_death_at_any_call_is_made_good(world: World) -> None:
    """Issue 7: whichever call a process dies at, before or after, one dataset results."""
    calls = _whole(World(**TASKS))
    for number in range(calls):
        for moment in (Faults.before, Faults.after):
            world = World(**TASKS)
            moment(world.faults, number, raising(Crash()))
            _whole(world)
            assert world.rows("in/roads") == expected("first"), (number, moment.__name__)
            assert world.states == [State.DONE]
            assert len(world.effects) == 1


def _whole(world: World) -> int:
    """Have a bundle go through, whatever strikes; return how many calls that took."""
    world.settle(*world.upload_bundle("in/roads"))
    for _ in range(30):
        world.clock.advance(61)
        world.swept()
        world.queue.run(world.call)
    return len(world.faults.calls)
