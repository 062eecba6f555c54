"""Who runs a job that was dispatched, and the queue of tasks that this may need.

inline   the event that dispatched it, or the sweep
tasks    a task, which calls the function `work`: it may take half an hour
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from gate.environment import Environment

# Cloud Tasks waits no longer for the answer to a call (Task.dispatch_deadline).
MOST_WORK_SECONDS = 1_800

_QUEUE = re.compile(r"projects/[^/\s]+/locations/[^/\s]+/queues/[A-Za-z0-9-]{1,100}")
_ACCOUNT = re.compile(r"[A-Za-z0-9-]+@[A-Za-z0-9.-]+")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Executor(Enum):
    """Who runs jobs, by the name that `EXECUTOR` has for it."""

    INLINE = "inline"
    TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class Tasking:
    """Who runs jobs, and the queue: empty, unless something is to be enqueued.

    `url` is that of the function `work`, and `account` the service account in
    whose name the queue calls it.
    """

    executor: Executor
    queue: str
    url: str
    account: str

    @property
    def hands_over(self) -> bool:
        """Tell whether jobs are given to tasks."""
        return self.executor is Executor.TASKS


def load(stated: Environment, *, polled: bool, timeout_seconds: int) -> Tasking:
    """Return what the environment states; what is wrong of it is kept there.

    `polled` tells that the gate enqueues tasks too. `timeout_seconds` is that
    of the function.
    """
    executor = stated.checked("EXECUTOR", _executor, Executor.INLINE)
    needed_by = "GATE=poll" if polled else ""
    if executor is Executor.TASKS:
        needed_by = "EXECUTOR=tasks"
    if needed_by and timeout_seconds > MOST_WORK_SECONDS:
        stated.problem(
            "FUNCTION_TIMEOUT_SECONDS",
            f"{timeout_seconds} is longer than a task waits for the function `work`; deploy it"
            f" with {MOST_WORK_SECONDS}",
        )
    tasking = Tasking(
        executor=executor,
        queue=stated.checked("TASK_QUEUE", _queue, ""),
        url=stated.checked("WORK_URL", _url, ""),
        account=stated.checked("TASK_SERVICE_ACCOUNT", _account, ""),
    )
    for variable in ("TASK_QUEUE", "WORK_URL", "TASK_SERVICE_ACCOUNT"):
        if needed_by and not stated.states(variable):
            stated.problem(variable, f"is not set, and {needed_by} needs it")
    return tasking


def _executor(text: str) -> Executor:
    try:
        return Executor(text)
    except ValueError:
        raise ValueError(f"{text!r} is no executor; use inline or tasks") from None


def _queue(text: str) -> str:
    if text and not _QUEUE.fullmatch(text):
        raise ValueError(f"{text!r} is no queue; use projects/PROJECT/locations/REGION/queues/NAME")
    return text


def _url(text: str) -> str:
    if text and not _is_address(text):
        raise ValueError(f"{text!r} is no address of a function; use that of `work`, with https://")
    return text


def _is_address(text: str) -> bool:
    """Tell whether it is one that may carry a token: encrypted, or on this machine."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    encrypted = parts.scheme == "https" or parts.hostname in _LOOPBACK
    return bool(parts.hostname) and parts.scheme in ("http", "https") and encrypted


def _account(text: str) -> str:
    if text and not _ACCOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is no service account; use its e-mail address")
    return text
