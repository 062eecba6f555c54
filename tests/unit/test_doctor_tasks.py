"""The doctor's checks of the queue of tasks, and of the function that they call."""

from __future__ import annotations

from typing import Any

import pytest

from gate.doctor import examination, tasks
from gate.doctor.finding import Finding, Verdict
from gate.doctor.function import parse
from tests.deployments import (
    ANSWERS,
    CALLER,
    PROJECT,
    RUNTIME,
    TASKING,
    TRIGGER,
    WORK_URI,
    Cloud,
    description,
    policy,
    sweep,
    work,
)

REGION = "europe-west1"
SWEEP = f"functions describe gate-sweep --gen2 --region={REGION}"
WORK = f"functions describe gate-work --gen2 --region={REGION}"
QUEUE = f"tasks queues describe gate-work --location={REGION}"


def found(changes: dict[str, Any], environment: dict[str, str] = TASKING) -> list[Finding]:
    """Return what is not in order in a deployment with a queue, sound but for these answers."""
    service = {"environmentVariables": environment}
    cloud = Cloud({SWEEP: sweep(service=service), **changes})
    project = examination.Project(cloud, PROJECT)
    function = parse(description(service=service))
    findings = examination.examine(function, project)
    return [each for each in findings if each.verdict is not Verdict.OK]


def only(findings: list[Finding]) -> tuple[Verdict, str, str]:
    """Return verdict, check and text of the only finding."""
    [one] = findings
    assert one.todo
    return one.verdict, one.check, str(one)


def test_a_sound_queue_is_found_sound() -> None:
    """Issue 7: a deployment that gives jobs to tasks passes every check."""
    assert found({}) == []


def test_the_address_may_be_either_of_the_two() -> None:
    """Issue 7: Cloud Run answers at the address with a hash, too."""
    values = {**TASKING, "WORK_URL": f"{WORK_URI}/"}
    called = work(service={"environmentVariables": {**values, "FUNCTION_TIMEOUT_SECONDS": "1800"}})
    assert found({WORK: called}, values) == []


def test_a_queue_of_another_project_is_asked_for_there() -> None:
    """Issue 7: queue, account and grants are looked for in the projects that their names state."""
    account = "tasks@shared.iam.gserviceaccount.com"
    name = f"projects/other/locations/{REGION}/queues/gate-work"
    values = {**TASKING, "TASK_QUEUE": name, "TASK_SERVICE_ACCOUNT": account}
    runs = {"environmentVariables": values}
    cloud = Cloud()
    other = "--project=other"
    enqueuer = policy(("roles/cloudtasks.enqueuer", RUNTIME))
    calling = {**values, "FUNCTION_TIMEOUT_SECONDS": "1800"}
    cloud.answers = {
        **{command: answer for command, answer in ANSWERS.items() if "tasks queues" not in command},
        SWEEP: sweep(service=runs),
        WORK: work(service={"environmentVariables": calling}),
        f"{QUEUE} {other}": {"state": "PAUSED"},
        f"tasks queues get-iam-policy gate-work --location={REGION} {other}": {"version": 1},
        f"projects get-iam-policy other {other}": enqueuer,
        f"iam service-accounts get-iam-policy {account}": {"version": 1},
        "projects get-iam-policy shared": policy(("roles/iam.serviceAccountUser", RUNTIME)),
        f"run services get-iam-policy gate-work --region={REGION}": policy(
            ("roles/run.invoker", account)
        ),
    }
    function = parse(description(service=runs))
    found = examination.examine(function, examination.Project(cloud, PROJECT))
    verdict, check, said = only([each for each in found if each.verdict is not Verdict.OK])
    assert (verdict, check) == (Verdict.FAILED, "queue")
    assert said.endswith(
        "; gcloud tasks queues resume gate-work --location=europe-west1 --project=other"
    )


@pytest.mark.parametrize(
    ("account", "project"),
    [
        (CALLER, PROJECT),
        ("123-compute@developer.gserviceaccount.com", ""),
        ("tasks@acme.example.com.iam.gserviceaccount.com", ""),
    ],
)
def test_the_project_of_an_account_is_read_from_its_address(account: str, project: str) -> None:
    """Issue 7: where the address of an account names no project, none is made up."""
    assert tasks.home(account) == project


def test_another_address_fails() -> None:
    """Issue 7: tasks that call somebody else are never done; the right address is named."""
    values = {**TASKING, "WORK_URL": "https://other.run.app"}
    called = work(service={"environmentVariables": {**values, "FUNCTION_TIMEOUT_SECONDS": "1800"}})
    verdict, check, said = only(found({WORK: called}, values))
    assert (verdict, check) == (Verdict.FAILED, "work_url")
    assert said.endswith("WORK_URL=https://gate-work-123.europe-west1.run.app")


@pytest.mark.parametrize("state", ["PAUSED", None])
def test_a_queue_that_does_not_run_fails(state: str | None) -> None:
    """Issue 7: a queue that is paused calls nobody."""
    verdict, check, said = only(found({QUEUE: {"state": state} if state else {}}))
    assert (verdict, check) == (Verdict.FAILED, "queue")
    assert f"its state is {state or 'unknown'}" in said


