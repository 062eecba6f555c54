"""A worker's hold on its job: renewed while it works, proven before it publishes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

from gate import job
from gate.job import Job, Limits
from gate.store.port import Store, StoredJob

T = TypeVar("T")


class Stop(Enum):
    """Why a worker must stop and write nothing more."""

    FENCED_OUT = "fenced_out"
    SUPERSEDED = "superseded"


class Stopped(Exception):  # noqa: N818  a signal, not an error
    """Leaves the work at once; caught where the work was started, nowhere else."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.value)
        self.stop = stop


@dataclass(slots=True)
class Ownership:
    """The latest version of a job that this worker has written.

    A renewal is due when a third of the lease has passed on `monotonic`, a
    clock in seconds that only measures pauses: whether the lease still holds
    is decided by the store, in the condition of the write.
    """

    store: Store
    stored: StoredJob
    limits: Limits
    monotonic: Callable[[], float]
    _told_at: datetime = field(init=False)
    _renewed_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self._told_at = self.stored.now
        self._renewed_seconds = self.monotonic()

    @property
    def job(self) -> Job:
        """Return the job as last written."""
        return self.stored.job

    @property
    def now(self) -> datetime:
        """Return the store's time as last told, plus what has passed here since."""
        return self._told_at + timedelta(seconds=self.monotonic() - self._renewed_seconds)

    def over(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield `steps`, keeping the lease between them."""
        for step in steps:
            yield step
            self.beat()

    def beat(self) -> None:
        """Renew the lease if that is due. Raises `Stopped` as `prove` does."""
        if self.monotonic() - self._renewed_seconds > self.limits.lease.total_seconds() / 3:
            self.prove()

    def prove(self) -> None:
        """Renew the lease now.

        Raises `Stopped` if somebody else has taken the job over, or if a newer
        revision of the bundle has been dispatched.
        """
        manifest = self.store.manifest(self.job.revision.bundle)
        if manifest and manifest.manifest.dispatched_order > self.job.revision.order:
            raise Stopped(Stop.SUPERSEDED)
        clock = manifest or self.store.job(self.job.id)
        if clock is None:
            raise Stopped(Stop.FENCED_OUT)
        self.write(job.renewed(self.job, now=clock.now, limits=self.limits))
        self._told_at = clock.now
        self._renewed_seconds = self.monotonic()

    def write(self, moved: Job) -> None:
        """Write the job's next state. Raises `Stopped` if it is no longer ours.

        What refuses the write may be a renewal of our own that landed and whose
        answer was lost: the token, new for every claim, tells it from a
        take-over.
        """
        stored = self.store.replace(self.stored, moved) or self._again(moved)
        if stored is None:
            raise Stopped(Stop.FENCED_OUT)
        self.stored = stored

    def _again(self, moved: Job) -> StoredJob | None:
        standing = self.store.job(self.job.id)
        if standing is None or standing.job.ended or standing.job.token != self.job.token:
            return None
        return self.store.replace(standing, moved)
