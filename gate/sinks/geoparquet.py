"""GeoParquet 1.1 files (https://geoparquet.org/releases/v1.1.0/).

The metadata is computed from the geometries that are written, not from what a
header or the reader says of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from gate.errors import UnexpectedError
from gate.sinks import behind, hilbert
from gate.sinks.formats import GEOMETRY, LINEAGE_KEY, Origin, Target, Written, described, free_name
from gate.sinks.geometry import Coordinates, Extents, extents, geometry_types
from gate.sinks.port import Table

VERSION = "1.1.0"

ROW_GROUP_ROWS = 1 << 16
ROW_GROUP_BYTES = 10 << 20
# Of coordinates, level 3 takes twice the time of level 1 and saves a tenth of the bytes.
_ZSTD_LEVEL, _ZSTD_GEOMETRY_LEVEL = 3, 1
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_BOX = pa.struct([pa.field(corner, pa.float32()) for corner in _CORNERS])


@dataclass(frozen=True, slots=True)
class GeoParquet:
    """The `gate.sinks.formats.Format` of GeoParquet, in file order or along a Hilbert curve."""

    hilbert: bool = False
    extension: str = ".parquet"
    media_type: str = "application/vnd.apache.parquet"

    def write(self, target: Target, table: Table, origin: Origin, folder: Path) -> Written:
        """Write the table: see `write`."""
        spool = folder if self.hilbert else None
        return Written(write(target, table, origin.lineage, spool=spool))


def write(
    target: Path | Target, table: Table, lineage: Mapping[str, Any], *, spool: Path | None = None
) -> int:
    """Write the table as one GeoParquet file and return its rows, as its footer counts them.

    The file is written from its first byte to its last.

    Batches are merged into row groups of `ROW_GROUP_ROWS` rows, or fewer where
    they would exceed `ROW_GROUP_BYTES`. A struct column (`bbox`, or the next
    free name) covers each geometry. A layer without rows makes a valid file.
    `lineage`, the original field names and the versions of the writers stand as
    JSON under the key `shapefile_gate`; they hold no time, so that writing the
    same table again makes the same bytes. Errors of the table pass through.
    With `spool`, a folder, the rows stand along a Hilbert curve, and wait in the
    folder until all are there: see `gate.sinks.hilbert`.
    """
    covering = free_name("bbox", table.schema)
    schema = table.schema.append(pa.field(covering, _BOX))
    attributes = [name for name in table.schema.names if name != GEOMETRY]
    leaves = attributes + [f"{covering}.{corner}" for corner in _CORNERS]
    summary = _Summary()
    footers: list[pq.FileMetaData] = []
    with pq.ParquetWriter(
        target,
        schema,
        compression="zstd",
        compression_level=dict.fromkeys(leaves, _ZSTD_LEVEL) | {GEOMETRY: _ZSTD_GEOMETRY_LEVEL},
        # A stored Arrow schema would hide the keys added below from readers in pyarrow.
        store_schema=False,
        use_dictionary=attributes,
        write_statistics=leaves,
        metadata_collector=footers,
    ) as writer:
        groups = _row_groups(table, schema, summary)
        if spool:
            groups = hilbert.ordered(
                groups,
                schema,
                covering,
                spool,
                most_rows=ROW_GROUP_ROWS,
                most_bytes=ROW_GROUP_BYTES,
            )
        behind.each(groups, lambda group: writer.write_table(group, ROW_GROUP_ROWS))
        writer.add_key_value_metadata(
            {
                "geo": json.dumps(summary.geo(table.geo_crs, covering), allow_nan=False),
                LINEAGE_KEY: described(
                    table.schema,
                    lineage,
                    geoparquet=VERSION,
                    pyarrow=pa.__version__,
                    shapely=shapely.__version__,
                ),
            }
        )
    stored = int(footers[0].num_rows)
    if stored != summary.rows:
        raise UnexpectedError(f"{stored} of {summary.rows} rows are in the file", where="dataset")
    return stored


@dataclass(slots=True)
class _Summary:
    """What the geometries written so far amount to."""

    rows: int = 0
    types: set[str] = field(default_factory=set)
    low: Coordinates = field(default_factory=lambda: np.full(3, np.inf))
    high: Coordinates = field(default_factory=lambda: np.full(3, -np.inf))

    def add(self, column: pa.Array) -> Extents:
        """Count a geometry column in and return the extent of each row."""
        self.rows += len(column)
        self.types |= geometry_types(column)
        found = extents(column)
        if len(column):
            self.low = np.minimum(self.low, found.low.min(axis=0))
            self.high = np.maximum(self.high, found.high.max(axis=0))
        return found

    def geo(self, crs: Mapping[str, Any] | None, covering: str) -> dict[str, Any]:
        """Return the file's `geo` metadata.

        `crs` is null where it is unknown: an absent key would mean OGC:CRS84.
        `bbox` spans z too where there is any, and is left out where no row has
        an extent. `edges` and `orientation` are left out: they default to what
        a shapefile has (planar edges, no promise about rings).
        """
        column: dict[str, Any] = {
            "encoding": "WKB",
            "geometry_types": sorted(self.types),
            "crs": None if crs is None else dict(crs),
            "covering": {"bbox": {corner: [covering, corner] for corner in _CORNERS}},
        }
        if np.isfinite(self.low[0]):
            spanned = 3 if np.isfinite(self.low[2]) else 2
            column["bbox"] = [*self.low[:spanned].tolist(), *self.high[:spanned].tolist()]
        return {"version": VERSION, "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}


def _row_groups(table: Table, schema: pa.Schema, summary: _Summary) -> Iterator[pa.Table]:
    """Yield the rows in pieces that are each worth a row group."""
    waiting: list[pa.RecordBatch] = []
    for batch in table.batches():
        boxes = _boxes(summary.add(batch.column(GEOMETRY)))
        waiting.append(pa.RecordBatch.from_arrays([*batch.columns, boxes], schema=schema))
        rows = sum(piece.num_rows for piece in waiting)
        full = rows - rows % ROW_GROUP_ROWS
        if sum(piece.nbytes for piece in waiting) >= ROW_GROUP_BYTES:
            full = rows
        if full:
            merged = pa.Table.from_batches(waiting)
            yield merged.slice(0, full)
            waiting = merged.slice(full).to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting)


def _boxes(found: Extents) -> pa.Array:
    """Return the covering column: float32, rounded outwards; null where there is no extent."""
    with np.errstate(over="ignore"):
        low, high = found.low[:, :2].astype(np.float32), found.high[:, :2].astype(np.float32)
    low = np.where(low > found.low[:, :2], np.nextafter(low, np.float32(-np.inf)), low)
    high = np.where(high < found.high[:, :2], np.nextafter(high, np.float32(np.inf)), high)
    corners = [pa.array(side[:, axis]) for side in (low, high) for axis in (0, 1)]
    return pa.StructArray.from_arrays(corners, fields=list(_BOX), mask=pa.array(~found.known))
