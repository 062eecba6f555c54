"""Open one shapefile and move its rows, every one accounted for.

Fiona is the judge: it opens the layer; its schema, CRS, geometry type and count
are recorded, and it decodes every geometry that is not plain. The attribute
values are decoded from the table's own bytes, because GDAL alters them without a
word (undecodable text becomes null, `abc` becomes 0, a blank logical false, one
of two equal names vanishes). Geometries and values are joined by row number,
never by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fiona
import pyarrow as pa

from gate.errors import LostRowsError, RowsRejectedError
from gate.gather import Integers, Mask
from gate.overrides import NOTHING, Overrides
from gate.policies import DEFAULTS, Heights, Multi, Policies, Reader, Validity
from gate.shapefile import columns, crs, encoding, features, headers
from gate.shapefile.columns import Cells, Column
from gate.shapefile.crs import LayerCrs
from gate.shapefile.encoding import Encoding
from gate.shapefile.features import Features, Picked
from gate.shapefile.files import map_files
from gate.shapefile.findings import Findings
from gate.shapefile.geometry import Geometries
from gate.shapefile.headers import Structure, column_type
from gate.shapefile.port import NOWHERE_ELSE, Remote
from gate.shapefile.projection import Transformation
from gate.shapefile.records import MULTIPATCH, POLYGONS
from gate.shapefile.reference import FionaValues
from gate.shapefile.rejects import RejectList
from gate.shapefile.report import (
    CrsFacts,
    FieldFacts,
    Judgement,
    Named,
    Report,
    RowCounts,
    library_versions,
)
from gate.shapefile.rows import Rows, Stages
from gate.shapefile.validity import Validation
from gate.sinks.port import GEOMETRY_TYPE

GEOMETRY = "geometry"
REJECTS = "rejects.ndjson"

# Smaller batches pay for every step of Python, larger ones in memory.
BATCH_BYTES = 17 << 18


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    `batch_bytes` bounds the bytes of .shp and .dbf that one batch is made from
    (a single larger row makes a batch by itself), 256 MiB at most. `overrides`
    beat whatever the files say. A shape that takes more than `memory_bytes` to
    decode is refused.
    """

    batch_bytes: int = BATCH_BYTES
    overrides: Overrides = NOTHING
    policies: Policies = DEFAULTS
    memory_bytes: int = headers.ANY_MEMORY


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
        self._where = structure.files.where(".shp")
        policies = options.policies
        by_bytes = policies.reader is Reader.AUTO
        areal = structure.records.kind in (*POLYGONS, MULTIPATCH)
        checked = areal and policies.validity is not Validity.OFF
        self._geometries = Geometries(
            structure,
            findings,
            policies,
            multi=policies.multi_geometry is Multi.ALWAYS
            or (areal and policies.validity is Validity.REPAIR),
            by_bytes=by_bytes,
            keep_rings=checked,
        )
        self._validation = Validation(policies.validity, findings)
        self._transformation = Transformation.between(
            source_crs, policies.target_crs, self._where, findings
        )
        reference = None if by_bytes else FionaValues(judgement.fields, GEOMETRY)
        features = (
            Features(structure.files.folder, self._where, findings, text.name, reference.add)
            if reference
            else Picked(structure, self._where, findings)
        )
        fields = reference.fields if reference else [column.field for column in planned]
        self._field_facts = reference.facts if reference else tuple(map(_facts, planned))
        stated = {
            GEOMETRY_TYPE: column_type(
                structure.records.kind, flat=policies.z_values is Heights.DROP
            )
        }
        self._schema = pa.schema([*fields, pa.field(GEOMETRY, pa.binary(), metadata=stated)])
        stages = Stages(
            self._geometries,
            features,
            reference.arrays if reference else partial(_values, planned, text.name, findings),
            self._transformation,
            self._validation if checked else None,
            by_bytes,
        )
        self._rows = Rows(structure, stages, self._schema, options.batch_bytes)
        self._started = self._exhausted = False

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
            yield from self._rows.batches()
            self._exhausted = True
            bounds = self._geometries.bounds_in_file
            crs.check_bounds(self._crs, bounds, self._where, self._findings)
            self.report()
        finally:
            self._rows.close()

    def report(self) -> Report:
        """Return the report, once the batches are exhausted.

        Raises `LostRowsError` if the rows in the file are not exactly those
        loaded, deleted and rejected, `RowsRejectedError` if there were rows and
        all were rejected, and `RuntimeError` if batches are left to read.
        """
        if not self._exhausted:
            raise RuntimeError("a report is complete only after the last batch")
        rejected = self._findings.rejected
        rows = RowCounts(self._structure.rows, self._rows.loaded, self._rows.deleted, rejected)
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
            geometry=self._geometries.facts(),
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
        self._rows.close()
        self.rejects()

    def _crs_facts(self) -> CrsFacts:
        moved = self._transformation
        return CrsFacts(
            name=self._crs.authority or self._crs.name,
            source=self._crs.source.value,
            kind=self._crs.kind,
            recognised=self._crs.match,
            transformed=moved.facts() if moved else None,
        )


@contextmanager
def open_layer(
    folder: Path,
    *,
    name: str,
    options: ReadOptions = ReadOptions(),
    remote: Mapping[str, Remote] = NOWHERE_ELSE,
) -> Iterator[Layer]:
    """Open the shapefile that lies in `folder` as `layer.shp`, `layer.shx`, `layer.dbf` ….

    `name` is what the user calls it (`roads.shp`); messages say that. The
    components in `remote` do not lie in the folder; a reader that asks Fiona for
    everything cannot do without them there. The files are checked, and the
    remote ones proven, before Fiona sees them. Raises a `BundleError`: see
    `gate.shapefile.headers.check` and `gate.shapefile.files.map_files`. Raises a
    `HeldError` for what a person has to say: see `gate.shapefile.crs.layer_crs`
    and `gate.shapefile.encoding.choose`.
    """
    findings = Findings(RejectList(folder / REJECTS))
    files = map_files(folder, name, remote)
    with files.proven():
        structure = headers.check(files, findings, options.memory_bytes)
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


def _values(
    planned: tuple[Column, ...],
    encoding: str,
    findings: Findings,
    rows: Cells,
    _live: Mask,
    kept: Mask,
    numbers: Integers,
) -> list[pa.Array]:
    """Decode the values of a batch from the bytes of the table."""
    chosen = rows if kept.all() else rows[kept]
    return [columns.decode(column, chosen, numbers, encoding, findings) for column in planned]
