"""Open one shapefile and move its rows, every one accounted for.

Fiona is the judge: it opens the layer; its schema, CRS, geometry type and count
are recorded, and it decodes every geometry that is not plain. The attribute
values are decoded from the table's own bytes, because GDAL alters them without a
word (undecodable text becomes null, `abc` becomes 0, a blank logical false, one
of two equal names vanishes). Geometries and values are joined by row number,
never by position.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

import fiona
import numpy as np
import pyarrow as pa

from gate.errors import LostRowsError, RowsRejectedError
from gate.gather import Integers, Mask
from gate.overrides import NOTHING, Overrides
from gate.policies import DEFAULTS, Policies, Reader, Validity
from gate.shapefile import columns, crs, encoding, features, headers
from gate.shapefile.ahead import Ahead, lagging
from gate.shapefile.columns import Cells, Column
from gate.shapefile.crs import LayerCrs
from gate.shapefile.dbf import DELETED
from gate.shapefile.encoding import Encoding
from gate.shapefile.features import NEUTRAL_ENCODING, Features
from gate.shapefile.files import let_go, map_files
from gate.shapefile.findings import Findings
from gate.shapefile.geometry import Geometries
from gate.shapefile.headers import Structure
from gate.shapefile.plain import Plain
from gate.shapefile.projection import Transformation
from gate.shapefile.records import BLOCK_ROWS, MULTIPATCH, POLYGONS, Block
from gate.shapefile.reference import FionaValues
from gate.shapefile.rejects import RejectList
from gate.shapefile.report import (
    CrsFacts,
    FieldFacts,
    GeometryFacts,
    Judgement,
    Named,
    Report,
    RowCounts,
    library_versions,
)
from gate.shapefile.validity import Validation, Verdict

P = ParamSpec("P")
R = TypeVar("R")
Running: TypeAlias = Ahead[pa.RecordBatch] | Generator[pa.RecordBatch, None, None]

GEOMETRY = "geometry"
BATCH_LIMIT_BYTES = 256 << 20
REJECTS = "rejects.ndjson"
BATCH_ROWS = 1 << 14

# How many batches wait for the decoding of their plain geometry, for the check
# of their polygons, and for their use. More of them cost memory and gain nothing.
PREPARED_BATCHES = 1
CHECKED_BATCHES = 2
READY_BATCHES = 1
MAX_THREADS = 4


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    `batch_bytes` bounds the bytes of .shp and .dbf that one batch is made from
    (a single larger row makes a batch by itself), 256 MiB at most. `overrides`
    beat whatever the files say.
    """

    batch_bytes: int = 4 << 20
    overrides: Overrides = NOTHING
    policies: Policies = DEFAULTS


