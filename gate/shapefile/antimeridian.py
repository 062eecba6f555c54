"""Lines and polygons in degrees that cross the antimeridian, cut where they do.

As RFC 7946, 3.1.9, asks: no part of the result crosses it. A step of more than
180 degrees between two positions is taken for a crossing; a ring that goes once
around is taken to hold the pole that it is nearer to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

Geometries = npt.NDArray[np.object_]
Positions = npt.NDArray[np.float64]

_POLYGON, _MULTIPOLYGON = 3, 6
_LINE, _MULTILINE = 1, 5


def split(geometries: Geometries) -> tuple[Geometries, int]:
    """Return the geometries, lines and polygons as multi types, and how many were cut.

    There is one geometry for each that came in, in the same order.
    """
    result = geometries.copy()
    kinds = shapely.get_type_id(geometries)
    for kind, promoted in ((_LINE, shapely.multilinestrings), (_POLYGON, shapely.multipolygons)):
        chosen = kinds == kind
        if chosen.any():
            result[chosen] = promoted(geometries[chosen], indices=np.arange(int(chosen.sum())))
    bounds = shapely.bounds(geometries)
    with np.errstate(invalid="ignore"):
        wide = (bounds[:, 2] - bounds[:, 0] > 180) & np.isin(
            kinds, (_LINE, _MULTILINE, _POLYGON, _MULTIPOLYGON)
        )
    cut = 0
    for index in np.flatnonzero(wide):
        parted = _split(result[index])
        if parted is not None:
            result[index], cut = parted, cut + 1
    return result, cut


def _split(geometry: Any) -> Any | None:
    """Return one multi geometry without crossings, `None` if it has none to begin with."""
    parts = shapely.get_parts(geometry)
    is_area = shapely.get_type_id(parts[0]) == _POLYGON
    lists = shapely.get_rings(parts) if is_area else parts
    positions, owners = shapely.get_coordinates(lists, return_index=True)
    steps = np.abs(np.diff(positions[:, 0]))[np.diff(owners) == 0]
    if not (steps > 180).any():
        return None
    unrolled = [_area(part) if is_area else _line(part) for part in parts]
    pieces = [piece for part in unrolled for piece in _pieces(part, is_area)]
    if not pieces:
        return None
    if not is_area:
        return shapely.multilinestrings(pieces)
    # What was one area on both sides of the place where its ring began is one again.
    return shapely.multipolygons(shapely.get_parts(shapely.union_all(pieces)))


def _line(line: Any) -> Any:
    return shapely.linestrings(_unrolled(shapely.get_coordinates(line, include_z=line.has_z)))


def _area(polygon: Any) -> Any:
    """Return a polygon whose rings go on beyond 180 degrees instead of jumping back."""
    has_z = polygon.has_z
    shell = _ring(shapely.get_coordinates(polygon.exterior, include_z=has_z))
    if not shell.is_valid:
        shell = shapely.make_valid(shell)
    rings = [
        shapely.make_valid(_ring(shapely.get_coordinates(ring, include_z=has_z)))
        for ring in polygon.interiors
    ]
    holes = [
        shapely.transform(ring, _shift(turn), include_z=has_z)
        for ring in rings
        for turn in (-360, 0, 360)
    ]
    return shapely.difference(shell, shapely.union_all(holes)) if holes else shell


def _ring(positions: Positions) -> Any:
    """Return the area of one ring; if it goes around the Earth, that up to the pole."""
    unrolled = _unrolled(positions)
    turn = unrolled[-1, 0] - unrolled[0, 0]
    if abs(turn) > 180:
        pole = np.copysign(90.0, unrolled[:, 1].mean())
        corners = unrolled[[-1, 0]].copy()
        corners[:, 1] = pole
        unrolled = np.concatenate((unrolled, corners, unrolled[:1]))
    return shapely.polygons(unrolled)


def _unrolled(positions: Positions) -> Positions:
    steps = np.diff(positions[:, 0])
    turns = np.where(steps > 180, -360.0, np.where(steps < -180, 360.0, 0.0))
    unrolled = positions.copy()
    unrolled[1:, 0] += np.cumsum(turns)
    return unrolled


def _pieces(geometry: Any, is_area: bool) -> list[Any]:
    """Return what of a geometry lies in each turn around the Earth, moved into the first."""
    west, _, east, _ = shapely.bounds(geometry)
    found = []
    for turn in range(int((west + 180) // 360), int((east + 180) // 360) + 1):
        strip = shapely.box(360 * turn - 180, -90, 360 * turn + 180, 90)
        piece = shapely.intersection(geometry, strip)
        wanted = _POLYGON if is_area else _LINE
        found += [
            shapely.transform(part, _shift(-360 * turn), include_z=bool(part.has_z))
            for part in shapely.get_parts(shapely.get_parts(piece))
            if shapely.get_type_id(part) == wanted and not part.is_empty
        ]
    return found


def _shift(degrees: float) -> Any:
    def move(positions: Positions) -> Positions:
        moved = positions.copy()
        moved[:, 0] += degrees
        return moved

    return move
