"""The demonstration runs by itself from start to end."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gate.local.countries import EXTENSIONS, LAYER
from tests.shapefiles import parcels

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("_tools")
def test_the_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    """`local demo` ends with 0 after showing each kind of decision, the job and the dataset.

    A proxy and credentials in the environment are of no concern to it.
    """
    nowhere = "http://127.0.0.1:9"
    odd = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json")}
    odd |= {"GATE": "poll", "EXECUTOR": "tasks", "MAX_BUNDLE_BYTES": "1", "SINK": "nowhere"}
    odd |= dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), nowhere)
    assert "emulators:" not in kept(tmp_path, odd)


def test_without_emulators_it_keeps_the_same_promises(tmp_path: Path) -> None:
    """Where gcloud and Java are missing it says so, and a bucket stands in for Firestore."""
    commands = tmp_path / "bin"
    commands.mkdir()
    shown = kept(tmp_path, {"PATH": str(commands)})
    assert shown.startswith("without the emulators: gcloud: command not found; install it: ")
    assert "STATE=blobs" in shown


def kept(tmp_path: Path, environment: dict[str, str]) -> str:
    """Run the demonstration to its end, and return what it has shown."""
    sample = {**parcels(rows=40), ".cpg": b"UTF-8"}
    with zipfile.ZipFile(tmp_path / "geopandas-0.14.4-py3-none-any.whl", "w") as wheel:
        for extension in EXTENSIONS:
            wheel.writestr(f"{LAYER}{extension}", sample[extension])
    command = (sys.executable, "-m", "gate", "local", "demo", "--cache", str(tmp_path))
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    for shown in (
        "needs .shp",
        "dispatched",
        "duplicate",
        "settling",
        "Fiona ran 1 time",
        "40 rows",
    ):
        assert shown in ended.stdout
    assert "Fiona ran 2 times" not in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("all as promised")
    return ended.stdout
