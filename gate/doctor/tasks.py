"""Checks of the queue of tasks, and of the function that its tasks call.

Cloud Tasks gives a task up once both limits of its queue are reached, tries and
time (Cloud Tasks, `RetryConfig`), and waits 1800 s for an answer. A call is for
one address: with any other Cloud Run answers 404, or 401 for the token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def place(queue: str) -> tuple[str, str]:
    """Return name and location of `projects/P/locations/L/queues/Q`."""
    parts = queue.split("/")
    return parts[5], parts[3]


def checks(queue: str, described: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield whether a queue calls its tasks, and goes on calling those that fail."""
    name, _ = place(queue)
    where = f"queue {name}"
    state = described.get("state", "")
    if state == "RUNNING":
        yield ok("queue", where, "it calls its tasks")
    else:
        yield failed(
            "queue",
            where,
            f"its state is {state or 'unknown'}: no task is called",
            f"gcloud tasks queues resume {name}",
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
            f"gcloud tasks queues update {name} --max-retry-duration=86400s",
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
