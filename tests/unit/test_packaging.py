"""What is installed and what is uploaded, checked against the project's own files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from importlib import metadata
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_utils.lower_bound_checker import lower_bound_checker

ROOT = Path(__file__).parents[2]
DEPLOYED = ROOT / "requirements.txt"
TOOLS = ROOT / "tests" / "requirements.txt"
LOWEST = ROOT / "tests" / "constraints-lowest.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

pytestmark = pytest.mark.project


def lines(path: Path) -> list[str]:
    """Return the lines of a requirements file that are no comments."""
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def pins(path: Path) -> dict[str, Requirement]:
    """Return canonical name → requirement for the requirements of one file."""
    parsed = [Requirement(line) for line in lines(path) if not line.startswith("-")]
    return {canonicalize_name(requirement.name): requirement for requirement in parsed}


def ranges() -> dict[str, Requirement]:
    """Return canonical name → range for the dependencies that the project declares."""
    parsed = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
    return {canonicalize_name(requirement.name): requirement for requirement in parsed}


def needs(name: str, extras: set[str]) -> Iterator[Requirement]:
    """Yield what an installed distribution requires here, with these extras."""
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        wanted = ({"extra": extra} for extra in ("", *extras))
        if requirement.marker is None or any(requirement.marker.evaluate(env) for env in wanted):
            yield requirement


def closure(roots: list[Requirement]) -> dict[str, list[Requirement]]:
    """Return canonical name → every requirement on it, reached from `roots`."""
    reached: dict[str, list[Requirement]] = {}
    walked: set[tuple[str, frozenset[str]]] = set()
    waiting = list(roots)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        reached.setdefault(name, []).append(requirement)
        if (name, frozenset(requirement.extras)) not in walked:
            walked.add((name, frozenset(requirement.extras)))
            waiting += needs(name, requirement.extras)
    return reached


@pytest.mark.parametrize("path", [DEPLOYED, TOOLS, LOWEST], ids=lambda path: path.name)
def test_each_requirement_is_pinned_to_one_version_once(path: Path) -> None:
    """No requirement leaves pip a choice, and none is named twice."""
    requirements = [line for line in lines(path) if not line.startswith("-")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in requirements)
    assert len(pins(path)) == len(requirements)


def test_the_deployed_pins_are_everything_they_need_and_no_more() -> None:
    """Every requirement of a pinned distribution is itself pinned, at a version it accepts."""
    pinned = pins(DEPLOYED)
    reached = closure([pinned[name] for name in ranges()])
    assert set(reached) == set(pinned)
    for name, requirements in reached.items():
        version = next(iter(pinned[name].specifier)).version
        refused = [r for r in requirements if not r.specifier.contains(version, prereleases=True)]
        assert not refused, f"{name} {version}"


def test_the_environment_holds_the_pinned_versions() -> None:
    """What the tests run on is what requirements.txt and tests/requirements.txt say."""
    for name, requirement in (pins(DEPLOYED) | pins(TOOLS)).items():
        assert requirement.specifier.contains(metadata.version(name), prereleases=True), name


def test_test_tools_are_not_deployed() -> None:
    """No distribution stands in both files, so a tool cannot slip into the function."""
    assert not set(pins(DEPLOYED)) & set(pins(TOOLS))


def test_declared_ranges_admit_what_is_deployed() -> None:
    """Each range of pyproject.toml has a pin in requirements.txt, inside the range."""
    pinned = pins(DEPLOYED)
    for name, requirement in ranges().items():
        assert requirement.specifier.contains(next(iter(pinned[name].specifier)).version), name


def test_lowest_constraints_are_the_declared_lower_bounds() -> None:
    """lower-bound-checker finds each bound of the project's metadata in the constraints."""
    answer = CliRunner().invoke(
        lower_bound_checker.check,
        ["--package-name", PROJECT["project"]["name"], "--constraints-file", str(LOWEST)],
    )
    assert answer.exit_code == 0, answer.output


def source_distribution(folder: Path, marker: Path) -> None:
    """Put a source distribution into `folder` whose build would leave `marker` behind."""
    setup = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    setup += "from setuptools import setup\nsetup(name='onlysource', version='1.0')\n"
    files = {
        "setup.py": setup,
        "PKG-INFO": "Metadata-Version: 2.1\nName: onlysource\nVersion: 1.0\n",
    }
    with tarfile.open(folder / "onlysource-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"onlysource-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, BytesIO(text.encode()))


@pytest.mark.parametrize("forbidden", [True, False], ids=["as deployed", "without the option"])
def test_an_install_never_builds_from_source(tmp_path: Path, forbidden: bool) -> None:
    """Case 62: with the options of requirements.txt pip refuses a source distribution unbuilt.

    Without them the same distribution is built, so it is the option that holds.
    """
    marker = tmp_path / "built"
    source_distribution(tmp_path, marker)
    options = [line for line in lines(DEPLOYED) if line.startswith("-")] if forbidden else []
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("\n".join([*options, "onlysource==1.0", ""]))
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--quiet", "--no-index"]
    here = ["--find-links", str(tmp_path), "--target", str(tmp_path / "target")]
    ended = subprocess.run(
        [*pip, *here, "--no-build-isolation", "-r", str(requirements)],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull},
        check=False,
    )
    assert marker.exists() is not forbidden, ended.stderr
    assert (ended.returncode != 0) is forbidden
    if forbidden:
        assert "No matching distribution found for onlysource" in ended.stderr


@pytest.fixture
def gcloud() -> str:
    """Return the path of gcloud, or skip; fail where services are demanded."""
    found = shutil.which("gcloud")
    if found is None:
        reason = "gcloud is not installed"
        pytest.fail(reason) if os.environ.get("GATE_REQUIRE_SERVICES") == "1" else pytest.skip(
            reason
        )
    return found


DECOYS = (
    ".env",
    ".git/config",
    ".venv/bin/python",
    ".venv/lib/main.py",
    "benchmarks/gate.py",
    "docs/main.py",
    "gate/__pycache__/names.cpython-311.pyc",
    "gate/key.json",
    "gate/store/__pycache__/port.py",
    "gate/terraform.tfstate",
    "key.json",
    "main.pyc",
    "node_modules/gate/index.js",
    "requirements.txt.orig",
    "terraform.tfstate",
    "terraform/.terraform/provider",
    "terraform/gate/main.py",
    "tests/gate/roads.shp",
    "tests/requirements.txt",
)


def test_only_the_function_is_uploaded(tmp_path: Path, gcloud: str) -> None:
    """What gcloud itself would upload is main.py, requirements.txt and the sources of gate."""
    sources = (path.relative_to(ROOT) for path in (ROOT / "gate").rglob("*.py"))
    wanted = [Path("main.py"), Path("requirements.txt"), *sources]
    for path in (Path(".gcloudignore"), Path(".gitignore"), *wanted):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    for name in DECOYS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("never upload this")
    listed = subprocess.run(
        [gcloud, "meta", "list-files-for-upload", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"CLOUDSDK_CONFIG": str(tmp_path / "gcloud")},
    )
    uploaded = [Path(line) for line in listed.stdout.splitlines()]
    assert sorted(uploaded) == sorted(wanted)


def test_coverage_is_demanded_of_files_that_exist() -> None:
    """A module that is renamed cannot drop out of the coverage rule unnoticed."""
    for name in PROJECT["tool"]["coverage"]["run"]["include"]:
        assert (ROOT / name).is_file(), name
