"""The entry point `work`, posted to as Cloud Tasks does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gate.errors import ConfigurationError, StoreBusyError
from gate.job import State
from tests.posting import STATUS, posted_to, written
from tests.scenarios.test_tasks import TASKS
from tests.world import BUCKET, World, expected, raising


@pytest.fixture
def world() -> World:
    """Return a deployment whose jobs are run by tasks, with one that is queued."""
    world = World(**TASKS)
    for event in world.upload_bundle("in/roads"):
        world.deliver(event)
    return world


@pytest.fixture
def worker(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """Return a client of the deployed function `work`, whose gate is the world."""
    with posted_to(world, monkeypatch, "work", "http") as client:
        yield client


def call(worker: FlaskClient, body: object, **headers: str) -> TestResponse:
    """Make the call of a task."""
    return worker.post(
        "/",
        data=body if isinstance(body, bytes) else json.dumps(body),
        headers={"X-CloudTasks-TaskName": "t1", "X-CloudTasks-QueueName": "q", **headers},
    )


def payload(world: World) -> dict[str, Any]:
    """Return what the task of the queued job carries."""
    return dict(world.queue.waiting[0].payload)


def line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the one line of the ledger since the last call."""
    [found] = [one for one in written(capsys) if one["message"] == "task"]
    return found


def test_a_task_runs_its_job_and_leaves_one_line(
    worker: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 7: the call succeeds once the job has ended, and the ledger says which task it was."""
    response = call(worker, payload(world), **{"X-Cloud-Trace-Context": "abc123/1"})
    assert (response.status_code, response.json) == (200, {"outcome": "ran"})
    assert world.rows("in/roads") == expected("first")
    [job] = world.jobs
    assert line(capsys) == {
        "severity": "INFO",
        "message": "task",
        "decision": "ran",
        "detail": f"revision {job.id}, attempt 1",
        "state": "done",
        "task": "t1",
        "kind": "job",
        "bundle": "gs://uploads/in/roads",
        "job": job.id,
        "fence": 2,
        "attempt": 1,
        "logging.googleapis.com/trace": "projects/project/traces/abc123",
    }


def test_a_failed_attempt_is_called_again_and_slows_nobody_down(
    worker: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 7: what one job wants again is a 409, for at 503 Cloud Tasks throttles the queue."""
    world.source.damage = lambda content: content[:-1]
    assert call(worker, payload(world)).status_code == 409
    assert line(capsys)["state"] == "failed"
    response = call(worker, payload(world))
    assert (response.status_code, STATUS in response.headers) == (409, False)
    assert line(capsys)["decision"] == "in_progress"


def test_what_has_ended_succeeds(worker: FlaskClient, world: World) -> None:
    """A1: a call that comes twice succeeds twice."""
    task = payload(world)
    for outcome in ("ran", "needless"):
        response = call(worker, task)
        assert (response.status_code, response.json) == (200, {"outcome": outcome})


@pytest.mark.parametrize(
    ("fault", "status", "crash", "decision"),
    [
        (StoreBusyError("unavailable"), 503, None, "retry"),
        (ConfigurationError("no database"), 500, "crash", "misconfigured"),
        (KeyError("nobody foresaw"), 500, "crash", "crashed"),
    ],
)
def test_a_call_that_a_fault_ends_comes_again(
    worker: FlaskClient,
    world: World,
    capsys: pytest.CaptureFixture[str],
    fault: Exception,
    status: int,
    crash: str | None,
    decision: str,
) -> None:
    """G1, G4: a fault that passes is a quiet 503, any other a crash; both leave their line."""
    world.faults.before("store.job", raising(fault))
    response = call(worker, payload(world))
    assert (response.status_code, response.headers.get(STATUS)) == (status, crash)
    told = line(capsys)
    assert (told["decision"], told["task"], told["kind"]) == (decision, "t1", "job")
    assert world.states == [State.QUEUED]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"9" * 5_000,
        [1],
        "x",
        None,
        7,
        {},
        {"kind": ["job"]},
        {"kind": "job", "revision": None},
        {"kind": "job", "revision": "\ud800"},
    ],
    ids=lambda body: repr(body)[:24],
)
def test_a_body_that_is_no_task_succeeds_and_is_kept(
    worker: FlaskClient, world: World, capsys: pytest.CaptureFixture[str], body: object
) -> None:
    """A10: whatever the body, it is one dead letter, and is not called again for days."""
    response = call(worker, body)
    assert (response.status_code, response.json) == (200, {"outcome": "malformed"})
    assert line(capsys)["decision"] == "malformed"
    [letter] = world.sent.sent
    assert letter.body["event"] == "t1"
    assert letter.code == "malformed_event"


def test_a_letter_that_cannot_be_sent_keeps_its_task(worker: FlaskClient, world: World) -> None:
    """A10: a malformed task succeeds only once its letter is stored."""
    world.faults.before("letters.send", raising(StoreBusyError("unavailable")))
    assert call(worker, {}).status_code == 503
    assert call(worker, {}).status_code == 200
    assert len(world.sent.sent) == 1


@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_work_is_posted(worker: FlaskClient, world: World, method: str) -> None:
    """A13: whoever merely looks at the address starts nothing."""
    before = list(world.faults.calls)
    response = getattr(worker, method)("/")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert world.faults.calls == before


def test_the_line_of_a_look_names_the_object_that_led_to_it(
    worker: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 7: of a bundle that waits for a look nothing else is known than what this line says."""
    world.upload("in/lone.shp")
    look = {"kind": "poll", "bucket": BUCKET, "name": "in/lone.shp", "chain": "0" * 32}
    response = call(worker, {**look, "attempt": 1})
    assert (response.status_code, response.json) == (200, {"outcome": "scheduled"})
    told = line(capsys)
    assert (told["kind"], told["name"], told["decision"]) == ("poll", "in/lone.shp", "scheduled")
    assert told["detail"].startswith("needs .shx .dbf; look 2 by a task")
