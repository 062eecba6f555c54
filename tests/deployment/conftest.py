"""Real gcloud and real Terraform, against stand-ins for the cloud on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("GATE_TOOLS") or ROOT.parent / "shared" / "tools")

Simulate = Callable[..., subprocess.CompletedProcess[str]]


def needed(*paths: Path, commands: tuple[str, ...]) -> None:
    """Skip if a file or a command is missing; fail where services are demanded."""
    missing = [str(path) for path in paths if not path.exists()]
    missing += [command for command in commands if shutil.which(command) is None]
    if missing:
        reason = f"missing: {', '.join(missing)}; install it, or set GATE_TOOLS"
        pytest.fail(reason) if os.environ.get("GATE_REQUIRE_SERVICES") == "1" else pytest.skip(
            reason
        )


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    """Return what runs a shell script whose gcloud talks to a stand-in for the cloud.

    The buckets `acme-in` and `acme-out` are in europe-west1. What was sent lies
    in the folder `sent` of the test, and `python -m gate` runs this checkout.
    """
    simulator = TOOLS / "gcloudsim" / "gcloudsim.py"
    needed(simulator, commands=("gcloud",))

    def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        buckets = ("--bucket", "acme-in=europe-west1", "--bucket", "acme-out=europe-west1")
        shell = ("bash", "-euo", "pipefail", "-c", script)
        return subprocess.run(
            [sys.executable, simulator, "--out", tmp_path / "sent", *buckets, "--", *shell],
            cwd=ROOT,
            env={**os.environ, **environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
