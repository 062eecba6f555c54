"""A store in memory: the model that the real ones are held to.

For tests and simulations. It keeps the same documents as the others, one lock
makes each method one transaction, and the clock is an argument.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, MutableMapping
from datetime import datetime
from itertools import count
from typing import Any

from gate.identity import Pin, Revision, bundle_id
from gate.job import FINISHED, Job
from gate.manifest import Manifest, PublishedRevision
from gate.names import Bundle
from gate.store.documents import (
    DUE_AT,
    WAKE_AT,
    bundle_fields,
    bundle_from,
    claim_status,
    due_time,
    job_fields,
    job_from,
    manifest_from,
    published_fields,
    unended_jobs,
)
from gate.store.merging import claim_fields, joined
from gate.store.port import (
    Claim,
    Cursor,
    Due,
    Incomplete,
    Kind,
    Recorded,
    Retention,
    StoredCursor,
    StoredJob,
    StoredManifest,
    Version,
)


class MemoryStore:
    """Hold claims, manifests and jobs in dictionaries, keyed as in Firestore.

    `claims`, `manifests` and `jobs` are open to inspection; a version is a
    number that grows with every write.
    """

    def __init__(self, retention: Retention, clock: Callable[[], datetime]) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.manifests: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self._cursors: dict[str, Cursor] = {}
        self._versions: dict[str, int] = {}
        self._retention = retention
        self._clock = clock
        self._counter = count(1)
        self._lock = threading.Lock()

    def record(self, claim: Claim, required: tuple[str, ...] = ()) -> Recorded | Incomplete:
        """See `Store.record`."""
        with self._lock:
            now = self._clock()
            bundle = claim.component.bundle
            first = claim.id not in self.claims
            if first:
                expires_at = now + self._retention.claims
                fields = claim_fields(claim, claimed_at=now, expires_at=expires_at)
                self.claims[claim.id] = fields
                document = self._merge_claim(claim, now)
                missing = tuple(each for each in required if not document["newest"].get(each))
                if missing:
                    return Incomplete(missing, document["components"][claim.component.name])
            elif self._forgotten(claim):
                self._merge_claim(claim, now)
            stored = self.claims[claim.id]
            return Recorded(
                first=first or stored.get("token") == claim.token,
                latest=self._latest_claim(bundle) == claim.id,
                manifest=self._read_manifest(bundle),
                now=now,
                unended=unended_jobs(stored),
            )

    def dispatch(self, job: Job, found: tuple[Pin, ...] = ()) -> StoredJob | None:
        """See `Store.dispatch`."""
        with self._lock:
            stored = self.jobs.get(job.id)
            if stored is None:
                self._write_job(job)
                self._merge(job.revision.bundle, found, job.revision.generations)
                self._raise_fence(job)
                self.manifests[bundle_id(job.revision.bundle)].pop("expires_at", None)
                self._mark_claim(job)
            elif stored["token"] != job.token:
                return None
            return self._stored_job(job.id)

    def job(self, revision_id: str) -> StoredJob | None:
        """See `Store.job`."""
        with self._lock:
            return self._stored_job(revision_id)

    def replace(self, held: StoredJob, job: Job) -> StoredJob | None:
        """See `Store.replace`."""
        with self._lock:
            stored = self._stored_job(job.id)
            if stored is None:
                return None
            if stored.version == held.version:
                self._write_job(job)
                if job.ended:
                    self._mark_claim(job)
                if job.fence > held.job.fence:
                    document = self._raise_fence(job)
                    document["wake_at"] = self._clock() + self._retention.settle
                    document.pop("expires_at", None)
            elif stored.job != job:
                return None
            return self._stored_job(job.id)

    def manifest(self, bundle: Bundle) -> StoredManifest | None:
        """See `Store.manifest`."""
        with self._lock:
            return self._stored_manifest(bundle)

    def note_published(
        self, held: StoredManifest, published: PublishedRevision, *, finished: bool
    ) -> bool:
        """See `Store.note_published`."""
        with self._lock:
            key = bundle_id(held.manifest.bundle)
            if key not in self.manifests or Version(self._versions[key]) != held.version:
                return False
            self.manifests[key]["published"] = published_fields(published)
            if finished:
                self.manifests[key]["expires_at"] = self._clock() + self._retention.manifests
            self._versions[key] = next(self._counter)
            return True

    # --- for the sweep ---------------------------------------------------------

    def due_jobs(self, limit: int) -> tuple[Due, ...]:
        """See `Agenda.due_jobs`."""
        return self._due(Kind.JOB, limit)

    def due_manifests(self, limit: int) -> tuple[Due, ...]:
        """See `Agenda.due_manifests`."""
        return self._due(Kind.MANIFEST, limit)

    def woken(self, due: Due) -> StoredManifest | None:
        """See `Agenda.woken`."""
        with self._lock:
            document = self.manifests.get(due.id)
            return None if document is None else self._stored_manifest(bundle_from(document))

    def manifests_of(self, bundles: Iterable[Bundle]) -> dict[Bundle, StoredManifest]:
        """See `Agenda.manifests_of`."""
        found = {bundle: self.manifest(bundle) for bundle in bundles}
        return {bundle: stored for bundle, stored in found.items() if stored}

    def postpone(self, due: Due, until: datetime) -> None:
        """See `Agenda.postpone`."""
        with self._lock:
            documents, field = self._queue(due.kind)
            if due.id in documents and Version(self._versions[due.id]) == due.version:
                documents[due.id][field] = until
                self._versions[due.id] = next(self._counter)

    def rest(
        self,
        held: StoredManifest,
        *,
        wake_at: datetime | None,
        stalled: bool = False,
        finished: bool = False,
        dispatched: Revision | None = None,
    ) -> bool:
        """See `Agenda.rest`."""
        with self._lock:
            key = bundle_id(held.manifest.bundle)
            document = self.manifests.get(key)
            if document is None or Version(self._versions[key]) != held.version:
                return False
            if dispatched:
                self._merge(held.manifest.bundle, (), dispatched.generations)
            said = {
                "wake_at": wake_at,
                "expires_at": self._clock() + self._retention.manifests if finished else None,
                "stalled_at": held.now if stalled else document.get("stalled_at"),
            }
            for field, value in said.items():
                document.pop(field, None)
                if value:
                    document[field] = value
            self._versions[key] = next(self._counter)
            return True

    def cursor(self, name: str) -> StoredCursor:
        """See `Agenda.cursor`."""
        with self._lock:
            cursor = self._cursors.get(name)
            return StoredCursor(name, cursor, Version(cursor), self._clock())

    def move_cursor(self, held: StoredCursor, cursor: Cursor) -> bool:
        """See `Agenda.move_cursor`."""
        with self._lock:
            unchanged = self._cursors.get(held.name) == held.cursor
            if unchanged:
                self._cursors[held.name] = cursor
            return unchanged

    def _queue(self, kind: Kind) -> tuple[dict[str, dict[str, Any]], str]:
        """Return the documents of a kind, and the field that says when one is due."""
        if kind is Kind.JOB:
            return self.jobs, DUE_AT
        return self.manifests, WAKE_AT

    def _due(self, kind: Kind, limit: int) -> tuple[Due, ...]:
        with self._lock:
            now = self._clock()
            documents, field = self._queue(kind)
            due = sorted(
                (due_time(document[field]), key)
                for key, document in documents.items()
                if field in document and due_time(document[field]) <= now
            )
            return tuple(
                Due(kind, key, due_at, Version(self._versions[key]), now)
                for due_at, key in due[:limit]
            )

    def _stored_manifest(self, bundle: Bundle) -> StoredManifest | None:
        key = bundle_id(bundle)
        if key not in self.manifests:
            return None
        return StoredManifest(
            self._read_manifest(bundle),
            Version(self._versions[key]),
            self._clock(),
            self.manifests[key].get("expires_at"),
        )

    def _latest_claim(self, bundle: Bundle) -> object:
        return self.manifests.get(bundle_id(bundle), {}).get("latest_claim")

    def _read_manifest(self, bundle: Bundle) -> Manifest:
        return manifest_from(bundle, self.manifests.get(bundle_id(bundle), {}))

    def _merge(self, bundle: Bundle, pins: tuple[Pin, ...], dispatched: dict[str, int]) -> None:
        key = bundle_id(bundle)
        document = self.manifests.setdefault(key, bundle_fields(bundle))
        document.update(joined(bundle, document, pins))
        marked = manifest_from(bundle, document).with_dispatched(dispatched)
        document["dispatched"] = dict(marked.dispatched)
        document["dispatched_order"] = marked.dispatched_order
        self._versions[key] = next(self._counter)

    def _raise_fence(self, job: Job) -> dict[str, Any]:
        key = bundle_id(job.revision.bundle)
        document = self.manifests.setdefault(key, bundle_fields(job.revision.bundle))
        document["fence"] = max(job.fence, document.get("fence", 0))
        self._versions[key] = next(self._counter)
        return document

    def _write_job(self, job: Job) -> None:
        document = job_fields(job)
        if job.state in FINISHED:
            document["expires_at"] = self._clock() + self._retention.claims
        self.jobs[job.id] = document
        self._versions[job.id] = next(self._counter)

    def _stored_job(self, revision_id: str) -> StoredJob | None:
        document: MutableMapping[str, Any] | None = self.jobs.get(revision_id)
        if document is None:
            return None
        version = Version(self._versions[revision_id])
        return StoredJob(job_from(document), version, self._clock())

    def _mark_claim(self, job: Job) -> None:
        claim = self.claims.setdefault(job.dispatched_by, {})
        claim["status"] = claim_status(job)
        claim["jobs"] = {**claim.get("jobs", {}), job.id: claim_status(job)}
        claim["expires_at"] = self._clock() + self._retention.claims

    def _merge_claim(self, claim: Claim, now: datetime) -> dict[str, Any]:
        bundle = claim.component.bundle
        self._merge(bundle, (claim.pin,), {})
        document = self.manifests[bundle_id(bundle)]
        document["updated_at"] = now
        document["latest_claim"] = claim.id
        document["wake_at"] = now + self._retention.settle
        document.pop("expires_at", None)
        return document

    def _forgotten(self, claim: Claim) -> bool:
        """Tell whether a claim has outlived its manifest."""
        known = self._read_manifest(claim.component.bundle)
        return known.components.get(claim.component.name, 0) < claim.generation
