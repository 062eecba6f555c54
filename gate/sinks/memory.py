"""Datasets in memory, with the faults of a network on demand: for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gate.errors import DatasetTakenError
from gate.identity import Revision
from gate.sinks.port import Outdated, Publication, Published, Table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Dataset:
    """What readers of one bundle see."""

    publication: Publication
    batches: tuple[pa.RecordBatch, ...]
    geo_crs: Mapping[str, Any] | None
    report: Mapping[str, Any]
    rejects: tuple[Mapping[str, Any], ...] = ()

    @property
    def rows(self) -> int:
        """Return how many rows are stored."""
        return sum(batch.num_rows for batch in self.batches)


@dataclass(frozen=True, slots=True)
class Index:
    """What readers of one archive see of its layers."""

    publication: Publication
    content: Mapping[str, Any]


class MemorySink:
    """The `gate.sinks.port.Sink` over dictionaries.

    `datasets` maps a basename to its dataset, and `key(basename, layer)` for the
    layers of an archive; `indexes` maps the basename of an archive to its index.

    `on(step)` is called ahead of each step, and may raise what a network would
    or publish something else meanwhile: `upload` before the table is stored,
    `swap` between the last question to the owner and the atomic step, `answer`
    once that step has been applied; `index` ahead of that step for an index.
    """

    def __init__(self) -> None:
        self.on: Callable[[str], None] = lambda _step: None
        self.datasets: dict[str, Dataset] = {}
        self.indexes: dict[str, Index] = {}
        self._lock = threading.Lock()

    def current(self, revision: Revision, layer: str = "") -> Published | Outdated | None:
        """Tell what the sink holds: this revision, a newer one, or neither."""
        held = self.datasets.get(key(revision.bundle.basename, layer))
        return _verdict(held, revision, layer) if held else None

    def publish(
        self,
        publication: Publication,
        table: Table,
        report: Callable[[], Mapping[str, Any]],
        still_owner: Callable[[], bool],
    ) -> Published | Outdated | None:
        """Store the table and make it current, all or nothing."""
        revision, layer = publication.revision, publication.layer
        name = key(revision.bundle.basename, layer)
        settled = self.current(revision, layer)
        if settled:
            return settled
        batches = tuple(table.batches())
        listed = table.rejects()
        lines = listed.read_text(encoding="utf-8").splitlines() if listed else ()
        rejects = tuple(map(json.loads, lines))
        dataset = Dataset(publication, batches, table.geo_crs, dict(report()), rejects)
        self.on("upload")
        while True:
            held = self.datasets.get(name)
            verdict = _verdict(held, revision, layer) if held else None
            if verdict:
                return verdict
            if not still_owner():
                return None
            self.on("swap")
            if self._swap(name, dataset, held):
                break
        self.on("answer")
        return Published(_location(revision, layer), dataset.rows)

    def publish_index(
        self,
        publication: Publication,
        index: Mapping[str, Any],
        still_owner: Callable[[], bool],
    ) -> str | Outdated | None:
        """Replace the index of an archive, unless a newer revision's stands there."""
        revision = publication.revision
        basename = revision.bundle.basename
        while True:
            held = self.indexes.get(basename)
            if held and held.publication.revision.bundle != revision.bundle:
                raise _taken(held.publication, revision, "")
            if held and held.publication.revision.id != revision.id:
                order = held.publication.revision.order
                if order >= revision.order:
                    return Outdated(order)
            if not still_owner():
                return None
            self.on("index")
            with self._lock:
                if self.indexes.get(basename) is held:
                    self.indexes[basename] = Index(publication, dict(index))
                    return f"memory:{basename}/index"

    def _swap(self, name: str, dataset: Dataset, expected: Dataset | None) -> bool:
        with self._lock:
            if self.datasets.get(name) is not expected:
                return False
            self.datasets[name] = dataset
            return True


def _verdict(held: Dataset, revision: Revision, layer: str) -> Published | Outdated | None:
    publication = held.publication
    if (publication.revision.bundle, publication.layer) != (revision.bundle, layer):
        raise _taken(publication, revision, layer)
    if publication.revision.id == revision.id:
        return Published(_location(revision, layer), held.rows, already=True)
    order = publication.revision.order
    return Outdated(order) if order >= revision.order else None


def _taken(holder: Publication, revision: Revision, layer: str) -> DatasetTakenError:
    return DatasetTakenError(
        f"{holder.revision.bundle} already publishes as {_location(revision, layer)}",
        where=str(revision.bundle),
    )


def key(basename: str, layer: str) -> str:
    """Return the key of a dataset; no object name holds a line break, so layers meet nothing."""
    return f"{basename}\n{layer}" if layer else basename


def _location(revision: Revision, layer: str) -> str:
    basename = revision.bundle.basename
    return f"memory:{basename}/{layer}" if layer else f"memory:{basename}"
