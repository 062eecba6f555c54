"""One job: from the pinned objects of a revision to the sink, or to a clear end.

    newer revision dispatched?   → superseded, nothing is downloaded
    was held, and nothing new?   → held again, nothing is downloaded
    sink already holds it?       → done, nothing is downloaded
    too large for the function?  → held, nothing is downloaded
    stat and fetch each pin      → an object that was overwritten or deleted ends the job
    check, read, count           → a bundle at fault ends dead, a passing fault fails
    publish each layer           → the sink compares revisions in its one atomic step
    done                         → the manifest notes what is current

Every way out writes the job's next state on the version this worker last wrote,
or writes nothing: a worker that lost its job is not believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate import dead_letters, job, log, manifest
from gate.capacity import Capacity
from gate.dead_letters import DeadLetters
from gate.errors import (
    BundleError,
    ConfigurationError,
    GateError,
    HeldError,
    SomeLayersError,
    SourceChangedError,
    TooLargeError,
    TransientError,
    UnexpectedError,
)
from gate.fetching import Fetch, Fetched, Overwritten
from gate.identity import Revision
from gate.job import Job, State
from gate.layers import LayerResult, Layers, failure_of, selected, unforeseen
from gate.layers import summary_of as summary_of_layers
from gate.manifest import PublishedRevision
from gate.overrides import Overrides, stated
from gate.ownership import Ownership, Stop, Stopped
from gate.publishing import (
    Publisher,
    Unread,
    as_uploaded,
    fields,
    report_facts,
    values_changed,
)
from gate.settings import Settings
from gate.shapefile.port import OpenLayer, Unpack
from gate.sinks.port import Outdated, Published, Sink
from gate.source.port import Source
from gate.store.port import Claim, Store, StoredJob
from gate.workspace import workspace

# How often to try again when events keep changing the manifest in between.
NOTE_ROUNDS = 5

# Where the summary of a held job says what the metadata of its objects was.
SAID = "overrides"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. `state` is `None` if the job was lost, and `lost` says how.

    A letter that could not be sent is left to the sweep.
    """

    state: State | None
    detail: str
    lost: Stop | None = None

    @property
    def decision(self) -> str:
        """Return the ending in one word, for the log."""
        ended = self.lost or self.state
        return ended.value if ended else ""

    @property
    def redeliver(self) -> bool:
        """Tell whether the event must come back, for another attempt."""
        return self.state is State.FAILED


