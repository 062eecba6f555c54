"""The store on Firestore, and every trap of its client in one place.

Events of one bundle arrive together, so what they write must need no prior
read: a transaction that reads a manifest before writing it was measured two
orders of magnitude slower under that load. Here each write is one Commit call,
which Firestore applies as a transaction of its own: all its writes with all
their conditions, or none. Beginning a transaction first would add a call and
buy nothing, since nothing is read inside it. (It also keeps out two traps of
the client: five aborted commits, or a failed begin, surface as `ValueError`.)

What the client library does, and what is done about it here:

- `Aborted` and `AlreadyExists` share a base class; only `AlreadyExists` may
  mean that somebody was first, and only after the token was compared.
- A write whose answer was lost is sent again, and the second answer
  (`AlreadyExists`, `FailedPrecondition`, `InvalidArgument`) speaks of one's own
  first write. So the stored document is read and compared before any such
  answer is believed.
- By itself the library repeats a commit for 60 s and a read for 300 s, an
  exhausted quota included. Here it repeats nothing: the rounds below are all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from google.api_core import exceptions as api
from google.auth.exceptions import DefaultCredentialsError
from google.cloud import firestore

from gate.errors import ConfigurationError, StoreBusyError, StoreQuotaError
from gate.identity import Pin, bundle_id
from gate.job import FINISHED, Job
from gate.manifest import PublishedRevision
from gate.names import Bundle
from gate.store.documents import (
    bundle_fields,
    claim_status,
    job_fields,
    job_from,
    manifest_from,
    published_fields,
    unended_jobs,
)
from gate.store.merging import claim_fields
from gate.store.port import (
    Claim,
    Incomplete,
    Recorded,
    Retention,
    StoredJob,
    StoredManifest,
    Version,
)

T = TypeVar("T")

# Each call gets one deadline and no repetition but these rounds, so that an
# event ends, well or badly, long before its function times out.
ROUNDS = 4
CALL_SECONDS = 10.0
PAUSE_SECONDS = 0.1
PAUSE_MOST_SECONDS = 2.0

_PASSING = (
    api.Aborted,
    api.Cancelled,
    api.DeadlineExceeded,
    api.InternalServerError,
    api.ResourceExhausted,
    api.RetryError,
    api.ServiceUnavailable,
    api.Unknown,
)
_CONDITION_FAILED = (api.AlreadyExists, api.FailedPrecondition, api.InvalidArgument, api.NotFound)
_REFUSED = (api.PermissionDenied, api.Unauthenticated, api.NotFound, api.FailedPrecondition)


def connect(database: str) -> firestore.Client:
    """Return a client for one database of the surrounding project.

    Raises `ConfigurationError` where there are no credentials, or no project.
    """
    try:
        return firestore.Client(database=database)
    except (DefaultCredentialsError, OSError) as error:
        raise ConfigurationError(
            f"there is no way to Firestore ({error})",
            where="FIRESTORE_DATABASE",
            cure="give the function a service account, or set GOOGLE_CLOUD_PROJECT and log in",
        ) from error


@dataclass(frozen=True, slots=True)
class Collections:
    """The names of the collections; `sweep` holds the sweep's cursors."""

    claims: str
    manifests: str
    jobs: str
    sweep: str = "sweep"


