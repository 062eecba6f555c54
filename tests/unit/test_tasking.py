"""Who runs jobs: the settings of the executor and of its queue."""

from __future__ import annotations

import pytest

from gate.environment import SettingsError
from gate.settings import for_reading, load
from gate.tasking import MOST_WORK_SECONDS, Executor, Tasking

QUEUE = "projects/p/locations/europe-west1/queues/shapefile-gate"
URL = "https://work-abc.a.run.app"
ACCOUNT = "tasks@p.iam.gserviceaccount.com"
TASKS = {
    "SINK": "gs://datasets/out",
    "EXECUTOR": "tasks",
    "TASK_QUEUE": QUEUE,
    "WORK_URL": URL,
    "TASK_SERVICE_ACCOUNT": ACCOUNT,
}


def problems(**changes: str) -> tuple[str, ...]:
    """Return what is wrong with an environment that hands over; fails if nothing is."""
    with pytest.raises(SettingsError) as caught:
        load({**TASKS, **changes})
    return caught.value.problems


def test_an_event_runs_its_job_unless_told_otherwise() -> None:
    """Issue 7: the default needs no queue."""
    tasking = load({"SINK": "gs://datasets/out"}).tasks
    assert tasking == Tasking(Executor.INLINE, "", "", "")
    assert not tasking.hands_over


def test_tasks_have_a_queue_an_address_and_an_account() -> None:
    """Issue 7: `EXECUTOR=tasks` and what it needs are read."""
    tasking = load(TASKS).tasks
    assert tasking == Tasking(Executor.TASKS, QUEUE, URL, ACCOUNT)
    assert tasking.hands_over


@pytest.mark.parametrize("variable", ["TASK_QUEUE", "WORK_URL", "TASK_SERVICE_ACCOUNT"])
def test_without_what_it_needs_it_does_not_start(variable: str) -> None:
    """Issue 7: what tasks lack is named at the start, and why it is needed."""
    assert problems(**{variable: ""}) == (f"{variable}: is not set, and EXECUTOR=tasks needs it",)


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("EXECUTOR", "threads", "'threads' is no executor; use inline or tasks"),
        ("TASK_QUEUE", "shapefile-gate", "is no queue; use projects/"),
        ("TASK_QUEUE", f"{QUEUE}/tasks/t", "is no queue; use projects/"),
        ("WORK_URL", "work-abc.a.run.app", "is no address of a function"),
        ("WORK_URL", "http://work-abc.a.run.app", "with https://"),
        ("WORK_URL", "ftp://127.0.0.1/", "is no address of a function"),
        ("WORK_URL", "https:///work", "is no address of a function"),
        ("WORK_URL", "https://[work", "is no address of a function"),
        ("TASK_SERVICE_ACCOUNT", f"serviceAccount:{ACCOUNT}", "use its e-mail address"),
        ("TASK_SERVICE_ACCOUNT", "tasks", "is no service account; use its e-mail address"),
    ],
)
def test_what_cannot_be_used_is_told(variable: str, text: str, told: str) -> None:
    """Issue 7: a queue, an address or an account that cannot be one is refused with the cure."""
    [problem] = problems(**{variable: text})
    assert problem.startswith(f"{variable}: ")
    assert told in problem


def test_an_address_on_this_machine_needs_no_encryption() -> None:
    """Issue 7: the local stack calls `work` by plain http."""
    assert load({**TASKS, "WORK_URL": "http://127.0.0.1:8080/"}).tasks.url.startswith("http://")


def test_no_run_outlasts_the_call_of_a_task() -> None:
    """Issue 7: a function may not be told more time than a task waits for it."""
    most = str(MOST_WORK_SECONDS)
    assert load({**TASKS, "FUNCTION_TIMEOUT_SECONDS": most}).limits.run.total_seconds() == 1620
    [problem] = problems(FUNCTION_TIMEOUT_SECONDS="1801")
    assert problem.startswith("FUNCTION_TIMEOUT_SECONDS: 1801 is longer than a task waits")
    alone = {"SINK": "gs://datasets/out", "FUNCTION_TIMEOUT_SECONDS": "1801"}
    assert load(alone).tasks.executor is Executor.INLINE


def test_whoever_only_reads_needs_no_queue() -> None:
    """Issue 7: commands that run nothing work with half of the environment."""
    assert not for_reading({"EXECUTOR": "tasks"}).tasks.hands_over
