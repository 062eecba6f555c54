"""The report on one read: what was in the file, what became of it, and what was odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from typing import Any

from gate.shapefile.findings import Problem
from gate.shapefile.port import Notice

LIBRARIES = ("fiona", "numpy", "pyarrow", "shapely")


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The rows of a file and what became of them."""

    in_file: int
    loaded: int
    deleted: int
    rejected: int

    @property
    def unaccounted(self) -> int:
        """Return how many rows are neither loaded, deleted nor rejected: 0 if all is well."""
        return self.in_file - self.loaded - self.deleted - self.rejected


@dataclass(frozen=True, slots=True)
class GeometryFacts:
    """What the geometries of the loaded rows are.

    `null` and `empty` are rows without positions; `measures_dropped` are rows
    whose M values have no place in WKB as GeoParquet wants it; `rewound` are
    polygons wound against the format, `closed` open rings, `collapsed` rings or
    lines with too few positions. `bounds` are xmin, ymin, xmax, ymax of the
    positions read.
    """

    file_type: str
    types: tuple[str, ...]
    bounds: tuple[float, float, float, float] | None
    null: int
    empty: int
    measures_dropped: int
    rewound: int
    closed: int
    collapsed: int


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """A column: its name in the file, its name and type here, its type in the file."""

    original_name: str
    name: str
    type: str
    file_type: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What Fiona says of the layer: its geometry type, row count and fields with types."""

    geometry_type: str
    rows: int
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Named:
    """A fact and where it came from."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Report:
    """The report on one layer.

    `values` are cells that became null or were altered, `rejects` rows that are
    not loaded: each with a full count and a bounded number of examples, whose
    rows count from 1 in file order.
    """

    layer: str
    rows: RowCounts
    geometry: GeometryFacts
    encoding: Named
    crs: Named
    fields: tuple[FieldFacts, ...]
    values: tuple[Problem, ...]
    rejects: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    judgement: Judgement
    versions: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, strings and numbers."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def _plain(value: Any) -> Any:
    """Return `value` with lists for tuples, and without the field name of whole rows."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if (key, each) != ("field", "")}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


@cache
def library_versions() -> Mapping[str, str]:
    """Return the versions of the libraries that a read depends on, except GDAL's."""
    return {name: metadata.version(name) for name in LIBRARIES}
