"""Real processes of the function that are told to stop, or are busy for longer than a lease."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.identity import Pin, Revision
from gate.local.processes import post
from gate.local.stack import SOURCE_BUCKET, Stack
from tests.e2e.conftest import SETTINGS, World
from tests.shapefiles import points

ROOT = Path(__file__).parents[2]
PARTS = (".dbf", ".prj", ".shx", ".shp")
# No redelivery can outlast it: whatever takes the job over was given it.
LONG_LEASE = {"LEASE_SECONDS": "3600"}


@pytest.fixture(scope="module")
def shared_stack(_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack of its own, whose function reads slowly."""
    settings = {**SETTINGS, "PYTHONPATH": str(ROOT)}
    folder = tmp_path_factory.mktemp("slow")
    with Stack(settings, main=Path(__file__).with_name("slow.py"), folder=folder) as running:
        yield running


def begun(world: World, stem: str, rows: int) -> str:
    """Upload a layer, wait until its rows are being read, and return the id of its job."""
    world.upload_all(stem, points(rows), *PARTS)
    pins = {
        extension: Pin(f"{world.folder}{stem}{extension}", world.generations[f"{stem}{extension}"])
        for extension in PARTS
    }
    world.wait("a layer being read", lambda: world.count("reading", stem) > 0)
    return Revision.of(world.bundle(stem), pins).id


def told_to_stop(world: World) -> None:
    """Send SIGTERM to the server, as Cloud Run does, and wait until it has ended."""
    pid = world.stack.pids["function"]
    os.kill(pid, signal.SIGTERM)
    world.wait("the end of the function", lambda: world.stack.ended() is not None)


def redelivered(world: World, name: str) -> int:
    """Deliver the event of an object once more, and return the answer."""
    content = {
        "bucket": SOURCE_BUCKET,
        "name": f"{world.folder}{name}",
        "generation": str(world.generations[name]),
    }
    headers = {
        "Content-Type": "application/json",
        "ce-specversion": "1.0",
        "ce-id": name,
        "ce-type": "google.cloud.storage.object.v1.finalized",
        "ce-source": f"//storage.googleapis.com/projects/_/buckets/{SOURCE_BUCKET}",
    }
    return post(world.stack.function_url, json.dumps(content).encode(), headers)


def taken_over(world: World, stem: str, job: str) -> dict[str, Any]:
    """Start the function again, wait for the dataset, and return the job."""
    world.stack.restart_function({"SLOW_ROW_SECONDS": "0", **LONG_LEASE})
    world.wait_until_current(stem)
    world.wait("the end of the job", lambda: world.job(job)["state"] == "done")
    return world.job(job)


def test_a_worker_told_to_stop_gives_its_job_back_and_the_next_takes_it(world: World) -> None:
    """E2: SIGTERM frees the job within one batch, and its redelivery publishes it at once."""
    world.stack.restart_function({"SLOW_ROW_SECONDS": "0.1", **LONG_LEASE})
    job = begun(world, "roads", 600)
    told_to_stop(world)
    given = world.job(job)
    assert (given["state"], given["attempts"]) == ("failed", 0)
    assert [entry["code"] for entry in given["history"]] == ["shutdown"]
    assert given["next_attempt_at"] < given["lease_expires_at"]
    assert world.pointer("roads") is None

    done = taken_over(world, "roads", job)
    assert (done["fence"], done["attempts"]) == (2, 1)
    assert done["summary"]["loaded"] == 600


def test_a_worker_in_one_long_call_gives_its_job_back_too(world: World) -> None:
    """E2: SIGTERM frees the job while its worker hangs in a call, before the process is killed."""
    world.stack.restart_function({"SLOW_ROW_SECONDS": "600", **LONG_LEASE})
    job = begun(world, "lakes", 3)
    os.kill(world.stack.pids["function"], signal.SIGTERM)
    world.wait("the job given back", lambda: world.job(job)["state"] == "failed")

    done = taken_over(world, "lakes", job)
    assert (done["fence"], done["attempts"], done["summary"]["loaded"]) == (2, 1, 3)


def test_a_call_that_takes_longer_than_the_lease_keeps_the_job(world: World) -> None:
    """E16: with a heartbeat beside it, one row may take several leases; nobody takes over."""
    world.stack.restart_function({"SLOW_ROW_SECONDS": "16", "LEASE_SECONDS": "5"})
    job = begun(world, "towns", 1)
    answers: list[int] = []

    def ended() -> bool:
        answers.extend(redelivered(world, f"towns{part}") for part in PARTS)
        return bool(world.job(job)["state"] == "done")

    world.wait("the end of the job", ended)
    assert 503 in answers
    done = world.job(job)
    assert (done["fence"], done["attempts"]) == (1, 1)