# How a run ends whose worker may write nothing more to its job.
LOSSES = {
    loss.lost: loss
    for loss in (
        Ending(
            None,
            "another worker has taken the job over; nothing was written",
            lost=Stop.FENCED_OUT,
        ),
        Ending(
            None,
            "its document was removed, so nothing was written; upload the bundle again",
            lost=Stop.VANISHED,
        ),
        Ending(
            State.FAILED,
            "the instance was shut down; the next delivery takes the job over",
            lost=Stop.SHUTDOWN,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Ingest:
    """Run jobs over a store, a source and a sink.

    `capacity` is what there is time and memory for; `product` is what the report
    says of this software's version; `new_token` returns a new random text,
    `monotonic` seconds for measuring pauses.
    `heartbeat` calls what it is given now and then while its block lasts, and
    `shutting_down` tells whether the process has been told to stop.
    """

    store: Store
    source: Source
    sink: Sink
    open_layer: OpenLayer
    unpack: Unpack
    letters: DeadLetters
    settings: Settings
    capacity: Capacity
    product: str
    new_token: Callable[[], str]
    monotonic: Callable[[], float]
    heartbeat: Callable[[Callable[[], object]], AbstractContextManager[None]]
    shutting_down: Callable[[], bool]

    def __call__(self, work: StoredJob) -> Ending:
        """Run one claimed job to its end, or bury one that has none.

        Never raises for what the bundle, the source or the sink does. Raises
        what the store raises, since then the end could not be recorded and the
        event has to come back.
        """
        limits = self.settings.limits
        own = Ownership(self.store, work, limits, self.monotonic, self.shutting_down)
        if work.job.ended:
            return self._notify(own)
        started = self.monotonic()
        log.write("ingestion started", **fields(own.job))
        with self.heartbeat(own.pulse):
            ending = self._guarded(own)
        log.write(
            "ingestion ended",
            severity=_severity(ending),
            decision=ending.decision,
            detail=ending.detail,
            values=own.job.summary.get("values") or None,
            seconds=round(self.monotonic() - started, 3),
            **fields(own.job),
        )
        return ending

    def _guarded(self, own: Ownership) -> Ending:
        try:
            try:
                return self._run(own)
            except Stopped as stopped:
                return self._stopped(own, stopped.stop)
            except BundleError as error:
                return self._end(own, job.dead(own.job, error, now=own.now))
            except (TransientError, ConfigurationError) as error:
                return self._failed(own, error)
            except Exception as error:  # noqa: BLE001  an unforeseen fault uses up an attempt too
                log.crash("ingestion crashed", error, **fields(own.job))
                unexpected = UnexpectedError(
                    f"{type(error).__name__}: {error}", where=str(own.job.revision.bundle)
                )
                return self._failed(own, unexpected)
        except Stopped as stopped:
            return LOSSES[stopped.stop]

    def _stopped(self, own: Ownership, stop: Stop) -> Ending:
        """End the run of a worker that has left off. Raises `Stopped` if the job is lost."""
        if stop is Stop.SUPERSEDED:
            return self._superseded(own, "a newer revision was dispatched")
        if stop is Stop.OUT_OF_TIME:
            limits = self.settings.limits
            return self._end(
                own, job.cut_short(own.job, now=own.now, limits=limits, progress=own.progress)
            )
        raise Stopped(stop)

    def _run(self, own: Ownership) -> Ending:
        own.beat()
        revision = own.job.revision
        newest = self.store.manifest(revision.bundle)
        if newest and newest.manifest.dispatched_order > revision.order:
            return self._superseded(own, "a newer revision was dispatched")
        standing = None if revision.bundle.archive else self.sink.current(revision)
        if isinstance(standing, Outdated):
            return self._superseded(own, f"the sink holds revision order {standing.order}")
        if isinstance(standing, Published):
            return self._published(own, standing, {})
        exhausted = job.exhausted(own.job, self.settings.limits)
        if exhausted:
            raise exhausted
        if newest:
            newest.manifest.demand_one_spelling(revision, self.settings.required)
        fetch = Fetch(self.source, self.settings.required, self.capacity)
        if SAID in own.job.summary:
            looked = fetch.look(revision)
            if isinstance(looked, Fetched) and looked.said == own.job.summary[SAID]:
                return self._still_held(own)
        try:
            return self._fetched(own, fetch)
        except SourceChangedError:
            found = fetch.look(revision)
            if isinstance(found, Fetched):
                raise
            return self._overwritten(own, found)

    def _fetched(self, own: Ownership, fetch: Fetch) -> Ending:
        with workspace() as folder:
            try:
                fetched = fetch(own.job.revision, folder, own.beat)
            except TooLargeError as error:
                return self._held(own, error, fetch.look(own.job.revision))
            if isinstance(fetched, Overwritten):
                return self._overwritten(own, fetched)
            with closing(fetched):
                return self._loaded(own, fetched, folder)

    def _held(self, own: Ownership, error: HeldError, found: Fetched | Overwritten) -> Ending:
        """Put the job aside, with what its objects say by now."""
        known = {SAID: found.said} if isinstance(found, Fetched) else {}
        return self._end(own, job.held(own.job, error, now=own.now, summary=known))

    def _loaded(self, own: Ownership, fetched: Fetched, folder: Path) -> Ending:
        """Publish what was fetched, as its objects' metadata says; hold it for want of a fact."""
        publish = self._archive if own.job.revision.bundle.archive else self._bundle
        try:
            return publish(own, fetched, stated(fetched.said), folder)
        except BundleError as error:
            raise as_uploaded(error, own.job.revision) from error
        except HeldError as error:
            return self._held(own, as_uploaded(error, own.job.revision), fetched)

    def _still_held(self, own: Ownership) -> Ending:
        """Put a revived job aside again: its letter has been sent."""
        own.write(job.still_held(own.job, now=own.now))
        return Ending(State.HELD, "the metadata of its objects is what it was")

    @property
    def _publisher(self) -> Publisher:
        return Publisher(self.sink, self.open_layer)

    def _overwritten(self, own: Ownership, by: Overwritten) -> Ending:
        """Record the newer generation as if its event had come, and give way to it."""
        self.store.record(Claim(by.component, by.generation, "", self.new_token()))
        return self._superseded(
            own, f"generation {by.generation} of {by.component.name} has replaced the pinned one"
        )

    def _bundle(
        self, own: Ownership, fetched: Fetched, overrides: Overrides, folder: Path
    ) -> Ending:
        """Publish the one layer of a bundle."""
        facts = report_facts(own.job, fetched, self.product)
        name = own.job.revision.bundle.basename
        unread = Unread(folder, name, "", overrides, facts, fetched.remote)
        result, report = self._publisher.layer(own, unread)
        if isinstance(result, Outdated):
            return self._superseded(own, f"the sink holds revision order {result.order}")
        return self._published(own, result, report)

    def _archive(
        self, own: Ownership, fetched: Fetched, overrides: Overrides, folder: Path
    ) -> Ending:
        """Publish each layer of an archive that can be, then the index of them."""
        bundle = own.job.revision.bundle
        packed = folder / f"layer{bundle.archive}"
        unpacked = self.unpack(packed, folder, bundle.basename, own.beat)
        packed.unlink()
        contents = selected(unpacked, overrides.layer, bundle.basename)
        facts = report_facts(own.job, fetched, self.product)
        required = self.settings.required
        archived = Layers(
            self._publisher,
            contents,
            bundle.basename,
            facts,
            required,
            overrides.for_each_layer,
        )
        results = archived.publish(own)
        if isinstance(results, Outdated):
            return self._superseded(own, f"the sink holds revision order {results.order}")
        again = unforeseen(results)
        if again and own.job.attempts < self.settings.limits.max_attempts:
            return self._failed(own, again)
        location = self._publisher.index(own, archived.index(results))
        if isinstance(location, Outdated):
            return self._superseded(own, f"the sink holds revision order {location.order}")
        return self._accounted(own, results, location, fetched.said)

    def _accounted(
        self,
        own: Ownership,
        results: tuple[LayerResult, ...],
        location: str,
        said: Mapping[str, Any],
    ) -> Ending:
        """End the job of an archive by what became of its layers."""
        summary = summary_of_layers(results, location)
        match failure_of(own.job.revision.bundle, results):
            case None:
                done = job.done(own.job, now=own.now, summary=summary)
                detail = f"{summary['loaded']} rows in {len(results)} layers, see {location}"
                return self._done(own, done, location, detail)
            case SomeLayersError() as error:
                partial = job.partial(own.job, error, now=own.now, summary=summary)
                self._done(own, partial, location, error.what)
                return self._notify(own)
            case HeldError() as error:
                known = {**summary, SAID: said}
                return self._end(own, job.held(own.job, error, now=own.now, summary=known))
            case error:
                return self._end(own, job.dead(own.job, error, now=own.now, summary=summary))

    def _published(self, own: Ownership, published: Published, report: Mapping[str, Any]) -> Ending:
        """End the job of a bundle that is one layer well."""
        done = job.done(own.job, now=own.now, summary=summary_of(report, published))
        already = "; it was there already" if published.already else ""
        detail = f"{published.rows} rows in {published.location}{already}"
        return self._done(own, done, published.location, detail)

    def _done(self, own: Ownership, moved: Job, location: str, detail: str) -> Ending:
        own.write(moved)
        try:
            self._note_published(own.job.revision, location)
        except (TransientError, ConfigurationError) as error:
            log.crash("publication not noted in the manifest", error, **fields(own.job))
        return Ending(moved.state, detail)

    def _note_published(self, revision: Revision, location: str) -> None:
        """Say in the manifest what is current. A manifest that keeps changing keeps its note."""
        note = PublishedRevision(revision.id, revision.order, location)
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
            # Until the sweep has looked and cleared the time, something is pending.
            finished = standing == manifest.Dispatched(revision) and known.wake_at is None
            if self.store.note_published(stored, note, finished=finished):
                return

    def _superseded(self, own: Ownership, why: str) -> Ending:
        own.write(job.superseded(own.job, now=own.now, why=why))
        return Ending(State.SUPERSEDED, why)

    def _failed(self, own: Ownership, error: GateError) -> Ending:
        """Record a failure that may pass; what has been published has not failed."""
        moved = job.failed(own.job, error, now=own.now, limits=self.settings.limits)
        if moved.ended and not moved.revision.bundle.archive:
            with suppress(GateError):
                standing = self.sink.current(moved.revision)
                if isinstance(standing, Published):
                    return self._published(own, standing, {})
        return self._end(own, moved)

    def _end(self, own: Ownership, moved: Job) -> Ending:
        own.write(moved)
        if moved.ended:
            return self._notify(own)
        return Ending(moved.state, own.job.history[-1].message)

    def _notify(self, own: Ownership) -> Ending:
        """Send the letter of a job that has ended badly, and mark it as sent.

        A letter that cannot be sent now is due again later; a job that somebody
        moves meanwhile is left as they have written it.
        """
        ending = Ending(own.job.state, own.job.history[-1].message)
        moved = job.notified(own.job)
        try:
            self.letters.send(dead_letters.of_job(own.job))
        except (TransientError, ConfigurationError) as error:
            log.write(
                "dead letter not sent",
                severity="ERROR",
                code=error.code,
                detail=str(error),
                **fields(own.job),
            )
            moved = job.letter_postponed(own.job, now=own.now, limits=self.settings.limits)
        with suppress(Stopped):
            own.write(moved)
        return ending


def _severity(ending: Ending) -> str:
    if ending.lost is Stop.SHUTDOWN:
        return "WARNING"
    return "INFO" if ending.state in (State.DONE, State.SUPERSEDED) else "ERROR"


def summary_of(report: Mapping[str, Any], published: Published) -> dict[str, Any]:
    """Return the bounded form of a report that a job carries: counts, no lists of rows."""
    kept = ("rows", "geometry", "encoding", "crs", "versions")
    return {
        **{key: report[key] for key in kept if key in report},
        **({"values": changed} if (changed := values_changed([report])) else {}),
        "location": published.location,
        "loaded": published.rows,
    }
