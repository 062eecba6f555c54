"""Large layers for benchmarks, made in code with numpy: the same bytes for the same size.

Written a chunk of rows at a time, so that a layer of any length needs little
memory. Layouts follow the ESRI Shapefile Technical Description (July 1998) and
the dBase III table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.float64]

CHUNK_ROWS = 1 << 14
POINT, POLYGON = 1, 5
WGS84 = (
    'GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],'
    'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]'
)
_WORDS = ("Acker", "Garten", "Weide", "Wald", "Hof", "Straße", "Brücke", "Mühle")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A kind of layer: its shape type, its fields, and how a chunk of it is made.

    `shapes` returns record contents, without their headers, as bytes and the
    length of each in bytes.
    """

    name: str
    kind: int
    fields: tuple[tuple[str, str, int, int], ...]
    shapes: Callable[
        [np.random.Generator, npt.NDArray[np.int64]], tuple[Bytes, npt.NDArray[np.int64]]
    ]


def write(recipe: Recipe, rows: int, folder: Path) -> Path:
    """Write `layer.shp`, `.shx`, `.dbf`, `.prj` and `.cpg` into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    width = 1 + sum(field[2] for field in recipe.fields)
    words = 50
    with (
        (folder / "layer.shp").open("wb") as shp,
        (folder / "layer.shx").open("wb") as shx,
        (folder / "layer.dbf").open("wb") as dbf,
    ):
        shp.write(_header(0, recipe.kind))
        shx.write(_header(50 + 4 * rows, recipe.kind))
        dbf.write(_table_header(recipe, rows, width))
        for start in range(0, rows, CHUNK_ROWS):
            numbers = np.arange(start, min(start + CHUNK_ROWS, rows))
            chance = np.random.default_rng((start, recipe.kind))
            content, lengths = recipe.shapes(chance, numbers)
            offsets = words + np.concatenate(([0], np.cumsum(4 + lengths // 2)))
            words = int(offsets[-1])
            shp.write(_records(numbers, content, lengths))
            shx.write(np.stack([offsets[:-1], lengths // 2], axis=1).astype(">i4").tobytes())
            dbf.write(_table_rows(recipe, chance, numbers, width))
        dbf.write(b"\x1a")
        shp.seek(0)
        shp.write(_header(words, recipe.kind))
    (folder / "layer.prj").write_text(WGS84)
    (folder / "layer.cpg").write_text("UTF-8")
    return folder


def _header(words: int, kind: int) -> bytes:
    box = (-180.0, -90.0, 180.0, 90.0, 0.0, 0.0, 0.0, 0.0)
    return struct.pack(">7i", 9994, 0, 0, 0, 0, 0, words) + struct.pack("<2i8d", 1000, kind, *box)


def _records(
    numbers: npt.NDArray[np.int64], content: Bytes, lengths: npt.NDArray[np.int64]
) -> bytes:
    """Return the contents with the header of each record before it."""
    heads = np.stack([numbers + 1, lengths // 2], axis=1).astype(">i4").view(np.uint8)
    starts = np.concatenate(([0], np.cumsum(lengths + 8)[:-1]))
    merged = np.empty(int((lengths + 8).sum()), dtype=np.uint8)
    is_head = np.zeros(merged.size, dtype=np.bool_)
    is_head[(starts[:, None] + np.arange(8)).reshape(-1)] = True
    merged[is_head] = heads.reshape(-1)
    merged[~is_head] = content
    return merged.tobytes()


# --- shapes -----------------------------------------------------------------


def _points(
    chance: np.random.Generator, numbers: npt.NDArray[np.int64]
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    records = np.zeros(len(numbers), dtype=[("kind", "<i4"), ("x", "<f8"), ("y", "<f8")])
    records["kind"] = POINT
    records["x"], records["y"] = _places(numbers).T + chance.uniform(0, 0.001, (2, len(numbers)))
    return records.view(np.uint8), np.full(len(numbers), 20)


def _parcels(
    chance: np.random.Generator, numbers: npt.NDArray[np.int64]
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """One in twenty has several rings: four in five of them a hole, the others a second shell."""
    corners = chance.integers(5, 10, len(numbers))
    centres = _places(numbers)
    pieces, lengths = [], []
    for number, count, centre in zip(numbers.tolist(), corners.tolist(), centres, strict=True):
        rings = [_ring(chance, centre, 0.0004, count)]
        if number % 20 == 7:
            rings.append(_ring(chance, centre, 0.0001, count)[::-1])
            if number % 100 == 7:
                rings[1] = _ring(chance, centre + np.array([0.0005, 0.0]), 0.00008, count)
        pieces.append(_polygon(rings))
        lengths.append(len(pieces[-1]))
    return np.frombuffer(b"".join(pieces), np.uint8), np.array(lengths)


def _coasts(
    chance: np.random.Generator, numbers: npt.NDArray[np.int64]
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """One ring of 500 positions each, which winds like an inlet: no middle sees all of it."""
    pieces = [_polygon([_inlet(chance, centre)]) for centre in _places(numbers)]
    return np.frombuffer(b"".join(pieces), np.uint8), np.full(len(numbers), len(pieces[0]))


def _inlet(chance: np.random.Generator, centre: Positions) -> Positions:
    """Return a clockwise closed ring: one bank of a winding band eastwards, the other one back."""
    along = np.linspace(-1, 1, 250)
    north, south = 0.6 * np.sin(along * 9) + chance.uniform(0.1, 0.3, (2, 250)) * [[1], [-1]]
    eastings = np.concatenate([along, along[:0:-1]])
    banks = np.concatenate([north, south[:0:-1]])
    ring = np.stack([eastings, banks], axis=1) * 0.0004 + centre
    return np.concatenate([ring, ring[:1]])


def _places(numbers: npt.NDArray[np.int64]) -> Positions:
    return np.stack([numbers % 1000 * 0.001, 40 + numbers // 1000 * 0.001], axis=1)


def _ring(chance: np.random.Generator, centre: Positions, radius: float, corners: int) -> Positions:
    """Return a clockwise closed ring around a centre: valid, since it is star-shaped."""
    angles = -(np.arange(corners) + chance.uniform(0, 0.3, corners)) * (2 * np.pi / corners)
    reach = radius * chance.uniform(0.7, 1.0, corners)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1) * reach[:, None] + centre
    return np.concatenate([ring, ring[:1]])


def _polygon(rings: list[Positions]) -> bytes:
    positions = np.concatenate(rings)
    starts = np.cumsum([0, *map(len, rings[:-1])])
    box = (*positions.min(axis=0), *positions.max(axis=0))
    head = struct.pack("<i4d2i", POLYGON, *box, len(rings), len(positions))
    return head + starts.astype("<i4").tobytes() + positions.astype("<f8").tobytes()


# --- table ------------------------------------------------------------------


def _table_header(recipe: Recipe, rows: int, width: int) -> bytes:
    header = struct.pack("<4BIHH17xB2x", 3, 124, 1, 1, rows, 33 + 32 * len(recipe.fields), width, 0)
    descriptors = [
        struct.pack("<11sc4xBB14x", name.encode(), kind.encode(), size, decimals)
        for name, kind, size, decimals in recipe.fields
    ]
    return header + b"".join(descriptors) + b"\r"


def _table_rows(
    recipe: Recipe, chance: np.random.Generator, numbers: npt.NDArray[np.int64], width: int
) -> bytes:
    rows = np.full((len(numbers), width), 0x20, dtype=np.uint8)
    place = 1
    for index, (_, kind, size, decimals) in enumerate(recipe.fields):
        cells = rows[:, place : place + size]
        if kind == "N":
            values = (
                numbers + 1 if index == 0 else chance.integers(0, 10 ** min(size - 2, 9), len(rows))
            )
            cells[:] = _numbers(values, size, decimals)
        elif kind == "D":
            days = np.datetime64("1970-01-01") + chance.integers(0, 18000, len(rows))
            text = np.char.replace(days.astype("U10"), "-", "").astype("S8")
            cells[:] = text.view(np.uint8).reshape(-1, 8)
        elif kind == "L":
            cells[:, 0] = np.frombuffer(b"TF", np.uint8)[chance.integers(0, 2, len(rows))]
        else:
            cells[:] = _texts(chance, len(rows), size)
        place += size
    return rows.tobytes()


def _numbers(values: npt.NDArray[np.int64], size: int, decimals: int) -> Bytes:
    """Return decimal digits, right-aligned, the last `decimals` behind a point."""
    cells = np.full((len(values), size), 0x20, dtype=np.uint8)
    rest, place = values.copy(), size - 1
    for digit in range(size - (decimals > 0)):
        if decimals and digit == decimals:
            cells[:, place] = ord(".")
            place -= 1
        shown = (rest > 0) | (digit <= decimals)
        cells[:, place] = np.where(shown, rest % 10 + ord("0"), 0x20)
        rest, place = rest // 10, place - 1
    return cells


def _texts(chance: np.random.Generator, rows: int, size: int) -> Bytes:
    """Return words, most of them ASCII, each followed by a number."""
    choices = [f"{word} {number}" for word in _WORDS for number in range(1, 60)]
    fitting = [text.encode() for text in choices if len(text.encode()) <= size]
    cells = np.array([text.ljust(size) for text in fitting], dtype=f"S{size}")
    return cells[chance.integers(0, len(cells), rows)].view(np.uint8).reshape(rows, size)


POINTS = Recipe(
    "points",
    POINT,
    (
        ("ID", "N", 9, 0),
        ("NAME", "C", 16, 0),
        ("KIND", "C", 10, 0),
        ("COUNT", "N", 6, 0),
        ("HEIGHT", "N", 9, 2),
        ("SURVEYED", "D", 8, 0),
        ("ACTIVE", "L", 1, 0),
        ("NOTE", "C", 24, 0),
    ),
    _points,
)
PARCELS = Recipe(
    "parcels",
    POLYGON,
    (
        ("PARCEL_ID", "N", 10, 0),
        ("OWNER", "C", 24, 0),
        ("STREET", "C", 20, 0),
        ("HOUSE", "N", 5, 0),
        ("AREA", "N", 12, 2),
        ("VALUE", "N", 12, 2),
        ("USE", "C", 10, 0),
        ("SURVEYED", "D", 8, 0),
        ("BUILT", "L", 1, 0),
        ("REMARK", "C", 30, 0),
    ),
    _parcels,
)
COASTS = Recipe(
    "coasts",
    POLYGON,
    (("ID", "N", 9, 0), ("NAME", "C", 20, 0), ("LENGTH", "N", 12, 2)),
    _coasts,
)
RECIPES = {recipe.name: recipe for recipe in (POINTS, PARCELS, COASTS)}


def sizes(scale: float) -> Iterator[tuple[Recipe, int]]:
    """Yield each recipe with its number of rows, `scale` times the usual."""
    for recipe, rows in ((POINTS, 1_000_000), (PARCELS, 300_000), (COASTS, 50_000)):
        yield recipe, max(int(rows * scale), 1)
