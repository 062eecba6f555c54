"""The guards that the protocol stands on, each taken away by name.

A simulation that finds nothing wrong proves something only if it finds what is
wrong when one of these is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from google.cloud import firestore

from gate.sinks.memory import Dataset, MemorySink
from tests.simulation.database import Document, Write

Replaced = tuple[Any, str, Any]


def _any_generation() -> Replaced:
    """Let the last event win over the newest generation."""
    return firestore, "Maximum", lambda value: value


def _any_revision() -> Replaced:
    """Let the sink's last step replace whatever stands there, without comparing again."""

    def swapped(sink: MemorySink, name: str, dataset: Dataset, _expected: Dataset | None) -> bool:
        return swap(sink, name, dataset, sink.datasets.get(name))

    swap = MemorySink._swap
    return MemorySink, "_swap", swapped


def _unconditional_update() -> Replaced:
    """Let a worker write its job whoever has it now."""
    check = Write.check

    def checked(write: Write, before: tuple[Document, int] | None) -> None:
        if before is None or write.kind != "update":
            check(write, before)

    return Write, "check", checked


GUARDS: dict[str, Callable[[], Replaced]] = {
    "max-register": _any_generation,
    "sink-revision": _any_revision,
    "job-condition": _unconditional_update,
}


@contextmanager
def without(guard: str) -> Iterator[None]:
    """Take a guard away while the context lasts; none if its name is empty."""
    if not guard:
        yield
        return
    owner, name, replacement = GUARDS[guard]()
    standing = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, standing)
