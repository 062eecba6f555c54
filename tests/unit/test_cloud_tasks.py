"""The client of Cloud Tasks: what it asks for, and what becomes of refusals."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud import tasks_v2

from gate.errors import ConfigurationError, GateError, QueueBusyError
from gate.tasking import Executor, Tasking
from gate.tasks import cloud_tasks
from gate.tasks.cloud_tasks import CALL_SECONDS, EMULATOR_VARIABLE, CloudTasks
from gate.tasks.port import Task

QUEUE = "projects/p/locations/l/queues/q"
TASKING = Tasking(Executor.TASKS, QUEUE, "https://work.example", "a@p.iam.gserviceaccount.com")


class Client:
    """A client whose creations end as `endings` say, one after the other."""

    def __init__(self, *endings: BaseException) -> None:
        self.endings = list(endings)
        self.created: list[tasks_v2.CreateTaskRequest] = []

    def create_task(
        self, request: tasks_v2.CreateTaskRequest, *, retry: Any, timeout: float
    ) -> Any:
        """Take a request as the real client does, repeated as `retry` says."""
        assert timeout == CALL_SECONDS

        def once() -> None:
            self.created.append(request)
            if self.endings:
                raise self.endings.pop(0)

        return retry(once)()


def tasks(client: Client) -> CloudTasks:
    """Return the queue over a client."""
    fake: Any = client
    return CloudTasks(TASKING, fake)


def test_a_name_that_is_taken_is_an_ordinary_outcome() -> None:
    """H4: that the task exists, or did so, is `False` and no error."""
    assert not tasks(Client(api.AlreadyExists("tombstone"))).enqueue(Task("a1", {}))


def test_a_silent_queue_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """G4: what passes within a moment is not told, and the name makes sure of one task."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    client = Client(api.ServiceUnavailable("503"), api.DeadlineExceeded("504"))
    assert tasks(client).enqueue(Task("a1", {"kind": "job"}))
    assert [request.task.name for request in client.created] == [f"{QUEUE}/tasks/a1"] * 3
    assert {request.parent for request in client.created} == {QUEUE}


@pytest.mark.parametrize(
    ("raised", "error", "code"),
    [
        (api.NotFound("no queue"), ConfigurationError, "configuration"),
        (api.PermissionDenied("no enqueuer"), ConfigurationError, "configuration"),
        (api.Unauthenticated("who"), ConfigurationError, "configuration"),
        (api.InvalidArgument("no url"), ConfigurationError, "configuration"),
        (api.FailedPrecondition("no queue yet"), ConfigurationError, "configuration"),
        (api.ResourceExhausted("quota"), QueueBusyError, "queue_busy"),
        (api.InternalServerError("500"), QueueBusyError, "queue_busy"),
        (api.RetryError("too long", cause=None), QueueBusyError, "queue_busy"),
        (auth.TransportError("no token"), QueueBusyError, "queue_busy"),
    ],
)
def test_refusals_are_told_by_who_can_mend_them(
    raised: Exception, error: type[GateError], code: str
) -> None:
    """G1: what waiting mends is transient; what somebody must mend names the setting."""
    with pytest.raises(error) as caught:
        tasks(Client(raised)).enqueue(Task("a1", {}))
    assert caught.value.code == code
    assert QUEUE in str(caught.value)


def test_without_credentials_it_is_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: no credentials are told as what they are, and not as a queue that is silent."""

    def refuse(*_ignored: object, **_named: object) -> None:
        raise auth.DefaultCredentialsError("none were found")

    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)
    monkeypatch.setattr(cloud_tasks.tasks_v2, "CloudTasksClient", refuse)
    with pytest.raises(ConfigurationError, match="Cloud Tasks: none were found"):
        CloudTasks(TASKING)
