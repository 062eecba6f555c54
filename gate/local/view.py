"""What clients of the gate see: they upload, and they read what became of it.

Addresses come from the environment, as they do for any client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gate.cloud_storage import ABSENT
from gate.cloud_storage import connect as connect_storage
from gate.errors import ConfigurationError
from gate.job import Job
from gate.manifest import Manifest
from gate.names import Bundle
from gate.settings import Settings
from gate.sinks.address import SinkAddress
from gate.sinks.layout import POINTER, folder
from gate.store.blobs import BlobStore
from gate.store.cloud_objects import connect as connect_objects
from gate.store.firestore import Collections, FirestoreStore
from gate.store.firestore import connect as connect_firestore
from gate.store.port import Store


class View:
    """The source bucket, the state store and the sink, as `settings` place them."""

    def __init__(self, settings: Settings) -> None:
        if not isinstance(settings.sink, SinkAddress):
            raise ConfigurationError(f"{settings.sink} is no bucket", where="SINK")
        self._sink = settings.sink
        self._storage = connect_storage()
        self._store = _store(settings)

    def upload(self, bucket: str, name: str, content: bytes) -> int:
        """Upload an object, over a live one if there is one; return its generation."""
        live = self._storage.stat(bucket, name)
        generation = self._storage.swap(
            bucket,
            name,
            content,
            "application/octet-stream",
            live.generation if live else ABSENT,
        )
        if generation is None:
            raise ConfigurationError(
                "somebody else writes it at the same time",
                where=f"gs://{bucket}/{name}",
                cure="run the demonstration alone",
            )
        return generation

    def manifest(self, bundle: Bundle) -> Manifest:
        """Return the manifest of a bundle. Raises `ConfigurationError` if there is none."""
        stored = self._store.manifest(bundle)
        if stored is None:
            raise _absent("manifest", str(bundle))
        return stored.manifest

    def job(self, revision_id: str) -> Job:
        """Return the job of a revision. Raises `ConfigurationError` if there is none."""
        stored = self._store.job(revision_id)
        if stored is None:
            raise _absent("job", revision_id)
        return stored.job

    def pointer(self, bundle: Bundle) -> Mapping[str, Any]:
        """Return what readers of the sink are pointed to."""
        return self._json(self._name(bundle, POINTER))

    def report(self, bundle: Bundle) -> Mapping[str, Any]:
        """Return the report that stands beside the current dataset."""
        return self._json(self._name(bundle, self.pointer(bundle)["report"]))

    def dataset(self, bundle: Bundle) -> bytes:
        """Return the current dataset, found as a reader finds it: by the pointer."""
        return self._read(self._name(bundle, self.pointer(bundle)["dataset"]))

    def _name(self, bundle: Bundle, file: str) -> str:
        return f"{folder(self._sink.output_prefix, bundle)}{file}"

    def _json(self, name: str) -> Mapping[str, Any]:
        content: Mapping[str, Any] = json.loads(self._read(name))
        return content

    def _read(self, name: str) -> bytes:
        found = self._storage.read(self._sink.bucket, name)
        if found is None:
            raise _absent("object", f"gs://{self._sink.bucket}/{name}")
        return found[0]


def _store(settings: Settings) -> Store:
    def now() -> datetime:
        return datetime.now(UTC)

    if settings.state:
        objects = connect_objects(settings.state.bucket, settings.state.object_prefix)
        return BlobStore(objects, settings.retention, now)
    return FirestoreStore(
        connect_firestore(settings.firestore_database),
        Collections(
            settings.claim_collection, settings.manifest_collection, settings.job_collection
        ),
        settings.retention,
        now,
    )


def _absent(kind: str, where: str) -> ConfigurationError:
    return ConfigurationError(f"there is no such {kind}", where=where, cure="read the log")