@pytest.mark.parametrize(
    ("limits", "given_up"),
    [
        ({}, False),
        ({"maxAttempts": -1}, False),
        ({"maxAttempts": 1, "maxRetryDuration": "3600s"}, False),
        ({"maxAttempts": 1}, True),
        ({"maxAttempts": 100, "maxRetryDuration": "60s"}, True),
    ],
)
def test_a_queue_that_gives_up_soon_fails(limits: dict[str, Any], given_up: bool) -> None:
    """Issue 7: a task that is given up after a few tries is lost with its job."""
    answer = {"state": "RUNNING", "retryConfig": limits}
    unwelcome = found({QUEUE: answer})
    assert [each.check for each in unwelcome] == ["queue_retry"] * given_up
    at = f"--location={REGION} --project={PROJECT}"
    cure = f"gcloud tasks queues update gate-work {at} --max-retry-duration=86400s"
    assert all(each.todo == cure for each in unwelcome)


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        (work(eventTrigger=description()["eventTrigger"]), "work"),
        (work(state="FAILED"), "state"),
        (work(service={"maxInstanceRequestConcurrency": 80}), "concurrency"),
        (work(service={"timeoutSeconds": 3600}), "work_timeout"),
        (work(service={"timeoutSeconds": 540}), "run_time"),
        (
            work(
                service={
                    "environmentVariables": {
                        **TASKING,
                        "SINK": "gs://acme-elsewhere/c",
                        "FUNCTION_TIMEOUT_SECONDS": "1800",
                    }
                }
            ),
            "work_settings",
        ),
    ],
)
def test_a_function_that_tasks_cannot_use_fails(changed: dict[str, Any], check: str) -> None:
    """Issue 7: what keeps tasks from being done, or does them elsewhere, is a failure."""
    verdict, told, _ = only(found({WORK: changed}))
    assert (verdict, told) == (Verdict.FAILED, check)


def test_settings_that_cannot_be_used_fail() -> None:
    """Issue 7: a function with settings of which nothing starts is told so."""
    broken = work(service={"environmentVariables": {}})
    failures = [each.check for each in found({WORK: broken})]
    assert failures == ["work_settings", "settings"]


@pytest.mark.parametrize(
    ("command", "account", "what"),
    [
        (f"tasks queues get-iam-policy gate-work --location={REGION}", RUNTIME, "make tasks"),
        (f"iam service-accounts get-iam-policy {CALLER}", RUNTIME, "let tasks call as it"),
        (f"run services get-iam-policy gate-work --region={REGION}", CALLER, "call the function"),
    ],
)
def test_a_grant_that_tasks_need_fails(command: str, account: str, what: str) -> None:
    """I8: whoever lacks a role for tasks is named, with the role that would do."""
    verdict, check, said = only(found({command: {"version": 1}}))
    assert (verdict, check) == (Verdict.FAILED, "grants")
    assert f"{account} may not {what}; grant it roles/" in said


def test_a_queue_that_may_not_be_seen_is_unchecked() -> None:
    """Issue 7: without access to the queue, the rest is still checked."""
    verdict, check, _ = only(found({QUEUE: None}))
    assert (verdict, check) == (Verdict.UNCHECKED, "queue")


LOADER = "projects/acme/locations/europe-west1/functions/loader"


def roles(**names: str) -> tuple[list[Finding], list[str]]:
    """Return what is unwelcome about a sound function called `loader`, and what was asked."""
    service = {"environmentVariables": TASKING}
    cloud = Cloud({SWEEP: sweep(service=service)})
    cloud.answers[f"run services get-iam-policy loader --region={REGION}"] = policy(
        ("roles/run.invoker", TRIGGER)
    )
    function = parse(description(service=service, name=LOADER))
    found = examination.examine(function, examination.Project(cloud, PROJECT), **names)
    return [each for each in found if each.verdict is not Verdict.OK], cloud.asked


def test_functions_that_cannot_be_told_are_asked_for() -> None:
    """Issue 7: no function is examined in two roles; of those not known the flag is named."""
    found, asked = roles()
    assert [(each.verdict, each.check, each.todo) for each in found] == [
        (Verdict.UNCHECKED, "sweep", "name the function with --sweep"),
        (Verdict.UNCHECKED, "work", "name the function with --work"),
    ]
    assert not [command for command in asked if command.startswith("functions describe")]


def test_functions_of_any_name_are_examined_once_they_are_named() -> None:
    """Issue 7: with `--sweep` and `--work`, a function of any name takes events."""
    found, asked = roles(sweep_name="gate-sweep", work_name="gate-work")
    assert {each.check for each in found} <= {"sweep_settings", "work_settings"}
    assert [each for each in asked if each.startswith("functions describe")] == [SWEEP, WORK]


@pytest.mark.parametrize(
    ("names", "checks"),
    [
        ({"sweep_name": "loader", "work_name": "gate-work"}, ["sweep"]),
        ({"sweep_name": "gate-sweep", "work_name": "loader"}, ["work"]),
        ({"sweep_name": "gate-work", "work_name": "gate-work"}, ["sweep", "work"]),
    ],
)
def test_one_function_named_for_two_roles_is_refused(
    names: dict[str, str], checks: list[str]
) -> None:
    """Issue 7: advice for one role would harm a function that has another one too."""
    found, _ = roles(**names)
    assert [each.check for each in found if each.verdict is Verdict.UNCHECKED] == checks
