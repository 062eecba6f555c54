"""From the columns of a layer to those of a table.

A column of one geometry type holds no other: lines and polygons become their
multi types.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

import pyarrow as pa
import pyarrow.compute as pc

from gate.errors import UnsupportedError
from gate.sinks.field_names import RESERVED, warehouse_names
from gate.sinks.port import GEOMETRY_TYPE, Table
from gate.sinks.postgis_names import SOURCE

GEOMETRY = "geometry"

_TYPES: dict[pa.DataType, LiteralString] = {
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.date32(): "date",
    pa.timestamp("ms"): "timestamp",
}

# As the port calls them; each with the types of PostGIS, and the ISO code of a
# part where parts are to be wrapped, and of what they are wrapped in.
_GEOMETRY_TYPES: dict[str, tuple[LiteralString, int, int]] = {
    "Point": ("Point", 0, 0),
    "MultiPoint": ("MultiPoint", 0, 0),
    "MultiLineString": ("MultiLineString", 2, 5),
    "MultiPolygon": ("MultiPolygon", 3, 6),
    "Point Z": ("PointZ", 0, 0),
    "MultiPoint Z": ("MultiPointZ", 0, 0),
    "MultiLineString Z": ("MultiLineStringZ", 1002, 1005),
    "MultiPolygon Z": ("MultiPolygonZ", 1003, 1006),
}
_ANY: tuple[LiteralString, int, int] = ("Geometry", 0, 0)


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute: its name in the table, its type there, and its name in the file."""

    name: str
    type: LiteralString
    original: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one table: the attributes in file order, the geometry last.

    `geometry_type` is a type of PostGIS.
    """

    attributes: tuple[Column, ...]
    geometry_type: LiteralString
    _part: int = 0
    _multi: int = 0

    @classmethod
    def of(cls, schema: pa.Schema) -> Columns:
        """Return the columns for a layer. Raises `UnsupportedError` for a type without one."""
        fields = list(schema)[:-1]
        originals = [_original(each) for each in fields]
        names = warehouse_names(originals, taken=(*RESERVED, SOURCE))
        attributes = tuple(
            Column(name, _type(each, original), original)
            for name, each, original in zip(names, fields, originals, strict=True)
        )
        stated = (schema.field(len(schema) - 1).metadata or {}).get(GEOMETRY_TYPE, b"").decode()
        geometry_type, part, multi = _GEOMETRY_TYPES.get(stated, _ANY)
        return cls(attributes, geometry_type, _part=part, _multi=multi)

    @property
    def names(self) -> list[str]:
        """Return the names of all columns."""
        return [*(column.name for column in self.attributes), GEOMETRY]

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a table as COPY takes them."""
        for batch in table.batches():
            *values, shapes = batch.columns
            yield pa.RecordBatch.from_arrays([*values, self._wrapped(shapes)], schema=batch.schema)

    def _wrapped(self, shapes: pa.Array) -> pa.Array:
        """Return the geometries, each single one in a multi geometry of its own."""
        if not self._part:
            return shapes
        alone = pc.equal(pc.binary_slice(shapes, 0, 5), struct.pack("<BI", 1, self._part))
        if not pc.any(alone).as_py():
            return shapes
        around = pa.scalar(struct.pack("<BII", 1, self._multi, 1))
        nothing = pa.scalar(b"")
        return pc.binary_join_element_wise(pc.if_else(alone, around, nothing), shapes, nothing)


def _original(column: pa.Field) -> str:
    stated: bytes = (column.metadata or {}).get(b"original_name", column.name.encode())
    return stated.decode()


def _type(column: pa.Field, original: str) -> LiteralString:
    if pa.types.is_decimal(column.type):
        return "numeric"
    if column.type not in _TYPES:
        raise UnsupportedError(f"PostgreSQL has no type for the field {original}: {column.type}")
    return _TYPES[column.type]
