"""GeoJSON, one feature a line (https://www.rfc-editor.org/rfc/rfc7946).

Lines end in a line feed and nothing else stands between them. RFC 8142 puts a
record separator (0x1E) before each text, which readers of newline-delimited
JSON refuse, and those are the readers of files of this size: BigQuery, DuckDB,
Spark, tippecanoe, jq; GDAL reads both. So the media type is that of
newline-delimited JSON, not `application/geo+json-seq`.

A file has no place for lineage and original names: the report has them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from gate.errors import ConfigurationError
from gate.sinks import behind
from gate.sinks.formats import GEOMETRY, Loss, Origin, Target, Written
from gate.sinks.port import Table

# RFC 7946, 4: the only CRS there is, longitude first.
_WGS84 = (("EPSG", 4326), ("OGC", "CRS84"))
# RFC 7946, 11.2, asks for no more digits than are meant; these are 11 mm.
_DECIMALS = 7
# RFC 7493, 2.2: beyond it a reader may round, and those in JavaScript do.
_LARGEST_EXACT = 2**53 - 1
# The head of a point in little-endian WKB, and the bytes of a whole one.
_POINT, _POINT_BYTES = b"\x01\x01\x00\x00\x00", 21
_SPECIAL = r'["\\\x00-\x1f]'


@dataclass(frozen=True, slots=True)
class GeoJsonSeq:
    """The `gate.sinks.formats.Format` of newline-delimited GeoJSON.

    The rows must be in WGS 84, which the settings see to. Coordinates are
    rounded to 7 decimals and shells run counter-clockwise. What JSON cannot
    hold is changed by rule and counted: a number that is not finite is null, an
    integer that a reader might round is text, a decimal is text, a geometry that
    is empty, not finite or no geometry to GEOS is null. Dates and times are text
    as in ISO 8601, times without a zone, as in the file.
    """

    extension: str = ".geojsonl"
    media_type: str = "application/x-ndjson"

    def write(self, target: Target, table: Table, origin: Origin, folder: Path) -> Written:
        """Write the rows in file order; they are counted as line feeds that went out."""
        del origin, folder
        _demand_wgs84(table.geo_crs)
        lines = _Lines()

        def work(batch: pa.RecordBatch) -> None:
            text = lines.of(batch)
            target.write(text)
            lines.count += text.count(b"\n")

        behind.each(table.batches(), work)
        losses = (Loss(code, field, count) for (code, field), count in lines.losses.items())
        return Written(lines.count, tuple(losses))


def _demand_wgs84(crs: Mapping[str, Any] | None) -> None:
    identity = (crs or {}).get("id", {})
    if (identity.get("authority"), identity.get("code")) not in _WGS84:
        raise ConfigurationError(
            "rows for GeoJSON are not in WGS 84 (RFC 7946, section 4)",
            where="dataset",
            cure="set TARGET_CRS=EPSG:4326",
        )


class _Lines:
    """Batches as lines of GeoJSON; counts what was changed, by code and field."""

    def __init__(self) -> None:
        self.count = 0
        self.losses: Counter[tuple[str, str]] = Counter()

    def of(self, batch: pa.RecordBatch) -> bytes:
        """Return the features of a batch, each followed by a line feed."""
        pieces: list[Any] = []
        before = '{"type":"Feature","properties":{'
        for name, values in zip(batch.schema.names[:-1], batch.columns[:-1], strict=True):
            pieces += [f"{before}{json.dumps(name, ensure_ascii=False)}:", self._json(name, values)]
            before = ","
        pieces = pieces or [before]
        pieces += ['},"geometry":', self._geometries(batch.column(GEOMETRY)), "}\n", ""]
        joined = pc.binary_join_element_wise(
            *pieces, null_handling="replace", null_replacement="null"
        )
        _, offsets, content = joined.buffers()
        end = int(np.frombuffer(offsets, np.int32)[len(joined)])
        return memoryview(content)[:end].tobytes()

    def _json(self, name: str, values: pa.Array) -> pa.Array:
        """Return each value as JSON text, null where it is null."""
        kind = values.type
        if pa.types.is_string(kind):
            return _text(values)
        if pa.types.is_boolean(kind):
            return pc.cast(values, pa.string())
        if pa.types.is_int64(kind):
            large = pc.greater(pc.abs(values), _LARGEST_EXACT)
            text = pc.cast(values, pa.string())
            if not self.lose("integer_as_text", name, large):
                return text
            return pc.if_else(large, _quoted(text), text)
        if pa.types.is_floating(kind):
            finite = pc.is_finite(values)
            self.lose("number_as_null", name, pc.invert(finite))
            return pc.cast(pc.if_else(finite, values, None), pa.string())
        if pa.types.is_timestamp(kind):
            return _quoted(pc.replace_substring(pc.cast(values, pa.string()), " ", "T"))
        if pa.types.is_decimal(kind):
            self.lose("decimal_as_text", name, pc.is_valid(values))
        return _quoted(pc.cast(values, pa.string()))

    def _geometries(self, column: pa.Array) -> pa.Array:
        places = _plain_points(column)
        if places is not None:
            return _points(places)
        known = column.is_valid().to_numpy(False)
        with np.errstate(invalid="ignore"):
            shapes = shapely.from_wkb(column.to_numpy(zero_copy_only=False), on_invalid="ignore")
        self.lose("shape_as_null", "", pa.array(known & shapely.is_missing(shapes)))
        self.lose("empty_as_null", "", pa.array(shapely.is_empty(shapes)))
        shapes[shapely.is_empty(shapes)] = None
        strange = _not_finite(shapes)
        self.lose("position_as_null", "", pa.array(strange))
        shapes[strange] = None
        return pa.array(shapely.to_geojson(_settled(shapes)), pa.string())

    def lose(self, code: str, field: str, changed: pa.Array) -> bool:
        """Count what is true in `changed`, and tell whether anything is."""
        count = pc.sum(changed).as_py() or 0
        if count:
            self.losses[code, field] += count
        return bool(count)


def _plain_points(column: pa.Array) -> NDArray[np.float64] | None:
    """Return the places of a column of finite flat points, `None` if anything else is in it."""
    _, offsets, content = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if column.null_count or not (len(column) and (np.diff(starts) == _POINT_BYTES).all()):
        return None
    rows = np.frombuffer(content, np.uint8)[starts[0] : starts[-1]].reshape(-1, _POINT_BYTES)
    head = len(_POINT)
    if not (rows[:, :head] == np.frombuffer(_POINT, np.uint8)).all():
        return None
    places = np.ascontiguousarray(rows[:, head:]).view("<f8")
    return places if np.isfinite(places).all() else None


def _points(places: NDArray[np.float64]) -> pa.Array:
    """Return points as JSON text; most layers are points, and no geometry need be made of them."""
    x, y = (pc.cast(pa.array(np.round(axis, _DECIMALS)), pa.string()) for axis in places.T)
    return pc.binary_join_element_wise('{"type":"Point","coordinates":[', x, ",", y, "]}", "")


def _not_finite(shapes: NDArray[np.object_]) -> NDArray[np.bool_]:
    positions, owners = shapely.get_coordinates(shapes, return_index=True)
    found = np.zeros(len(shapes), np.bool_)
    found[owners[~np.isfinite(positions).all(axis=1)]] = True
    return found


def _settled(shapes: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return the shapes rounded, and wound as RFC 7946, 3.1.6, asks for."""
    high = bool(shapely.has_z(shapes).any())
    settled: NDArray[np.object_] = shapely.transform(
        shapes, lambda positions: np.round(positions, _DECIMALS), include_z=high
    )
    wound: NDArray[np.object_] = shapely.orient_polygons(settled)
    return wound


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _text(values: pa.Array) -> pa.Array:
    quoted = _quoted(values)
    special = pc.match_substring_regex(values, _SPECIAL).fill_null(False)
    if not pc.any(special).as_py():
        return quoted
    dumped = [json.dumps(each, ensure_ascii=False) for each in values.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(dumped, pa.string()))
