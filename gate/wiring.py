"""The one place that builds clients, each when it is first needed.

A waiting event needs Firestore and nothing else; Cloud Storage, Fiona and Arrow
are imported when something is dispatched.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gate.capacity import Capacity
from gate.dead_letters import DeadLetters, LoggedDeadLetters
from gate.errors import ConfigurationError
from gate.events import ObjectFinalized
from gate.gating import GateKind
from gate.identity import Pin
from gate.intake import Intake, Receipt
from gate.names import Component
from gate.overrides import NOTHING, Overrides
from gate.policies import DEFAULTS, Policies, Reader
from gate.settings import Settings
from gate.shapefile.port import NOWHERE_ELSE, Remote
from gate.sinks.address import SinkAddress
from gate.store.firestore import Collections, connect
from gate.store.firestore_agenda import FirestoreAgenda

if TYPE_CHECKING:
    from google.cloud.firestore import Client

    from gate.cloud_storage import CloudStorage
    from gate.explain import Explain
    from gate.handover import Handover
    from gate.ingest import Ending, Ingest
    from gate.inspect import Inspect
    from gate.listing import Listing
    from gate.poll import Poll
    from gate.reconcile import Reconcile
    from gate.redrive import Redrive
    from gate.shapefile.port import Layer, OpenLayer, Unpack
    from gate.source.port import Source
    from gate.store.history import History
    from gate.store.objects import Objects
    from gate.store.port import Agenda, StoredJob
    from gate.sweep import Sweep
    from gate.tasks.port import Tasks
    from gate.verify import Verify
    from gate.work import Work, Worked

__version__ = "0.1.0"

# Of objects that stand for documents; a page of the bucket names hundreds of bundles.
READS_AT_ONCE = 8


class Gate:
    """The use cases of one deployment, wired to real clients.

    Everything is built once per process, at its first use.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def project(self) -> str:
        """Return the project that the store is in, as the credentials or the environment name it.

        A function of the second generation is not told it by a variable.
        """
        if self.settings.state:
            from gate.cloud_storage import project

            return project()
        return str(self._firestore.project)

    @cached_property
    def intake(self) -> Intake:
        """Return what takes in events."""
        return Intake(self._store, self.settings, self._siblings, _token, self._ready)

    @property
    def entrance(self) -> Callable[[ObjectFinalized], Receipt]:
        """Return what an event is given to, as `GATE` says."""
        match self.settings.gate.kind:
            case GateKind.VERIFY:
                return self.verify
            case GateKind.POLL:
                return self.poll
            case _:
                return self.intake

    @cached_property
    def verify(self) -> Verify:
        """Return what takes in events by listing."""
        from gate.verify import Verify

        return Verify(
            self.intake,
            self._listing,
            self.letters,
            self.settings.required,
            self.settings.gate.max_age,
            _now,
        )

    @cached_property
    def poll(self) -> Poll:
        """Return what takes in events by tasks, and takes their looks."""
        from gate.poll import Poll

        return Poll(
            self.intake,
            self._listing,
            self.letters,
            self._tasks,
            self.settings.required,
            self.settings.gate,
            _now,
        )

    @property
    def _listing(self) -> Listing:
        from gate.listing import Listing

        return Listing(self._source, self.intake.parsed)

    @cached_property
    def ingest(self) -> Ingest:
        """Return what runs jobs."""
        from gate.heartbeat import heartbeat, shutting_down
        from gate.ingest import Ingest
        from gate.memory import memory_bytes
        from gate.sinks.factory import open_sink

        memory = memory_bytes()
        return Ingest(
            store=self._store,
            source=self._source,
            sink=open_sink(self.settings.sink, self._storage),
            open_layer=opener(self.settings.policies, memory),
            unpack=unpacker(self.settings),
            letters=self.letters,
            settings=self.settings,
            capacity=capacity(self.settings, memory),
            product=f"shapefile-gate {__version__}",
            new_token=_token,
            monotonic=time.monotonic,
            heartbeat=heartbeat,
            shutting_down=shutting_down,
        )

    @cached_property
    def run(self) -> Callable[[StoredJob], Ending | None]:
        """Return what takes a job that falls to an event: it is run, or given to a task."""
        return self.handover or self.ingest

    @cached_property
    def handover(self) -> Handover | None:
        """Return what gives jobs to tasks, `None` where whoever dispatches one runs it."""
        if not self.settings.tasks.hands_over:
            return None
        from gate.handover import Handover

        return Handover(self._tasks)

    @cached_property
    def _tasks(self) -> Tasks:
        from gate.tasks.cloud_tasks import CloudTasks

        return CloudTasks(self.settings.tasks)

    @cached_property
    def work(self) -> Work:
        """Return what carries out the calls of tasks.

        Looks are taken whatever the gate is: some may be left of another.
        """
        from gate import handover, poll
        from gate.work import JobWork, LookWork, Work

        def look(payload: Mapping[str, object]) -> Worked | None:
            return LookWork(self.poll, self.run)(payload)

        run = JobWork(self._store, self.settings, self.ingest, _token, self._ready)
        return Work({handover.KIND: run, poll.KIND: look}, self.letters)

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
    def sweep(self) -> Sweep:
        """Return what does what no event will do.

        Raises `ConfigurationError` while this process could run no job that it is to
        run: the attempts of those that are due are not spent on it.
        """
        if not self.handover:
            self._ready()
        from gate.look import Look
        from gate.sweep import Sweep

        def run(work: StoredJob) -> Ending | None:
            return self.run(work)

        source, settings = self._source, self.settings
        return Sweep(
            store=self._store,
            look=Look(self._store, source, self.intake, run, self.letters, settings),
            run=run,
            reconcile=self.reconcile() if settings.source_bucket else None,
            settings=settings,
            new_token=_token,
            monotonic=time.monotonic,
            handover=self.handover,
        )

    def reconcile(self, prefix: str = "") -> Reconcile:
        """Return what goes through the source bucket, or through a part of it.

        Raises `ConfigurationError` where no bucket is named, or the part lies
        outside `SOURCE_PREFIX`.
        """
        from gate.reconcile import Reconcile

        settings = self.settings
        prefix = prefix or settings.source_prefix
        if not settings.source_bucket:
            cure = "set it to the bucket to go through"
            raise ConfigurationError("it is not set", where="SOURCE_BUCKET", cure=cure)
        if not prefix.startswith(settings.source_prefix):
            raise ConfigurationError(
                f"it lies outside SOURCE_PREFIX={settings.source_prefix}",
                where=prefix,
                cure="name a prefix inside it",
            )
        return Reconcile(
            self._store,
            self._source,
            self.intake,
            settings.source_bucket,
            prefix,
            settings.retention.manifests,
        )

    def notifications(self, topic: str) -> Callable[[Iterable[tuple[Component, int]]], None]:
        """Return what publishes objects to a topic as Cloud Storage does."""
        from gate.pubsub import PubSubNotifications

        return PubSubNotifications(self._topic(topic)).publish

    @cached_property
    def letters(self) -> DeadLetters:
        """Return where dead letters go."""
        topic = self.settings.dead_letter_topic
        if not topic:
            return LoggedDeadLetters()
        from gate.pubsub import PubSubDeadLetters

        return PubSubDeadLetters(self._topic(topic))

    def _topic(self, name: str) -> str:
        return name if "/" in name else f"projects/{self.project}/topics/{name}"

    @cached_property
    def _firestore(self) -> Client:
        return connect(self.settings.firestore_database)

    @cached_property
    def _objects(self) -> Objects | None:
        """Return the bucket that claims, manifests and jobs are kept in, `None` for Firestore."""
        if self.settings.state is None:
            return None
        from gate.store.cloud_objects import connect as connect_objects

        return connect_objects(self.settings.state.bucket, self.settings.state.object_prefix)

    @cached_property
    def _history(self) -> History:
        if self._objects:
            from gate.store.blobs_history import BlobHistory

            return BlobHistory(self._objects)
        from gate.store.firestore_history import FirestoreHistory

        return FirestoreHistory(self._firestore, self._collections)

    @cached_property
    def _store(self) -> Agenda:
        retention = self.settings.retention
        if self._objects:
            from concurrent.futures import ThreadPoolExecutor

            from gate.store.blobs_agenda import BlobAgenda

            each = ThreadPoolExecutor(READS_AT_ONCE).map
            return BlobAgenda(self._objects, retention, _now, each=each)
        return FirestoreAgenda(self._firestore, self._collections, retention, _now)

    @property
    def _collections(self) -> Collections:
        return Collections(
            self.settings.claim_collection,
            self.settings.manifest_collection,
            self.settings.job_collection,
            self.settings.sweep_collection,
        )

    @cached_property
    def _storage(self) -> CloudStorage:
        from gate.cloud_storage import connect as connect_storage

        return connect_storage()

    @cached_property
    def _source(self) -> Source:
        from gate.source.cloud_storage import CloudStorageSource

        return CloudStorageSource(self._storage)

    def _ready(self) -> None:
        ready(self.settings.policies)

    def _siblings(self, component: Component) -> Iterator[Pin]:
        bundle = component.bundle
        return self._source.siblings(bundle.bucket, bundle.folder, component.sibling_start)


