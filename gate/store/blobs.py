"""The store on small objects of a bucket: no database, and one write to one object at a time.

    claims/JOB_ID         created if absent: the first delivery of a generation is told so
    manifests/BUNDLE_ID   merged: read, joined, written if its generation is unchanged
    jobs/REVISION_ID      created if absent, then written if its generation is unchanged
    sweep/NAME            the sweep's cursors

What other stores do in one transaction is done here in several writes. Each is
conditional and may be made again, and their order is such that a process may
die between any two of them:

- `record` creates the claim, then merges the manifest. If it dies in between,
  nothing was acknowledged: the event comes again and finds a claim that its
  manifest does not reflect, so it merges (as for a claim that has outlived its
  manifest). Should it never come again, the pass over the bucket records the
  object, and that is the same call. The merge sets `wake_at` in the very write
  that adds the component, so what is known of a bundle is always looked at.
- `dispatch` creates the job, and that one write decides who has dispatched. Then
  it marks the manifest, then the claim. The job carries the end of its lease
  from its first write on, so the sweep takes it up whoever dies. As long as the
  manifest is not marked, others find the same revision due; they try to create
  the job, are told that it exists, and set the marks that its creator left out.
- `replace` writes the job on the generation it was decided from: that is the
  only step that counts. A greater fence is in the manifest before the job has
  it, and the manifest is made to stay (`wake_at`, no expiry) before and again
  after, since a look in between may have put it to rest. (Should the worker die
  right there, the job is due, and whoever takes it up does the same again, long
  before the manifest expires.) Last, the claim learns
  how the job has ended; until it does, its event follows the job and finds out.

So a job exists once whatever happens, and each thing that waits for somebody
says so in the object that waits: no index beside it could be lost. A listing
finds what is due, at the price of one request for each thousand objects that
are kept; see `gate.store.blobs_agenda`.

Events of one bundle meet in its manifest. Who finds it changed reads it again,
after a pause, a bounded number of times; after that the event comes again later.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from gate.errors import StoreBusyError
from gate.identity import Pin, bundle_id
from gate.job import FINISHED, Job
from gate.manifest import PublishedRevision
from gate.names import Bundle
from gate.store.blob_documents import decoded, encoded, labels_of
from gate.store.documents import (
    Document,
    job_fields,
    job_from,
    manifest_from,
    published_fields,
    unended_jobs,
)
from gate.store.merging import (
    Fields,
    claim_fields,
    moment,
    with_claim,
    with_fence,
    with_job,
    with_note,
)
from gate.store.objects import ABSENT, Found, Objects, Wrote
from gate.store.port import (
    Claim,
    Incomplete,
    Recorded,
    Retention,
    StoredJob,
    StoredManifest,
    Version,
)

# Of events that meet in one manifest, each round lets one through. Cloud Storage
# takes about one write per second to an object, so pauses end near that.
ROUNDS = 12
PAUSE_SECONDS = 0.05
PAUSE_MOST_SECONDS = 2.0

# From a document, and the store's time, to what is to be written: see `gate.store.merging`.
Change = Callable[[Document, datetime], Fields | None]


@dataclass(frozen=True, slots=True)
class Seen:
    """A version: the generation, and with it what was read, to be changed without a second read."""

    generation: int
    document: Document = field(default_factory=dict, compare=False)


class BlobStore:
    """Claims, manifests and jobs as objects below one prefix.

    `sleep` and `jitter` (a number in [0, 1)) are arguments so that tests need
    not wait.
    """

    def __init__(
        self,
        objects: Objects,
        retention: Retention,
        clock: Callable[[], datetime],
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._objects = objects
        self._retention = retention
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    def record(self, claim: Claim, required: tuple[str, ...] = ()) -> Recorded | Incomplete:
        """See `Store.record`. Three requests, if nobody meets it in the manifest.

        `claimed_at` is by the worker's clock: it is for people, and nothing is
        decided by it.
        """
        bundle = claim.component.bundle
        now = self._clock()
        claimed = claim_fields(claim, claimed_at=now, expires_at=now + self._retention.claims)
        created = self._write("claims", claim.id, claimed, ABSENT) is not None
        stored = claimed if created else self._read("claims", claim.id)[0]
        if stored is None:
            raise StoreBusyError("the claim was refused and is not there", where=claim.id)
        document, now = self._merge(
            "manifests",
            bundle_id(bundle),
            lambda document, at: with_claim(
                document, claim, created=created, now=at, wake_at=self._wake_at
            ),
        )
        if created:
            missing = tuple(each for each in required if not document["newest"].get(each))
            if missing:
                return Incomplete(missing, document["components"][claim.component.name])
        return Recorded(
            first=stored.get("token") == claim.token,
            latest=document.get("latest_claim") == claim.id,
            manifest=manifest_from(bundle, document),
            now=now,
            unended=unended_jobs(stored),
        )

    def dispatch(self, job: Job, found: tuple[Pin, ...] = ()) -> StoredJob | None:
        """See `Store.dispatch`. Five requests; four if the job exists with all its marks."""
        wrote = self._write("jobs", job.id, job_fields(job), ABSENT)
        if wrote is None:
            stored = self.job(job.id)
            if stored is None:
                raise StoreBusyError("the job was refused and is not there", where=job.id)
        else:
            stored = StoredJob(job, Version(Seen(wrote.generation)), wrote.now)
        self._mark(stored.job, found)
        self._note(stored.job, always=wrote is not None)
        return stored if stored.job.token == job.token else None

    def job(self, revision_id: str) -> StoredJob | None:
        """See `Store.job`."""
        document, found = self._read("jobs", revision_id)
        if document is None:
            return None
        return StoredJob(job_from(document), Version(Seen(found.generation)), found.now)

    def replace(self, held: StoredJob, job: Job) -> StoredJob | None:
        """See `Store.replace`. One request; two more at an end, three more for a new fence."""
        taken_up = job.fence > held.job.fence
        if taken_up:
            self._raise_fence(job)
        fields = job_fields(job)
        if job.state in FINISHED:
            fields["expires_at"] = self._clock() + self._retention.claims
        wrote = self._write("jobs", job.id, fields, seen(held.version).generation)
        stored: StoredJob | None
        if wrote is None:
            stored = self.job(job.id)
            if stored is None or stored.job != job:
                return None
        else:
            stored = StoredJob(job, Version(Seen(wrote.generation)), wrote.now)
        if taken_up:
            self._raise_fence(job)
        if job.ended:
            self._note(job, always=True)
        return stored

    def manifest(self, bundle: Bundle) -> StoredManifest | None:
        """See `Store.manifest`."""
        document, found = self._read("manifests", bundle_id(bundle))
        return None if document is None else stored_manifest(bundle, document, found)

    def note_published(
        self, held: StoredManifest, published: PublishedRevision, *, finished: bool
    ) -> bool:
        """See `Store.note_published`. One request."""
        said: Fields = {"published": published_fields(published)}
        if finished:
            said["expires_at"] = self._clock() + self._retention.manifests
        return self._update(held, said)

    def _update(self, held: StoredManifest, said: Fields) -> bool:
        """Write fields of a manifest that was read, if it is unchanged; `None` takes one away."""
        standing = seen(held.version)
        after = {**standing.document, **said}
        fields = {key: value for key, value in after.items() if value is not None}
        key = bundle_id(held.manifest.bundle)
        return self._write("manifests", key, fields, standing.generation) is not None

    # --- what is merged ---------------------------------------------------------

    @property
    def _wake_at(self) -> datetime:
        return self._clock() + self._retention.settle

    def _mark(self, job: Job, found: tuple[Pin, ...]) -> None:
        self._merge(
            "manifests",
            bundle_id(job.revision.bundle),
            lambda document, _: with_job(document, job, found, wake_at=self._wake_at),
        )

    def _raise_fence(self, job: Job) -> None:
        self._merge(
            "manifests",
            bundle_id(job.revision.bundle),
            lambda document, _: with_fence(document, job, wake_at=self._wake_at),
        )

    def _note(self, job: Job, *, always: bool) -> None:
        expires_at = self._clock() + self._retention.claims
        self._merge(
            "claims",
            job.dispatched_by,
            lambda document, _: with_note(document, job, expires_at=expires_at, always=always),
        )

    # --- objects -------------------------------------------------------------------

    def _merge(self, kind: str, key: str, change: Change) -> tuple[Fields, datetime]:
        """Change a document whatever it holds by then; return it, and the store's time of that.

        Raises `StoreBusyError` once others have come first too often.
        """
        for turn in range(ROUNDS):
            document, found = self._read(kind, key)
            now = moment(document or {}, found.now)
            changed = change(document or {}, now)
            if changed is None:
                return document or {}, now
            wrote = self._write(kind, key, changed, found.generation)
            if wrote is not None:
                return changed, wrote.now
            pause = min(PAUSE_SECONDS * 2**turn, PAUSE_MOST_SECONDS)
            self._sleep(pause * (0.5 + self._jitter() / 2))
        raise StoreBusyError(f"others wrote it first {ROUNDS} times", where=f"{kind}/{key}")

    def _read(self, kind: str, key: str) -> tuple[Fields | None, Found]:
        name = f"{kind}/{key}"
        found = self._objects.read(name)
        return None if found.payload is None else decoded(found.payload, name), found

    def _write(self, kind: str, key: str, document: Document, expected: int) -> Wrote | None:
        return self._objects.write(
            f"{kind}/{key}",
            encoded(document),
            expected,
            labels=labels_of(kind, document),
            expires_at=document.get("expires_at"),
        )


def stored_manifest(bundle: Bundle, document: Document, found: Found) -> StoredManifest:
    """Return a manifest as it was read."""
    return StoredManifest(
        manifest_from(bundle, document),
        Version(Seen(found.generation, document)),
        moment(document, found.now),
        document.get("expires_at"),
    )


def seen(version: Version) -> Seen:
    """Return what this store has given out as a version."""
    return cast(Seen, version)
