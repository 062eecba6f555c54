"""Where geometries lie, and of which types they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import shapely

Bounds: TypeAlias = tuple[float, float, float, float]

# The codes of WKB, which with Z are 1000 more.
CODES = {
    "Point": 1,
    "LineString": 2,
    "Polygon": 3,
    "MultiPoint": 4,
    "MultiLineString": 5,
    "MultiPolygon": 6,
}
_NAMES = {code: name for name, code in CODES.items()}


@dataclass(frozen=True, slots=True)
class Extent:
    """The types of some geometries, as GeoParquet names them (`MultiPolygon Z`), and their bounds.

    `bounds` are xmin, ymin, xmax, ymax of the positions whose x and y are finite,
    `None` if there are none.
    """

    types: frozenset[str] = frozenset()
    bounds: Bounds | None = None

    def __or__(self, other: Extent) -> Extent:
        """Return the extent of both."""
        return Extent(self.types | other.types, united(self.bounds, other.bounds))


def extent_of(column: pa.BinaryArray) -> Extent:
    """Return the extent of geometries in WKB, all of which GEOS can read."""
    heads = pc.unique(pc.binary_slice(column, 1, 5)).drop_null().to_pylist()
    codes = [int.from_bytes(head, "little") for head in heads]
    names = (f"{_NAMES[code % 1000]} Z" if code > 1000 else _NAMES[code] for code in codes)
    with np.errstate(invalid="ignore"):
        geometries = shapely.from_wkb(column.to_numpy(zero_copy_only=False))
    return Extent(frozenset(names), bounds_of(shapely.get_coordinates(geometries)))


def bounds_of(positions: npt.NDArray[Any]) -> Bounds | None:
    """Return the bounds of positions, of which those that are not finite do not count."""
    positions = positions[np.isfinite(positions).all(axis=1)]
    if not len(positions):
        return None
    (west, south), (east, north) = positions.min(axis=0).tolist(), positions.max(axis=0).tolist()
    return (west, south, east, north)


def united(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    """Return the bounds of both."""
    if one is None or other is None:
        return one or other
    (west, south), (east, north) = map(min, one[:2], other[:2]), map(max, one[2:], other[2:])
    return (west, south, east, north)
