"""Datasets in memory, with the faults of a network on demand: for tests."""

from __future__ import annotations

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

    @property
    def rows(self) -> int:
        """Return how many rows are stored."""
        return sum(batch.num_rows for batch in self.batches)


class MemorySink:
    """The `gate.sinks.port.Sink` over a dictionary, `datasets`: basename → dataset.

    `on(step)` is called ahead of each step, and may raise what a network would
    or publish something else meanwhile: `upload` before the table is stored,
    `swap` between the last question to the owner and the atomic step, `answer`
    once that step has been applied.
    """

    def __init__(self) -> None:
        self.on: Callable[[str], None] = lambda _step: None
        self.datasets: dict[str, Dataset] = {}
        self._lock = threading.Lock()

    def current(self, revision: Revision) -> Published | Outdated | None:
        """Tell what the sink holds: this revision, a newer one, or neither."""
        held = self.datasets.get(revision.bundle.basename)
        return _verdict(held, revision) if held else None

    def publish(
        self,
        publication: Publication,
        table: Table,
        report: Callable[[], Mapping[str, Any]],
        still_owner: Callable[[], bool],
    ) -> Published | Outdated | None:
        """Store the table and make it current, all or nothing."""
        revision = publication.revision
        settled = self.current(revision)
        if settled:
            return settled
        batches = tuple(table.batches())
        dataset = Dataset(publication, batches, table.geo_crs, dict(report()))
        self.on("upload")
        while True:
            held = self.datasets.get(revision.bundle.basename)
            verdict = _verdict(held, revision) if held else None
            if verdict:
                return verdict
            if not still_owner():
                return None
            self.on("swap")
            if self._swap(revision.bundle.basename, dataset, held):
                break
        self.on("answer")
        return Published(_location(revision), dataset.rows)

    def _swap(self, basename: str, dataset: Dataset, expected: Dataset | None) -> bool:
        with self._lock:
            if self.datasets.get(basename) is not expected:
                return False
            self.datasets[basename] = dataset
            return True


def _verdict(held: Dataset, revision: Revision) -> Published | Outdated | None:
    publication = held.publication
    if publication.revision.bundle != revision.bundle:
        raise DatasetTakenError(
            f"{publication.revision.bundle} already publishes as {_location(revision)}",
            where=str(revision.bundle),
        )
    if publication.revision.id == revision.id:
        return Published(_location(revision), held.rows, already=True)
    order = publication.revision.order
    return Outdated(order) if order >= revision.order else None


def _location(revision: Revision) -> str:
    return f"memory:{revision.bundle.basename}"
