"""Many threads of control in one, switched where a seed says so: the same seed, the same run.

A task is a greenlet. It runs alone until it pauses or sleeps; then one of the
tasks that are ready is chosen by the seed. Time is virtual: it passes a little
with each switch, and leaps when every task sleeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from greenlet import getcurrent, greenlet

from tests.world import Crash

EPOCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOST_STEP_SECONDS = 0.04
# How often a task that waits for another looks whether it may go on.
WAIT_SECONDS = 0.5


class EndlessError(AssertionError):
    """A run takes more steps than any that makes progress."""


@dataclass(eq=False, slots=True)
class Task:
    """One thread of control. Its `killed` tasks make no call that has an effect any more."""

    name: str
    greenlet: greenlet
    wakes_seconds: float
    killed: bool = False
    cut_off: bool = False
    stopping: bool = False
    part_of: Task | None = None

    @property
    def process(self) -> Task:
        """Return the task that lives and dies with this one, itself if it is alone."""
        return self.part_of or self


class Lock:
    """A lock for tasks: who has to wait for it lets others run."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._held = False

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock; without `blocking`, tell whether it could be had at once."""
        while self._held and blocking:
            self._schedule.sleep(WAIT_SECONDS)
        taken = not self._held
        self._held = True
        return taken

    def release(self) -> None:
        """Give the lock back."""
        self._held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass
class Schedule:
    """The tasks of one run, its clock, and what happened in it, line by line."""

    random: Random
    most_steps: int = 60_000
    seconds: float = 0.0
    steps: int = 0
    lines: list[tuple[float, str, str]] = field(default_factory=list)
    _tasks: list[Task] = field(default_factory=list)
    _running: Task | None = None

    def __post_init__(self) -> None:
        self._hub = getcurrent()

    @property
    def now(self) -> datetime:
        """Return the time of the world."""
        return EPOCH + timedelta(seconds=self.seconds)

    @property
    def task(self) -> Task | None:
        """Return the task that is running, `None` outside of all."""
        return self._running

    def note(self, text: str) -> None:
        """Add a line to the account of the run."""
        self.lines.append((self.seconds, self._running.name if self._running else "-", text))

    def spawn(
        self,
        name: str,
        work: Callable[[], object],
        *,
        in_seconds: float = 0.0,
        part_of: Task | None = None,
    ) -> Task:
        """Let `work` run beside the others, beginning some seconds from now."""

        def body() -> None:
            try:
                work()
            except Crash:
                self.note("is gone")

        task = Task(name, greenlet(body, self._hub), self.seconds + in_seconds, part_of=part_of)
        self._tasks.append(task)
        return task

    def pause(self) -> None:
        """Let others run. Raises `Crash` in a task whose process was killed meanwhile."""
        if self._running is not None:
            self._switch(self._running)

    def sleep(self, seconds: float) -> None:
        """Let others run until some seconds have passed."""
        if self._running is None:
            self.seconds += seconds
        else:
            self._running.wakes_seconds = self.seconds + seconds
            self._switch(self._running)

    def run(self, for_seconds: float | None = None) -> None:
        """Run until every task has ended, or until so many seconds have passed."""
        until = None if for_seconds is None else self.seconds + for_seconds
        while self._tasks:
            ready = [task for task in self._tasks if task.wakes_seconds <= self.seconds]
            if not ready:
                soonest = min(task.wakes_seconds for task in self._tasks)
                if until is not None and soonest > until:
                    break
                self.seconds = soonest
                continue
            if until is not None and self.seconds > until:
                return
            self._step(self.random.choice(ready))
        if until is not None:
            self.seconds = max(self.seconds, until)

    def _step(self, task: Task) -> None:
        self.steps += 1
        if self.steps > self.most_steps:
            raise EndlessError(f"{self.steps} steps and no end")
        self.seconds += self.random.random() * MOST_STEP_SECONDS
        self._running = task
        try:
            task.greenlet.switch()
        finally:
            self._running = None
        if task.greenlet.dead:
            self._tasks.remove(task)

    def _switch(self, task: Task) -> None:
        self._hub.switch()
        if task.process.killed:
            raise Crash
