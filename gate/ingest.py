"""One job: from the pinned objects of a revision to the sink, or to a clear end.

    newer revision dispatched?   → superseded, nothing is downloaded
    sink already holds it?       → done, nothing is downloaded
    stat and fetch each pin      → an object that was overwritten or deleted ends the job
    check, read, count           → a bundle at fault ends dead, a passing fault fails
    publish                      → the sink compares revisions in its one atomic step
    done                         → the manifest notes what is current

Every way out writes the job's next state on the version this worker last wrote,
or writes nothing: a worker that lost its job is not believed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gate import dead_letters, job, log, manifest
from gate.dead_letters import DeadLetters
from gate.errors import (
    BundleError,
    ConfigurationError,
    GateError,
    HeldError,
    SourceDeletedError,
    TooLargeError,
    TransientError,
    UnexpectedError,
    UnsupportedError,
)
from gate.identity import Pin, Revision
from gate.job import Job, State
from gate.manifest import PublishedRevision
from gate.names import Component
from gate.ownership import Ownership, Stop, Stopped
from gate.settings import Settings
from gate.sinks.port import Outdated, Publication, Published, Sink, Table
from gate.source.port import ObjectFacts, Source
from gate.store.port import Claim, Store, StoredJob

if TYPE_CHECKING:
    import pyarrow as pa

# What reading needs; other sidecars (spatial indexes, metadata) are pinned as
# part of the revision, but their bytes would change nothing in the dataset.
READ_EXTENSIONS = (".shp", ".shx", ".dbf", ".prj", ".cpg", ".cst")

# How often to try again when events keep changing the manifest in between.
NOTE_ROUNDS = 5


class LayerReport(Protocol):
    """What was read of a layer, and what was not."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        ...


class Layer(Table, Protocol):
    """A table that can account for its rows after the last batch."""

    def report(self) -> LayerReport:
        """Return the report; raises `LostRowsError` if the rows do not add up."""
        ...


# Opens the layer in a folder of files named `layer.<ext>`; the text is the name
# that messages use.
OpenLayer = Callable[[Path, str], AbstractContextManager[Layer]]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. `state` is `None` if the job was lost to another worker."""

    state: State | None
    detail: str

    @property
    def redeliver(self) -> bool:
        """Tell whether the job waits for another attempt."""
        return self.state is State.FAILED


@dataclass(frozen=True, slots=True)
class Fetched:
    """The files of a revision, proven; `absent` are optional sidecars that were deleted."""

    facts: Mapping[str, ObjectFacts]
    absent: tuple[Pin, ...]


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A component whose pinned generation was replaced by `generation`."""

    component: Component
    generation: int


@dataclass(frozen=True, slots=True)
class _Paced:
    """A table whose reader keeps the worker's lease between batches."""

    layer: Layer
    own: Ownership

    @property
    def schema(self) -> pa.Schema:
        return self.layer.schema

    @property
    def geo_crs(self) -> Mapping[str, Any] | None:
        return self.layer.geo_crs

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.own.over(self.layer.batches())


