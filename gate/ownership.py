"""A worker's hold on its job: renewed while it works, proven before it publishes.

The worker and its heartbeat share one hold. A lock lets only one of them write
at a time, each on the version that the other has left, so neither can be refused
because of the other.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import NoReturn, TypeVar

from gate import job, log
from gate.errors import GateError, ShutdownError
from gate.job import Job, Limits
from gate.store.port import Store, StoredJob

T = TypeVar("T")

# A lease is renewed when less than this part of it is left, and a renewal that
# failed is tried again after that part of it.
RENEW_AT = 2 / 3
TRY_AGAIN_AFTER = 1 / 12


class Stop(Enum):
    """Why a worker must stop, and write nothing more to the sink."""

    FENCED_OUT = "fenced_out"
    VANISHED = "vanished"
    SUPERSEDED = "superseded"
    OUT_OF_TIME = "out_of_time"
    SHUTDOWN = "shutdown"


# After these the job is not the worker's any more.
LOST = frozenset({Stop.FENCED_OUT, Stop.VANISHED, Stop.SHUTDOWN})


class Stopped(Exception):  # noqa: N818  a signal, not an error
    """Leaves the work at once; caught where the work was started, nowhere else."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.value)
        self.stop = stop


@dataclass(slots=True)
class Ownership:
    """The latest version of a job that this worker, or its heartbeat, has written.

    `monotonic` is a clock in seconds that only measures pauses: whether the lease
    still holds is decided by the store, in the condition of the write.
    `shutting_down` tells whether the process has been told to stop.
    `progress` is for the worker to set once it has published something that a
    later attempt need not publish again.
    """

    store: Store
    stored: StoredJob
    limits: Limits
    monotonic: Callable[[], float]
    shutting_down: Callable[[], bool]
    progress: bool = False
    _told: tuple[datetime, float] = field(init=False)
    _began_seconds: float = field(init=False)
    _failed_seconds: float = field(init=False, default=-math.inf)
    _failure: GateError | None = field(init=False, default=None)
    _stop: Stop | None = field(init=False, default=None)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._began_seconds = self.monotonic()
        self._told = (self.stored.now, self._began_seconds)

    @property
    def job(self) -> Job:
        """Return the job as last written."""
        return self.stored.job

    @property
    def now(self) -> datetime:
        """Return the store's time as last told, plus what has passed here since."""
        told_at, seconds = self._told
        return told_at + timedelta(seconds=self.monotonic() - seconds)

    def over(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield `steps`, keeping the lease between them."""
        for step in steps:
            yield step
            self.beat()

    def beat(self) -> None:
        """Look after the lease from within the work.

        Raises `Stopped` if the worker has to leave off: the job was lost or a
        newer revision dispatched, the time of the function is up, or its
        process is being shut down. Raises what the store has raised, once the
        lease has run out without a renewal.
        """
        self.pulse()
        if self._stop:
            raise Stopped(self._stop)
        if self.shutting_down():
            raise Stopped(Stop.SHUTDOWN)
        if self._late:
            raise Stopped(Stop.OUT_OF_TIME)
        if self._failure and self.now >= self.job.lease_expires_at:
            raise self._failure

    def pulse(self) -> None:
        """Renew the lease if that is due, or give the job back in a shutdown.

        For the heartbeat: it raises nothing, does nothing while another
        thread is at it, and what it learns is raised by the next `beat`.
        A lease is not renewed beyond the time of the function: a worker that
        hangs must not hold its job for good.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._stop or self.job.state is not job.State.RUNNING:
                return
            if self.shutting_down():
                self._give_back()
            elif self._due:
                self._renew()
        except Stopped:
            return
        except GateError as error:
            self._failure = error
            self._failed_seconds = self.monotonic()
            log.write("lease not renewed", severity="WARNING", job=self.job.id, detail=str(error))
        finally:
            self._lock.release()

    def prove(self) -> None:
        """Renew the lease now.

        Raises `Stopped` if the job is not ours any more, or if a newer revision
        of the bundle has been dispatched.
        """
        with self._lock:
            if self._stop:
                raise Stopped(self._stop)
            self._renew()

    def write(self, moved: Job) -> None:
        """Write the job's next state. Raises `Stopped` if it is no longer ours."""
        with self._lock:
            if self._stop in LOST:
                raise Stopped(self._stop)
            self.stored = self._replaced(moved)

    @property
    def _due(self) -> bool:
        lease = self.limits.lease_of(self.job.attempts)
        pause_seconds = lease.total_seconds() * TRY_AGAIN_AFTER
        if self._late or self.monotonic() - self._failed_seconds < pause_seconds:
            return False
        return self.job.lease_expires_at - self.now < lease * RENEW_AT

    @property
    def _late(self) -> bool:
        return self.monotonic() - self._began_seconds >= self.limits.run.total_seconds()

    def _renew(self) -> None:
        manifest = self.store.manifest(self.job.revision.bundle)
        if manifest and manifest.manifest.dispatched_order > self.job.revision.order:
            self._end(Stop.SUPERSEDED)
        clock = manifest or self.store.job(self.job.id)
        if clock is None:
            self._end(Stop.VANISHED)
        self.stored = self._replaced(job.renewed(self.job, now=clock.now, limits=self.limits))
        self._told = (clock.now, self.monotonic())
        self._failure = None

    def _give_back(self) -> None:
        """Let the next delivery take the job at once; the worker decides from what it had."""
        error = ShutdownError("the instance was shut down", where=str(self.job.revision.bundle))
        self._replaced(job.interrupted(self.job, error, now=self.now))
        self._end(Stop.SHUTDOWN)

    def _replaced(self, moved: Job) -> StoredJob:
        """Write a state of the job on the version that was written last.

        What refuses the write may be a renewal of our own that landed and whose
        answer was lost: the token, new for every claim, tells it from a
        take-over.
        """
        stored = self.store.replace(self.stored, moved)
        if stored is None:
            standing = self.store.job(self.job.id)
            if standing is None:
                self._end(Stop.VANISHED)
            if standing.job.state is job.State.RUNNING and standing.job.token == self.job.token:
                stored = self.store.replace(standing, moved)
        return stored or self._end(Stop.FENCED_OUT)

    def _end(self, stop: Stop) -> NoReturn:
        """Remember why the worker has to leave off, and say so."""
        self._stop = stop
        raise Stopped(stop)
