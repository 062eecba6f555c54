"""Values as Fiona gives them, for READER=fiona: the plain way, kept as the reference.

What GDAL loses is lost here too: docs/differences.md lists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from gate.gather import Integers, Mask
from gate.shapefile.columns import Cells
from gate.shapefile.report import FieldFacts

_TYPES = {
    "bool": pa.bool_(),
    "int16": pa.int64(),
    "int32": pa.int64(),
    "int": pa.int64(),
    "int64": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "date": pa.date32(),
    "datetime": pa.timestamp("ms"),
}


class FionaValues:
    """The values of features that no batch has been made of yet, and the fields they belong to.

    `stated` is the schema as Fiona states it, name → type. A field that has the
    name `taken`, in whatever case, is called otherwise.
    """

    def __init__(self, stated: Mapping[str, str], taken: str) -> None:
        self._names = tuple(stated)
        self.fields = tuple(
            pa.field(
                f"{name}_1" if name.casefold() == taken else name,
                _TYPES.get(kind.partition(":")[0], pa.string()),
                metadata={b"original_name": name.encode()},
            )
            for name, kind in stated.items()
        )
        self.facts = tuple(
            FieldFacts(name, field.name, str(field.type), stated[name])
            for name, field in zip(self._names, self.fields, strict=True)
        )
        self._waiting: list[Mapping[str, Any]] = []

    def add(self, values: Mapping[str, Any]) -> None:
        """Take the values of the next feature."""
        self._waiting.append(values)

    def arrays(self, _rows: Cells, live: Mask, kept: Mask, _numbers: Integers) -> list[pa.Array]:
        """Return one array per field for the `kept` rows, of the `live` ones that were read first.

        Those are taken out of what waits; more may have been read since.
        """
        loaded = kept[live].tolist()
        first = islice(self._waiting, len(loaded))
        rows = [values for values, keep in zip(first, loaded, strict=True) if keep]
        del self._waiting[: len(loaded)]
        return [
            pa.array([_value(row[name], field.type) for row in rows], field.type)
            for name, field in zip(self._names, self.fields, strict=True)
        ]


def _value(value: Any, type_: pa.DataType) -> Any:
    """Return a value as its column takes it; Fiona gives dates and moments as text."""
    if value is None:
        return None
    if pa.types.is_date(type_):
        return date.fromisoformat(str(value))
    if pa.types.is_timestamp(type_):
        return datetime.fromisoformat(str(value))
    return str(value) if pa.types.is_string(type_) else value
