"""FlatGeobuf and GeoPackage, written by GDAL as the batches come.

The only module that imports pyogrio, which brings a GDAL of its own and is
installed only where one of these forms is chosen. GDAL needs a file that it can
seek in, so the dataset lies in the temporary folder before it is uploaded:
on Cloud Functions that is memory.
"""

from __future__ import annotations

import json
import struct
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyogrio
import pyogrio.raw
import shapely
from numpy.typing import NDArray

from gate.errors import UnexpectedError, UnsupportedError
from gate.sinks import walk
from gate.sinks.field_names import warehouse_name
from gate.sinks.formats import (
    GEOMETRY,
    LINEAGE_KEY,
    Loss,
    Origin,
    Target,
    Written,
    described,
    free_name,
)
from gate.sinks.port import GEOMETRY_TYPE, Table

# A column of this name would be taken for row numbers, and be lost (GDAL,
# `OGRLayer::WriteArrowBatch`, option FID).
_ROW_NUMBERS = "OGC_FID"
# OGC 12-128r19, 1.1.1.1.2, and SQLite: names that tables of their own begin with.
_TABLES = ("gpkg_", "rtree_", "sqlite_")
# SQLite, as GDAL and most others build it ("Limits in SQLite", 3).
MOST_COLUMNS = 2000
# The head of a type, and that of its multi type with one part (ISO WKB, little-endian).
_WRAPPED = {
    struct.pack("<BI", 1, kind): struct.pack("<BII", 1, kind + 3, 1)
    for kind in (1, 2, 3, 1001, 1002, 1003)
}
_HEADER_BYTES = 5
_PIECE_BYTES = 4 << 20

# A layer may have no CRS, and the library warns of it each time.
warnings.filterwarnings("ignore", "'crs' was not provided", UserWarning)


@dataclass(frozen=True, slots=True)
class FlatGeobuf:
    """The `gate.sinks.formats.Format` of FlatGeobuf, with its spatial index.

    The index has no place for a row without extent (no geometry, an empty one,
    or one with a position that is not finite): if there is such a row, the file
    has every row and no index. Rows stand in the order of the index, or in none.
    A date becomes a time at midnight, a decimal text.
    """

    extension: str = ".fgb"
    media_type: str = "application/flatgeobuf"

    def write(self, target: Target, table: Table, origin: Origin, folder: Path) -> Written:
        """Write the rows; while GDAL sorts them, they lie in `folder` twice."""
        layer = _Layer(table, origin, times_only=True)
        split = _Split(layer.batches())
        path = folder / "indexed.fgb"
        layer.write(path, "FlatGeobuf", split.before(), SPATIAL_INDEX="YES")
        if split.rest is not None:
            layer.lose("no_spatial_index", "", 1)
            indexed, path = path, folder / "plain.fgb"
            with pyogrio.raw.open_arrow(indexed, use_pyarrow=True) as (_, written):
                rows = chain((layer.cast(each.columns) for each in written), split.rest)
                layer.write(path, "FlatGeobuf", rows, SPATIAL_INDEX="NO")
        return layer.sent(path, target)


@dataclass(frozen=True, slots=True)
class GeoPackage:
    """The `gate.sinks.formats.Format` of GeoPackage: one table, with its spatial index.

    The table has the plain form of the layer's name. Its own two columns, `fid`
    and `geom`, give way to fields of these names in whatever case, so that no
    field is renamed. A time without a zone is taken for UTC, a decimal becomes
    text, NaN is NULL. A table has up to `MOST_COLUMNS` columns.
    """

    extension: str = ".gpkg"
    media_type: str = "application/geopackage+sqlite3"

    def write(self, target: Target, table: Table, origin: Origin, folder: Path) -> Written:
        """Write the rows in file order."""
        layer = _Layer(table, origin, nan_is_null=True)
        # Beside the fields stand the row number and the geometry, which is one of the columns here.
        if len(layer.schema) + 1 > MOST_COLUMNS:
            raise UnsupportedError(
                f"{len(layer.schema) - 1} fields are more than a GeoPackage holds,"
                f" {MOST_COLUMNS - 2}",
                where="dataset",
                cure="upload the layer with fewer fields, or give SINK another format",
            )
        path = folder / "dataset.gpkg"
        layer.write(
            path,
            "GPKG",
            layer.batches(),
            FID=free_name("fid", layer.schema),
            GEOMETRY_NAME=free_name("geom", layer.schema),
            IDENTIFIER=origin.name,
        )
        return layer.sent(path, target)


def table_name(name: str) -> str:
    """Return the name of the table that holds the layer `name`."""
    plain = warehouse_name(name)
    return f"layer_{plain}" if plain.startswith(_TABLES) else plain


