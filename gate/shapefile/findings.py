"""What is noticed while a layer is read: counted in full, shown by example."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from gate.shapefile.port import Notice
from gate.shapefile.rejects import RejectList

EXAMPLES = 20
TEXT_LIMIT = 60


@dataclass(frozen=True, slots=True)
class Example:
    """One row (counted from 1 in file order, deleted rows included) and what stood there."""

    row: int
    text: str


@dataclass(slots=True)
class Problem:
    """One reason, in one field or (with no field) in whole rows: count and first examples."""

    reason: str
    field: str = ""
    count: int = 0
    examples: list[Example] = dataclasses.field(default_factory=list)

    def add(self, count: int, examples: Iterable[Example]) -> None:
        """Count `count` more; keep examples as long as there is room."""
        self.count += count
        self.examples.extend(islice(examples, EXAMPLES - len(self.examples)))


class Findings:
    """The notices, value problems and rejects of one read.

    Memory is bounded: by kinds of problem and fields, not by rows. Rejected rows
    go to `listed` in full.
    """

    def __init__(self, listed: RejectList | None = None) -> None:
        self.listed = listed
        self._notices: dict[tuple[str, str], int] = {}
        self._values: dict[tuple[str, str], Problem] = {}
        self._rejects: dict[str, Problem] = {}

    def notice(self, code: str, what: str, count: int = 1) -> None:
        """Note something; the same code and sentence again adds to its count."""
        if count:
            self._notices[code, what] = self._notices.get((code, what), 0) + count

    def value(self, name: str, reason: str, examples: Iterable[Example], count: int) -> None:
        """Note values of a field that could not be taken over as they are."""
        if count:
            self._values.setdefault((name, reason), Problem(reason, name)).add(count, examples)

    def reject(self, reason: str, row: int, text: str, *, listed: bool = True) -> None:
        """Note a row that is not loaded; one that was expected need not be `listed`."""
        self._rejects.setdefault(reason, Problem(reason)).add(1, (Example(row, text),))
        if listed and self.listed is not None:
            self.listed.add(row, reason, text)

    @property
    def rejected(self) -> int:
        """Return how many rows are not loaded."""
        return sum(problem.count for problem in self._rejects.values())

    def notices(self) -> Iterator[Notice]:
        """Yield the notices in the order in which they first came up."""
        for (code, what), count in self._notices.items():
            yield Notice(code, what, count)

    def values(self) -> tuple[Problem, ...]:
        """Return the value problems."""
        return tuple(self._values.values())

    def rejects(self) -> tuple[Problem, ...]:
        """Return the reasons for which rows were rejected."""
        return tuple(self._rejects.values())


def shown(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return `text`, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
