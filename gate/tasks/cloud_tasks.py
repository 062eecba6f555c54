"""Tasks on a queue of Cloud Tasks, each a POST to the function `work`."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import grpc  # type: ignore[import-untyped]
from google.api_core import exceptions as api
from google.api_core.retry import Retry, if_exception_type
from google.auth import exceptions as auth
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

from gate.errors import ConfigurationError, QueueBusyError
from gate.tasking import MOST_WORK_SECONDS, Tasking
from gate.tasks.port import Task

# The address of a queue on this machine, as `host:port`.
EMULATOR_VARIABLE = "CLOUD_TASKS_EMULATOR_HOST"

CALL_SECONDS = 10.0
# The client repeats no creation by itself. With a name, one whose answer was lost
# is refused as there already, which is what the caller is told of any other.
_REPEATED = Retry(
    predicate=if_exception_type(api.ServiceUnavailable, api.DeadlineExceeded),
    initial=0.1,
    maximum=2.0,
    timeout=2 * CALL_SECONDS,
)
_REFUSED = (
    api.NotFound,
    api.PermissionDenied,
    api.Unauthenticated,
    api.InvalidArgument,
    api.FailedPrecondition,
)
_UNANSWERED = (api.GoogleAPIError, auth.GoogleAuthError)


class CloudTasks:
    """The `gate.tasks.port.Tasks` over a queue, which calls `work` in the name of an account.

    A call is given up after the 30 minutes that Cloud Tasks waits at most, and
    made again. Without a `client` one is built with the credentials of the
    environment; `ConfigurationError` if there are none.
    """

    def __init__(self, tasking: Tasking, client: tasks_v2.CloudTasksClient | None = None) -> None:
        self._tasking = tasking
        self._client = client or _connected()

    def enqueue(self, task: Task) -> bool:
        """See `Tasks.enqueue`."""
        queue = self._tasking.queue
        request = tasks_v2.CreateTaskRequest(parent=queue, task=self._made(task))
        try:
            self._client.create_task(request, retry=_REPEATED, timeout=CALL_SECONDS)
        except api.AlreadyExists:
            return False
        except _REFUSED as error:
            raise ConfigurationError(
                f"the queue refused a task ({error})",
                where=f"TASK_QUEUE={queue}",
                cure="create the queue, grant the function's service account"
                " roles/cloudtasks.enqueuer on it, and roles/iam.serviceAccountUser on"
                " TASK_SERVICE_ACCOUNT",
            ) from error
        except _UNANSWERED as error:
            raise QueueBusyError(f"the queue did not answer ({error})", where=queue) from error
        return True

    def _made(self, task: Task) -> tasks_v2.Task:
        return tasks_v2.Task(
            name=f"{self._tasking.queue}/tasks/{task.name}",
            http_request=tasks_v2.HttpRequest(
                url=self._tasking.url,
                http_method=tasks_v2.HttpMethod.POST,
                headers={"Content-Type": "application/json"},
                body=json.dumps(dict(task.payload)).encode(),
                oidc_token=tasks_v2.OidcToken(service_account_email=self._tasking.account),
            ),
            schedule_time=task.due_at,
            dispatch_deadline=timedelta(seconds=MOST_WORK_SECONDS),
        )


def _connected() -> tasks_v2.CloudTasksClient:
    address = os.environ.get(EMULATOR_VARIABLE)
    if address:
        channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        return tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))
    try:
        return tasks_v2.CloudTasksClient()
    except auth.GoogleAuthError as error:
        raise ConfigurationError(str(error), where="Cloud Tasks") from error
