"""One layer from a local folder into the sink, under the guard of the job's owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gate import log
from gate.errors import GateError
from gate.fetching import Fetched
from gate.identity import Revision
from gate.job import Job
from gate.names import PRIMARY_EXTENSIONS, SIDECAR_EXTENSIONS
from gate.overrides import NOTHING, Overrides
from gate.ownership import Ownership, Stopped
from gate.shapefile.port import METADATA_EXTENSION, ArchivedLayer, Layer, OpenLayer, Remote
from gate.sinks.port import Outdated, Publication, Published, Sink

if TYPE_CHECKING:
    import pyarrow as pa

E = TypeVar("E", bound=GateError)

# What may follow the name of a layer where an error names one of its files.
_ENDS = ("", *PRIMARY_EXTENSIONS, *SIDECAR_EXTENSIONS)


@dataclass(frozen=True, slots=True)
class Unread:
    """A layer that waits to be read.

    Its files lie in `folder` as `layer<extension>`, but for those in `remote`, which
    are read where they lie; messages call it `name`.
    `layer` is its name in the archive, empty if the bundle is one layer.
    `overrides` beat what the files say. `facts` are what its report says beside
    what the reader tells.
    """

    folder: Path
    name: str
    layer: str = ""
    overrides: Overrides = NOTHING
    facts: Mapping[str, Any] = field(default_factory=dict)
    remote: Mapping[str, Remote] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publish layers to a sink."""

    sink: Sink
    open_layer: OpenLayer

    def layer(
        self, own: Ownership, unread: Unread
    ) -> tuple[Published | Outdated, Mapping[str, Any]]:
        """Read and publish one layer; return what the sink says, and the report.

        The lease is kept between batches, and the owner proven directly before
        the layer becomes visible. Raises `Stopped` if the job is not ours any
        more, and what the reader and the sink raise.
        """
        report: dict[str, Any] = {}
        owner = _Owner(own)
        log.write("reading", name=unread.name, **fields(own.job))
        metadata = _metadata(unread.folder)
        with self.open_layer(unread.folder, unread.name, unread.overrides, unread.remote) as layer:

            def complete() -> Mapping[str, Any]:
                report.update(unread.facts)
                if metadata:
                    report["metadata"] = {"stored": True, "bytes": len(metadata)}
                report.update(layer.report().as_json())
                return report

            running = own.job
            publication = Publication(
                running.revision, running.id, running.fence, unread.layer, metadata
            )
            result = self.sink.publish(publication, _Paced(layer, own), complete, owner.still)
        if result is None:
            raise owner.stops[0]
        return result, report

    def index(self, own: Ownership, index: Mapping[str, Any]) -> str | Outdated:
        """Publish the index of an archive; return where it stands. Raises `Stopped`."""
        owner = _Owner(own)
        running = own.job
        publication = Publication(running.revision, running.id, running.fence)
        location = self.sink.publish_index(publication, index, owner.still)
        if location is None:
            raise owner.stops[0]
        return location


def report_facts(running: Job, fetched: Fetched, product: str) -> dict[str, Any]:
    """Return what every report of a job says of the job and of the objects it was made from."""
    revision = running.revision
    pins: dict[str, dict[str, Any]] = {}
    for extension, pin in revision.pins:
        pins[extension] = {"name": pin.name, "generation": str(pin.generation)}
        if extension in fetched.facts:
            fact = fetched.facts[extension]
            pins[extension].update(crc32c=fact.crc32c, bytes=str(fact.size_bytes))
            if said := fetched.said.get(fact.name):
                pins[extension]["metadata"] = said
    facts: dict[str, Any] = {
        "bundle": str(revision.bundle),
        "revision": revision.id,
        "job": running.id,
        "fence": running.fence,
        "attempt": running.attempts,
        "product": product,
        "pins": pins,
        "deleted_sidecars": [pin.name for pin in fetched.absent],
    }
    if fetched.oversize:
        facts["metadata"] = {"stored": False, "bytes": fetched.oversize.size_bytes}
    return facts


def as_uploaded(error: E, revision: Revision, layer: ArchivedLayer | None = None) -> E:
    """Return the error with the name of what exists, for readers call a bundle by its basename.

    That is folded; the objects, and the files in an archive, are spelled as
    they were uploaded.
    """
    where, bundle = error.where, revision.bundle
    for extension, pin in revision.pins:
        folded = bundle.basename if bundle.archive else f"{bundle.basename}{extension}"
        if where == folded:
            where = pin.name
        elif bundle.archive and where.startswith(f"{folded}/"):
            inside = where.removeprefix(f"{folded}/")
            if layer and inside.removeprefix(layer.name) in _ENDS:
                inside = f"{layer.spelled}{inside.removeprefix(layer.name)}"
            where = f"{pin.name}/{inside}"
        if where != error.where:
            return type(error)(error.what, where=where, cure=error.todo)
    return error


def values_changed(reports: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many cells became null or were altered, by reason, in some reports together."""
    counts: dict[str, int] = {}
    for report in reports:
        for problem in report.get("values", ()):
            counts[problem["reason"]] = counts.get(problem["reason"], 0) + problem["count"]
    return counts


def fields(running: Job) -> dict[str, Any]:
    """Return the fields that every log line on a job has."""
    return {
        "bundle": str(running.revision.bundle),
        "job": running.id,
        "revision": running.revision.id,
        "fence": running.fence,
        "attempt": running.attempts,
    }


@dataclass(frozen=True, slots=True)
class _Owner:
    """What a sink asks, with the reason for a no kept for afterwards."""

    own: Ownership
    stops: list[Stopped] = field(default_factory=list)

    def still(self) -> bool:
        try:
            self.own.prove()
        except Stopped as stopped:
            self.stops.append(stopped)
        return not self.stops


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

    def rejects(self) -> Path | None:
        return self.layer.rejects()


def _metadata(folder: Path) -> bytes:
    try:
        return (folder / f"layer{METADATA_EXTENSION}").read_bytes()
    except FileNotFoundError:
        return b""
