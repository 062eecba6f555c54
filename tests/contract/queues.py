"""Benches for queues of tasks: the queue, its clock, and what it has called."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gate.local.processes import LOOPBACK, free_ports
from gate.local.task_queue import TaskQueue
from gate.tasking import Executor, Tasking
from gate.tasks.cloud_tasks import EMULATOR_VARIABLE, CloudTasks
from gate.tasks.memory import PAUSE, MemoryTasks
from gate.tasks.port import Tasks
from tests.contract.stores import Clock

QUEUE = "projects/p/locations/l/queues/q"
ACCOUNT = "tasks@p.iam.gserviceaccount.com"
PATIENCE_SECONDS = 10.0


class QueueBench(ABC):
    """One queue under test. `payloads` are those of all calls; `succeeds` says how they end."""

    tasks: Tasks

    def __init__(self) -> None:
        self.clock = Clock()
        self.payloads: list[Any] = []
        self.succeeds = True

    @abstractmethod
    def run(self) -> None:
        """Let the queue make every call that is due now."""

    @abstractmethod
    def waiting(self) -> list[str]:
        """Return the names of the tasks that have not succeeded."""

    @abstractmethod
    def lose(self, name: str) -> None:
        """Remove a task, as a purge does."""

    def called(self, payload: Mapping[str, Any]) -> bool:
        """Take a call."""
        self.payloads.append(dict(payload))
        return self.succeeds


class MemoryBench(QueueBench):
    """The queue in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: MemoryTasks = MemoryTasks(self.clock)

    def run(self) -> None:
        """See `QueueBench.run`."""
        self.tasks.run(self.called)

    def waiting(self) -> list[str]:
        """See `QueueBench.waiting`."""
        return [task.name for task in self.tasks.waiting]

    def lose(self, name: str) -> None:
        """See `QueueBench.lose`."""
        self.tasks.lose(name)


class CloudBench(QueueBench):
    """The client of Cloud Tasks over the stand-in, which calls a server of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.headers: list[Message] = []
        self.queue = TaskQueue(
            QUEUE, pause_seconds=PAUSE.total_seconds(), clock=lambda: self.clock().timestamp()
        )
        [port] = free_ports(1)
        self.queue.start(f"{LOOPBACK}:{port}")
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _answering(self))
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv(EMULATOR_VARIABLE, f"{LOOPBACK}:{port}")
        self.url = f"http://{LOOPBACK}:{self._server.server_port}/work"
        self.tasks = CloudTasks(Tasking(Executor.TASKS, QUEUE, self.url, ACCOUNT))

    def run(self) -> None:
        """See `QueueBench.run`."""
        until_seconds = time.monotonic() + PATIENCE_SECONDS
        while self.queue.busy:
            assert time.monotonic() < until_seconds, "the queue has not come to rest"
            time.sleep(0.01)

    def waiting(self) -> list[str]:
        """See `QueueBench.waiting`."""
        return list(self.queue.waiting)

    def lose(self, name: str) -> None:
        """See `QueueBench.lose`."""
        self.queue.lose(name)

    def close(self) -> None:
        """End what the bench has started."""
        self.queue.stop()
        self._server.shutdown()
        self._server.server_close()


def _answering(bench: CloudBench) -> type[BaseHTTPRequestHandler]:
    """Return what serves the calls of a bench's queue."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bench.headers.append(self.headers)
            self.send_response(204 if bench.called(json.loads(body)) else 409)
            self.end_headers()

        def log_message(self, *_ignored: object) -> None:
            """Say nothing."""

    return Answering
