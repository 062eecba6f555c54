"""The ports to the state store: a handful of primitive, conditional writes.

`Store` is what an event and a job need, `Agenda` what the sweep needs beside it.

Policy is not here. Every write is either one that needs no prior read (record,
dispatch) or a compare-and-set on the very version it was decided from (all
others). Any method raises `StoreBusyError` when the store could not be
reached or was too contended, and `ConfigurationError` when it may not be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NewType, Protocol

from gate.identity import Pin, Revision, job_id
from gate.job import Job
from gate.manifest import Manifest, PublishedRevision
from gate.names import Bundle, Component

# What a store compares in a conditional write. Only the store that gave it out
# can read it.
Version = NewType("Version", object)


@dataclass(frozen=True, slots=True)
class Claim:
    """One object generation, to be recorded once.

    `token` is new for every call, so that a lost answer can be told from
    another caller's claim.
    """

    component: Component
    generation: int
    event_id: str
    token: str

    @property
    def id(self) -> str:
        """Return the job id: the md5 of bucket, name and generation."""
        return job_id(self.component.bundle.bucket, self.component.name, self.generation)

    @property
    def pin(self) -> Pin:
        """Return the object and generation that the event speaks of."""
        return Pin(self.component.name, self.generation)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The state after an event was recorded, by this call or an earlier one.

    `first` tells whether it was this call, and `latest` whether no other claim
    of the bundle was committed after this one. `manifest` was read after the write
    and holds everything committed before `now`, the store's time of that read.
    `unended` are the ids of jobs that this event dispatched and that have not
    ended, or are held, as far as its claim knows.
    """

    first: bool
    latest: bool
    manifest: Manifest
    now: datetime
    unended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incomplete:
    """What the commit of a new claim told by itself: the bundle is not whole yet.

    `missing` are the required extensions of which no claim had been committed
    by then, and `newest` is the greatest generation recorded of the claim's own
    object. Nothing else was read, for nothing else matters to a bundle that
    waits; whoever commits what is missing learns that it is not.
    """

    missing: tuple[str, ...]
    newest: int


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as it was read or written, with what a conditional write compares.

    `now` is the store's own time of that read or write.
    """

    job: Job
    version: Version
    now: datetime


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """A manifest as it was read, with what a conditional write compares.

    `expires_at` is when it may be collected, `None` while something is pending.
    """

    manifest: Manifest
    version: Version
    now: datetime
    expires_at: datetime | None = None


class Kind(Enum):
    """The kinds of document whose time can come."""

    JOB = "job"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class Due:
    """A document whose time has come; nothing else of it has been looked at.

    `now` is the store's time of the query, which is not before `due_at`.
    """

    kind: Kind
    id: str
    due_at: datetime
    version: Version
    now: datetime


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a pass over a bucket has come: `after` is the last object name looked at."""

    begun_at: datetime
    after: str = ""
    finished: bool = False


@dataclass(frozen=True, slots=True)
class StoredCursor:
    """A cursor as it was read, `None` if there is none yet, under the name it has."""

    name: str
    cursor: Cursor | None
    version: Version
    now: datetime


@dataclass(frozen=True, slots=True)
class Retention:
    """When the sweep looks at a manifest again, and how long finished documents stay.

    `settle` is the pause after a claim before the manifest is due; `claims`
    and `manifests` count from the moment a document is finished. Time-to-live
    deletion collects garbage only: nothing is decided by it.
    """

    settle: timedelta
    claims: timedelta
    manifests: timedelta


class Store(Protocol):
    """Claims, manifests and jobs."""

    def record(self, claim: Claim, required: tuple[str, ...] = ()) -> Recorded | Incomplete:
        """Create the claim if absent and, in the same transaction, merge its component.

        If that very transaction shows that one of the `required` extensions is
        missing, that is the answer. Otherwise the manifest is read, strongly
        consistent. A claim that exists is an ordinary outcome (`first` is
        false) and leaves everything unchanged, unless it has outlived its
        manifest: then the component is merged again.
        """
        ...

    def dispatch(self, job: Job, found: tuple[Pin, ...] = ()) -> StoredJob | None:
        """Create the job if absent and, in the same transaction, mark its revision dispatched.

        `found` are objects that were seen in the bucket before their events;
        they are merged into the manifest too, and so is the job's fence. The
        dispatching event's claim learns which job it started. Return `None` if
        the job exists.
        """
        ...

    def job(self, revision_id: str) -> StoredJob | None:
        """Read a job; `None` if there is none."""
        ...

    def replace(self, held: StoredJob, job: Job) -> StoredJob | None:
        """Write `job` if the stored one is still exactly `held.version`.

        Return `None` if it is not: somebody else has moved it, or it is gone.
        Succeeds if this very write had landed before and its answer was lost.
        When the job has ended, the claim of the event that dispatched it says
        so, in the same transaction. When its fence has grown, so does that of
        the manifest, which is then due for the sweep and does not expire. The
        expiry time stands on finished jobs only.
        """
        ...

    def manifest(self, bundle: Bundle) -> StoredManifest | None:
        """Read a manifest, strongly consistent; `None` if there is none."""
        ...

    def note_published(
        self, held: StoredManifest, published: PublishedRevision, *, finished: bool
    ) -> bool:
        """Write what is current in the sink, if the manifest is still `held.version`.

        `finished` says that nothing of the bundle is pending: the manifest may
        then expire. Return false if the manifest has changed.
        """
        ...


class Agenda(Store, Protocol):
    """What is due, and the sweep's own writes.

    Due is what the store's own clock says is due. Each query asks for one field.
    """

    def due_jobs(self, limit: int) -> tuple[Due, ...]:
        """Return up to `limit` jobs that somebody has to take up, the longest due first."""
        ...

    def due_manifests(self, limit: int) -> tuple[Due, ...]:
        """Return up to `limit` manifests that are to be looked at, the longest due first."""
        ...

    def woken(self, due: Due) -> StoredManifest | None:
        """Read a manifest that was due; `None` if it is gone.

        Raises whatever comes of a document that is no manifest.
        """
        ...

    def manifests_of(self, bundles: Iterable[Bundle]) -> Mapping[Bundle, StoredManifest]:
        """Read the manifests of many bundles in one call; those that are not there are left out."""
        ...

    def postpone(self, due: Due, until: datetime) -> None:
        """Make the document due at `until`, if it is as it was seen: nothing else in it is read."""
        ...

    def rest(
        self,
        held: StoredManifest,
        *,
        wake_at: datetime | None,
        stalled: bool = False,
        finished: bool = False,
        dispatched: Revision | None = None,
    ) -> bool:
        """Write when to look at the manifest again, if it is still `held.version`.

        `None` takes the time away; `finished` says that nothing of the bundle is
        pending, and the manifest may expire, counted from now. `stalled` notes
        that a person was told of what is missing, `dispatched` a revision that
        turned out to be so. Return false if the manifest has changed to anything
        else than this.
        """
        ...

    def cursor(self, name: str) -> StoredCursor:
        """Read a cursor."""
        ...

    def move_cursor(self, held: StoredCursor, cursor: Cursor) -> bool:
        """Write the cursor if it is still as it was read; return false if somebody has moved it."""
        ...
