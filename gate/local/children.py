"""The child processes of one stack: where they listen, and that none outlives it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gate.local.processes import LOOPBACK, Child, ChildError, free_ports, stop_all


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where each part of one stack listens, as `host:port`."""

    firestore: str
    pubsub: str
    storage: str
    function: str
    sweep: str
    work: str
    tasks: str
    database: str

    @classmethod
    def free(cls) -> Addresses:
        """Return addresses on ports that are free now."""
        return cls(*(f"{LOOPBACK}:{port}" for port in free_ports(8)))


class Children:
    """Child processes by name; each writes to a log in `folder`.

    Several threads may launch children while another one ends them all: whatever
    comes too late is not begun.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Child] = {}
        self._closing = False
        self._lock = threading.Lock()

    @property
    def pids(self) -> dict[str, int]:
        """Return the process id of each child; each leads a process group."""
        return {name: child.pid for name, child in self._running.items()}

    def log(self, name: str) -> Path:
        """Return the log of a child of this name."""
        return self._folder / f"{name}.log"

    def ended(self) -> ChildError | None:
        """Return what to say of a child that is no longer there, `None` if all are."""
        failures = (child.ended() for child in list(self._running.values()))
        return next((failure for failure in failures if failure), None)

    def launch(
        self,
        name: str,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        log: Path | None = None,
        grace_seconds: float = 0.2,
    ) -> Child:
        """Start a child. Raises `ChildError` once all are being ended."""
        with self._lock:
            if self._closing:
                raise ChildError("not started, for the stack is ending", where=name, cure="none")
            child = Child(
                name,
                command,
                environment=environment,
                log=log or self.log(name),
                grace_seconds=grace_seconds,
            )
            self._running[name] = child
            return child

    def stop(self, name: str) -> bool:
        """End one child, and tell whether it was there."""
        child = self._running.pop(name, None)
        if child:
            stop_all([child])
        return child is not None

    def end(self) -> None:
        """End every child and wait until all of their processes are gone; no more are begun.

        A thread does it, so that an impatient second interrupt cannot leave
        half of them running: the interpreter waits for the thread.
        """
        ending = threading.Thread(target=self._end)
        ending.start()
        ending.join()

    def _end(self) -> None:
        with self._lock:
            self._closing = True
            children = list(self._running.values())
        stop_all(children)
        self._running.clear()

    def begin_again(self) -> None:
        """Let children be launched again, after an end."""
        self._closing = False
