"""What the sweep asks of Firestore, and what it writes there.

Queries are ordered by the one field that says when a document is due, and take
its first documents. They have no upper bound, for none could be given but the
caller's own clock: what is not due by Firestore's time of the query is left out
afterwards. A document without the field is in no such query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from google.api_core import exceptions as api
from google.cloud import firestore

from gate.errors import MissingIndexError
from gate.identity import Revision, bundle_id
from gate.names import Bundle
from gate.store.documents import DUE_AT, WAKE_AT, bundle_from, due_time, manifest_from
from gate.store.firestore import CALL_SECONDS, Collections, FirestoreStore
from gate.store.port import (
    Cursor,
    Due,
    Kind,
    Retention,
    StoredCursor,
    StoredManifest,
    Version,
)


class FirestoreAgenda(FirestoreStore):
    """The store on Firestore with the sweep's queries and writes; see `FirestoreStore`."""

    def __init__(
        self,
        client: firestore.Client,
        collections: Collections,
        retention: Retention,
        clock: Callable[[], datetime],
        **pauses: Any,
    ) -> None:
        super().__init__(client, collections, retention, clock, **pauses)
        self._cursors = client.collection(collections.sweep)

    def due_jobs(self, limit: int) -> tuple[Due, ...]:
        """See `Agenda.due_jobs`. One call."""
        return self._due(Kind.JOB, self._jobs, DUE_AT, limit)

    def due_manifests(self, limit: int) -> tuple[Due, ...]:
        """See `Agenda.due_manifests`. One call."""
        return self._due(Kind.MANIFEST, self._manifests, WAKE_AT, limit)

    def woken(self, due: Due) -> StoredManifest | None:
        """See `Agenda.woken`. One call."""
        snapshot = self._read(self._manifests.document(due.id))[due.id]
        document = snapshot.to_dict()
        return None if document is None else _stored(bundle_from(document), snapshot)

    def manifests_of(self, bundles: Iterable[Bundle]) -> dict[Bundle, StoredManifest]:
        """See `Agenda.manifests_of`. One call, or none."""
        wanted = {bundle_id(bundle): bundle for bundle in bundles}
        found = self._read(*map(self._manifests.document, wanted)) if wanted else {}
        return {
            wanted[key]: _stored(wanted[key], snapshot)
            for key, snapshot in found.items()
            if snapshot.exists
        }

    def postpone(self, due: Due, until: datetime) -> None:
        """See `Agenda.postpone`."""
        jobs = due.kind is Kind.JOB
        collection = self._jobs if jobs else self._manifests
        fields = {DUE_AT if jobs else WAKE_AT: until}
        self._update(collection.document(due.id), fields, due.version)

    def rest(
        self,
        held: StoredManifest,
        *,
        wake_at: datetime | None,
        stalled: bool = False,
        finished: bool = False,
        dispatched: Revision | None = None,
    ) -> bool:
        """See `Agenda.rest`. One call; one more if the answer needs a second look."""
        expires_at = self._clock() + self._retention.manifests
        fields: dict[str, Any] = {
            WAKE_AT: wake_at or firestore.DELETE_FIELD,
            "expires_at": expires_at if finished else firestore.DELETE_FIELD,
        }
        after = replace(held.manifest, wake_at=wake_at)
        if stalled:
            after = replace(after, stalled_at=held.now)
            fields["stalled_at"] = held.now
        if dispatched:
            after = after.with_dispatched(dispatched.generations)
            fields["dispatched"] = dict(after.dispatched)
            fields["dispatched_order"] = after.dispatched_order
        reference = self._manifests.document(bundle_id(held.manifest.bundle))
        if self._update(reference, fields, held.version):
            return True
        stored = self.manifest(held.manifest.bundle)
        return stored is not None and stored.manifest == after

    def cursor(self, name: str) -> StoredCursor:
        """See `Agenda.cursor`. One call."""
        snapshot = self._read(self._cursors.document(name))[name]
        document = snapshot.to_dict()
        cursor = document and Cursor(document["begun_at"], document["after"], document["finished"])
        return StoredCursor(name, cursor or None, Version(snapshot.update_time), snapshot.read_time)

    def move_cursor(self, held: StoredCursor, cursor: Cursor) -> bool:
        """See `Agenda.move_cursor`."""
        reference = self._cursors.document(held.name)
        fields = {
            "begun_at": cursor.begun_at,
            "after": cursor.after,
            "finished": cursor.finished,
        }
        if held.cursor is not None:
            return self._update(reference, fields, held.version)

        def create(batch: firestore.WriteBatch) -> None:
            batch.create(reference, fields)

        return self._commit(create) is not None

    def _update(
        self, reference: firestore.DocumentReference, fields: dict[str, Any], version: Version
    ) -> bool:
        unchanged = self._client.write_option(last_update_time=version)

        def write(batch: firestore.WriteBatch) -> None:
            batch.update(reference, fields, option=unchanged)

        return self._commit(write) is not None

    def _due(
        self, kind: Kind, collection: firestore.CollectionReference, field: str, limit: int
    ) -> tuple[Due, ...]:
        query = collection.order_by(field).limit(limit).select([field])

        def run() -> list[Any]:
            try:
                return list(query.get(retry=None, timeout=CALL_SECONDS))
            except api.FailedPrecondition as error:
                if "index" not in str(error):
                    raise
                raise MissingIndexError(
                    f"Firestore keeps no index for it ({error})",
                    where=f"{collection.id}.{field}",
                ) from error

        seen = (
            Due(
                kind,
                snapshot.id,
                due_time(snapshot.get(field)),
                Version(snapshot.update_time),
                snapshot.read_time,
            )
            for snapshot in self._retrying(run)
        )
        return tuple(due for due in seen if due.due_at <= due.now)


def _stored(bundle: Bundle, snapshot: Any) -> StoredManifest:
    document = snapshot.to_dict()
    return StoredManifest(
        manifest_from(bundle, document),
        Version(snapshot.update_time),
        snapshot.read_time,
        document.get("expires_at"),
    )
