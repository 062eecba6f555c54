"""Open one shapefile and move its rows, every one accounted for.

Fiona is the judge: it opens the layer; its schema, CRS, geometry type and count
are recorded, and it decodes the geometries. The attribute values are decoded
from the table's own bytes, because GDAL alters them without a word (undecodable
text becomes null, `abc` becomes 0, a blank logical false, one of two equal names
vanishes). Geometries and values are joined by row number, never by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fiona
import numpy as np
import pyarrow as pa
from fiona.crs import CRS

from gate.errors import CorruptError, GateError, LostRowsError, RowsRejectedError, UnreadableError
from gate.shapefile import columns, encoding, headers
from gate.shapefile.columns import Column
from gate.shapefile.crs import LayerCrs, layer_crs
from gate.shapefile.dbf import DELETED
from gate.shapefile.encoding import Encoding
from gate.shapefile.files import STEM, map_files
from gate.shapefile.findings import Findings
from gate.shapefile.gdal_log import GdalLog
from gate.shapefile.geometry import Feature, Geometries, NextFeature
from gate.shapefile.headers import Structure
from gate.shapefile.records import BLOCK_ROWS
from gate.shapefile.report import (
    FieldFacts,
    Judgement,
    Named,
    Report,
    RowCounts,
    library_versions,
)

GEOMETRY = "geometry"
DRIVER = "ESRI Shapefile"
BATCH_LIMIT_BYTES = 256 << 20

# Every byte means something in it, so Fiona cannot stumble over a field name
# that is cut inside a character, and the bytes can be had back.
NEUTRAL_ENCODING = "ISO-8859-1"

# The driver's own choice trusts the winding of rings; this one compares the
# rings themselves, so that reversed shells and holes come out right.
GDAL_OPTIONS = {"OGR_ORGANIZE_POLYGONS": "DEFAULT"}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    `batch_bytes` bounds the bytes of .shp and .dbf that one batch is made from
    (a single larger row makes a batch by itself), 256 MiB at most. `encoding`
    beats whatever the files say.
    """

    batch_bytes: int = 4 << 20
    encoding: str | None = None


