"""What a check found: a value that says where, what, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """How a check ended, the least welcome last."""

    OK = "ok"
    WARNING = "warning"
    UNCHECKED = "unchecked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of one thing. `check` is stable and short; `todo` is empty where all is well."""

    check: str
    verdict: Verdict
    where: str
    what: str
    todo: str = ""

    def __str__(self) -> str:
        """Return `where: what; what to do`."""
        return f"{self.where}: {self.what}{f'; {self.todo}' if self.todo else ''}"


def ok(check: str, where: str, what: str) -> Finding:
    """Return the finding that something is as it must be."""
    return Finding(check, Verdict.OK, where, what)


def warning(check: str, where: str, what: str, todo: str) -> Finding:
    """Return the finding that something works and is still not as it should be."""
    return Finding(check, Verdict.WARNING, where, what, todo)


def unchecked(check: str, where: str, what: str, todo: str) -> Finding:
    """Return the finding that nothing was found, and why."""
    return Finding(check, Verdict.UNCHECKED, where, what, todo)


def failed(check: str, where: str, what: str, todo: str) -> Finding:
    """Return the finding that the deployment loses, refuses or repeats something."""
    return Finding(check, Verdict.FAILED, where, what, todo)


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the least welcome verdict, `OK` for none."""
    order = list(Verdict)
    return max((each.verdict for each in findings), key=order.index, default=Verdict.OK)
