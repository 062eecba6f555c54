"""Change the core in every small way, one at a time, and see a test fail for each.

    python -m tests.mutation

mutmut does the changing, as `[tool.mutmut]` in pyproject.toml says. What no test
notices and `survivors.txt` gives no reason for is printed, and the exit is 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

MUTMUT = Path(sys.executable).with_name("mutmut")
SURVIVORS = Path(__file__).with_name("survivors.txt")
MUTANTS = Path("mutants")
# What mutmut says of a mutant that no test has ended for what it does.
UNNOTICED = ("survived", "no tests", "suspicious", "timeout", "segfault")
# In the name of a mutant these stand for a function, and for a method with its class.
FUNCTION, METHOD = re.compile(r"\.x_(\w+)$"), re.compile(r"\.xǁ(\w+)ǁ(\w+)$")


def known() -> dict[str, str]:
    """Return the changes that no test need notice, each with the reason."""
    found: dict[str, str] = {}
    reason: list[str] = []
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            reason.append(line.removeprefix("#").strip())
        elif line:
            found[line] = " ".join(reason)
        else:
            reason = []
    return found


def survivors() -> list[str]:
    """Return every change that no test has noticed, in one line each."""
    told = (line.strip().partition(": ") for line in _mutmut("results").splitlines())
    return sorted(_change(name) for name, _, state in told if state in UNNOTICED)


def _change(name: str) -> str:
    """Return what a mutant changes: `module.function: old → new`."""
    place = name.partition("__mutmut")[0]
    place = METHOD.sub(r".\1.\2", FUNCTION.sub(r".\1", place))
    lines = _mutmut("show", name).splitlines()
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith((f"{sign} ", f"{sign}\t")))
        for sign in "-+"
    )
    return f"{place}: {before} → {after}"


def _mutmut(*arguments: str) -> str:
    ran = subprocess.run([MUTMUT, *arguments], capture_output=True, text=True, check=True)
    return ran.stdout


def main() -> int:
    """Run the mutants; 1 if some survive for no reason that is known."""
    shutil.rmtree(MUTANTS, ignore_errors=True)
    subprocess.run([MUTMUT, "run"], check=True)
    reasons = known()
    left = survivors()
    for change in left:
        print(f"{'known' if change in reasons else 'NEW'}: {change}")
    gone = sorted(set(reasons) - set(left))
    for change in gone:
        print(f"no survivor any more, take it off the list: {change}")
    return 1 if set(left) - set(reasons) or gone else 0


if __name__ == "__main__":
    sys.exit(main())