class FirestoreStore:
    """Claims, manifests and jobs in three collections of one database.

    `sleep` and `jitter` (a number in [0, 1)) are arguments so that tests need
    not wait.
    """

    def __init__(
        self,
        client: firestore.Client,
        collections: Collections,
        retention: Retention,
        clock: Callable[[], datetime],
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._claims = client.collection(collections.claims)
        self._manifests = client.collection(collections.manifests)
        self._jobs = client.collection(collections.jobs)
        self._retention = retention
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    def record(self, claim: Claim, required: tuple[str, ...] = ()) -> Recorded | Incomplete:
        """See `Store.record`. One call if that shows the bundle incomplete, two otherwise.

        Two more if the manifest has been collected since the claim was made.
        """
        bundle = claim.component.bundle
        name, extension = claim.component.name, claim.component.extension
        claim_ref = self._claims.document(claim.id)
        manifest_ref = self._manifests.document(bundle_id(bundle))
        now = self._clock()
        claimed = claim_fields(
            claim,
            claimed_at=firestore.SERVER_TIMESTAMP,
            expires_at=now + self._retention.claims,
        )
        merge = {
            **bundle_fields(bundle),
            "components": {name: firestore.Maximum(claim.generation)},
            "newest": registers(extension, claim.generation, required),
            "seen": firestore.ArrayUnion([extension]),
            "updated_at": firestore.SERVER_TIMESTAMP,
            "latest_claim": claim_ref.id,
            "wake_at": now + self._retention.settle,
            "expires_at": firestore.DELETE_FIELD,
        }

        def write(batch: firestore.WriteBatch) -> None:
            batch.create(claim_ref, claimed)
            batch.set(manifest_ref, merge, merge=True)

        results = self._commit(write)
        created = results is not None
        if results is not None:
            known = registers_after(results[1], name, merge["newest"])
            missing = tuple(each for each in required if known.get(("newest", each)) == 0)
            if missing:
                return Incomplete(missing, known["components", name])
        wanted = [manifest_ref] if created else [manifest_ref, claim_ref]
        found = self._read(*wanted)
        manifest = found[manifest_ref.id]
        stored = {} if created else found[claim_ref.id].to_dict()
        if stored is None:
            raise StoreBusyError("the claim was refused and is not there", where=claim.id)
        document = manifest.to_dict() or {}
        if document.get("components", {}).get(name, 0) < claim.generation:
            # The claim has outlived its manifest.
            self._commit(lambda batch: batch.set(manifest_ref, merge, merge=True))
            manifest = self._read(manifest_ref)[manifest_ref.id]
            document = manifest.to_dict() or {}
        return Recorded(
            first=created or stored.get("token") == claim.token,
            latest=document.get("latest_claim") == claim_ref.id,
            manifest=manifest_from(bundle, document),
            now=manifest.read_time,
            unended=unended_jobs(stored),
        )

    def dispatch(self, job: Job, found: tuple[Pin, ...] = ()) -> StoredJob | None:
        """See `Store.dispatch`. One call, one more if the job exists."""
        bundle = job.revision.bundle
        merge: dict[str, Any] = {
            **bundle_fields(bundle),
            "dispatched": {
                extension: firestore.Maximum(generation)
                for extension, generation in job.revision.generations.items()
            },
            "dispatched_order": firestore.Maximum(job.revision.order),
            "fence": firestore.Maximum(job.fence),
            "expires_at": firestore.DELETE_FIELD,
        }
        if found:
            beside = manifest_from(bundle, {}).joined(found)
            merge["components"] = {pin.name: firestore.Maximum(pin.generation) for pin in found}
            merge["newest"] = {
                extension: firestore.Maximum(pin.generation)
                for extension, pin in beside.current().items()
            }
            merge["seen"] = firestore.ArrayUnion(list(beside.seen))
        job_ref = self._jobs.document(job.id)

        def write(batch: firestore.WriteBatch) -> None:
            batch.create(job_ref, job_fields(job))
            batch.set(self._manifests.document(bundle_id(bundle)), merge, merge=True)
            batch.set(*self._claim_note(job), merge=True)

        results = self._commit(write)
        if results is not None:
            return as_committed(job, results)
        stored = self.job(job.id)
        if stored is None:
            raise StoreBusyError("the job was refused and is not there", where=job.id)
        return stored if stored.job.token == job.token else None

    def job(self, revision_id: str) -> StoredJob | None:
        """See `Store.job`."""
        snapshot = self._read(self._jobs.document(revision_id))[revision_id]
        document = snapshot.to_dict()
        if document is None:
            return None
        return StoredJob(job_from(document), Version(snapshot.update_time), snapshot.read_time)

    def replace(self, held: StoredJob, job: Job) -> StoredJob | None:
        """See `Store.replace`. One call; one more if the answer needs a second look."""
        fields = job_fields(job)
        expires_at = self._clock() + self._retention.claims
        fields["expires_at"] = expires_at if job.state in FINISHED else firestore.DELETE_FIELD
        fields.setdefault("due_at", firestore.DELETE_FIELD)
        job_ref, bundle = self._jobs.document(job.id), job.revision.bundle
        unchanged = self._client.write_option(last_update_time=held.version)

        def write(batch: firestore.WriteBatch) -> None:
            batch.update(job_ref, fields, option=unchanged)
            if job.ended:
                batch.set(*self._claim_note(job), merge=True)
            if job.fence > held.job.fence:
                pending = {
                    **bundle_fields(bundle),
                    "fence": firestore.Maximum(job.fence),
                    "wake_at": self._clock() + self._retention.settle,
                    "expires_at": firestore.DELETE_FIELD,
                }
                batch.set(self._manifests.document(bundle_id(bundle)), pending, merge=True)

        results = self._commit(write)
        if results is not None:
            return as_committed(job, results)
        stored = self.job(job.id)
        return stored if stored is not None and stored.job == job else None

    def manifest(self, bundle: Bundle) -> StoredManifest | None:
        """See `Store.manifest`."""
        key = bundle_id(bundle)
        snapshot = self._read(self._manifests.document(key))[key]
        document = snapshot.to_dict()
        if document is None:
            return None
        return StoredManifest(
            manifest_from(bundle, document),
            Version(snapshot.update_time),
            snapshot.read_time,
            document.get("expires_at"),
        )

    def note_published(
        self, held: StoredManifest, published: PublishedRevision, *, finished: bool
    ) -> bool:
        """See `Store.note_published`."""
        fields: dict[str, Any] = {"published": published_fields(published)}
        if finished:
            fields["expires_at"] = self._clock() + self._retention.manifests
        reference = self._manifests.document(bundle_id(held.manifest.bundle))
        unchanged = self._client.write_option(last_update_time=held.version)

        def write(batch: firestore.WriteBatch) -> None:
            batch.update(reference, fields, option=unchanged)

        return self._commit(write) is not None

    def _claim_note(self, job: Job) -> tuple[firestore.DocumentReference, dict[str, Any]]:
        status = claim_status(job)
        note = {
            "status": status,
            "jobs": {job.id: status},
            "expires_at": self._clock() + self._retention.claims,
        }
        return self._claims.document(job.dispatched_by), note

    def _read(self, *references: firestore.DocumentReference) -> dict[str, Any]:
        return self._retrying(
            lambda: {
                found.id: found
                for found in self._client.get_all(
                    list(references), retry=None, timeout=CALL_SECONDS
                )
            }
        )

    def _commit(
        self, write: Callable[[firestore.WriteBatch], None]
    ) -> list[firestore.types.WriteResult] | None:
        """Apply the writes in one transaction; return the result of each.

        The Commit call without a transaction id is a transaction of its own:
        all writes with all their conditions, or none. `None` if a condition
        did not hold. That answer may be about one's own earlier write: the
        caller reads and compares. `write` may run many times and only adds.
        """

        def run() -> list[firestore.types.WriteResult] | None:
            batch = self._client.batch()
            write(batch)
            try:
                return list(batch.commit(retry=None, timeout=CALL_SECONDS))
            except _CONDITION_FAILED:
                return None

        return self._retrying(run)

    def _retrying(self, operation: Callable[[], T]) -> T:
        """Run `operation` a few times with growing, jittered pauses between.

        An exhausted quota gets one long pause and one more try: hammering it
        makes it worse, and redelivery is the better queue.
        """
        for turn in range(ROUNDS):
            try:
                with translated():
                    return operation()
            except StoreQuotaError:
                if turn:
                    raise
                self._sleep(PAUSE_MOST_SECONDS)
            except StoreBusyError:
                if turn == ROUNDS - 1:
                    raise
                pause = min(PAUSE_SECONDS * 4**turn, PAUSE_MOST_SECONDS)
                self._sleep(pause * (0.5 + self._jitter() / 2))
        raise AssertionError("the last round returns or raises")


def as_committed(job: Job, results: list[firestore.types.WriteResult]) -> StoredJob:
    """Return a job that was written first: its version is the time of the commit."""
    committed_at = results[0].update_time
    return StoredJob(job, Version(committed_at), committed_at)


def registers(
    extension: str, generation: int, required: tuple[str, ...]
) -> dict[str, firestore.Maximum]:
    """Return the merge of a component's extension that asks after the required ones too.

    Zero joined to a max-register changes nothing; the answer of the commit then
    holds the register's value, and zero says that nobody has written it.
    """
    asked = {each: firestore.Maximum(0) for each in required}
    return {**asked, extension: firestore.Maximum(generation)}


def registers_after(
    result: firestore.types.WriteResult, name: str, newest: Mapping[str, object]
) -> dict[tuple[str, str], int]:
    """Return the registers of a manifest as its merge left them.

    Firestore answers a write with the values of its transforms, in their order,
    which the client makes the order of their field paths. The other two, `seen`
    and `updated_at`, come after these.
    """
    paths = [("components", name), *(("newest", each) for each in sorted(newest))]
    values = (value.integer_value for value in result.transform_results)
    return dict(zip(paths, values, strict=False))


@contextmanager
def translated() -> Iterator[None]:
    """Turn the client's errors into the gate's, by what helps.

    Raises `StoreBusyError` (`StoreQuotaError` for an exhausted quota) where
    waiting helps, and `ConfigurationError` where only a person can.
    """
    try:
        yield
    except api.GoogleAPIError as error:
        raise _translation(error) from error


def _translation(error: api.GoogleAPIError) -> Exception:
    reasons = (error, getattr(error, "cause", None))
    if any(isinstance(reason, api.ResourceExhausted) for reason in reasons):
        return StoreQuotaError(f"Firestore is over its quota ({error})")
    if isinstance(error, _PASSING):
        return StoreBusyError(f"Firestore did not answer well ({error})")
    if isinstance(error, _REFUSED):
        return ConfigurationError(
            f"Firestore refused ({error})",
            where="FIRESTORE_DATABASE",
            cure="check that the database exists in Native mode and that the function's"
            " service account has roles/datastore.user on it",
        )
    return error
