"""A queue in memory, with the tombstones and the redelivery of Cloud Tasks: for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from gate.tasks.port import Task

TOMBSTONE = timedelta(hours=1)
PAUSE = timedelta(seconds=10)


class MemoryTasks:
    """The `gate.tasks.port.Tasks` over a dictionary, called by `run`.

    `clock` tells the time of the queue. `before(name)` is called ahead of every
    `enqueue`; it may raise what the network would. A task that was called in
    vain is due again after ten seconds.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.before: Callable[[str], None] = lambda _name: None
        self._clock = clock
        self._waiting: dict[str, tuple[datetime, Task]] = {}
        self._tombstones: dict[str, datetime] = {}
        self._under_way: set[str] = set()

    @property
    def waiting(self) -> tuple[Task, ...]:
        """Return the tasks that have not succeeded, the earliest due first."""
        return tuple(task for _, task in sorted(self._waiting.values(), key=lambda at: at[0]))

    def enqueue(self, task: Task) -> bool:
        """See `Tasks.enqueue`: a tombstone stands for an hour."""
        self.before(task.name)
        now = self._clock()
        gone = self._tombstones.get(task.name)
        if task.name in self._waiting or (gone and now < gone + TOMBSTONE):
            return False
        self._waiting[task.name] = (task.due_at or now, task)
        return True

    def lose(self, name: str) -> None:
        """Remove a task that was never called, as a purge of the queue does."""
        del self._waiting[name]
        self._tombstones[name] = self._clock()

    def run(self, call: Callable[[Mapping[str, str | int]], bool]) -> int:
        """Call each task that is due once, and return how many succeeded.

        `call` is given the payload and tells whether it answered with success;
        a task that did not stays, due again later. A task whose call is under way is
        not called by a `run` meanwhile.
        """
        succeeded = 0
        for task in self.waiting:
            if task.name in self._under_way or self._waiting[task.name][0] > self._clock():
                continue
            self._under_way.add(task.name)
            if call(task.payload):
                self.lose(task.name)
                succeeded += 1
            else:
                self._waiting[task.name] = (self._clock() + PAUSE, task)
            self._under_way.remove(task.name)
        return succeeded
