"""Benches for stores: the store, its clock, and the documents that it keeps."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from google.cloud import firestore, storage
from test_utils.prefixer import Prefixer

from gate import job
from gate.identity import Revision, bundle_id
from gate.job import Job, Limits
from gate.names import Bundle, Component, parse
from gate.store.blob_documents import encoded, labels_of
from gate.store.blobs_agenda import BlobAgenda
from gate.store.blobs_history import BlobHistory
from gate.store.cloud_objects import CloudObjects
from gate.store.firestore import Collections
from gate.store.firestore_agenda import FirestoreAgenda
from gate.store.firestore_history import FirestoreHistory
from gate.store.history import History
from gate.store.memory import MemoryStore
from gate.store.memory_history import MemoryHistory
from gate.store.port import Agenda, Claim, Incomplete, Recorded, Retention, StoredJob
from tests.simulation.bucket import Bucket, Stored, shown

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
    history: History
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
        self.history = MemoryHistory(self.store)

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
        self.history = FirestoreHistory(client, self._collections)

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


class BlobBench(StoreBench):
    """The bench of the store on small objects, over a bucket in memory.

    `pauses` are the seconds that the store meant to sleep.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.pauses: list[float] = []
        self.bucket = Bucket(self.clock)
        self.store: BlobAgenda = BlobAgenda(
            self.bucket, RETENTION, self.clock, sleep=self.pauses.append, jitter=lambda: 1.0
        )
        self.history = BlobHistory(self.bucket)

    def document(self, kind: str, key: str) -> Document | None:
        """Return a document, `None` if there is none."""
        return self.bucket.all_of(kind).get(key)

    def written(self) -> dict[str, object]:
        """Return every document together with what tells one write from the next."""
        return dict(self.bucket.stored)

    def put(self, kind: str, key: str, document: Document) -> None:
        """Write a document as it is, over one that is there."""
        self.bucket.put(kind, key, document)

    def remove(self, kind: str, key: str) -> None:
        """Delete a document, as its lifecycle would."""
        self.bucket.remove(kind, key)

    def beside(self) -> StoreBench:
        """Return the bench of a second consumer; memory is never shared."""
        return BlobBench()


class CloudBlobBench(StoreBench):
    """The bench of the store on small objects, over a prefix of its own on a server."""

    def __init__(self, client: storage.Client, bucket: str, prefix: str = "state/") -> None:
        self.clock = Clock()
        self._client = client
        self._bucket = client.bucket(bucket)
        self._prefix = prefix
        objects = CloudObjects(client, bucket, prefix)
        self.store: BlobAgenda = BlobAgenda(objects, RETENTION, self.clock)
        self.history = BlobHistory(objects)

    def document(self, kind: str, key: str) -> Document | None:
        """Return a document, `None` if there is none."""
        blob = self._bucket.get_blob(f"{self._prefix}{kind}/{key}")
        return None if blob is None else self._shown(blob)

    def written(self) -> dict[str, object]:
        """Return every document together with what tells one write from the next."""
        found = self._client.list_blobs(self._bucket, prefix=self._prefix)
        return {blob.name: (self._shown(blob), blob.generation) for blob in found}

    def put(self, kind: str, key: str, document: Document) -> None:
        """Write a document as it is, over one that is there."""
        blob = self._bucket.blob(f"{self._prefix}{kind}/{key}")
        blob.metadata = labels_of(kind, document)
        blob.upload_from_string(encoded(document))

    def remove(self, kind: str, key: str) -> None:
        """Delete a document, as its lifecycle would."""
        self._bucket.delete_blob(f"{self._prefix}{kind}/{key}")

    def beside(self) -> StoreBench:
        """Return the bench of a second consumer of the same bucket."""
        return CloudBlobBench(self._client, self._bucket.name, "other/")

    def _shown(self, blob: storage.Blob) -> Document:
        stored = Stored(
            blob.download_as_bytes(), blob.generation, blob.metadata or {}, blob.custom_time
        )
        return shown(stored, blob.name)


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
