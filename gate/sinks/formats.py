"""The forms that a dataset on Cloud Storage can have."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gate.sinks.address import SinkAddress
from gate.sinks.port import Table

if TYPE_CHECKING:
    import pyarrow as pa

# What a dataset is written to: any file of bytes, which need not be able to seek.
Target: TypeAlias = io.RawIOBase | io.BufferedIOBase

GEOMETRY = "geometry"
LINEAGE_KEY = "shapefile_gate"


@dataclass(frozen=True, slots=True)
class Loss:
    """What a form of dataset cannot hold as it was: a stable code, in which field, how often.

    `field` is empty for what concerns the geometry.
    """

    code: str
    field: str
    count: int


@dataclass(frozen=True, slots=True)
class Written:
    """What one dataset holds: its rows, and what its form has cost them."""

    rows: int
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose dataset it is: the name of its layer, and where it comes from, as JSON values."""

    name: str
    lineage: Mapping[str, Any]


class Format(Protocol):
    """One form of dataset: how it is called, and how it is written."""

    @property
    def extension(self) -> str:
        """Return the end of its name, with the dot."""
        ...

    @property
    def media_type(self) -> str:
        """Return its media type."""
        ...

    def write(self, target: Target, table: Table, origin: Origin, folder: Path) -> Written:
        """Write the table to `target`, from the first byte to the last.

        `folder` is empty and may be filled. Errors of the table and of the
        target pass through.
        """
        ...


def described(schema: pa.Schema, lineage: Mapping[str, Any], **versions: str) -> str:
    """Return lineage, the original field names and the versions of the writers as JSON."""
    originals = {
        column.name: (column.metadata or {}).get(b"original_name", column.name.encode()).decode()
        for column in schema
        if column.name != GEOMETRY
    }
    content = {**lineage, "original_field_names": originals, "versions": versions}
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def free_name(name: str, schema: pa.Schema) -> str:
    """Return `name`, or the first of `name_1`, `name_2` … that no field has in whatever case."""
    taken = {taken.casefold() for taken in schema.names}
    free, number = name, 0
    while free.casefold() in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def chosen(address: SinkAddress) -> Format:
    """Return the form that an address asks for; only this one's libraries are imported."""
    return _FORMATS[address.format](address)


def _geoparquet(address: SinkAddress) -> Format:
    from gate.sinks.geoparquet import GeoParquet

    return GeoParquet(hilbert=address.order == "hilbert")


def _geojsonseq(_address: SinkAddress) -> Format:
    from gate.sinks.geojson import GeoJsonSeq

    return GeoJsonSeq()


def _flatgeobuf(_address: SinkAddress) -> Format:
    from gate.sinks.ogr import FlatGeobuf

    return FlatGeobuf()


def _gpkg(_address: SinkAddress) -> Format:
    from gate.sinks.ogr import GeoPackage

    return GeoPackage()


_FORMATS: Mapping[str, Callable[[SinkAddress], Format]] = {
    "geoparquet": _geoparquet,
    "geojsonseq": _geojsonseq,
    "flatgeobuf": _flatgeobuf,
    "gpkg": _gpkg,
}
