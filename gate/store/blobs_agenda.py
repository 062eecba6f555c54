"""What the sweep asks of a bucket, and what it writes there.

When a document is due stands in the labels of its own object, so one write
changes both, and a listing of the folder shows it. No other record of it could
be lost or lag behind. The price: each question lists every document of its
kind that is kept, a thousand with each request, the finished ones included
until the lifecycle rule has removed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from gate.identity import Revision
from gate.names import Bundle
from gate.store.blob_documents import label, time_of
from gate.store.blobs import BlobStore, Seen, seen, stored_manifest
from gate.store.documents import DUE_AT, WAKE_AT, bundle_from, due_time
from gate.store.merging import Fields
from gate.store.objects import Listed, Objects
from gate.store.port import (
    Cursor,
    Due,
    Kind,
    Retention,
    StoredCursor,
    StoredManifest,
    Version,
)

# Each kind's folder, and the label that says when one of it is due.
_QUEUES = {Kind.JOB: ("jobs", DUE_AT), Kind.MANIFEST: ("manifests", WAKE_AT)}

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


class BlobAgenda(BlobStore):
    """The store on a bucket with the sweep's questions and writes; see `BlobStore`.

    `each` applies a function to many things, several at once where that is
    possible, as `map` does.
    """

    def __init__(
        self,
        objects: Objects,
        retention: Retention,
        clock: Callable[[], datetime],
        *,
        each: Each = map,
        **pauses: Any,
    ) -> None:
        super().__init__(objects, retention, clock, **pauses)
        self._each = each

    def due_jobs(self, limit: int) -> tuple[Due, ...]:
        """See `Agenda.due_jobs`. One request for each thousand jobs that are kept."""
        return self._due(Kind.JOB, limit)

    def due_manifests(self, limit: int) -> tuple[Due, ...]:
        """See `Agenda.due_manifests`. One request for each thousand that are kept."""
        return self._due(Kind.MANIFEST, limit)

    def woken(self, due: Due) -> StoredManifest | None:
        """See `Agenda.woken`. One request."""
        document, found = self._read("manifests", due.id)
        if document is None:
            return None
        return stored_manifest(bundle_from(document), document, found)

    def manifests_of(self, bundles: Iterable[Bundle]) -> dict[Bundle, StoredManifest]:
        """See `Agenda.manifests_of`. One request for each, several at once."""
        wanted = tuple(bundles)
        found = self._each(self.manifest, wanted)
        return {bundle: stored for bundle, stored in zip(wanted, found, strict=True) if stored}

    def postpone(self, due: Due, until: datetime) -> None:
        """See `Agenda.postpone`. Two requests: the same bytes are written with another label."""
        folder, field = _QUEUES[due.kind]
        listed = cast(Listed, due.version)
        name = f"{folder}/{due.id}"
        found = self._objects.read(name)
        if found.payload is not None:
            self._objects.write(
                name,
                found.payload,
                listed.generation,
                labels={**listed.labels, field: label(until)},
                expires_at=listed.expires_at,
            )

    def rest(
        self,
        held: StoredManifest,
        *,
        wake_at: datetime | None,
        stalled: bool = False,
        finished: bool = False,
        dispatched: Revision | None = None,
    ) -> bool:
        """See `Agenda.rest`. One request; one more if the answer needs a second look."""
        expires_at = self._clock() + self._retention.manifests
        said: Fields = {WAKE_AT: wake_at, "expires_at": expires_at if finished else None}
        after = replace(held.manifest, wake_at=wake_at)
        if stalled:
            after = replace(after, stalled_at=held.now)
            said["stalled_at"] = held.now
        if dispatched:
            after = after.with_dispatched(dispatched.generations)
            said["dispatched"] = dict(after.dispatched)
            said["dispatched_order"] = after.dispatched_order
        if self._update(held, said):
            return True
        stored = self.manifest(held.manifest.bundle)
        return stored is not None and stored.manifest == after

    def cursor(self, name: str) -> StoredCursor:
        """See `Agenda.cursor`. One request."""
        document, found = self._read("sweep", name)
        cursor = document and Cursor(document["begun_at"], document["after"], document["finished"])
        return StoredCursor(name, cursor or None, Version(Seen(found.generation)), found.now)

    def move_cursor(self, held: StoredCursor, cursor: Cursor) -> bool:
        """See `Agenda.move_cursor`. One request."""
        fields = {
            "begun_at": cursor.begun_at,
            "after": cursor.after,
            "finished": cursor.finished,
        }
        return self._write("sweep", held.name, fields, seen(held.version).generation) is not None

    def _due(self, kind: Kind, limit: int) -> tuple[Due, ...]:
        folder, field = _QUEUES[kind]
        listed, now = self._objects.listed(folder)
        due = sorted(
            (due_time(time_of(one.labels[field])), one.name, one)
            for one in listed
            if field in one.labels
        )
        return tuple(
            Due(kind, key, due_at, Version(one), now)
            for due_at, key, one in due[:limit]
            if due_at <= now
        )
