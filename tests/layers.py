"""Layers for tests of sinks: small tables with geometry, made in code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import shapely

from gate.identity import Pin, Revision
from gate.names import Component, parse
from gate.sinks.port import Publication

WGS84 = {
    "type": "GeographicCRS",
    "name": "WGS 84",
    "datum": {
        "type": "GeodeticReferenceFrame",
        "name": "World Geodetic System 1984",
        "ellipsoid": {
            "name": "WGS 84",
            "semi_major_axis": 6378137,
            "inverse_flattening": 298.257223563,
        },
    },
    "coordinate_system": {
        "subtype": "ellipsoidal",
        "axis": [
            {
                "name": "Geodetic latitude",
                "abbreviation": "Lat",
                "direction": "north",
                "unit": "degree",
            },
            {
                "name": "Geodetic longitude",
                "abbreviation": "Lon",
                "direction": "east",
                "unit": "degree",
            },
        ],
    },
    "id": {"authority": "EPSG", "code": 4326},
}
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), metadata={"original_name": "NAME"}),
        pa.field("size", pa.int64(), metadata={"original_name": "SIZE"}),
        pa.field("geometry", pa.binary()),
    ]
)


@dataclass
class Layer:
    """A table whose batches are given; after the last one, `error` is raised if there is one."""

    pieces: Sequence[pa.RecordBatch]
    schema: pa.Schema = SCHEMA
    geo_crs: Mapping[str, Any] | None = field(default_factory=lambda: WGS84)
    error: Exception | None = None
    listed: Path | None = None

    def rejects(self) -> Path | None:
        """Return the list of rejected rows that was given."""
        return self.listed

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the pieces, then fail if told to."""
        yield from self.pieces
        if self.error:
            raise self.error


def batch(wkb: Sequence[bytes | None], label: str = "row") -> pa.RecordBatch:
    """Return a batch with these geometries and numbered names."""
    numbers = list(range(len(wkb)))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([f"{label} {number}" for number in numbers], pa.string()),
            pa.array(numbers, pa.int64()),
            pa.array(wkb, pa.binary()),
        ],
        schema=SCHEMA,
    )


def wkb(*texts: str | None) -> list[bytes | None]:
    """Return ISO WKB for each WKT, `None` for `None`."""
    return [
        None if text is None else shapely.to_wkb(shapely.from_wkt(text), flavor="iso")
        for text in texts
    ]


def points(rows: int, label: str = "row", **settings: Any) -> Layer:
    """Return a layer of `rows` points in one batch."""
    return Layer([batch(wkb(*(f"POINT ({n} {-n})" for n in range(rows))), label)], **settings)


def revision(name: str = "in/roads.shp", bucket: str = "uploads", **generations: int) -> Revision:
    """Return a revision of the bundle that `name` belongs to, say `shp=1, dbf=2`.

    That of an archive is `zip=1`.
    """
    component = parse(bucket, name)
    assert isinstance(component, Component)
    generations = generations or {"shp": 1}
    stem = name.removesuffix(component.extension)
    pins = {f".{key}": Pin(f"{stem}.{key}", value) for key, value in generations.items()}
    return Revision.of(component.bundle, pins)


def publication(
    of: Revision, fence: int = 1, layer: str = "", metadata: bytes = b""
) -> Publication:
    """Return the publication of a revision, or of one layer of it, by one attempt."""
    return Publication(of, "b" * 32, fence, layer, metadata)
