"""The rows of one layer, decoded batch by batch, in as many threads as help.

Plain geometry is decoded and polygons are checked in a pool, while one thread
reads values and odd geometry in file order and another one uses the batches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from gate.errors import LostRowsError
from gate.gather import Integers, Mask
from gate.shapefile.ahead import Ahead, lagging
from gate.shapefile.columns import Cells
from gate.shapefile.dbf import DELETED
from gate.shapefile.features import Features, Picked
from gate.shapefile.files import let_go
from gate.shapefile.geometry import Feature, Geometries, NextFeature, Tally
from gate.shapefile.headers import Structure
from gate.shapefile.parts import only
from gate.shapefile.plain import Plain
from gate.shapefile.projection import Transformation
from gate.shapefile.records import Block
from gate.shapefile.validity import Validation, Verdict

P = ParamSpec("P")
R = TypeVar("R")
Running: TypeAlias = Ahead[pa.RecordBatch] | Generator[pa.RecordBatch, None, None]

BATCH_LIMIT_BYTES = 256 << 20
BATCH_ROWS = 3 << 12

# How many batches wait for the decoding of their plain geometry, for the check
# of their polygons, and for their use. More of them cost memory and gain nothing.
PREPARED_BATCHES = 1
CHECKED_BATCHES = 1
READY_BATCHES = 1
MAX_THREADS = 4
# What decodes leaves a core to the thread that reads values: threads that hold each
# other up make long rings a tenth dearer. The check is GEOS's, which holds up nobody.
_DECODE, _CHECK = range(2)


# From the rows of the table, which of them are live, which of them are loaded, and
# the numbers of those: one array per field for the rows that are loaded.
Values: TypeAlias = Callable[[Cells, Mask, Mask, Integers], list[pa.Array]]


@dataclass(frozen=True, slots=True)
class Stages:
    """What makes a batch: geometries and features, values, and what is done to geometries.

    Without `validation` nothing is checked. With `by_bytes`, `geometries` decode
    plain rows from their bytes.
    """

    geometries: Geometries
    features: Features | Picked
    values: Values
    transformation: Transformation | None
    validation: Validation | None
    by_bytes: bool


class Rows:
    """The batches of one layer, which can be read once; `loaded` and `deleted` count rows."""

    def __init__(
        self, structure: Structure, stages: Stages, schema: pa.Schema, batch_bytes: int
    ) -> None:
        self._structure = structure
        self._stages = stages
        self._schema = schema
        self._batch_bytes = min(batch_bytes, BATCH_LIMIT_BYTES)
        self._running: Running | None = None
        self._pools: tuple[ThreadPoolExecutor, ...] = ()
        self._closed = False
        self.loaded = self.deleted = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order.

        Where there is more than one batch, other threads work on the next ones
        meanwhile. Raises `RuntimeError` if `close` was called in between.
        """
        self._running = self._start()
        for batch in self._running:
            yield batch
            if self._closed:
                raise RuntimeError("the layer is closed")

    def close(self) -> None:
        """End what runs and close GDAL's files; closing twice is harmless."""
        self._closed = True
        if self._running is not None:
            self._running.close()
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)
        self._stages.features.close()

    def _start(self) -> Running:
        """Begin to read: in this thread if it is for one batch, else in another one."""
        first = next(self._spans(), None)
        if first is None or first[1] == self._structure.rows:
            return self._read()
        threads = min(os.cpu_count() or 1, MAX_THREADS)
        self._pools = (
            ThreadPoolExecutor(max(threads - 1, 1), thread_name_prefix="decode"),
            ThreadPoolExecutor(threads, thread_name_prefix="check"),
        )
        return Ahead(self._read(), READY_BATCHES)

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of rows whose bytes stay within the size of a batch."""
        beside = self._structure.table.record_bytes
        return self._structure.records.spans(BATCH_ROWS, self._batch_bytes, beside)

    def _read(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the batches; what a stage sets going has the time of the next batches to end."""
        found = lagging(map(self._found, self._spans()), PREPARED_BATCHES)
        checked = CHECKED_BATCHES if self._stages.validation else 0
        taken = lagging(map(self._taken, found), checked)
        for each in taken:
            batch = self._settled(each)
            if batch.num_rows:
                yield batch

    def _found(self, span: tuple[int, int]) -> _Found:
        """Look up the records of a batch, and begin to decode the plain ones."""
        rows = self._structure.table.block(*span)
        block = self._structure.records.block(*span)
        live = rows[:, 0] != DELETED
        plain = None
        if self._stages.by_bytes:
            plain = self._begin(_DECODE, self._stages.geometries.prepare, block, live)
        return _Found(span[1], rows, block, live, plain)

    def _taken(self, found: _Found) -> _Taken:
        """Make a batch of the rows, and begin to check its geometries."""
        stages, block, live = self._stages, found.block, found.live
        if found.plain:
            stages.geometries.expect(found.plain)
        with self._features(found) as next_feature:
            encoded, origin = stages.geometries.take(block, live, next_feature)
            if found.stop == self._structure.rows and next_feature() is not None:
                what = f"GDAL gives more features than the {found.stop} rows of the files"
                raise LostRowsError(what, where=self._structure.files.where(".shp"))
        column = encoded if isinstance(encoded, pa.Array) else pa.array(encoded, pa.binary())
        kept = origin.kept
        if stages.transformation:
            numbers = _numbers(block.start, kept)
            column, inside = stages.transformation.apply(column, numbers)
            kept = only(kept, inside)
        self.deleted += int((~live).sum())
        altered, verdict = stages.transformation is not None, None
        if stages.validation:
            as_taken = None if altered else origin
            verdict = self._begin(_CHECK, stages.validation.inspect, column, as_taken)
        return _Taken(block.start, found.rows, live, kept, column, origin.tally, altered, verdict)

    def _features(self, found: _Found) -> AbstractContextManager[NextFeature]:
        """Give the features that a batch needs: of rows that are all plain, none.

        Where no row needs GDAL, it is shown none.
        """
        if found.plain and found.plain().rows[found.live].all():
            return nullcontext(_NoFeatures())
        return self._stages.features.reading(found.block)

    def _settled(self, taken: _Taken) -> pa.RecordBatch:
        """Return a batch as it is loaded, once its geometries are checked.

        Values are read last, so that none is counted of a row that is not loaded.
        """
        stages, column, kept, altered = self._stages, taken.column, taken.kept, taken.altered
        if stages.validation and taken.verdict:
            verdict, numbers = taken.verdict(), _numbers(taken.start, kept)
            column, stays = stages.validation.settle(column, numbers, verdict)
            kept, altered = only(kept, stays), altered or bool(verdict.repairs)
        stages.geometries.count(taken.tally, kept, column if altered else None)
        arrays = stages.values(taken.rows, taken.live, kept, _numbers(taken.start, kept))
        batch = pa.RecordBatch.from_arrays([*arrays, column], schema=self._schema)
        self.loaded += batch.num_rows
        files = self._structure.files
        for content in (files.shp, files.shx, files.dbf):
            let_go(content)
        return batch

    def _begin(
        self, pool: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Callable[[], R]:
        """Let another thread do something, if there is one; return what gives the result."""
        if not self._pools:
            return cache(partial(work, *args, **kwargs))
        return self._pools[pool].submit(work, *args, **kwargs).result


class _NoFeatures:
    """The features of rows that are all plain."""

    def __call__(self) -> Feature | None:
        """Return `None`, as at the end of any features."""
        return None

    def only(self, rows: Sequence[int]) -> None:
        """Give the features of no rows."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The rows of a batch, and the records that belong to them, up to row `stop`."""

    stop: int
    rows: Cells
    block: Block
    live: Mask
    plain: Callable[[], Plain] | None


@dataclass(frozen=True, slots=True)
class _Taken:
    """Rows from row `start` on with the geometries of those that are `kept`.

    The geometries are `altered` if they are no longer those that were counted in
    `tally`; `verdict` waits for their check.
    """

    start: int
    rows: Cells
    live: Mask
    kept: Mask
    column: pa.BinaryArray
    tally: Tally
    altered: bool
    verdict: Callable[[], Verdict] | None


def _numbers(start: int, rows: Mask) -> Integers:
    """Return the numbers of these rows of a block, counted from 1 in file order."""
    return np.flatnonzero(rows).astype(np.int64) + start + 1
