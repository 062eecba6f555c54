"""What goes wrong around a call: kills, shutdowns, refusals, lost answers, stalls, cut networks.

Which of these a run meets at all, and how often, is drawn once for each seed, so
that rare combinations are not drowned by common ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from google.api_core import exceptions as api

from gate.errors import QueueBusyError, StorageBusyError, StoreBusyError
from tests.simulation.schedule import Schedule
from tests.world import Crash

FIRESTORE = (
    api.Aborted("contention"),
    api.DeadlineExceeded("too slow"),
    api.ServiceUnavailable("away"),
    api.ResourceExhausted("quota"),
    api.InternalServerError("sorry"),
)
ERRORS = {
    "source": StorageBusyError("503"),
    "sink": StorageBusyError("503"),
    "reader": StorageBusyError("503"),
    "letters": StoreBusyError("unavailable"),
    "objects": StoreBusyError("503"),
    "tasks": QueueBusyError("unavailable"),
}
# The calls that a network cut takes away: those to what keeps the documents.
KEPT = ("firestore", "objects")
KINDS = ("kill", "refuse", "cut", "stall", "shutdown")
RATES = (0.0, 0.0, 0.003, 0.01, 0.04)
# How often somebody stalls where others are most likely to come in between: after the
# last question to the owner, before the sink's one step; between the decision to
# dispatch and the dispatch.
DELICATE = ("sink.swap", "firestore.commit create jobs", "objects.create jobs")
ZOMBIES = (0.0, 0.0, 0.5)
# From a hiccup to longer than a lease, and than the longest pause between attempts.
STALL_SECONDS = (0.5, 5.0, 30.0, 65.0, 130.0, 700.0)


@dataclass
class Weather:
    """The faults of one run. Once `calm`, nothing goes wrong any more."""

    schedule: Schedule
    random: Random
    calm: bool = False
    rates: dict[str, float] = field(init=False)
    zombies: float = field(init=False)

    def __post_init__(self) -> None:
        self.rates = {kind: self.random.choice(RATES) for kind in KINDS}
        self.zombies = self.random.choice(ZOMBIES)

    def around(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call, with whatever happens before it takes effect and after."""
        if self.schedule.task is None:
            return call()
        self.moment(name, "before")
        answer = call()
        self.moment(name, "after")
        return answer

    def moment(self, name: str, when: str) -> None:
        """Let others run, then go on, or meet a fault."""
        task = self.schedule.task
        if task is None:
            return
        if task.process.killed:
            raise Crash
        self.schedule.note(f"{when} {name}")
        self.schedule.pause()
        if self.calm:
            return
        if task.process.cut_off and name.startswith(KEPT):
            raise self._error(name)
        match self._fault(name):
            case "kill":
                self.schedule.note(f"KILLED {when} {name}")
                task.process.killed = True
                raise Crash
            case "refuse":
                self.schedule.note(f"refused {when} {name}")
                raise self._error(name)
            case "cut":
                self.schedule.note(f"cut off {when} {name}")
                task.process.cut_off = True
            case "shutdown":
                self.schedule.note(f"is to stop {when} {name}")
                task.process.stopping = True
            case "stall":
                seconds = self.random.choice(STALL_SECONDS)
                self.schedule.note(f"stalls {seconds:g} s {when} {name}")
                self.schedule.sleep(seconds)

    def _fault(self, name: str) -> str:
        if name.startswith(DELICATE) and self.random.random() < self.zombies:
            return "stall"
        roll = self.random.random()
        for kind, rate in self.rates.items():
            if roll < rate:
                return kind
            roll -= rate
        return ""

    def _error(self, name: str) -> Exception:
        port = name.partition(".")[0]
        if port == "firestore":
            kind = self.random.choice(FIRESTORE)
            return type(kind)(kind.message)
        error = ERRORS[port]
        return type(error)(error.what)