class _Layer:
    """A table on its way into a file of GDAL's: its schema there, and what that costs."""

    def __init__(
        self, table: Table, origin: Origin, *, times_only: bool = False, nan_is_null: bool = False
    ) -> None:
        self._table = table
        self._times_only = times_only
        self._nan_is_null = nan_is_null
        self._lineage = described(table.schema, origin.lineage, pyogrio=pyogrio.__version__)
        self._name = table_name(origin.name)
        self._crs = None if table.geo_crs is None else json.dumps(table.geo_crs)
        kind = (table.schema.field(GEOMETRY).metadata or {}).get(GEOMETRY_TYPE)
        self._type = (kind or b"Unknown").decode()
        names = list(table.schema.names)
        self._losses: Counter[tuple[str, str]] = Counter()
        if _ROW_NUMBERS in names:
            names[names.index(_ROW_NUMBERS)] = free_name(_ROW_NUMBERS, table.schema)
            self.lose("renamed_column", _ROW_NUMBERS, 1)
        types = [pa.string() if pa.types.is_decimal(each) else each for each in table.schema.types]
        self.schema = pa.schema(list(zip(names, types, strict=True)))
        self._rows = 0

    def lose(self, code: str, name: str, count: int) -> None:
        """Note what the file cannot hold as it was."""
        self._losses[code, name] += count

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the table as they go into the file."""
        for batch in self._table.batches():
            self._rows += batch.num_rows
            self._note(batch)
            ready = self.cast(batch.columns)
            if self._type.startswith("Multi"):
                *values, shapes = ready.columns
                ready = pa.RecordBatch.from_arrays([*values, _multi(shapes)], schema=self.schema)
            yield ready

    def cast(self, columns: Iterable[pa.Array]) -> pa.RecordBatch:
        """Return columns in the schema of the file."""
        typed = zip(columns, self.schema.types, strict=True)
        ready = [column if column.type == kind else column.cast(kind) for column, kind in typed]
        return pa.RecordBatch.from_arrays(ready, schema=self.schema)

    def write(
        self, path: Path, driver: str, rows: Iterable[pa.RecordBatch], **options: str
    ) -> None:
        """Write rows into a new file; their errors pass through, GDAL's are unexpected."""
        failures: list[BaseException] = []

        def watched() -> Iterator[pa.RecordBatch]:
            try:
                yield from rows
            except BaseException as error:
                failures.append(error)
                raise

        try:
            pyogrio.raw.write_arrow(
                pa.RecordBatchReader.from_batches(self.schema, watched()),
                path,
                layer=self._name,
                driver=driver,
                geometry_name=GEOMETRY,
                geometry_type=self._type,
                crs=self._crs,
                layer_metadata={LINEAGE_KEY: self._lineage},
                layer_options=options,
            )
        except (RuntimeError, OSError) as error:
            if failures:
                raise failures[0] from None
            raise UnexpectedError(f"GDAL: {error}", where="dataset") from error

    def sent(self, path: Path, target: Target) -> Written:
        """Copy a finished file to the target, if it holds every row."""
        stored = int(pyogrio.read_info(path, force_feature_count=True)["features"])
        if stored != self._rows:
            raise UnexpectedError(f"{stored} of {self._rows} rows are in the file", where="dataset")
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                target.write(piece)
        losses = (Loss(code, name, count) for (code, name), count in self._losses.items() if count)
        return Written(stored, tuple(losses))

    def _note(self, batch: pa.RecordBatch) -> None:
        for field, values in zip(batch.schema, batch.columns, strict=True):
            changed = len(values) - values.null_count
            if pa.types.is_decimal(field.type):
                self.lose("decimal_as_text", field.name, changed)
            elif self._times_only and pa.types.is_date(field.type):
                self.lose("date_as_time", field.name, changed)
            elif self._nan_is_null and pa.types.is_floating(field.type):
                self.lose("number_as_null", field.name, pc.sum(pc.is_nan(values)).as_py() or 0)


class _Split:
    """Batches up to the first that an index has no place for; `rest` is that one and the others."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rest: Iterator[pa.RecordBatch] | None = None

    def before(self) -> Iterator[pa.RecordBatch]:
        """Yield what has an extent in every row."""
        for batch in self._batches:
            if not _placed(batch.column(GEOMETRY)).all():
                self.rest = chain([batch], self._batches)
                return
            yield batch


def _placed(column: pa.Array) -> NDArray[np.bool_]:
    """Tell which rows have a position, and finite ones only.

    GDAL refuses a row without any; one that begins at NaN would spoil the index.
    """
    (low, _), measured = walk.extents(column)
    placed: NDArray[np.bool_] = measured & np.isfinite(low[:, 0])
    rest = np.flatnonzero(~measured)
    if len(rest):
        with np.errstate(invalid="ignore"):
            shapes = shapely.from_wkb(
                column.take(pa.array(rest)).to_numpy(zero_copy_only=False), on_invalid="ignore"
            )
        positions, owners = shapely.get_coordinates(shapes, return_index=True)
        placed[rest] = ~(shapely.is_missing(shapes) | shapely.is_empty(shapes))
        placed[rest[owners[~np.isfinite(positions).all(axis=1)]]] = False
    return placed


def _multi(column: pa.Array) -> pa.Array:
    """Return a WKB column in which points, lines and polygons are the multi types of one part."""
    heads = pc.binary_slice(column, 0, _HEADER_BYTES)
    kinds = heads.unique().drop_null().to_pylist()
    for head in kinds:
        if wrapped := _WRAPPED.get(head):
            single = pc.binary_join_element_wise(wrapped, column, b"")
            alone = len(kinds) == 1
            column = single if alone else pc.if_else(pc.equal(heads, head), single, column)
    return column
