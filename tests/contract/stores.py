"""Benches for stores: the store, its clock, and the documents that it keeps."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from google.cloud import firestore
from test_utils.prefixer import Prefixer

from gate import job
from gate.identity import Revision, bundle_id
from gate.job import Job, Limits
from gate.names import Bundle, Component, parse
from gate.store.firestore import Collections
from gate.store.firestore_agenda import FirestoreAgenda
from gate.store.memory import MemoryStore
from gate.store.port import Agenda, Claim, Incomplete, Recorded, Retention, StoredJob

RETENTION = Retention(
    settle=timedelta(seconds=30), claims=timedelta(days=7), manifests=timedelta(days=1)
)
LIMITS = Limits(lease=timedelta(seconds=60), max_attempts=3, retry=timedelta(seconds=10))
BUCKET = "uploads"
# As many digits as Cloud Storage writes.
GENERATION = 1_731_000_000_000_001

Document = dict[str, Any]

_NAMES = Prefixer("shapefile-gate", "store", separator="-")
_TOKENS = count(1)


class Clock:
    """A worker's clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=123_456)

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def forward(self, duration: timedelta) -> None:
        """Move on."""
        self.now += duration


class StoreBench(ABC):
    """One store under test, and its documents from the outside.

    Documents are asked for by kind: `claims`, `manifests` or `jobs`.
    """

    store: Agenda
    clock: Clock

    @abstractmethod
    def document(self, kind: str, key: str) -> Document | None:
        """Return a document, `None` if there is none."""

    @abstractmethod
    def written(self) -> dict[str, object]:
        """Return every document together with what tells one write from the next."""

    @abstractmethod
    def put(self, kind: str, key: str, document: Document) -> None:
        """Write a document as it is, over one that is there."""

    @abstractmethod
    def remove(self, kind: str, key: str) -> None:
        """Delete a document, as its time-to-live would."""

    @abstractmethod
    def beside(self) -> StoreBench:
        """Return the bench of a second consumer of the same database."""

    def claim_document(self, claim: Claim) -> Document:
        """Return the document of a claim that exists."""
        found = self.document("claims", claim.id)
        assert found is not None
        return found

    def manifest_document(self, bundle: Bundle) -> Document:
        """Return the document of a manifest that exists."""
        found = self.document("manifests", bundle_id(bundle))
        assert found is not None
        return found

    def job_document(self, revision_id: str) -> Document:
        """Return the document of a job that exists."""
        found = self.document("jobs", revision_id)
        assert found is not None
        return found

    def record(self, name: str, generation: int = GENERATION) -> Recorded:
        """Record one generation of an object, with a token of its own."""
        return whole(self.store.record(claim_of(name, generation)))

    def due(self, *names: str, generation: int = GENERATION) -> Job:
        """Record the objects; return the job that the event of the last one dispatches."""
        for name in names:
            claim = claim_of(name, generation)
            recorded = whole(self.store.record(claim))
        return job_of(claim, recorded)

    def dispatched(self, *names: str, generation: int = GENERATION) -> StoredJob:
        """Record the objects and dispatch their revision."""
        stored = self.store.dispatch(self.due(*names, generation=generation))
        assert stored is not None
        return stored


class MemoryBench(StoreBench):
    """The bench of the store in memory."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store: MemoryStore = MemoryStore(RETENTION, self.clock)

    def document(self, kind: str, key: str) -> Document | None:
        """Return a document, `None` if there is none."""
        return copy.deepcopy(self._kind(kind).get(key))

    def written(self) -> dict[str, object]:
        """Return every document together with what tells one write from the next."""
        kinds = ("claims", "manifests", "jobs")
        documents = {kind: copy.deepcopy(self._kind(kind)) for kind in kinds}
        return {**documents, "versions": dict(self.store._versions)}

    def put(self, kind: str, key: str, document: Document) -> None:
        """Write a document as it is, over one that is there."""
        self._kind(kind)[key] = dict(document)
        self.store._versions[key] = next(self.store._counter)

    def remove(self, kind: str, key: str) -> None:
        """Delete a document, as its time-to-live would."""
        del self._kind(kind)[key]

    def beside(self) -> StoreBench:
        """Return the bench of a second consumer; memory is never shared."""
        return MemoryBench()

    def _kind(self, kind: str) -> dict[str, Document]:
        documents: dict[str, Document] = getattr(self.store, kind)
        return documents


class FirestoreBench(StoreBench):
    """The bench of the store on Firestore, in collections of its own.

    `pauses` are the seconds that the store meant to sleep; `while_paused` is
    called with them instead, and returns at once unless a test sets another.
    """

    def __init__(self, client: firestore.Client, jitter: float = 1.0) -> None:
        self.clock = Clock()
        self.pauses: list[float] = []
        self.while_paused: Callable[[float], object] = lambda _seconds: None
        self._client = client
        prefix = _NAMES.create_prefix()
        self._collections = Collections(
            f"{prefix}-claims", f"{prefix}-manifests", f"{prefix}-jobs", f"{prefix}-sweep"
        )
        self.store: FirestoreAgenda = FirestoreAgenda(
            client,
            self._collections,
            RETENTION,
            self.clock,
            sleep=self._pause,
            jitter=lambda: jitter,
        )

    def document(self, kind: str, key: str) -> Document | None:
        """Return a document, `None` if there is none."""
        found: Document | None = self._kind(kind).document(key).get().to_dict()
        return found

    def written(self) -> dict[str, object]:
        """Return every document together with what tells one write from the next."""
        return {
            snapshot.reference.path: (snapshot.to_dict(), snapshot.update_time)
            for kind in ("claims", "manifests", "jobs")
            for snapshot in self._kind(kind).stream()
        }

    def put(self, kind: str, key: str, document: Document) -> None:
        """Write a document as it is, over one that is there."""
        self._kind(kind).document(key).set(document)

    def remove(self, kind: str, key: str) -> None:
        """Delete a document, as its time-to-live would."""
        self._kind(kind).document(key).delete()

    def beside(self) -> StoreBench:
        """Return the bench of a second consumer of the same database."""
        return FirestoreBench(self._client)

    def jobs(self) -> dict[str, Document]:
        """Return every job by its id."""
        return {found.id: found.to_dict() for found in self._kind("jobs").stream()}

    def locked(self, bundle: Bundle) -> Callable[[], None]:
        """Read a manifest in a transaction that goes on, and return what ends it."""
        holder = self._client.transaction()
        holder._begin()
        self._kind("manifests").document(bundle_id(bundle)).get(transaction=holder)
        return holder._rollback  # type: ignore[no-any-return]

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.while_paused(seconds)

    def _kind(self, kind: str) -> firestore.CollectionReference:
        return self._client.collection(getattr(self._collections, kind))


def whole(recorded: Recorded | Incomplete) -> Recorded:
    """Return the answer of a claim for which nothing was required."""
    assert isinstance(recorded, Recorded)
    return recorded


def claim_of(name: str, generation: int = GENERATION) -> Claim:
    """Return a claim on one generation of an object, with a token of its own."""
    component = parse(BUCKET, name)
    assert isinstance(component, Component)
    return Claim(component, generation, "event-1", f"token-{next(_TOKENS)}")


def job_of(claim: Claim, recorded: Recorded) -> Job:
    """Return the job of everything recorded so far, as the claim's event would open it."""
    return job.opened(
        Revision.of(recorded.manifest.bundle, recorded.manifest.current()),
        dispatched_by=claim.id,
        token=claim.token,
        now=recorded.now,
        limits=LIMITS,
    )
