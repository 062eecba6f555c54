"""The one place that builds clients, each when it is first needed.

A waiting event needs Firestore and nothing else; Cloud Storage, Fiona and Arrow
are imported when something is dispatched.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gate.dead_letters import DeadLetters, LoggedDeadLetters
from gate.identity import Pin
from gate.intake import Intake
from gate.names import Component
from gate.overrides import NOTHING, Overrides
from gate.policies import DEFAULTS, Policies
from gate.settings import Settings
from gate.store.firestore import Collections, FirestoreStore, connect

if TYPE_CHECKING:
    from google.cloud.firestore import Client

    from gate.cloud_storage import CloudStorage
    from gate.explain import Explain
    from gate.ingest import Ingest
    from gate.inspect import Inspect
    from gate.redrive import Redrive
    from gate.shapefile.port import Layer, OpenLayer, Unpack
    from gate.source.port import Source
    from gate.store.history import History

__version__ = "0.1.0"


class Gate:
    """The use cases of one deployment, wired to real clients.

    Everything is built once per process, at its first use.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def project(self) -> str:
        """Return the project that Firestore is in, as the credentials or the environment name it.

        A function of the second generation is not told it by a variable.
        """
        return str(self._firestore.project)

    @cached_property
    def intake(self) -> Intake:
        """Return what takes in events."""
        return Intake(self._store, self.settings, self._siblings, _token)

    @cached_property
    def ingest(self) -> Ingest:
        """Return what runs jobs."""
        from gate.ingest import Ingest
        from gate.sinks.factory import open_sink

        return Ingest(
            store=self._store,
            source=self._source,
            sink=open_sink(self.settings.sink, self._storage),
            open_layer=opener(self.settings.policies),
            unpack=unpacker(self.settings),
            letters=self.letters,
            settings=self.settings,
            product=f"shapefile-gate {__version__}",
            new_token=_token,
            monotonic=time.monotonic,
        )

    @cached_property
    def redrive(self) -> Redrive:
        """Return what gives jobs new attempts."""
        from gate.redrive import Redrive

        return Redrive(self._store, self._history, self._source, self.settings, _token)

    @cached_property
    def explain(self) -> Explain:
        """Return what tells people what became of bundles."""
        from gate.explain import Explain

        return Explain(self._store, self._history, self.settings)

    @cached_property
    def letters(self) -> DeadLetters:
        """Return where dead letters go."""
        topic = self.settings.dead_letter_topic
        if not topic:
            return LoggedDeadLetters()
        from gate.pubsub import PubSubDeadLetters

        if "/" not in topic:
            topic = f"projects/{self.project}/topics/{topic}"
        return PubSubDeadLetters(topic)

    @cached_property
    def _firestore(self) -> Client:
        return connect(self.settings.firestore_database)

    @cached_property
    def _history(self) -> History:
        from gate.store.firestore_history import FirestoreHistory

        return FirestoreHistory(self._firestore, self._collections)

    @cached_property
    def _store(self) -> FirestoreStore:
        return FirestoreStore(
            self._firestore, self._collections, self.settings.retention, lambda: datetime.now(UTC)
        )

    @property
    def _collections(self) -> Collections:
        return Collections(
            self.settings.claim_collection,
            self.settings.manifest_collection,
            self.settings.job_collection,
        )

    @cached_property
    def _storage(self) -> CloudStorage:
        from gate.cloud_storage import connect as connect_storage

        return connect_storage()

    @cached_property
    def _source(self) -> Source:
        from gate.source.cloud_storage import CloudStorageSource

        return CloudStorageSource(self._storage)

    def _siblings(self, component: Component) -> Iterator[Pin]:
        bundle = component.bundle
        return self._source.siblings(bundle.bucket, bundle.folder, component.sibling_start)


def opener(policies: Policies = DEFAULTS) -> OpenLayer:
    """Return what opens layers and reads them by these policies."""

    @contextmanager
    def opened(folder: Path, name: str, overrides: Overrides = NOTHING) -> Iterator[Layer]:
        from gate.shapefile.reader import ReadOptions, open_layer

        options = ReadOptions(overrides=overrides, policies=policies)
        with open_layer(folder, name=name, options=options) as layer:
            yield layer

    return opened


def inspector(settings: Settings, progress: Callable[[str, int], object]) -> Inspect:
    """Return what inspects bundles as this deployment would read them."""
    from gate.inspect import Inspect

    return Inspect(
        opener(settings.policies),
        unpacker(settings),
        settings.required,
        settings.max_bundle_bytes,
        progress,
    )


def live_source() -> Source:
    """Return the source on Cloud Storage, with the credentials of the environment."""
    from gate.cloud_storage import connect as connect_storage
    from gate.source.cloud_storage import CloudStorageSource

    return CloudStorageSource(connect_storage())


def unpacker(settings: Settings) -> Unpack:
    """Return what unpacks archives, within the limits of the settings."""
    from gate.shapefile.archive import Archives

    return Archives(settings.max_entries, settings.max_unpacked_bytes)


def _token() -> str:
    return uuid.uuid4().hex
