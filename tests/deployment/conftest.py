"""Real gcloud and real Terraform, against stand-ins for the cloud on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.standin import PROJECT, Standin, serving

ROOT = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("GATE_TOOLS") or ROOT.parent / "shared" / "tools")
CACHE = Path(os.environ.get("GATE_CACHE") or ROOT / ".cache")

REGION, SOURCE, OUTPUT = "europe-west1", "acme-in", "acme-out"
EMAIL = "gis@example.com"
VARIABLES = (
    f"PROJECT={PROJECT} REGION={REGION} SOURCE={SOURCE} LOCATION={REGION} OUTPUT={OUTPUT}"
    f" EMAILS={EMAIL}"
)


def needed(*paths: Path, commands: tuple[str, ...]) -> None:
    """Skip if a file or a command is missing; fail where services are demanded."""
    missing = [str(path) for path in paths if not path.exists()]
    missing += [command for command in commands if shutil.which(command) is None]
    if missing:
        reason = f"missing: {', '.join(missing)}; install it, or set GATE_TOOLS"
        pytest.fail(reason) if os.environ.get("GATE_REQUIRE_SERVICES") == "1" else pytest.skip(
            reason
        )


def documented_commands(*choices: str) -> str:
    """Return the commands of the page on deployment in their order, those of these choices too."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    blocks = re.findall(r"^```sh *(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return "\n".join(commands for choice, commands in blocks if choice in {"", *choices})


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a script printed whose gcloud talked to a stand-in, and what that was sent."""

    code: int
    out: str
    err: str
    sent: Path
    standin: Standin

    def functions(self) -> dict[str, Any]:
        """Return the functions as they were sent to the API."""
        found: dict[str, Any] = json.loads((self.sent / "functions.json").read_text())
        return found

    def others(self) -> dict[str, Any]:
        """Return everything else: `policies` by resource, and `calls` by API."""
        found: dict[str, Any] = json.loads((self.sent / "other.json").read_text())
        found["policies"] |= self.standin.policies
        found["calls"] |= self.standin.calls
        return found


def simulate(script: str, sent: Path) -> Simulated:
    """Run a shell script whose gcloud talks to a stand-in for the cloud.

    `python` in it is this one, and `gate` is that of this checkout.
    """
    simulator = TOOLS / "gcloudsim" / "gcloudsim.py"
    needed(simulator, commands=("gcloud", "bash"))
    buckets = (f"--bucket={name}={REGION}" for name in (SOURCE, OUTPUT))
    simulated = (sys.executable, simulator, f"--project={PROJECT}", "--out", sent, *buckets, "--")
    standin = Standin()
    with serving(standin) as led:
        ended = subprocess.run(
            [*simulated, "bash", "-euo", "pipefail", "-c", f"{led}\n{VARIABLES}\n{script}"],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    return Simulated(ended.returncode, ended.stdout, ended.stderr, sent, standin)


def deploy(commands: str, sent: Path) -> Simulated:
    """Deploy by these commands, then ask the doctor, whose JSON alone is the output."""
    doctor = f"python -m gate doctor gate-ingest --region={REGION} --json"
    return simulate(f"{{\n{commands}\n}} >&2\n{doctor}", sent)


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Deploy as the page on deployment says where nothing is chosen."""
    return deploy(documented_commands("firestore"), tmp_path_factory.mktemp("gcloud"))


@pytest.fixture(scope="session")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Deploy as the page says for tasks, with polls and jobs in them, and state in a bucket."""
    commands = f"CHOICE=GATE=poll,EXECUTOR=tasks\n{documented_commands('blobs', 'tasks')}"
    return deploy(commands, tmp_path_factory.mktemp("chosen"))


@dataclass(frozen=True, slots=True)
class Planned:
    """What Terraform would make, and the archive of the code that it packed."""

    resources: dict[str, Any]
    archive: Path

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the values of all resources of a kind."""
        return [
            values for address, values in self.resources.items() if address.startswith(f"{kind}.")
        ]


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Plan the module with the variables that mean the same as the page on deployment."""
    return plan(tmp_path_factory.mktemp("terraform"))


@pytest.fixture(scope="session")
def chosen_plan(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Plan the module with the same choices as `chosen`."""
    choices = {"gate": "poll", "executor": "tasks", "state": "blobs"}
    return plan(tmp_path_factory.mktemp("choices"), **choices)


def plan(folder: Path, **choices: str) -> Planned:
    """Plan the module in a folder, with further variables."""
    simulator = TOOLS / "tfcheck" / "tfsim.py"
    needed(simulator, commands=("terraform",))
    source = folder / "source"
    for name in ("gate", "terraform"):
        unneeded = shutil.ignore_patterns("__pycache__", ".terraform", ".build")
        shutil.copytree(ROOT / name, source / name, ignore=unneeded)
    for name in ("main.py", "requirements.txt"):
        shutil.copy(ROOT / name, source / name)
    stated = {
        "project_id": PROJECT + "-project",
        "region": REGION,
        "source_bucket": SOURCE,
        "output_bucket": OUTPUT,
        "alert_emails": json.dumps([EMAIL]),
        **choices,
    }
    ended = subprocess.run(
        [sys.executable, simulator, source / "terraform", "--copy-root", source, "--keep"]
        + [f"--cache={CACHE / 'tfcheck'}", "--steps=plan", f"--plan-json={folder / 'plan.json'}"]
        + [f"--var={name}={value}" for name, value in stated.items()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    kept = re.search(r"^kept (.+)$", ended.stdout, re.MULTILINE)
    assert kept, ended.stdout + ended.stderr
    try:
        assert ended.returncode == 0, ended.stdout
        module = json.loads((folder / "plan.json").read_text())["planned_values"]["root_module"]
        resources = {each["address"]: each["values"] for each in module["resources"]}
        archive = folder / "code.zip"
        shutil.copy(Path(kept[1]) / "work" / "terraform" / ".build" / "code.zip", archive)
        return Planned(resources, archive)
    finally:
        shutil.rmtree(kept[1])
