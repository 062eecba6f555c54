"""Read a bundle made in code through the real reader, for tests that look at the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import shapely

from gate.overrides import Overrides
from gate.policies import Policies
from gate.shapefile.reader import Layer, ReadOptions, open_layer
from gate.shapefile.report import Report
from gate.source.memory import MemorySource
from gate.source.ranges import Ranges
from tests.shapefiles import write

MAIN = (".shp", ".shx", ".dbf")


@dataclass(frozen=True, slots=True)
class Reading:
    """All rows of a layer and the report on them."""

    table: pa.Table
    crs: Mapping[str, Any] | None
    report: Report

    def column(self, name: str) -> list[Any]:
        """Return the values of one field."""
        values: list[Any] = self.table.column(name).to_pylist()
        return values

    @property
    def geometries(self) -> list[Any]:
        """Return the geometries as shapely objects, `None` for null."""
        return list(shapely.from_wkb(self.column("geometry")))

    @property
    def wkt(self) -> list[str | None]:
        """Return the geometries as text."""
        return list(shapely.to_wkt(self.geometries, trim=True))

    @property
    def notices(self) -> dict[str, int]:
        """Return notice code → count."""
        counts: dict[str, int] = {}
        for notice in self.report.notices:
            counts[notice.code] = counts.get(notice.code, 0) + notice.count
        return counts

    @property
    def problems(self) -> dict[tuple[str, str], list[int]]:
        """Return (field, reason) → rows given as examples."""
        return {
            (problem.field, problem.reason): [example.row for example in problem.examples]
            for problem in self.report.values
        }


def read_options(**options: Any) -> ReadOptions:
    """Return options whose overrides and policies are given flat."""

    def taken(of: type[Any]) -> Any:
        names = [each.name for each in fields(of) if each.name in options]
        return of(**{name: options.pop(name) for name in names})

    return ReadOptions(overrides=taken(Overrides), policies=taken(Policies), **options)


def read(
    bundle: Mapping[str, bytes],
    folder: Path,
    name: str = "roads.shp",
    **options: Any,
) -> Reading:
    """Write the bundle to `folder` and read it to the end.

    `options` are those of `ReadOptions`, of `Overrides` and of `Policies`.
    """
    with open_layer(write(bundle, folder), name=name, options=read_options(**options)) as layer:
        return _read(layer)


def read_in_parts(
    bundle: Mapping[str, bytes],
    folder: Path,
    name: str = "roads.shp",
    **options: Any,
) -> Reading:
    """Read the bundle to the end as `read` does, its main files where they lie in a bucket."""
    with (
        remote(bundle, folder) as stored,
        open_layer(folder, name=name, options=read_options(**options), remote=stored) as layer,
    ):
        return _read(layer)


def _read(layer: Layer) -> Reading:
    batches = list(layer.batches())
    return Reading(pa.Table.from_batches(batches, layer.schema), layer.geo_crs, layer.report())


@contextmanager
def remote(bundle: Mapping[str, bytes], folder: Path) -> Iterator[dict[str, Ranges]]:
    """Write the sidecars to `folder`, and give the main files as objects in tiny blocks."""
    write({known: content for known, content in bundle.items() if known not in MAIN}, folder)
    source = MemorySource()
    stored = {
        known: Ranges(source, "uploads", source.put("uploads", f"in/roads{known}", content), 64)
        for known, content in bundle.items()
        if known in MAIN
    }
    try:
        yield stored
    finally:
        for component in stored.values():
            component.close()
