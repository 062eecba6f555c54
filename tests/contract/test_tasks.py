"""What a queue of tasks promises, held against each one that there is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from gate.errors import ConfigurationError, QueueBusyError
from gate.tasks.memory import PAUSE, TOMBSTONE
from gate.tasks.port import Task
from tests.contract.queues import ACCOUNT, CloudBench, MemoryBench, QueueBench

SECOND = timedelta(seconds=1)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudBench]:
    """Return the client of Cloud Tasks over an empty stand-in."""
    bench = CloudBench(monkeypatch)
    yield bench
    bench.close()


@pytest.fixture(params=["memory", "cloud"])
def bench(request: pytest.FixtureRequest) -> QueueBench:
    """Return each queue, empty."""
    if request.param == "memory":
        return MemoryBench()
    cloud: CloudBench = request.getfixturevalue("cloud")
    return cloud


def test_a_task_is_called_with_its_payload(bench: QueueBench) -> None:
    """What was enqueued is called until it succeeds, with exactly the payload it was given."""
    assert bench.tasks.enqueue(Task("a1-job", {"kind": "job", "fence": 2, "name": "Zürich"}))
    bench.run()
    bench.run()
    assert bench.payloads == [{"kind": "job", "fence": 2, "name": "Zürich"}]
    assert not bench.waiting()


def test_the_name_of_a_waiting_task_is_taken(bench: QueueBench) -> None:
    """H3: of two tasks with one name there is one."""
    later = bench.clock() + SECOND
    assert bench.tasks.enqueue(Task("a1-job", {"from": "one"}, later))
    assert not bench.tasks.enqueue(Task("a1-job", {"from": "two"}, later))
    bench.clock.forward(SECOND)
    bench.run()
    assert bench.payloads == [{"from": "one"}]


def test_the_name_of_a_task_that_has_succeeded_stays_taken_for_a_time(bench: QueueBench) -> None:
    """H4: a tombstone keeps the name of a finished task for an hour."""
    bench.tasks.enqueue(Task("a1-job", {}))
    bench.run()
    bench.clock.forward(TOMBSTONE - SECOND)
    assert not bench.tasks.enqueue(Task("a1-job", {}))
    assert bench.tasks.enqueue(Task("a1-job-2", {}))
    bench.clock.forward(SECOND)
    assert bench.tasks.enqueue(Task("a1-job", {}))


def test_the_name_of_a_task_that_was_removed_stays_taken(bench: QueueBench) -> None:
    """H4: a purge leaves tombstones too."""
    later = bench.clock() + SECOND
    bench.tasks.enqueue(Task("a1-job", {}, later))
    bench.lose("a1-job")
    assert not bench.tasks.enqueue(Task("a1-job", {}, later))
    bench.clock.forward(SECOND)
    bench.run()
    assert not bench.payloads


def test_a_task_is_not_called_before_it_is_due(bench: QueueBench) -> None:
    """A task with a time waits for it, to the second."""
    bench.tasks.enqueue(Task("a1-job", {}, bench.clock() + 30 * SECOND))
    bench.clock.forward(29 * SECOND)
    bench.run()
    assert not bench.payloads
    bench.clock.forward(SECOND)
    bench.run()
    assert len(bench.payloads) == 1


def test_a_task_that_was_due_in_the_past_is_called_now(bench: QueueBench) -> None:
    """A time that has passed is no fault."""
    bench.tasks.enqueue(Task("a1-job", {}, bench.clock() - 30 * SECOND))
    bench.run()
    assert len(bench.payloads) == 1


def test_a_call_that_fails_is_made_again_after_a_pause(bench: QueueBench) -> None:
    """A task stays until a call has succeeded, and its name is taken as long."""
    bench.succeeds = False
    bench.tasks.enqueue(Task("a1-job", {}))
    bench.run()
    bench.run()
    assert len(bench.payloads) == 1
    assert not bench.tasks.enqueue(Task("a1-job", {}))
    bench.succeeds = True
    bench.clock.forward(PAUSE)
    bench.run()
    assert len(bench.payloads) == 2
    assert not bench.waiting()


# --- Cloud Tasks ----------------------------------------------------------------


def test_a_call_says_which_task_it_is_and_how_often_it_was_made(cloud: CloudBench) -> None:
    """Issue 7: calls carry the headers of Cloud Tasks, by which the ledger names a task."""
    cloud.succeeds = False
    cloud.tasks.enqueue(Task("a1-job", {"kind": "job"}))
    cloud.run()
    cloud.succeeds = True
    cloud.clock.forward(PAUSE)
    cloud.run()
    first, second = cloud.headers
    assert (first["X-CloudTasks-QueueName"], first["X-CloudTasks-TaskName"]) == ("q", "a1-job")
    retries = [one["X-CloudTasks-TaskRetryCount"] for one in (first, second)]
    assert retries == ["0", "1"]
    assert first["Content-Type"] == "application/json"


def test_pauses_double(cloud: CloudBench) -> None:
    """G4: a task that goes on failing is called at longer and longer pauses."""
    cloud.succeeds = False
    cloud.tasks.enqueue(Task("a1-job", {}))
    cloud.run()
    for number in (1, 2, 4):
        cloud.clock.forward(number * PAUSE - SECOND)
        cloud.run()
        calls = len(cloud.payloads)
        cloud.clock.forward(SECOND)
        cloud.run()
        assert len(cloud.payloads) == calls + 1


def test_another_queue_is_not_found(cloud: CloudBench) -> None:
    """Issue 7: a queue that does not exist is a fault of the deployment, told with its cure."""
    cloud.queue.name = "projects/p/locations/l/queues/other"
    with pytest.raises(ConfigurationError, match="there is no queue") as caught:
        cloud.tasks.enqueue(Task("a1-job", {}))
    assert "create the queue" in str(caught.value)


@pytest.mark.parametrize("name", ["", "a/b", "a.b", "ä", "a" * 501])
def test_a_name_that_cloud_tasks_refuses_is_refused(cloud: CloudBench, name: str) -> None:
    """Issue 7: names are of letters, digits, hyphens and underscores."""
    with pytest.raises(ConfigurationError, match="is no name of a task"):
        cloud.tasks.enqueue(Task(name, {}))


def test_a_task_has_the_longest_deadline_and_an_identity(cloud: CloudBench) -> None:
    """Issue 7: a call may take half an hour, and is made in the name of an account."""
    cloud.tasks.enqueue(Task("a1-job", {}, cloud.clock() + SECOND))
    [waiting] = cloud.queue._names.waiting.values()
    assert waiting.task.dispatch_deadline == timedelta(minutes=30)
    assert waiting.task.http_request.oidc_token.service_account_email == ACCOUNT
    assert waiting.task.http_request.url == cloud.url


def test_a_queue_that_is_gone_is_told_as_busy(
    cloud: CloudBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4: a queue that cannot be reached may be reached later."""
    monkeypatch.setattr("gate.tasks.cloud_tasks._REPEATED", None)
    cloud.queue.stop()
    with pytest.raises(QueueBusyError, match="the queue did not answer"):
        cloud.tasks.enqueue(Task("a1-job", {}))
