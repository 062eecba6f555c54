"""What was packed for the cloud, started with nothing but its requirements, takes in a bundle."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from gate.errors import ConfigurationError
from gate.local.decisions import Decisions
from gate.local.processes import Child, answers, stop_all
from gate.local.stack import PROJECT, SINK_BUCKET, SOURCE_BUCKET, Stack
from tests.deployment.conftest import Simulated
from tests.shapefiles import layer, point

START_SECONDS = 120.0
BUNDLE_SECONDS = 60.0


@pytest.fixture(scope="module")
def bare(deployed: Simulated, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the unpacked archive, and the Python of an environment with its requirements only."""
    folder = tmp_path_factory.mktemp("packed")
    with zipfile.ZipFile(deployed.sent / "gate-ingest.zip") as archive:
        archive.extractall(folder / "source")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    requirements = folder / "source" / "requirements.txt"
    quiet = ("install", "-qq", "--disable-pip-version-check")
    subprocess.run([python, "-m", "pip", *quiet, "-r", requirements], check=True)
    return folder / "source", python


def test_the_packed_function_takes_in_a_bundle(
    bare: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 6, case 64: the archive itself, in a bare environment, publishes what is uploaded."""
    source, python = bare
    try:
        stack = Stack(folder=tmp_path)
        stack.__enter__()
    except ConfigurationError as missing:
        if os.environ.get("GATE_REQUIRE_SERVICES") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    children: list[Child] = []
    try:
        stack.stop_function()
        host, port = stack.addresses.function.split(":")
        serve = ("-m", "functions_framework", "--target", "ingest", "--source", "main.py")
        child = Child(
            "packed",
            (
                *("sh", "-c", f'cd "{source}" && exec "$@"', "sh", str(python), *serve),
                *("--signature-type", "cloudevent", "--host", host, "--port", port),
            ),
            environment={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **stack.environment},
            log=tmp_path / "packed.log",
            grace_seconds=5.0,
        )
        children.append(child)
        child.wait_until(lambda: answers(stack.function_url, status=405), seconds=START_SECONDS)
        for name, value in stack.environment.items():
            monkeypatch.setenv(name, value)
        client = storage.Client(project=PROJECT, credentials=AnonymousCredentials())
        for extension, content in layer([point(1, 2), point(3, 4)]).items():
            client.bucket(SOURCE_BUCKET).blob(f"in/roads{extension}").upload_from_string(content)
        pointer = client.bucket(SINK_BUCKET).blob("layers/in/roads/latest.json")
        decisions = Decisions(child.log, lambda _entry: None)
        decisions.wait(
            "an end", lambda: bool(decisions.of("ingestion ended")), seconds=BUNDLE_SECONDS
        )
        [ended] = decisions.of("ingestion ended")
        assert pointer.exists()
        assert ended["decision"] == "done"
    finally:
        stop_all(children)
        stack.close()
