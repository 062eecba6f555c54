"""A stand-in for Cloud Scheduler: one call after the other, at a pace of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

EVERY_SECONDS = 1.0


class Scheduler:
    """Makes a call every second, as Cloud Scheduler makes one every minute, until it is stopped.

    A call that fails is followed by the next; none overlaps another.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, a second from now."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Make no call any more; one that is under way may yet be answered."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_SECONDS):
            with suppress(OSError):
                self._call()