class Layer:
    """An open shapefile: a `gate.sinks.port.Table` with a report.

    `batches` may be run once and may be abandoned half-way.
    """

    def __init__(
        self,
        structure: Structure,
        judgement: Judgement,
        source_crs: LayerCrs,
        text: Encoding,
        planned: tuple[Column, ...],
        findings: Findings,
        options: ReadOptions,
    ) -> None:
        self._structure = structure
        self._judgement = judgement
        self._crs = source_crs
        self._text = text
        self._columns = planned
        self._findings = findings
        self._options = options
        self._batch_bytes = min(options.batch_bytes, BATCH_LIMIT_BYTES)
        self._where = structure.files.where(".shp")
        policies = options.policies
        self._by_bytes = policies.reader is Reader.AUTO
        areal = structure.records.kind in (*POLYGONS, MULTIPATCH)
        self._checks = areal and policies.validity is not Validity.OFF
        self._geometries = Geometries(
            structure,
            findings,
            policies,
            multi=areal and policies.validity is Validity.REPAIR,
            by_bytes=self._by_bytes,
        )
        self._validation = Validation(policies.validity, findings)
        self._transformation = Transformation.between(
            source_crs, policies.target_crs, self._where, findings
        )
        self._reference = None if self._by_bytes else FionaValues(judgement.fields, GEOMETRY)
        self._features = Features(
            structure.files.folder,
            self._where,
            findings,
            encoding=NEUTRAL_ENCODING if self._by_bytes else text.name,
            on_values=self._reference.add if self._reference else None,
        )
        self._loaded = self._deleted = 0
        self._started = self._exhausted = self._closed = False
        self._running: Running | None = None
        self._pool: ThreadPoolExecutor | None = None
        fields = [column.field for column in planned]
        self._field_facts = tuple(map(_facts, planned))
        if self._reference is not None:
            fields = list(self._reference.fields)
            self._field_facts = self._reference.facts
        self._schema = pa.schema([*fields, pa.field(GEOMETRY, pa.binary())])

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of every batch: the fields in file order, `geometry` (WKB) last."""
        return self._schema

    @property
    def geo_crs(self) -> Mapping[str, Any] | None:
        """Return the CRS of the rows as PROJJSON, `None` if they have none."""
        moved = self._transformation
        return moved.target if moved else self._crs.projjson

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order, a few megabytes at a time.

        Where there is more than one batch, other threads decode and check the
        next ones meanwhile. Raises `UnreadableError` if GDAL refuses or reports
        an error, `CorruptError` if a geometry is not what its record announces,
        and, after the last batch at the latest, what `report` raises, and
        `OutsideCrsError` for coordinates that do not fit an assumed CRS.
        """
        if self._started:
            raise RuntimeError("the batches of a layer can be read once")
        self._started = True
        try:
            self._running = self._start()
            for batch in self._running:
                yield batch
                if self._closed:
                    raise RuntimeError("the layer is closed")
            self._exhausted = True
            bounds = self._geometries.facts().bounds
            crs.check_bounds(self._crs, bounds, self._where, self._findings)
            self.report()
        finally:
            self._stop()

    def report(self) -> Report:
        """Return the report, once the batches are exhausted.

        Raises `LostRowsError` if the rows in the file are not exactly those
        loaded, deleted and rejected, `RowsRejectedError` if there were rows and
        all were rejected, and `RuntimeError` if batches are left to read.
        """
        if not self._exhausted:
            raise RuntimeError("a report is complete only after the last batch")
        rejected = self._findings.rejected
        rows = RowCounts(self._structure.rows, self._loaded, self._deleted, rejected)
        if rows.unaccounted or rows.deleted != self._structure.deleted:
            what = (
                f"read {rows.loaded} of {rows.in_file} rows"
                f" ({rows.deleted} deleted, {rows.rejected} rejected)"
            )
            raise LostRowsError(what, where=self._where)
        if rows.rejected and not rows.loaded:
            reasons = ", ".join(problem.reason for problem in self._findings.rejects())
            what = f"all {rows.rejected} rows were rejected: {reasons}"
            raise RowsRejectedError(what, where=self._where)
        return Report(
            layer=self._options.overrides.layer or self._structure.files.stem,
            rows=rows,
            geometry=self._geometry_facts(),
            validity=self._validation.facts(),
            encoding=Named(self._text.name, self._text.source.value),
            crs=self._crs_facts(),
            fields=self._field_facts,
            values=self._findings.values(),
            rejects=self._findings.rejects(),
            notices=tuple(self._findings.notices()),
            judgement=self._judgement,
            overrides=self._options.overrides.as_json(),
            policies=self._options.policies.as_json(),
            versions={**library_versions(), "gdal": fiona.__gdal_version__},
        )

    def rejects(self) -> Path | None:
        """Return the list of rejected rows as newline-delimited JSON, `None` if there are none.

        Complete after the last batch; the file goes with the layer's folder.
        """
        return self._findings.listed.close() if self._findings.listed else None

    def close(self) -> None:
        """Close GDAL's files; a read that was abandoned cannot go on.

        The mapped components are let go of with the layer object itself.
        """
        self._closed = True
        self._stop()
        self.rejects()

    def _start(self) -> Running:
        """Begin to read: in this thread if it is for one batch, else in another one."""
        first = next(iter(self._spans()), None)
        if first is None or first[1] == self._structure.rows:
            return self._read()
        threads = min(os.cpu_count() or 1, MAX_THREADS)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")
        return Ahead(self._read(), READY_BATCHES)

    def _stop(self) -> None:
        """End what runs; a second time does nothing."""
        if self._running is not None:
            self._running.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._features.close()

    def _geometry_facts(self) -> GeometryFacts:
        facts, moved = self._geometries.facts(), self._transformation
        if moved is None:
            return facts
        return replace(facts, bounds=moved.bounds, types=tuple(sorted(moved.types)))

    def _crs_facts(self) -> CrsFacts:
        moved = self._transformation
        return CrsFacts(
            name=self._crs.authority or self._crs.name,
            source=self._crs.source.value,
            kind=self._crs.kind,
            recognised=self._crs.match,
            transformed=moved.facts() if moved else None,
        )

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of rows whose bytes stay within the size of a batch."""
        start, rows = 0, self._structure.rows
        while start < rows:
            _, lengths = self._structure.records.entries(start, min(start + BLOCK_ROWS, rows))
            total = np.cumsum(lengths + self._structure.table.record_bytes)
            fitting = int(np.searchsorted(total, self._batch_bytes, side="right"))
            stop = start + min(max(fitting, 1), BATCH_ROWS)
            yield start, stop
            start = stop

    def _read(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the batches; what a stage sets going has the time of the next batches to end."""
        found = lagging(map(self._found, self._spans()), PREPARED_BATCHES)
        taken = lagging(map(self._taken, found), CHECKED_BATCHES)
        for each in taken:
            batch = self._settled(each)
            if batch.num_rows:
                yield batch

    def _found(self, span: tuple[int, int]) -> _Found:
        """Look up the records of a batch, and begin to decode the plain ones."""
        rows = self._structure.table.block(*span)
        block = self._structure.records.block(*span)
        live = rows[:, 0] != DELETED
        plain = self._begin(self._geometries.prepare, block, live) if self._by_bytes else None
        return _Found(span[1], rows, block, live, plain)

    def _taken(self, found: _Found) -> _Taken:
        """Make a batch of the rows, and begin to check its geometries."""
        block, live = found.block, found.live
        if found.plain:
            self._geometries.expect(found.plain)
        with self._features.reading() as next_feature:
            encoded, kept = self._geometries.take(block, live, next_feature)
            if found.stop == self._structure.rows and next_feature() is not None:
                what = f"GDAL gives more features than the {found.stop} rows of the files"
                raise LostRowsError(what, where=self._where)
        column = encoded if isinstance(encoded, pa.Array) else pa.array(encoded, pa.binary())
        numbers = np.flatnonzero(kept).astype(np.int64) + block.start + 1
        origin = self._geometries.taken
        if self._transformation:
            column, inside = self._transformation.apply(column, numbers)
            kept[kept], numbers, origin = inside, numbers[inside], None
        self._deleted += int((~live).sum())
        arrays = self._values(found.rows, live, kept, numbers)
        batch = pa.RecordBatch.from_arrays([*arrays, column], schema=self._schema)
        verdict = self._begin(self._validation.inspect, column, origin) if self._checks else None
        return _Taken(batch, numbers, verdict)

    def _settled(self, taken: _Taken) -> pa.RecordBatch:
        """Return a batch as it is loaded, once its geometries are checked."""
        batch = taken.batch
        if taken.verdict is not None:
            column = batch.column(GEOMETRY)
            column, stays = self._validation.settle(column, taken.numbers, taken.verdict())
            if not stays.all():
                batch = batch.filter(pa.array(stays))
            batch = batch.set_column(batch.num_columns - 1, self._schema.field(GEOMETRY), column)
        self._loaded += batch.num_rows
        let_go(self._structure.files.shp)
        let_go(self._structure.files.dbf)
        return batch

    def _values(self, rows: Cells, live: Mask, kept: Mask, numbers: Integers) -> list[pa.Array]:
        if self._reference is not None:
            return self._reference.arrays(kept[live].tolist())
        chosen = rows if kept.all() else rows[kept]
        return [
            columns.decode(column, chosen, numbers, self._text.name, self._findings)
            for column in self._columns
        ]

    def _begin(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
        """Let another thread do something, if there is one; return what gives the result."""
        if self._pool is None:
            return partial(work, *args, **kwargs)
        return self._pool.submit(work, *args, **kwargs).result


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
    """A batch and the numbers of its rows; `verdict` waits for the check of its geometries."""

    batch: pa.RecordBatch
    numbers: Integers
    verdict: Callable[[], Verdict] | None


@contextmanager
def open_layer(folder: Path, *, name: str, options: ReadOptions = ReadOptions()) -> Iterator[Layer]:
    """Open the shapefile that lies in `folder` as `layer.shp`, `layer.shx`, `layer.dbf` ….

    `name` is what the user calls it (`roads.shp`); messages say that. The files
    are checked before Fiona sees them. Raises a `BundleError`: see
    `gate.shapefile.headers.check` and `gate.shapefile.files.map_files`. Raises a
    `HeldError` for what a person has to say: see `gate.shapefile.crs.layer_crs`
    and `gate.shapefile.encoding.choose`.
    """
    findings = Findings(RejectList(folder / REJECTS))
    files = map_files(folder, name)
    structure = headers.check(files, findings)
    stated = options.overrides
    text = encoding.choose(
        structure.table, files.sidecars, stated.encoding, files.where(".dbf"), findings
    )
    planned = columns.plan(
        structure.table.descriptors, text.name, GEOMETRY, files.where(".dbf"), findings
    )
    judgement, judged = features.judge(structure, text.name, findings)
    source_crs = crs.layer_crs(
        files.sidecars.get(".prj"),
        judged,
        findings,
        where=files.where(".prj"),
        override=stated.crs,
        missing=options.policies.missing_crs,
    )
    layer = Layer(structure, judgement, source_crs, text, planned, findings, options)
    try:
        yield layer
    finally:
        layer.close()


def _facts(column: Column) -> FieldFacts:
    return FieldFacts(column.original, column.name, str(column.type), str(column.descriptor))
