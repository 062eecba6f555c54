"""Jobs given to tasks, in the local stack: three functions, Firestore, and a queue between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.local.processes import answers
from gate.local.stack import Stack
from tests.e2e.conftest import SETTINGS, World
from tests.shapefiles import parcels, points

ROOT = Path(__file__).parents[2]
PARTS = (".dbf", ".prj", ".shx", ".shp")


@pytest.fixture(scope="module")
def shared_stack(_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack of its own, whose jobs are run by tasks, and whose sweep takes nothing over."""
    settings = {**SETTINGS, "EXECUTOR": "tasks", "PYTHONPATH": str(ROOT)}
    folder = tmp_path_factory.mktemp("tasks")
    with Stack(settings, main=Path(__file__).with_name("slow.py"), folder=folder) as running:
        yield running


def decisions(world: World, stem: str) -> list[str]:
    """Return the outcomes of the tasks of a bundle, in order."""
    world.decisions.read()
    bundle = str(world.bundle(stem))
    return [
        str(entry["decision"])
        for entry in world.decisions.of("task")
        if entry.get("bundle") == bundle
    ]


def test_the_event_is_acknowledged_and_a_task_ingests(world: World) -> None:
    """Issue 7: the event only dispatches, and `work` is called over HTTP and publishes."""
    assert answers(world.stack.environment["WORK_URL"], status=405)
    world.upload_all("roads", parcels(rows=12), *PARTS)
    pointer = world.wait_until_current("roads")
    assert pointer["rows"] == 12
    world.wait("the line of the task", lambda: decisions(world, "roads") == ["ran"])
    assert "queued" in [entry["decision"] for entry in world.deliveries()]
    job = world.job(str(pointer["revision_id"]))
    assert (job["state"], job["attempts"], job["fence"]) == ("done", 1, 2)


def test_a_worker_killed_in_the_middle_is_followed_by_its_task(world: World) -> None:
    """E2: `work` is killed while it reads; its task is called again and ends the job."""
    world.stack.restart_function({"SLOW_ROW_SECONDS": "0.2"})
    world.upload_all("rivers", points(200), *PARTS)
    world.wait("a layer being read", lambda: world.count("reading", "rivers") > 0)
    os.killpg(world.stack.pids["work"], signal.SIGKILL)
    world.stack.restart_function({"SLOW_ROW_SECONDS": "0"})
    pointer = world.wait_until_current("rivers")
    world.wait(
        "the end of the job", lambda: world.job(str(pointer["revision_id"]))["state"] == "done"
    )
    job = world.job(str(pointer["revision_id"]))
    assert [entry["code"] for entry in job["history"]] == ["lease_expired"]
    assert job["attempts"] == 2
    assert world.count("reading", "rivers") == 2
