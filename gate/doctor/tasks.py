"""Checks of the queue of tasks, and of the function that its tasks call.

Cloud Tasks gives a task up once both limits of its queue are reached, tries and
time (Cloud Tasks, `RetryConfig`), and waits 1800 s for an answer. A call is for
one address: with any other Cloud Run answers 404, or 401 for the token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gate.doctor import called, trigger
from gate.doctor.finding import Finding, failed, ok
from gate.doctor.function import Function
from gate.tasking import MOST_WORK_SECONDS, Tasking

ENQUEUE = ("roles/cloudtasks.enqueuer", "roles/cloudtasks.admin", "roles/editor", "roles/owner")
ACT_AS = ("roles/iam.serviceAccountUser", "roles/editor", "roles/owner")

# A task that is tried no longer than this is lost with the first trouble that lasts.
LEAST_RETRY_SECONDS = 3_600
UNLIMITED = -1

# An account that a person has made; the name of the platform's own tells no project.
_ACCOUNT = re.compile(r"[^@]+@([a-z0-9-]+)\.iam\.gserviceaccount\.com")


@dataclass(frozen=True, slots=True)
class Queue:
    """Where a queue is."""

    project: str
    location: str
    name: str

    @property
    def where(self) -> str:
        """Return how findings name the queue."""
        return f"queue {self.name}"

    def command(self, verb: str) -> str:
        """Return the command that does something with the queue."""
        at = f"--location={self.location} --project={self.project}"
        return f"gcloud tasks queues {verb} {self.name} {at}"


def place(queue: str) -> Queue:
    """Return where `projects/P/locations/L/queues/Q` is."""
    _, project, _, location, _, name = queue.split("/")
    return Queue(project, location, name)


def home(account: str) -> str:
    """Return the project that a service account is of; empty where its address does not tell."""
    found = _ACCOUNT.fullmatch(account)
    return found[1] if found else ""


def checks(queue: Queue, described: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield whether a queue calls its tasks, and goes on calling those that fail."""
    where = queue.where
    state = described.get("state", "")
    if state == "RUNNING":
        yield ok("queue", where, "it calls its tasks")
    else:
        yield failed(
            "queue",
            where,
            f"its state is {state or 'unknown'}: no task is called",
            queue.command("resume"),
        )
    limits = described.get("retryConfig", {})
    seconds = float(str(limits.get("maxRetryDuration", "0s")).removesuffix("s"))
    attempts = limits.get("maxAttempts", UNLIMITED)
    if attempts == UNLIMITED or seconds >= LEAST_RETRY_SECONDS:
        yield ok("queue_retry", where, "a task that fails is called again")
    else:
        yield failed(
            "queue_retry",
            where,
            f"a task is given up after {attempts} calls, which may be soon",
            f"{queue.command('update')} --max-retry-duration=86400s",
        )


def work(
    found: Function, ingest: Function, tasks: Tasking, addresses: tuple[str, ...]
) -> Iterator[Finding]:
    """Yield what is found about the function `work` beside the one that takes events.

    `addresses` are those that it answers at.
    """
    yield trigger.running(found)
    yield trigger.concurrency(found)
    yield called.over_http("work", found)
    yield called.same_settings("work_settings", found, ingest, ("FUNCTION_TIMEOUT_SECONDS",))
    if found.timeout_seconds <= MOST_WORK_SECONDS:
        yield ok("work_timeout", found.where, f"a call may take {found.timeout_seconds} s")
    else:
        yield failed(
            "work_timeout",
            found.where,
            f"its timeout is {found.timeout_seconds} s, and a task waits {MOST_WORK_SECONDS} s",
            f"deploy it with --timeout={MOST_WORK_SECONDS}s",
        )
    if tasks.url.rstrip("/") in addresses:
        yield ok("work_url", found.where, "tasks call it")
    else:
        yield failed(
            "work_url",
            found.where,
            f"tasks call {tasks.url}, which is not its address",
            f"deploy all functions with WORK_URL={addresses[-1]}",
        )
