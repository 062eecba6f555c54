"""`python -m gate sweep` and `backfill`, over a deployment in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gate import cli, reconcile, wiring
from gate.errors import StoreBusyError
from gate.job import State
from gate.names import Component
from gate.sweep import Counts
from tests.world import BUCKET, World, raising

ENVIRONMENT = {"SINK": "gs://datasets/out", "SOURCE_BUCKET": BUCKET, "SOURCE_PREFIX": "in/"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a deployment that the environment names, its bucket read by pages of two objects."""
    monkeypatch.setattr(reconcile, "PAGE_OBJECTS", 2)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = World(**ENVIRONMENT)
    monkeypatch.setattr(wiring.Gate, "_store", made.reconcile.store)
    monkeypatch.setattr(wiring.Gate, "_source", made.reconcile.source)
    monkeypatch.setattr(wiring.Gate, "ingest", made.ingest)
    monkeypatch.setattr(wiring.Gate, "letters", made.letters)
    return made


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run a command that succeeds; return what it printed, read as JSON."""
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_sweep_by_hand_prints_what_it_did(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 5: the answer is on standard output, the log on standard error."""
    world.upload_bundle("in/roads")
    assert answered(capsys, "sweep") == {**Counts().as_json(), "objects": 3, "recorded": 3}
    world.clock.advance(30)
    assert answered(capsys, "sweep") == {**Counts().as_json(), "manifests": 1, "jobs": 1}
    assert world.states == [State.DONE]
    assert cli.main(["sweep"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "jobs        0"
    assert '"message": "sweep"' in printed.err


def test_a_sweep_that_fails_is_one_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """F13: whoever sweeps by hand is told what kept it, and gets exit code 1."""
    world.faults.before("store.due_jobs", raising(StoreBusyError("unavailable")))
    assert cli.main(["sweep"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("unavailable")


def test_a_backfill_records_what_lies_there(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """H6: a backfill records, sweeps load, and another backfill finds nothing."""
    world.upload_bundle("in/roads")
    world.upload_bundle("in/deep/rivers", "other")
    world.upload_bundle("elsewhere/roads")
    assert answered(capsys, "backfill", "--dry-run") == {"objects": 6, "unknown": 6}
    assert world.store.claims == {}
    assert answered(capsys, "backfill", "--prefix", "in/deep/") == {"objects": 3, "unknown": 3}
    assert answered(capsys, "backfill") == {"objects": 6, "unknown": 3}
    world.settle()
    assert world.states == [State.DONE, State.DONE]
    capsys.readouterr()
    assert answered(capsys, "backfill") == {"objects": 6, "unknown": 0}


def test_a_backfill_that_was_interrupted_goes_on(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """H6: what stands in the way is told in one line; the next call begins where it stopped."""
    world.upload_bundle("in/roads")
    world.upload_bundle("in/rivers")

    def fail_second(operation: str, _name: str) -> None:
        if operation == "page" and world.store.claims:
            raise StoreBusyError("unavailable")

    world.source.before = fail_second
    assert cli.main(["backfill"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("unavailable")
    world.source.before = lambda _operation, _name: None
    assert answered(capsys, "backfill") == {"objects": 4, "unknown": 4}


def test_a_backfill_through_a_topic_records_nothing(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H6: with `--publish`, every unknown object is handed to the topic, page by page."""
    events = world.upload_bundle("in/roads")
    published: list[tuple[str, list[tuple[str, int]]]] = []

    def notifications(_gate: object, topic: str) -> Any:
        def publish(found: Iterable[tuple[Component, int]]) -> None:
            published.append((topic, [(component.name, number) for component, number in found]))

        return publish

    monkeypatch.setattr(wiring.Gate, "notifications", notifications)
    assert answered(capsys, "backfill", "--publish", "uploads") == {"objects": 3, "unknown": 3}
    assert [topic for topic, _ in published] == ["uploads", "uploads"]
    assert sorted(each for _, page in published for each in page) == sorted(
        (event.name, event.generation) for event in events
    )
    assert world.store.claims == {}


@pytest.mark.parametrize(
    ("environment", "prefix", "where"),
    [
        ({"SOURCE_BUCKET": ""}, "", "SOURCE_BUCKET: it is not set"),
        ({}, "out/", "out/: it lies outside SOURCE_PREFIX=in/"),
    ],
)
def test_a_backfill_needs_a_bucket_and_a_place_in_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
    prefix: str,
    where: str,
) -> None:
    """Case 64: what cannot be gone through is told before anything is asked of a service."""
    for name, value in {**ENVIRONMENT, **environment}.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["backfill", "--prefix", prefix]) == 1
    assert capsys.readouterr().err.startswith(where)


def test_a_deployment_without_a_bucket_sweeps_all_the_same(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design 7.3: where no bucket is named, there is no pass over it, and the rest is done."""
    monkeypatch.setenv("SOURCE_BUCKET", "")
    world.redeliver(*world.upload_bundle("in/roads")[:-1])
    world.clock.advance(30)
    capsys.readouterr()
    found = answered(capsys, "sweep")
    assert (found["objects"], found["jobs"]) == (0, 1)


@pytest.mark.parametrize("arguments", [("sweep",), ("backfill", "--dry-run", "--json")])
def test_an_answer_that_nobody_takes_is_no_traceback(
    world: World, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """Case 64: with standard output on a full disk, or its reader gone, the exit code is 1."""
    world.upload_bundle("in/roads")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        code = cli.main(arguments)
    assert code == 1
