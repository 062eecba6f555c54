"""A stand-in for Cloud Tasks on loopback: one queue that calls over HTTP.

The emulators that exist forget names at once, so that nothing shows whether a
tombstone is in the way. This one keeps to what the API's reference says of a queue:

- a name is taken while its task exists, and for an hour after that;
- names, addresses and deadlines out of bounds are refused, and another queue is not found;
- a task is called when it is due, with the headers of Cloud Tasks, and again, after
  pauses that double, until it is answered with a status of 2xx;
- a call that is not answered within its deadline has failed.

It makes no identity tokens, limits no rates, loses all tasks when it ends, and
speaks gRPC as the client does: `CLOUD_TASKS_EMULATOR_HOST` leads there. Of the API
it knows CreateTask alone.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.cloud import tasks_v2

from gate.local.processes import ChildError, post

SERVICE = "google.cloud.tasks.v2.CloudTasks"
TOMBSTONE_SECONDS = 3_600.0
DEADLINE_SECONDS = 600.0
LEAST_DEADLINE_SECONDS, MOST_DEADLINE_SECONDS = 15.0, 1_800.0
MOST_PAUSE_SECONDS = 3_600.0
AT_ONCE = 8
LOOK_SECONDS = 0.05

_NAME = re.compile(r"[A-Za-z0-9_-]{1,500}")
_URL = re.compile(r"https?://.+")


@dataclass(slots=True)
class _Waiting:
    """A task that has not succeeded, and when it is due; `calls` were made so far."""

    task: tasks_v2.Task
    due_at: float
    calls: int = 0
    under_way: bool = False


@dataclass(slots=True)
class _Names:
    """The tasks of the queue, and the tombstones of those that are gone, by name."""

    waiting: dict[str, _Waiting] = field(default_factory=dict)
    tombstones: dict[str, float] = field(default_factory=dict)

    def taken(self, name: str, now: float) -> bool:
        gone = self.tombstones.get(name)
        return name in self.waiting or (gone is not None and now < gone + TOMBSTONE_SECONDS)


class _Refused(Exception):  # noqa: N818  a signal inside this module
    """Why a task is not created, as a status of gRPC; never leaves this module."""

    def __init__(self, code: grpc.StatusCode, why: str) -> None:
        super().__init__(why)
        self.code = code


class TaskQueue:
    """The queue `name`, `projects/P/locations/L/queues/Q`.

    `clock` gives seconds since the epoch. The first pause after a call that failed
    lasts `pause_seconds`.
    """

    def __init__(
        self, name: str, *, pause_seconds: float = 1.0, clock: Callable[[], float] = time.time
    ) -> None:
        self.name = name
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._names = _Names()
        self._changed = threading.Condition()
        self._ended = False
        self._callers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="task")
        self._dispatcher = threading.Thread(target=self._dispatch, name="queue", daemon=True)
        self._server = grpc.server(ThreadPoolExecutor(2, thread_name_prefix="queue"))
        create = grpc.unary_unary_rpc_method_handler(
            self._create,
            request_deserializer=tasks_v2.CreateTaskRequest.deserialize,
            response_serializer=tasks_v2.Task.serialize,
        )
        handler = grpc.method_handlers_generic_handler(SERVICE, {"CreateTask": create})
        self._server.add_generic_rpc_handlers((handler,))

    def start(self, address: str) -> None:
        """Listen at `host:port`, on loopback, and begin to call.

        Raises `ChildError` if somebody else listens there.
        """
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            cure = "use another port"
            raise ChildError(str(error), where="tasks", cure=cure, port_taken=True) from error
        self._server.start()
        self._dispatcher.start()

    def stop(self) -> None:
        """Call nothing any more, and forget all tasks; a call under way may yet be answered."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._server.stop(grace=None)
        self._callers.shutdown(wait=False, cancel_futures=True)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the names of the tasks that have not succeeded, without their queue."""
        with self._changed:
            return tuple(name.rpartition("/")[2] for name in self._names.waiting)

    @property
    def busy(self) -> bool:
        """Tell whether a task is due, or its call under way."""
        with self._changed:
            now = self._clock()
            return any(one.under_way or one.due_at <= now for one in self._names.waiting.values())

    def lose(self, name: str) -> None:
        """Remove a task, as a purge of the queue does: its name stays taken."""
        with self._changed:
            self._gone(f"{self.name}/tasks/{name}")

    def _create(self, request: tasks_v2.CreateTaskRequest, context: Any) -> tasks_v2.Task:
        try:
            return self._created(request)
        except _Refused as refused:
            context.abort(refused.code, str(refused))
            raise

    def _created(self, request: tasks_v2.CreateTaskRequest) -> tasks_v2.Task:
        task = request.task
        if request.parent != self.name:
            raise _Refused(grpc.StatusCode.NOT_FOUND, f"there is no queue {request.parent}")
        task.name = task.name or f"{self.name}/tasks/{uuid.uuid4().hex}"
        if why := self._fault_of(task):
            raise _Refused(grpc.StatusCode.INVALID_ARGUMENT, why)
        with self._changed:
            now = self._clock()
            if self._names.taken(task.name, now):
                why = f"{task.name} exists, or did so less than an hour ago"
                raise _Refused(grpc.StatusCode.ALREADY_EXISTS, why)
            due_at = task.schedule_time.timestamp() if task.schedule_time else now
            self._names.waiting[task.name] = _Waiting(task, max(due_at, now))
            self._changed.notify_all()
        return task

    def _fault_of(self, task: tasks_v2.Task) -> str:
        queue, _, name = task.name.rpartition("/tasks/")
        if queue != self.name or not _NAME.fullmatch(name):
            return f"{task.name!r} is no name of a task in this queue"
        if not _URL.fullmatch(task.http_request.url):
            return "a task needs an http_request with a url"
        if not LEAST_DEADLINE_SECONDS <= _deadline_seconds(task) <= MOST_DEADLINE_SECONDS:
            return "the dispatch_deadline must be from 15 s to 30 min"
        return ""

    def _dispatch(self) -> None:
        with self._changed:
            while not self._ended:
                now = self._clock()
                for waiting in self._names.waiting.values():
                    if waiting.due_at <= now and not waiting.under_way:
                        waiting.under_way = True
                        self._callers.submit(self._call, waiting)
                self._changed.wait(LOOK_SECONDS)

    def _call(self, waiting: _Waiting) -> None:
        """Make one call; a task that it succeeds for is gone, any other due again later."""
        task = waiting.task
        try:
            status = post(
                task.http_request.url,
                task.http_request.body,
                {**task.http_request.headers, **self._headers(waiting)},
                seconds=_deadline_seconds(task),
            )
        except OSError:
            status = 0
        with self._changed:
            waiting.under_way = False
            waiting.calls += 1
            if 200 <= status < 300:
                self._gone(task.name)
            else:
                pause_seconds = self._pause_seconds * (1 << min(waiting.calls - 1, 16))
                waiting.due_at = self._clock() + min(pause_seconds, MOST_PAUSE_SECONDS)

    def _gone(self, name: str) -> None:
        if self._names.waiting.pop(name, None):
            self._names.tombstones[name] = self._clock()

    def _headers(self, waiting: _Waiting) -> dict[str, str]:
        return {
            "User-Agent": "Google-Cloud-Tasks",
            "X-CloudTasks-QueueName": self.name.rpartition("/")[2],
            "X-CloudTasks-TaskName": waiting.task.name.rpartition("/")[2],
            "X-CloudTasks-TaskRetryCount": str(waiting.calls),
            "X-CloudTasks-TaskETA": f"{waiting.due_at:.6f}",
        }


def _deadline_seconds(task: tasks_v2.Task) -> float:
    return task.dispatch_deadline.total_seconds() if task.dispatch_deadline else DEADLINE_SECONDS
