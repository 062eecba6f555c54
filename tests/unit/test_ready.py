"""The proof that a process can read shapefiles, in processes that can and cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fiona
import pytest

from gate import wiring
from gate.errors import ConfigurationError
from gate.policies import Policies
from gate.settings import load
from gate.shapefile import crs, projection
from gate.shapefile.ready import prove_ready
from gate.wiring import Gate

ROOT = Path(__file__).parents[2]

# Clients are built and never asked anything.
CLIENTS = {"GOOGLE_CLOUD_PROJECT": "acme", "FIRESTORE_EMULATOR_HOST": "127.0.0.1:9"}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Let each test prove anew, and leave no proof behind."""
    prove_ready.cache_clear()
    yield
    prove_ready.cache_clear()


def test_a_sound_process_is_ready() -> None:
    """Case 61: with the wheels of requirements.txt a known point is transformed by both PROJs."""
    said = prove_ready(Policies(target_crs="EPSG:3857", missing_crs="EPSG:25832"))
    assert said == f"Fiona {fiona.__version__} with GDAL {fiona.__gdal_version__}"


@pytest.mark.parametrize("variable", ["PROJ_LIB", "PROJ_DATA"])
def test_a_misled_proj_is_not_ready(variable: str) -> None:
    """Case 61: with PROJ's database out of reach the gate refuses to begin jobs or to sweep."""
    check = (
        "from gate.errors import ConfigurationError; from gate.settings import load\n"
        "from gate.wiring import Gate\n"
        "gate = Gate(load({'SINK': 'gs://datasets/out'}))\n"
        "for begin in (lambda: gate.intake.ready(), lambda: gate.sweep):\n"
        "    try: print('ready', begin())\n"
        "    except ConfigurationError as error: print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", check],
        cwd=ROOT,
        env={**os.environ, **CLIENTS, variable: "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    said = "PROJ_DATA: PROJ finds no database of CRSs; do not set PROJ_LIB"
    assert [line[: len(said)] for line in ended.stdout.splitlines()] == [said, said]


def test_who_runs_no_job_need_not_be_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """H6: where tasks run the jobs, the sweep goes on though it could read no shapefile."""
    for variable, value in CLIENTS.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(wiring, "ready", pytest.fail)
    tasks = {
        "EXECUTOR": "tasks",
        "TASK_QUEUE": "projects/acme/locations/here/queues/work",
        "WORK_URL": "http://127.0.0.1:9/",
        "TASK_SERVICE_ACCOUNT": "tasks@acme.iam.gserviceaccount.com",
        "CLOUD_TASKS_EMULATOR_HOST": "127.0.0.1:9",
        "STORAGE_EMULATOR_HOST": "http://127.0.0.1:9",
    }
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", tasks["STORAGE_EMULATOR_HOST"])
    monkeypatch.setenv("CLOUD_TASKS_EMULATOR_HOST", tasks["CLOUD_TASKS_EMULATOR_HOST"])
    gate = wiring.Gate(load({"SINK": "gs://datasets/out", **tasks}))
    assert gate.sweep
    assert gate.run is gate.handover


@pytest.mark.parametrize(
    ("policies", "variable"),
    [
        (Policies(target_crs="EPSG:1"), "TARGET_CRS"),
        (Policies(missing_crs="EPSG:1"), "MISSING_CRS"),
    ],
)
def test_a_crs_that_does_not_exist_is_the_deployments_fault(
    policies: Policies, variable: str
) -> None:
    """Issue 6: a CRS in the settings that PROJ does not know is found before a job begins."""
    with pytest.raises(ConfigurationError, match=f"^{variable}: PROJ does not know EPSG:1; "):
        prove_ready(policies)


def test_a_gdal_without_the_driver_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 57: what Fiona was built without is missed at once."""
    monkeypatch.setattr(fiona, "supported_drivers", {"GeoJSON": "raw"})
    with pytest.raises(ConfigurationError, match=r"^Fiona: GDAL has no driver 'ESRI Shapefile'; "):
        prove_ready(Policies())


@pytest.mark.parametrize("found", [None, (500_000.1, 0.0)])
@pytest.mark.parametrize("module", [crs, projection], ids=["Fiona", "pyproj"])
def test_a_point_in_the_wrong_place_is_not_ready(
    found: tuple[float, float] | None, module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 61: a PROJ that moves a known point elsewhere is not trusted with others."""
    monkeypatch.setattr(module, "located", lambda *_: found)
    with pytest.raises(ConfigurationError, match="puts the position"):
        prove_ready(Policies(target_crs="EPSG:3857"))


def test_pyproj_is_not_loaded_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 2, Speed: without TARGET_CRS only the PROJ that reads is proven."""
    monkeypatch.setattr(projection, "located", lambda *_: pytest.fail("asked"))
    prove_ready(Policies())


def test_the_gate_proves_its_own_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 6: what is proven before a job are the policies of the settings."""
    for name, value in CLIENTS.items():
        monkeypatch.setenv(name, value)
    stated = {"SINK": "gs://datasets/out", "TARGET_CRS": "EPSG:9999", "MISSING_CRS": "hold"}
    with pytest.raises(ConfigurationError, match=r"^TARGET_CRS: PROJ does not know EPSG:9999; "):
        Gate(load(stated)).intake.ready()
