"""The report on one read: what was in the file, what became of it, and what was odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from typing import Any

from gate.shapefile.findings import Problem
from gate.shapefile.port import Notice

LIBRARIES = ("fiona", "numpy", "pyarrow", "pyproj", "shapely")


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

    `null` and `empty` are rows without positions, `not_finite` rows with an x or
    y that is no finite number; `measures_dropped` are rows
    whose M values have no place in WKB as GeoParquet wants it, `heights_dropped`
    those whose Z values a policy leaves out; `rewound` are
    polygons wound against the format, `closed` open rings, `collapsed` rings or
    lines with too few positions. `bounds` are xmin, ymin, xmax, ymax of the
    positions that are loaded, in the CRS of the dataset.
    """

    file_type: str
    types: tuple[str, ...]
    bounds: tuple[float, float, float, float] | None
    null: int
    empty: int
    not_finite: int
    measures_dropped: int
    heights_dropped: int
    rewound: int
    closed: int
    collapsed: int


@dataclass(frozen=True, slots=True)
class ValidityFacts:
    """What the check of polygons has found, under the policy of that name.

    `checked` are the geometries looked at. `invalid` are those found, by reason,
    with row numbers. `repaired` are loaded rows that were made valid, and
    `parts_dropped` points and lines that fell off; rows that could not be
    repaired are rejected as `not_repaired`.
    """

    policy: str
    checked: int
    invalid: tuple[Problem, ...]
    repaired: int
    parts_dropped: int


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
class NearMatch:
    """A registered CRS, and how sure PROJ is that the `.prj` means it, in percent."""

    name: str
    confidence: int


@dataclass(frozen=True, slots=True)
class TransformationFacts:
    """From which CRS to which the coordinates were transformed, and how.

    `operation` is PROJ's name of the way it took last; `accuracy_metres` is what
    the registry says of it, `None` if nothing. `split` counts geometries that
    were cut at the antimeridian.
    """

    source: str
    target: str
    operation: str
    accuracy_metres: float | None
    split: int


@dataclass(frozen=True, slots=True)
class CrsFacts:
    """The CRS that the layer came with, and where that was said.

    `kind` is `geographic`, `projected`, `compound`, `bound` or `local`, empty
    without a CRS. `recognised` is what PROJ took a `.prj` for that names no
    authority. With `transformed`, the dataset has another CRS.
    """

    name: str
    source: str
    kind: str = ""
    recognised: NearMatch | None = None
    transformed: TransformationFacts | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The report on one layer.

    `values` are cells that became null or were altered, `rejects` rows that are
    not loaded: each with a full count and a bounded number of examples, whose
    rows count from 1 in file order. `overrides` are the facts that the metadata
    of its objects stated, `policies` what the deployment decided.
    """

    layer: str
    rows: RowCounts
    geometry: GeometryFacts
    validity: ValidityFacts
    encoding: Named
    crs: CrsFacts
    fields: tuple[FieldFacts, ...]
    values: tuple[Problem, ...]
    rejects: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    judgement: Judgement
    overrides: Mapping[str, str]
    policies: Mapping[str, str]
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
