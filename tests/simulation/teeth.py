"""The guards that the protocol stands on, each taken away by name.

A simulation that finds nothing wrong proves something only if it finds what is
wrong when one of these is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from google.cloud import firestore

from gate.handover import Handover
from gate.identity import Pin
from gate.job import Job
from gate.look import Look
from gate.manifest import Manifest
from gate.names import Component, extension_of
from gate.poll import Poll
from gate.sinks.memory import Dataset, MemorySink
from gate.sweep import Sweep
from gate.tasks.port import Task
from tests.simulation import blob_teeth
from tests.simulation.database import Batch, Document, Reference, Write

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


def _cleared_wake() -> Replaced:
    """Let a dispatch take the manifest off the list of what the sweep looks at."""

    def cleared(batch: Batch, reference: Reference, fields: Document, *, merge: bool) -> None:
        if "dispatched" in fields:
            fields = {**fields, "wake_at": firestore.DELETE_FIELD}
        standing(batch, reference, fields, merge=merge)

    standing = Batch.set
    return Batch, "set", cleared


def _no_listing() -> Replaced:
    """Let the sweep believe that the bucket holds what the manifest knows, and nothing else."""

    def known(_look: Look, of: Manifest) -> list[tuple[Component, Pin]]:
        return [
            (Component(of.bundle, name, extension_of(name)), Pin(name, generation))
            for name, generation in of.components.items()
        ]

    return Look, "_live", known


def _no_reconciling() -> Replaced:
    """Let the sweep never go through the bucket."""
    return Sweep, "_pages", lambda *_: None


def _unconditional_update() -> Replaced:
    """Let a worker write its job whoever has it now."""
    check = Write.check

    def checked(write: Write, before: tuple[Document, int] | None) -> None:
        if before is None or write.kind != "update":
            check(write, before)

    return Write, "check", checked


def _one_task_for_each_claim() -> Replaced:
    """Let a task that was waited for in vain be followed by one of the same name."""

    def given(handover: Handover, job: Job, _due_at: datetime) -> bool:
        name = f"{job.id}-{job.fence}-{'0' * 20}"
        return handover.tasks.enqueue(Task(name, {"kind": "job", "revision": job.id}))

    return Handover, "give", given


def _one_slot() -> Replaced:
    """Let all looks at a bundle have one name, whenever its files were uploaded."""
    return Poll, "_slot", lambda gate, _event: ("always", gate.clock() + gate.gating.delay)


GUARDS: dict[str, Callable[[], Replaced]] = {
    "max-register": _any_generation,
    "sink-revision": _any_revision,
    "wake-at": _cleared_wake,
    "listing": _no_listing,
    "reconciling": _no_reconciling,
    "job-condition": _unconditional_update,
    "task-name": _one_task_for_each_claim,
    "look-slot": _one_slot,
    **blob_teeth.GUARDS,
}

# What only a deployment shows whose jobs are given to tasks.
OF_TASKS = frozenset({"task-name"})
# What only a deployment shows whose gate looks in tasks.
OF_POLLS = frozenset({"look-slot"})


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