@dataclass(frozen=True, slots=True)
class Ingest:
    """Run jobs over a store, a source and a sink.

    `product` is what the report says of this software's version; `new_token`
    returns a new random text, `monotonic` seconds for measuring pauses.
    """

    store: Store
    source: Source
    sink: Sink
    open_layer: OpenLayer
    letters: DeadLetters
    settings: Settings
    product: str
    new_token: Callable[[], str]
    monotonic: Callable[[], float]

    def __call__(self, work: StoredJob) -> Ending:
        """Run one claimed job to its end, or bury one that has none.

        Never raises for what the bundle, the source or the sink does. Raises
        what the store raises, since then the end could not be recorded and the
        event has to come back.
        """
        own = Ownership(self.store, work, self.settings.limits, self.monotonic)
        if work.job.ended:
            return self._notify(own)
        started = self.monotonic()
        log.write("ingestion started", **_fields(own.job))
        ending = self._guarded(own)
        log.write(
            "ingestion ended",
            severity="INFO" if ending.state in (State.DONE, State.SUPERSEDED) else "ERROR",
            decision=ending.state.value if ending.state else Stop.FENCED_OUT.value,
            detail=ending.detail,
            seconds=round(self.monotonic() - started, 3),
            **_fields(own.job),
        )
        return ending

    def _guarded(self, own: Ownership) -> Ending:
        try:
            try:
                return self._run(own)
            except Stopped as stopped:
                if stopped.stop is Stop.FENCED_OUT:
                    raise
                return self._superseded(own, "a newer revision was dispatched")
            except BundleError as error:
                return self._end(own, job.dead(own.job, error, now=own.now))
            except HeldError as error:
                return self._end(own, job.held(own.job, error, now=own.now))
            except (TransientError, ConfigurationError) as error:
                return self._failed(own, error)
            except Exception as error:  # noqa: BLE001  an unforeseen fault uses up an attempt too
                log.crash("ingestion crashed", error, **_fields(own.job))
                unexpected = UnexpectedError(
                    f"{type(error).__name__}: {error}", where=str(own.job.revision.bundle)
                )
                return self._failed(own, unexpected)
        except Stopped:
            return Ending(None, "another worker has taken the job over; nothing was written")

    def _run(self, own: Ownership) -> Ending:
        revision = own.job.revision
        if revision.bundle.archive:
            raise UnsupportedError(
                "archives are not read by this version",
                where=str(revision.bundle),
                cure="upload the files inside it beside each other",
            )
        newest = self.store.manifest(revision.bundle)
        if newest and newest.manifest.dispatched_order > revision.order:
            return self._superseded(own, "a newer revision was dispatched")
        standing = self.sink.current(revision)
        if isinstance(standing, Outdated):
            return self._superseded(own, f"the sink holds revision order {standing.order}")
        if isinstance(standing, Published):
            return self._done(own, standing, {})
        with tempfile.TemporaryDirectory(prefix="gate-") as folder:
            fetched = self._fetch(own, Path(folder))
            if isinstance(fetched, Overwritten):
                return self._overwritten(own, fetched)
            return self._publish(own, fetched, Path(folder))

    def _fetch(self, own: Ownership, folder: Path) -> Fetched | Overwritten:
        """Download what reading needs, or tell what has replaced a pinned object.

        Raises `SourceDeletedError` for a deleted component without which there
        is no layer; a deleted sidecar is left out, for the bundle is readable
        without it and would otherwise never be ingested again.
        """
        revision = own.job.revision
        facts: dict[str, ObjectFacts] = {}
        absent: list[Pin] = []
        for extension, pin in revision.pins:
            if extension not in READ_EXTENSIONS:
                continue
            found = self.source.stat(revision.bundle.bucket, pin)
            if isinstance(found, ObjectFacts):
                facts[extension] = found
            elif found.live:
                component = Component(revision.bundle, pin.name, extension)
                return Overwritten(component, found.live.generation)
            elif extension in self.settings.required:
                raise SourceDeletedError(
                    f"generation {pin.generation} was deleted before it was read",
                    where=f"gs://{revision.bundle.bucket}/{pin.name}",
                )
            else:
                absent.append(pin)
        size_bytes = sum(fact.size_bytes for fact in facts.values())
        if size_bytes > self.settings.max_bundle_bytes:
            raise TooLargeError(
                f"its components hold {size_bytes} bytes,"
                f" the limit is {self.settings.max_bundle_bytes}",
                where=str(revision.bundle),
            )
        for extension, fact in facts.items():
            own.beat()
            path = folder / f"layer{extension}"
            if self.source.fetch(revision.bundle.bucket, fact, path) is not None:
                # Whatever vanished between the two calls is looked at afresh.
                return self._fetch(own, folder)
        return Fetched(facts, tuple(absent))

    def _overwritten(self, own: Ownership, by: Overwritten) -> Ending:
        """Record the newer generation as if its event had come, and give way to it."""
        self.store.record(Claim(by.component, by.generation, "", self.new_token()))
        return self._superseded(
            own, f"generation {by.generation} of {by.component.name} has replaced the pinned one"
        )

    def _publish(self, own: Ownership, fetched: Fetched, folder: Path) -> Ending:
        revision = own.job.revision
        name = revision.bundle.basename
        report: dict[str, Any] = {}
        stops: list[Stopped] = []
        log.write("reading", name=name, **_fields(own.job))
        with self.open_layer(folder, name) as layer:

            def complete() -> Mapping[str, Any]:
                report.update(self._report(own.job, fetched, layer.report().as_json()))
                return report

            def still_owner() -> bool:
                try:
                    own.prove()
                except Stopped as stopped:
                    stops.append(stopped)
                return not stops

            publication = Publication(revision, own.job.id, own.job.fence)
            result = self.sink.publish(publication, _Paced(layer, own), complete, still_owner)
        if result is None:
            raise stops[0]
        if isinstance(result, Outdated):
            return self._superseded(own, f"the sink holds revision order {result.order}")
        return self._done(own, result, report)

    def _report(self, running: Job, fetched: Fetched, layer: Mapping[str, Any]) -> dict[str, Any]:
        revision = running.revision
        pins = {}
        for extension, pin in revision.pins:
            pins[extension] = {"name": pin.name, "generation": str(pin.generation)}
            if extension in fetched.facts:
                fact = fetched.facts[extension]
                pins[extension].update(crc32c=fact.crc32c, bytes=str(fact.size_bytes))
        return {
            "bundle": str(revision.bundle),
            "revision": revision.id,
            "job": running.id,
            "fence": running.fence,
            "attempt": running.attempts,
            "product": self.product,
            "pins": pins,
            "deleted_sidecars": [pin.name for pin in fetched.absent],
            **layer,
        }

    def _done(self, own: Ownership, published: Published, report: Mapping[str, Any]) -> Ending:
        summary = summary_of(report, published)
        own.write(job.done(own.job, now=own.now, summary=summary))
        try:
            self._note_published(own.job.revision, published)
        except (TransientError, ConfigurationError) as error:
            log.crash("publication not noted in the manifest", error, **_fields(own.job))
        already = "; it was there already" if published.already else ""
        return Ending(State.DONE, f"{published.rows} rows in {published.location}{already}")

    def _note_published(self, revision: Revision, published: Published) -> None:
        """Say in the manifest what is current. A manifest that keeps changing keeps its note."""
        note = PublishedRevision(revision.id, revision.order, published.location)
        for _ in range(NOTE_ROUNDS):
            stored = self.store.manifest(revision.bundle)
            if stored is None:
                return
            known = stored.manifest
            if known.published and known.published.order > revision.order:
                return
            standing = manifest.decide(
                known,
                stored.now,
                required=self.settings.required,
                settle=self.settings.retention.settle,
            )
            finished = standing == manifest.Dispatched(revision)
            if self.store.note_published(stored, note, finished=finished):
                return

    def _superseded(self, own: Ownership, why: str) -> Ending:
        own.write(job.superseded(own.job, now=own.now, why=why))
        return Ending(State.SUPERSEDED, why)

    def _failed(self, own: Ownership, error: GateError) -> Ending:
        limits = self.settings.limits
        return self._end(own, job.failed(own.job, error, now=own.now, limits=limits))

    def _end(self, own: Ownership, moved: Job) -> Ending:
        own.write(moved)
        if moved.ended:
            self._notify(own)
        return Ending(moved.state, own.job.history[-1].message)

    def _notify(self, own: Ownership) -> Ending:
        """Send the letter of a job that has ended badly, and mark it as sent.

        A letter that cannot be sent now stays marked as unsent in the job; a job
        that somebody moves meanwhile is left as they have written it.
        """
        letter = dead_letters.of_job(own.job)
        ending = Ending(own.job.state, own.job.history[-1].message)
        try:
            self.letters.send(letter)
        except (TransientError, ConfigurationError) as error:
            log.crash("dead letter not sent", error, **_fields(own.job))
            return ending
        with suppress(Stopped):
            own.write(job.notified(own.job))
        return ending


def summary_of(report: Mapping[str, Any], published: Published) -> dict[str, Any]:
    """Return the bounded form of a report that a job carries: counts, no lists of rows."""
    kept = ("rows", "geometry", "encoding", "crs", "versions")
    return {
        **{key: report[key] for key in kept if key in report},
        "location": published.location,
        "loaded": published.rows,
    }


def _fields(running: Job) -> dict[str, Any]:
    return {
        "bundle": str(running.revision.bundle),
        "job": running.id,
        "revision": running.revision.id,
        "fence": running.fence,
        "attempt": running.attempts,
    }
