"""The check of what must be on the machine, run against made-up machines."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEM = Path(__file__).parents[2] / ".ci" / "system"
SHELL = shutil.which("sh") or "/bin/sh"

pytestmark = pytest.mark.project


class Machine:
    """A folder of commands that is the whole PATH: an ordinary user, nothing installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command("id", "echo 1000")
        for name in ("dirname", "readlink"):
            (folder / name).symlink_to(shutil.which(name) or "")

    def command(self, name: str, body: str = "exit 0") -> None:
        """Put a command on the path that does what `body` says."""
        path = self.folder / name
        path.write_text(f"#!{SHELL}\n{body}\n")
        path.chmod(0o755)

    def gcloud(self, root: Path, *emulators: str) -> None:
        """Put a gcloud on the path whose installation in `root` has these emulators."""
        (root / "bin").mkdir(parents=True)
        for emulator in emulators:
            (root / "platform" / emulator).mkdir(parents=True)
        real = root / "bin" / "gcloud"
        real.write_text(f"#!{SHELL}\nexit 1\n")
        real.chmod(0o755)
        (self.folder / "gcloud").symlink_to(real)

    def check(self, wanted: str, **environment: str) -> tuple[int, list[str]]:
        """Return the exit code and the lines printed by `.ci/system`."""
        ended = subprocess.run(
            [SHELL, str(SYSTEM), wanted],
            env={"PATH": str(self.folder), "PYTHON": "python3.11", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not ended.stdout
        return ended.returncode, ended.stderr.splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine that has nothing yet."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return Machine(folder)


def test_a_missing_python_is_one_line_with_its_cure(machine: Machine) -> None:
    """Without Python 3.11 the check fails and names the command that installs it."""
    assert machine.check("python") == (
        1,
        [
            "missing: python3.11 with venv;"
            " install it with: sudo apt-get install python3.11 python3.11-venv"
        ],
    )


def test_everything_present_is_silent(machine: Machine, tmp_path: Path) -> None:
    """With Python, Java, gcloud and both emulators the check says nothing and passes."""
    machine.command("python3.11")
    machine.command("java")
    machine.gcloud(tmp_path / "sdk", "cloud-firestore-emulator", "pubsub-emulator")
    assert machine.check("services") == (0, [])


def test_each_missing_service_is_one_line(machine: Machine) -> None:
    """Java and gcloud are named at once, each with what installs it."""
    machine.command("python3.11")
    code, lines = machine.check("services")
    assert code == 1
    assert len(lines) == 2
    assert "sudo apt-get install openjdk-17-jre-headless" in lines[0]
    assert "https://cloud.google.com/sdk/docs/install" in lines[1]


def test_emulators_are_installed_the_way_gcloud_was(machine: Machine, tmp_path: Path) -> None:
    """A gcloud from the SDK's own installer gets its emulators through gcloud components."""
    machine.command("python3.11")
    machine.command("java")
    machine.gcloud(tmp_path / "sdk", "cloud-firestore-emulator")
    code, lines = machine.check("services")
    assert code == 1
    assert lines == [
        "missing: the Firestore and Pub/Sub emulators; install it with:"
        " gcloud components install beta cloud-firestore-emulator pubsub-emulator"
    ]


@pytest.mark.parametrize(("demanded", "code"), [({}, 0), ({"GATE_REQUIRE_SERVICES": "1"}, 1)])
def test_services_are_optional_until_demanded(
    machine: Machine, demanded: dict[str, str], code: int
) -> None:
    """`make test` goes on without services, unless the environment says they must be there."""
    machine.command("python3.11")
    ended, lines = machine.check("optional", **demanded)
    assert ended == code
    assert ("skipped" in lines[-1]) is (code == 0)


@pytest.mark.parametrize(("python", "code"), [(True, 0), (False, 1)])
def test_the_demonstration_goes_on_without_emulators(
    machine: Machine, python: bool, code: int
) -> None:
    """`make demo` names what is missing, and stops only where there is no Python."""
    if python:
        machine.command("python3.11")
    ended, lines = machine.check("demo", GATE_REQUIRE_SERVICES="1")
    assert ended == code
    assert any("openjdk-17-jre-headless" in line for line in lines)
    assert ("a bucket stands in for Firestore" in lines[-1]) is python


def test_root_installs_what_debian_has(machine: Machine, tmp_path: Path) -> None:
    """As root with apt-get, Java is installed instead of asked for."""
    machine.command("id", "echo 0")
    machine.command("python3.11")
    machine.gcloud(tmp_path / "sdk", "cloud-firestore-emulator", "pubsub-emulator")
    java = machine.folder / "java"
    machine.command(
        "apt-get",
        f'case "$*" in *openjdk-17-jre-headless*) {shutil.which("cp")} "$0" {java};; esac; exit 0',
    )
    assert machine.check("services") == (0, ["installing openjdk-17-jre-headless"])
    assert os.access(java, os.X_OK)