def opener(policies: Policies = DEFAULTS, memory_bytes: int | None = None) -> OpenLayer:
    """Return what opens layers and reads them by these policies, within this memory if given."""

    @contextmanager
    def opened(
        folder: Path,
        name: str,
        overrides: Overrides = NOTHING,
        remote: Mapping[str, Remote] = NOWHERE_ELSE,
    ) -> Iterator[Layer]:
        from gate.shapefile.reader import ReadOptions, open_layer

        options = ReadOptions(overrides=overrides, policies=policies)
        if memory_bytes is not None:
            options = replace(options, memory_bytes=memory_bytes)
        with open_layer(folder, name=name, options=options, remote=remote) as layer:
            yield layer

    return opened


def capacity(settings: Settings, memory_bytes: int) -> Capacity:
    """Return what a deployment with these settings and this memory can take."""
    sink = settings.sink
    return Capacity(
        settings.max_bundle_bytes,
        memory_bytes,
        settings.limits.run,
        piecemeal=settings.policies.reader is Reader.AUTO,
        copies=sink.copies if isinstance(sink, SinkAddress) else 0,
    )


def ready(policies: Policies) -> str:
    """Prove that this process can read shapefiles; see `gate.shapefile.ready`."""
    from gate.shapefile.ready import prove_ready

    return prove_ready(policies)


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


def _now() -> datetime:
    return datetime.now(UTC)