class Layer:
    """An open shapefile: a `gate.sinks.port.Table` with a report.

    `batches` may be run once and may be abandoned half-way.
    """

    def __init__(
        self,
        structure: Structure,
        judgement: Judgement,
        crs: LayerCrs,
        text: Encoding,
        planned: tuple[Column, ...],
        findings: Findings,
        batch_bytes: int,
    ) -> None:
        self._structure = structure
        self._judgement = judgement
        self._crs = crs
        self._text = text
        self._columns = planned
        self._findings = findings
        self._batch_bytes = min(batch_bytes, BATCH_LIMIT_BYTES)
        self._where = structure.files.where(".shp")
        self._geometries = Geometries(structure, findings)
        self._features = Features(structure.files.folder, self._where, findings)
        self._loaded = self._deleted = 0
        self._started = self._exhausted = False
        fields = [column.field for column in planned]
        self._schema = pa.schema([*fields, pa.field(GEOMETRY, pa.binary())])

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of every batch: the fields in file order, `geometry` (WKB) last."""
        return self._schema

    @property
    def geo_crs(self) -> Mapping[str, Any] | None:
        """Return the CRS as PROJJSON, `None` if the layer has none."""
        return self._crs.projjson

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order, a few megabytes at a time.

        Raises `UnreadableError` if GDAL refuses or reports an error,
        `CorruptError` if a geometry is not what its record announces, and, after
        the last batch at the latest, what `report` raises.
        """
        if self._started:
            raise RuntimeError("the batches of a layer can be read once")
        self._started = True
        try:
            for start, stop in self._spans():
                batch = self._batch(start, stop)
                if batch.num_rows:
                    yield batch
            self._exhausted = True
            self.report()
        finally:
            self._features.close()

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
            layer=self._structure.files.stem,
            rows=rows,
            geometry=self._geometries.facts(),
            encoding=Named(self._text.name, self._text.source.value),
            crs=Named(self._crs.authority or self._crs.name, self._crs.source.value),
            fields=tuple(_facts(column) for column in self._columns),
            values=self._findings.values(),
            rejects=self._findings.rejects(),
            notices=tuple(self._findings.notices()),
            judgement=self._judgement,
            versions={**library_versions(), "gdal": fiona.__gdal_version__},
        )

    def close(self) -> None:
        """Close GDAL's files; a read that was abandoned cannot go on.

        The mapped components are let go of with the layer object itself.
        """
        self._features.close()

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of rows whose bytes stay within the size of a batch."""
        start, rows = 0, self._structure.rows
        while start < rows:
            _, lengths = self._structure.records.entries(start, min(start + BLOCK_ROWS, rows))
            total = np.cumsum(lengths + self._structure.table.record_bytes)
            fitting = int(np.searchsorted(total, self._batch_bytes, side="right"))
            stop = start + max(fitting, 1)
            yield start, stop
            start = stop

    def _batch(self, start: int, stop: int) -> pa.RecordBatch:
        rows = self._structure.table.block(start, stop)
        block = self._structure.records.block(start, stop)
        live = rows[:, 0] != DELETED
        with self._features.reading() as next_feature:
            encoded, kept = self._geometries.take(block, live, next_feature)
            if stop == self._structure.rows and next_feature() is not None:
                what = f"GDAL gives more features than the {stop} rows of the files"
                raise LostRowsError(what, where=self._where)
        self._deleted += int((~live).sum())
        self._loaded += len(encoded)
        numbers = np.flatnonzero(kept).astype(np.int64) + start + 1
        chosen = rows[kept]
        arrays = [
            columns.decode(column, chosen, numbers, self._text.name, self._findings)
            for column in self._columns
        ]
        arrays.append(pa.array(encoded, pa.binary()))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class Features:
    """The features of one layer as Fiona gives them, without their attributes.

    Opened on first use. GDAL's options and the ear on its log belong to a
    thread, so they are set for each stretch of reading and never across a
    `yield`: a generator may be resumed by another thread.
    """

    def __init__(self, folder: Path, where: str, findings: Findings) -> None:
        self._folder = folder
        self._where = where
        self._log = GdalLog(where, findings)
        self._stack = ExitStack()
        self._features: Iterator[Feature] | None = None
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[NextFeature]:
        """Give a function that returns the next (row, geometry), or `None` at the end.

        Raises `UnreadableError` if GDAL has reported an error by the end of the
        block, or Fiona raised one in it.
        """
        if self._closed:
            raise RuntimeError("the layer is closed")
        with fiona.Env(**GDAL_OPTIONS), _translated(self._where):
            if self._features is None:
                opened = _opened(self._folder, self._log, include_fields=[])
                layer, _ = self._stack.enter_context(opened)
                self._features = map(_feature, layer)
            features = self._features
            with self._log.listening():
                yield lambda: next(features, None)

    def close(self) -> None:
        """Close the layer; closing twice is harmless."""
        self._closed = True
        self._features = None
        self._stack.close()


@contextmanager
def open_layer(folder: Path, *, name: str, options: ReadOptions = ReadOptions()) -> Iterator[Layer]:
    """Open the shapefile that lies in `folder` as `layer.shp`, `layer.shx`, `layer.dbf` ….

    `name` is what the user calls it (`roads.shp`); messages say that. The files
    are checked before Fiona sees them. Raises a `BundleError`: see
    `gate.shapefile.headers.check` and `gate.shapefile.files.map_files`.
    """
    findings = Findings()
    files = map_files(folder, name)
    structure = headers.check(files, findings)
    text = encoding.choose(structure.table, files.sidecars.get(".cpg"), options.encoding, findings)
    planned = columns.plan(
        structure.table.descriptors, text.name, GEOMETRY, files.where(".dbf"), findings
    )
    judgement, crs = _judge(structure, text.name, findings)
    layer = Layer(structure, judgement, crs, text, planned, findings, options.batch_bytes)
    try:
        yield layer
    finally:
        layer.close()


def _judge(structure: Structure, text: str, findings: Findings) -> tuple[Judgement, LayerCrs]:
    """Record what Fiona says of the layer before any row is read."""
    files = structure.files
    where = files.where(".shp")
    log = GdalLog(where, findings)
    with _translated(where), _opened(files.folder, log) as (layer, judged), log.listening():
        schema = layer.schema
        fields = {
            name.encode(NEUTRAL_ENCODING).decode(text, "replace"): kind
            for name, kind in schema["properties"].items()
        }
        judgement = Judgement(schema["geometry"], len(layer), fields)
    if judgement.rows != structure.rows:
        what = f"GDAL counts {judgement.rows} rows, the files hold {structure.rows}"
        raise CorruptError(what, where=where)
    return judgement, layer_crs(files.sidecars.get(".prj"), judged, findings)


@contextmanager
def _opened(
    folder: Path, log: GdalLog, **filters: Any
) -> Iterator[tuple[fiona.Collection, CRS | None]]:
    """Open the layer and make GDAL parse the .prj at once, rather than at the first row.

    A .prj that cannot be parsed is an error in GDAL's log, and in some versions
    an exception. It costs the CRS, not the layer, so nobody listens meanwhile.
    """
    with log.listening():
        layer = fiona.open(
            folder / f"{STEM}.shp",
            driver=DRIVER,
            encoding=NEUTRAL_ENCODING,
            **filters,
        )
    with layer:
        try:
            crs = layer.crs
        except Exception:  # noqa: BLE001 - whatever it is, there is no CRS
            crs = None
        yield layer, crs


@contextmanager
def _translated(where: str) -> Iterator[None]:
    """Raise `UnreadableError` for whatever Fiona raises; its exceptions have no common root."""
    try:
        yield
    except (GateError, MemoryError):
        raise
    except Exception as error:
        raise UnreadableError(f"GDAL refused it: {error}", where=where) from error


def _feature(feature: Any) -> Feature:
    return int(feature.id), feature.geometry


def _facts(column: Column) -> FieldFacts:
    return FieldFacts(column.original, column.name, str(column.type), str(column.descriptor))
