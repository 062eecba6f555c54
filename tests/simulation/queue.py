"""A queue of tasks that loses some, calls some twice, and gives some up.

A name that was used once is taken for good: a tombstone that ends is of use to nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from gate.tasks.port import Task
from tests.simulation.schedule import Schedule
from tests.simulation.weather import Weather
from tests.world import Crash

PAUSES_SECONDS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
TWICE_WITHIN_SECONDS = 900.0
# More than any task needs.
MOST_CALLS = 100


@dataclass
class Queue:
    """The `gate.tasks.port.Tasks` of one run, whose habits are drawn once.

    `call` makes one call, and tells whether it succeeded.
    """

    schedule: Schedule
    weather: Weather
    random: Random
    call: Callable[[Task], bool]
    twice: float = field(init=False)
    lost: float = field(init=False)
    most_calls: int = field(init=False)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.twice = self.random.choice((0.0, 0.1, 0.5))
        self.lost = self.random.choice((0.0, 0.0, 0.2))
        self.most_calls = self.random.choice((1, 3, MOST_CALLS))

    @property
    def loses(self) -> bool:
        """Tell whether a task may be lost, or given up while it still fails."""
        return self.lost > 0 or self.most_calls < MOST_CALLS

    def enqueue(self, task: Task) -> bool:
        """See `Tasks.enqueue`."""
        taken: bool = self.weather.around("tasks.enqueue", lambda: self._enqueued(task))
        return taken

    def _enqueued(self, task: Task) -> bool:
        if task.name in self.names:
            return False
        self.names.add(task.name)
        if not self.weather.calm and self.random.random() < self.lost:
            self.schedule.note("its task is lost")
            return True
        self._later(task, 0, 1.0)
        if self.random.random() < self.twice:
            self._later(task, 0, TWICE_WITHIN_SECONDS)
        return True

    def _later(self, task: Task, calls: int, within_seconds: float) -> None:
        name = f"task {task.name[:6]}{task.name[32:-20]}/{calls + 1}"
        wait = (task.due_at or self.schedule.now) - self.schedule.now
        in_seconds = max(0.0, wait.total_seconds()) + self.random.random() * within_seconds
        self.schedule.spawn(name, lambda: self._made(task, calls + 1), in_seconds=in_seconds)

    def _made(self, task: Task, calls: int) -> None:
        try:
            succeeded = self.call(task)
        except Crash:
            succeeded = False
        self.schedule.note("succeeds" if succeeded else "fails")
        if not succeeded and calls < self.most_calls:
            self._later(task, calls, PAUSES_SECONDS[min(calls, len(PAUSES_SECONDS)) - 1])
