"""WKB from the geometries that Fiona gives, with rings wound and closed as GeoParquet asks.

ISO flavour: a type with Z is the plain type + 1000. Shells come out
counter-clockwise, holes clockwise. No position is dropped: an open ring is
closed, a ring or line with too few positions repeats its last one until readers
accept it; each is counted. A ring begins where its numbers do.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gate.shapefile.extent import CODES, Bounds, bounds_of, united

Positions: TypeAlias = npt.NDArray[np.float64]

_HEAD = struct.Struct("<BII")
_POINT = struct.Struct("<BI2d")
_POINT_Z = struct.Struct("<BI3d")
_COUNT = struct.Struct("<I")
_PARTS = {"MultiPoint": "Point", "MultiLineString": "LineString", "MultiPolygon": "Polygon"}
_MULTI = {part: multi for multi, part in _PARTS.items()}

RING_POSITIONS = 4
LINE_POSITIONS = 2


class UnclosableError(Exception):
    """A ring has no position of numbers, so no WKB of it can be read."""


@dataclass(slots=True)
class Encoder:
    """Encodes the geometries of one layer and remembers what they were.

    With `multi`, lines and polygons become their multi types; points never do.
    With `flat`, x and y alone are encoded.
    `types` are names as in GeoParquet (`MultiPolygon Z`), `bounds` is
    (xmin, ymin, xmax, ymax) of every position read, those that are not finite
    left out.
    """

    multi: bool
    flat: bool = False
    types: set[str] = field(default_factory=set)
    bounds: Bounds | None = None
    rewound: int = 0
    closed: int = 0
    collapsed: int = 0
    _pending: list[Positions] = field(default_factory=list)
    _points: list[Sequence[float]] = field(default_factory=list)

    def encode(self, kind: str, coordinates: Any) -> tuple[bytes, int]:
        """Return the WKB and how many positions came in.

        Raises `ValueError` for a kind that no single shapefile record makes,
        `UnclosableError` for a ring without any numbers.
        """
        if kind == "Point":
            return self._point(coordinates), 1
        if kind not in CODES:
            raise ValueError(f"a geometry of type {kind}")
        several = kind in _PARTS
        part = _PARTS.get(kind, kind)
        parts = [self._lists(part, each) for each in (coordinates if several else [coordinates])]
        lists = [each for lists in parts for each in lists]
        if part == "Polygon" and any(map(_is_unclosable, lists)):
            raise UnclosableError
        has_z = any(each.shape[1] == 3 for each in lists)
        self._pending += lists
        encoded = [self._part(part, each, has_z) for each in parts]
        arrived = sum(map(len, lists))
        if several or self.multi:
            return self._many(_MULTI[part], encoded, has_z), arrived
        self._note(kind, has_z)
        return encoded[0], arrived

    def empty(self, kind: str, *, has_z: bool) -> bytes:
        """Return an empty geometry of `kind` (or of its multi type), which is not `Point`."""
        kind = _MULTI.get(kind, kind) if self.multi else kind
        self._note(kind, has_z)
        return _HEAD.pack(1, _code(kind, has_z), 0)

    def settle(self) -> None:
        """Take the positions seen since the last call into `bounds`."""
        flat = [each[:, :2] for each in self._pending]
        if self._points:
            flat.append(np.array([each[:2] for each in self._points], dtype=np.float64))
        self._pending, self._points = [], []
        if not flat:
            return
        self.bounds = united(self.bounds, bounds_of(np.concatenate(flat)))

    def _point(self, position: Sequence[float]) -> bytes:
        self._points.append(position)
        if len(position) == 3 and not self.flat:
            self.types.add("Point Z")
            return _POINT_Z.pack(1, 1001, *position)
        self.types.add("Point")
        return _POINT.pack(1, 1, *position[:2])

    def _lists(self, part: str, coordinates: Any) -> list[Positions]:
        """Return the lists of positions of one part: a polygon has one for each ring."""
        if part == "Polygon":
            return [self._positions(ring) for ring in coordinates]
        return [self._positions([coordinates] if part == "Point" else coordinates)]

    def _positions(self, coordinates: Sequence[Sequence[float]]) -> Positions:
        positions: Positions = np.array(coordinates, dtype="<f8")
        return positions[:, :2] if self.flat else positions

    def _many(self, kind: str, encoded: list[bytes], has_z: bool) -> bytes:
        self._note(kind, has_z)
        return _HEAD.pack(1, _code(kind, has_z), len(encoded)) + b"".join(encoded)

    def _note(self, kind: str, has_z: bool) -> None:
        self.types.add(f"{kind} Z" if has_z else kind)

    def _part(self, kind: str, rings: list[Positions], has_z: bool) -> bytes:
        code = _code(kind, has_z)
        if kind == "Point":
            return struct.pack("<BI", 1, code) + rings[0].tobytes()
        if kind == "LineString":
            line = self._padded(rings[0], LINE_POSITIONS)
            return _HEAD.pack(1, code, len(line)) + line.tobytes()
        wound = [self._ring(ring, shell=index == 0) for index, ring in enumerate(rings)]
        lengths = [_COUNT.pack(len(ring)) + ring.tobytes() for ring in wound]
        return _HEAD.pack(1, code, len(wound)) + b"".join(lengths)

    def _ring(self, ring: Positions, *, shell: bool) -> Positions:
        x, y = ring[0, :2].tolist()
        if x != x or y != y:
            ring = self._begun_at_a_number(ring)
        elif [x, y] != ring[-1, :2].tolist():
            self.closed += 1
            ring = np.concatenate((ring, ring[:1]))
        ring = self._padded(ring, RING_POSITIONS)
        area = _signed_area(ring)
        self.rewound += shell and area > 0
        wrong = area < 0 if shell else area > 0
        return ring[::-1] if wrong else ring

    def _begun_at_a_number(self, ring: Positions) -> Positions:
        """Return a ring that begins at NaN turned until it does not, and closed.

        NaN is unlike itself, so readers would take the ring for an open one and
        refuse the whole file.
        """
        numbers = np.flatnonzero(~np.isnan(ring[:, :2]).any(axis=1))
        if np.array_equal(ring[0], ring[-1], equal_nan=True):
            ring = ring[:-1]
        else:
            self.closed += 1
        turned = np.roll(ring, -int(numbers[0]), axis=0)
        return np.concatenate((turned, turned[:1]))

    def _padded(self, positions: Positions, least: int) -> Positions:
        missing = least - len(positions)
        if missing <= 0:
            return positions
        self.collapsed += 1
        return np.concatenate((positions, positions[-1:].repeat(missing, axis=0)))


def collapses(kind: str, coordinates: Any) -> bool:
    """Tell whether a ring or line of a geometry has too few positions.

    Raises what `Encoder.encode` raises.
    """
    probe = Encoder(multi=False)
    probe.encode(kind, coordinates)
    return probe.collapsed > 0


def _is_unclosable(ring: Positions) -> bool:
    """Tell whether no position of a ring has an x and a y that are numbers."""
    x, y = ring[0, :2].tolist()
    return (x != x or y != y) and bool(np.isnan(ring[:, :2]).any(axis=1).all())


def _code(kind: str, has_z: bool) -> int:
    return CODES[kind] + (1000 if has_z else 0)


def _signed_area(ring: Positions) -> float:
    """Return twice the signed area in the plane, positive if counter-clockwise."""
    with np.errstate(over="ignore", invalid="ignore"):
        x, y = (ring[:, :2] - ring[0, :2]).T
        return float(x[:-1].dot(y[1:]) - x[1:].dot(y[:-1]))
