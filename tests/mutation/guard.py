"""A guard of a use case, and what would stand in its place without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: `text` stands once in `gate/<module>.py`, and `instead` is the code without it.

    `tests` are the files below `tests/`, without their suffix, one of whose tests
    has to fail then.
    """

    module: str
    text: str
    instead: str
    why: str
    tests: tuple[str, ...]

    @property
    def path(self) -> str:
        """Return the file that holds the guard, from the root of the project."""
        return f"gate/{self.module}.py"

    @property
    def test_paths(self) -> tuple[str, ...]:
        """Return the test files, from the root of the project."""
        return tuple(f"tests/{name}.py" for name in self.tests)


def guards_of(module: str, *tests: str) -> Callable[[str, str, str], Guard]:
    """Return what makes guards of a module that the same tests hold: why, text, instead."""

    def guard(why: str, text: str, instead: str) -> Guard:
        return Guard(module, text, instead, why, tests)

    return guard


# A class that nothing raises: what was caught passes through.
NOTHING = "except StopAsyncIteration"
