"""A parcel layer made in code, as any program that writes shapefiles would leave it.

Layouts: ESRI Shapefile Technical Description (July 1998), dBase III table.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from itertools import pairwise

# ETRS89 / UTM zone 32N, as Esri software writes it.
PRJ = (
    'PROJCS["ETRS_1989_UTM_Zone_32N",GEOGCS["GCS_ETRS_1989",DATUM["D_ETRS_1989",'
    'SPHEROID["GRS_1980",6378137.0,298.257222101]],PRIMEM["Greenwich",0.0],'
    'UNIT["Degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",0.0],'
    'PARAMETER["Central_Meridian",9.0],PARAMETER["Scale_Factor",0.9996],'
    'PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
)
FIELDS = (("PARCEL", "N", 9, 0), ("USE", "C", 16, 0), ("AREA_M2", "N", 12, 1))
USES = ("field", "forest", "meadow", "vineyard", "road", "Böschung")
CELL_METRES = 50.0
_POLYGON = 5
_EAST, _NORTH = 500_000.0, 5_400_000.0

Point = tuple[float, float]


def parcels(columns: int, rows: int, *, seed: int = 1) -> dict[str, bytes]:
    """Return a whole bundle, extension → bytes, of `columns` × `rows` quadrilaterals.

    Neighbours share their corners, which are moved at random; the same seed
    gives the same bytes.
    """
    rings = list(_rings(columns, rows, random.Random(seed)))  # noqa: S311
    shp, shx = _geometry(rings)
    return {
        ".shp": shp,
        ".shx": shx,
        ".dbf": _table(rings),
        ".prj": PRJ.encode(),
        ".cpg": b"UTF-8",
    }


def _rings(columns: int, rows: int, chance: random.Random) -> Iterator[tuple[Point, ...]]:
    corners = [
        [
            (
                _EAST + (column + chance.uniform(-0.3, 0.3)) * CELL_METRES,
                _NORTH + (row + chance.uniform(-0.3, 0.3)) * CELL_METRES,
            )
            for column in range(columns + 1)
        ]
        for row in range(rows + 1)
    ]
    for below, above in pairwise(corners):
        for column in range(columns):
            start = below[column]
            # Clockwise, as the format wants an outer ring.
            yield start, above[column], above[column + 1], below[column + 1], start


def _geometry(rings: list[tuple[Point, ...]]) -> tuple[bytes, bytes]:
    records, index = bytearray(), bytearray()
    for number, ring in enumerate(rings, start=1):
        content = struct.pack("<i4d3i", _POLYGON, *_box(ring), 1, len(ring), 0)
        content += b"".join(struct.pack("<2d", *point) for point in ring)
        index += struct.pack(">2i", (100 + len(records)) // 2, len(content) // 2)
        records += struct.pack(">2i", number, len(content) // 2) + content
    box = _box(tuple(point for ring in rings for point in ring))
    return _headed(box, bytes(records)), _headed(box, bytes(index))


def _headed(box: tuple[float, ...], body: bytes) -> bytes:
    words = (100 + len(body)) // 2
    return (
        struct.pack(">i20xi", 9994, words) + struct.pack("<2i8d", 1000, 5, *box, *[0.0] * 4) + body
    )


def _box(points: tuple[Point, ...]) -> tuple[float, ...]:
    eastings, northings = zip(*points, strict=True)
    return min(eastings), min(northings), max(eastings), max(northings)


def _table(rings: list[tuple[Point, ...]]) -> bytes:
    descriptors = b"".join(
        struct.pack("<11sc4xBB14x", name.encode(), kind.encode(), width, decimals)
        for name, kind, width, decimals in FIELDS
    )
    width = 1 + sum(field[2] for field in FIELDS)
    head = struct.pack("<4BIHH20x", 3, 126, 1, 1, len(rings), 33 + len(descriptors), width)
    rows = b"".join(_row(number, ring) for number, ring in enumerate(rings, start=1))
    return head + descriptors + b"\r" + rows + b"\x1a"


def _row(number: int, ring: tuple[Point, ...]) -> bytes:
    use = USES[number % len(USES)].encode()
    return b" %9d%s%12.1f" % (number, use.ljust(16), _area_m2(ring))


def _area_m2(ring: tuple[Point, ...]) -> float:
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairwise(ring))) / 2
