"""Take the guards of the use cases away, one at a time, and see a test fail for each.

    python -m tests.mutation.without

Each is taken out of a copy of the project. One whose absence no test notices, or
that is not where the list says, is printed, and the exit is 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutation.guard import Guard
from tests.mutation.guards import GUARDS

AT_A_TIME = 2
LONGEST_SECONDS = 300
COPIED = ("gate", "tests", "main.py", "pyproject.toml")
# pytest's: some test has failed. Others say that none could be run.
FAILED = 1
# A change may leave a file as long as it was, within one tick of its clock.
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def standing(guard: Guard) -> int:
    """Return how often the text of a guard stands in its file."""
    return Path(guard.path).read_text(encoding="utf-8").count(guard.text)


def fault_of(guard: Guard) -> str:
    """Take one guard away; return what is wrong with that, empty if a test has failed."""
    if standing(guard) != 1:
        return f"its text stands {standing(guard)} times in the file"
    with TemporaryDirectory() as folder:
        changed = _copied(Path(folder)) / guard.path
        text = changed.read_text(encoding="utf-8")
        changed.write_text(text.replace(guard.text, guard.instead), encoding="utf-8")
        try:
            code = _tested(Path(folder), guard.test_paths)
        except subprocess.TimeoutExpired:
            return f"its tests have not ended after {LONGEST_SECONDS} s"
    if code == FAILED:
        return ""
    return f"pytest ended with {code} without it" if code else "no test notices"


def _copied(folder: Path) -> Path:
    """Copy what the tests need, without what earlier runs have left."""
    for name in COPIED:
        if Path(name).is_dir():
            shutil.copytree(name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(name, folder / name)
    return folder


def _tested(folder: Path, paths: tuple[str, ...]) -> int:
    """Run tests up to the first that fails; return the exit code."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *paths]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    return ran.returncode


def main() -> int:
    """Take every guard away; 1 if that goes unnoticed for some."""
    with TemporaryDirectory() as folder:
        every = tuple(sorted({path for guard in GUARDS for path in guard.test_paths}))
        if _tested(_copied(Path(folder)), every):
            print("the tests fail with every guard in its place; see `make test`")
            return 1
    faults = 0
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for number, (guard, fault) in enumerate(
            zip(GUARDS, pool.map(fault_of, GUARDS), strict=True), start=1
        ):
            faults += bool(fault)
            said = f"NOT HELD, {fault}" if fault else "held"
            print(f"{number}/{len(GUARDS)} {guard.path}: {guard.why}: {said}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
