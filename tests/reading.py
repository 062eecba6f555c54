"""Read a bundle made in code through the real reader, for tests that look at the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import shapely

from gate.overrides import Overrides
from gate.policies import Policies
from gate.shapefile.reader import ReadOptions, open_layer
from gate.shapefile.report import Report
from tests.shapefiles import write


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
        batches = list(layer.batches())
        return Reading(pa.Table.from_batches(batches, layer.schema), layer.geo_crs, layer.report())
