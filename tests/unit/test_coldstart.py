"""What a cold start costs: no library of the job, and no client, before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google import auth
from google.auth.credentials import AnonymousCredentials

from gate import settings
from gate.dead_letters import LoggedDeadLetters
from gate.poll import Poll
from gate.verify import Verify
from gate.wiring import Gate
from tests.scenarios.gates import ENVIRONMENTS

ROOT = Path(__file__).parents[2]
LATE = (
    "fiona",
    "google.cloud.pubsub_v1",
    "google.cloud.storage",
    "google.cloud.tasks_v2",
    "numpy",
    "pgpq",
    "psycopg",
    "pyarrow",
    "shapely",
)

# What only another gate needs, which the default must not pay for.
OF_OTHER_GATES = ("gate.listing", "gate.poll", "gate.tasks.port", "gate.verify")

SCRIPT = """
import json, sys
import main
from gate.events import IgnoredType, Malformed

before = sorted(vars(main.gate))
main.received(IgnoredType("x"))
main.received(Malformed("why", "raw", "e1"))
print(json.dumps({"before": before, "after": sorted(vars(main.gate)), "loaded": list(sys.modules)}))
"""


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    """Return what a new process has loaded and built after importing the entry point.

    It has also been given an event to ignore and a malformed one.
    """
    environment = {"PATH": os.environ["PATH"], "SINK": "gs://datasets/out", "PYTHONPATH": str(ROOT)}
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("library", LATE)
def test_nothing_of_a_job_is_imported_at_the_start(start: dict[str, Any], library: str) -> None:
    """Issue 2, Speed: importing the entry point loads none of the libraries that a job needs."""
    assert library not in start["loaded"]
    assert "main" in start["loaded"]


@pytest.mark.parametrize("module", OF_OTHER_GATES)
def test_nothing_of_another_gate_is_imported_by_default(start: dict[str, Any], module: str) -> None:
    """Issue 7: whoever does not choose another gate does not load it."""
    assert module not in start["loaded"]


def test_a_gate_is_built_when_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 7: events are given to the gate that the settings name."""
    monkeypatch.setattr(Gate, "intake", None)
    monkeypatch.setattr(Gate, "_listing", None)
    monkeypatch.setattr(Gate, "_tasks", None)
    chosen = {
        name: Gate(settings.load({"SINK": "gs://datasets/out", **environment})).entrance
        for name, environment in ENVIRONMENTS.items()
    }
    assert chosen["manifest"] is None
    assert isinstance(chosen["verify"], Verify)
    assert isinstance(chosen["poll"], Poll)


def test_no_client_is_built_at_the_start(start: dict[str, Any]) -> None:
    """Issue 2, Speed: importing builds nothing, and events that need no store build none."""
    assert start["before"] == ["settings"]
    assert start["after"] == ["letters", "settings"]


def test_without_a_topic_letters_need_no_client() -> None:
    """G2: a deployment without a topic keeps its letters in the log and builds nothing for it."""
    gate = Gate(settings.load({"SINK": "gs://datasets/out"}))
    assert isinstance(gate.letters, LoggedDeadLetters)
    assert gate.letters is gate.letters
    assert "_firestore" not in vars(gate)


def test_the_project_is_that_of_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """G11: where no variable tells the project, a trace is named by that of the credentials."""
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    found = (AnonymousCredentials(), "from-the-credentials")
    monkeypatch.setattr(auth, "default", lambda **_: found)
    assert Gate(settings.load({"SINK": "gs://datasets/out"})).project == "from-the-credentials"
