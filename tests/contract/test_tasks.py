"""What a queue of tasks promises, held against each one that there is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from gate.tasks.memory import PAUSE, TOMBSTONE, MemoryTasks
from gate.tasks.port import Task
from tests.contract.stores import Clock

Payload = Mapping[str, str | int]


class Calls:
    """What the queue called, and whether the call succeeds."""

    def __init__(self) -> None:
        self.payloads: list[Payload] = []
        self.answer = True

    def __call__(self, payload: Payload) -> bool:
        """Note a call."""
        self.payloads.append(payload)
        return self.answer


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the queue."""
    return Clock()


@pytest.fixture
def tasks(clock: Clock) -> MemoryTasks:
    """Return an empty queue."""
    return MemoryTasks(clock)


@pytest.fixture
def calls() -> Calls:
    """Return what notes the calls."""
    return Calls()


def test_a_task_is_called_with_its_payload(tasks: MemoryTasks, calls: Calls) -> None:
    """What was enqueued is called once, with exactly the payload it was given."""
    assert tasks.enqueue(Task("a1-job", {"kind": "job", "fence": 2}))
    tasks.run(calls)
    tasks.run(calls)
    assert calls.payloads == [{"kind": "job", "fence": 2}]


def test_the_name_of_a_waiting_task_is_taken(tasks: MemoryTasks, calls: Calls) -> None:
    """H3: of two tasks with one name there is one."""
    assert tasks.enqueue(Task("a1-job", {"from": "one"}))
    assert not tasks.enqueue(Task("a1-job", {"from": "two"}))
    tasks.run(calls)
    assert calls.payloads == [{"from": "one"}]


def test_the_name_of_a_task_that_has_succeeded_stays_taken_for_a_time(
    tasks: MemoryTasks, calls: Calls, clock: Clock
) -> None:
    """H4: a tombstone keeps the name of a finished task for an hour."""
    tasks.enqueue(Task("a1-job", {}))
    tasks.run(calls)
    clock.forward(TOMBSTONE - timedelta(seconds=1))
    assert not tasks.enqueue(Task("a1-job", {}))
    clock.forward(timedelta(seconds=1))
    assert tasks.enqueue(Task("a1-job", {}))


def test_the_name_of_a_task_that_was_removed_stays_taken(tasks: MemoryTasks) -> None:
    """H4: a purge leaves tombstones too."""
    tasks.enqueue(Task("a1-job", {}))
    tasks.lose("a1-job")
    assert not tasks.enqueue(Task("a1-job", {}))
    assert not tasks.waiting


def test_a_task_is_not_called_before_it_is_due(
    tasks: MemoryTasks, calls: Calls, clock: Clock
) -> None:
    """A task with a time waits for it."""
    tasks.enqueue(Task("a1-job", {}, clock() + timedelta(seconds=30)))
    clock.forward(timedelta(seconds=29))
    assert not tasks.run(calls)
    clock.forward(timedelta(seconds=1))
    assert tasks.run(calls)


def test_a_call_that_fails_is_made_again_later(
    tasks: MemoryTasks, calls: Calls, clock: Clock
) -> None:
    """A task stays until a call has succeeded."""
    tasks.enqueue(Task("a1-job", {}))
    calls.answer = False
    assert not tasks.run(calls)
    assert not tasks.run(calls)
    calls.answer = True
    clock.forward(PAUSE)
    assert tasks.run(calls)
    assert len(calls.payloads) == 2
