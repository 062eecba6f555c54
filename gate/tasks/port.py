"""The port to a queue of tasks: calls of the function `work`, made later and until they succeed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Task:
    """One call to be made, with its payload as a JSON object.

    `name` is unique in the queue, of letters, digits, hyphens and underscores.
    It should begin with a digest: Cloud Tasks is slow with names that share a
    beginning or grow in order. `due_at` is the earliest moment of the first
    call; `None` means at once.
    """

    name: str
    payload: Mapping[str, str | int]
    due_at: datetime | None = None


class Tasks(Protocol):
    """A queue whose tasks are called at least once, and again after each failure."""

    def enqueue(self, task: Task) -> bool:
        """Create the named task durably; `False` if its name is taken.

        A name stays taken while its task waits or is called, and for some time
        after it has succeeded or was removed: Cloud Tasks promises a tombstone,
        and not that it ends. So a name is for one purpose only, and what is to
        be done again has a new one.

        Raises `QueueBusyError` where waiting helps, `ConfigurationError` where
        the queue is missing or may not be used.
        """
        ...
