"""Shapefiles made byte by byte, so that any byte of them can be wrong on purpose.

A bundle is a plain dict, extension → bytes:

    bundle = parcels(rows=100, seed=1)
    write(bundle, folder)                         # layer.shp, layer.shx, ...
    bad = patched(bundle, ".dbf", DBF_COUNT, 0)   # one header field, wrong
    short = cut(bundle, ".shp", 120)

`layer` is the general form: shapes, fields and rows go in, and every value of a
row is either a Python value or the very bytes of the field. The layouts follow
the ESRI Shapefile Technical Description (July 1998) and the dBase III table.
"""

from __future__ import annotations

import datetime
import math
import random
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Bundle = dict[str, bytes]
Position = Sequence[float]

NULL, POINT, LINE, POLYGON, MULTIPOINT, MULTIPATCH = 0, 1, 3, 5, 8, 31
Z, M = 10, 20  # added to a plain shape type
NO_MEASURE = -1e39

WGS84 = (
    'GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],'
    'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]'
)


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the table; `name` may be bytes where its encoding matters."""

    name: str | bytes
    kind: str = "C"
    width: int = 10
    decimals: int = 0

    def __str__(self) -> str:
        decimals = f",{self.decimals}" if self.kind == "N" else ""
        return f"{self.kind}({self.width}{decimals})"


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape: its type number and parts of positions (x, y[, z][, m]).

    A Z shape takes (x, y, z) or (x, y, z, m), an M shape (x, y, m).
    `part_types` is for multipatches only.
    """

    kind: int
    parts: tuple[tuple[Position, ...], ...] = ()
    part_types: tuple[int, ...] = ()


def null() -> Shape:
    """Return a null shape."""
    return Shape(NULL)


def point(*position: float, kind: int = POINT) -> Shape:
    """Return a point; `kind=POINT + Z` or `POINT + M` for the other types."""
    return Shape(kind, ((position,),))


def multipoint(*positions: Position, kind: int = MULTIPOINT) -> Shape:
    """Return a multipoint."""
    return Shape(kind, (tuple(positions),))


def line(*parts: Iterable[Position], kind: int = LINE) -> Shape:
    """Return a polyline of one or more parts."""
    return Shape(kind, tuple(tuple(part) for part in parts))


def polygon(*rings: Iterable[Position], kind: int = POLYGON) -> Shape:
    """Return a polygon; rings are stored as they are (shells are clockwise by the format)."""
    return Shape(kind, tuple(tuple(ring) for ring in rings))


def multipatch(*patches: tuple[int, Iterable[Position]]) -> Shape:
    """Return a multipatch of (part type, positions)."""
    return Shape(
        MULTIPATCH,
        tuple(tuple(positions) for _, positions in patches),
        tuple(part_type for part_type, _ in patches),
    )


def square(x: float, y: float, side: float = 1.0, *more: float) -> tuple[Position, ...]:
    """Return a clockwise closed ring, a shell by the format; `more` is z (and m)."""
    corners = ((x, y), (x, y + side), (x + side, y + side), (x + side, y), (x, y))
    return tuple((*corner, *more) for corner in corners)


# --- a whole bundle ---------------------------------------------------------


def layer(
    shapes: Sequence[Shape],
    fields: Sequence[Field] = (Field("ID", "N", 9),),
    rows: Sequence[Sequence[Any]] | None = None,
    *,
    kind: int | None = None,
    deleted: Iterable[int] = (),
    language: int = 0,
    version: int = 3,
    prj: str | None = WGS84,
    cpg: str | None = "UTF-8",
    text: str = "utf-8",
) -> Bundle:
    """Return the bundle of `shapes` and `rows` (by default numbered from 1).

    `kind` is the type in the header, by default that of the first shape that is
    not null. `deleted` holds row indexes, from 0. `text` is the encoding that
    strings are written in, whatever `cpg` and `language` claim.
    """
    if kind is None:
        kind = next((shape.kind for shape in shapes if shape.kind != NULL), NULL)
    if rows is None:
        rows = [(number, *[None] * (len(fields) - 1)) for number in range(1, len(shapes) + 1)]
    shp, shx = geometry_files(shapes, kind)
    bundle = {".shp": shp, ".shx": shx}
    bundle[".dbf"] = table(
        fields, rows, deleted=deleted, language=language, version=version, text=text
    )
    if prj is not None:
        bundle[".prj"] = prj.encode()
    if cpg is not None:
        bundle[".cpg"] = cpg.encode()
    return bundle


def points(
    rows: int = 3,
    fields: Sequence[Field] = (Field("ID", "N", 9),),
    values: Sequence[Sequence[Any]] | None = None,
) -> Bundle:
    """Return a point layer at (0 0), (1 1) …, by default with a number as its only field."""
    return layer([point(number, number) for number in range(rows)], fields, values)


def column(field: Field, *values: Any, **options: Any) -> Bundle:
    """Return a point layer whose table is this one field with these values."""
    shapes = [point(number, number) for number in range(len(values))]
    return layer(shapes, (field,), [(value,) for value in values], **options)


PARCEL_FIELDS = (
    Field("PARCEL_ID", "N", 10),
    Field("OWNER", "C", 24),
    Field("AREA", "N", 14, 2),
    Field("SURVEYED", "D", 8),
    Field("BUILT", "L", 1),
)


def parcels(rows: int = 100, seed: int = 1, *, prj: str | None = WGS84) -> Bundle:
    """Return a polygon layer like a cadastre: one in twenty has a hole, one in fifty two shells."""
    chance = random.Random(seed)
    across = math.isqrt(max(rows - 1, 0)) + 1
    shapes, values = [], []
    for number in range(rows):
        x, y = number % across * 0.001, 50 + number // across * 0.001
        side = chance.uniform(0.0003, 0.0009)
        rings = [square(x, y, side)]
        if number % 20 == 7:
            rings.append(tuple(reversed(square(x + side / 4, y + side / 4, side / 2))))
        if number % 50 == 11:
            rings.append(square(x + side * 1.01, y, side / 20))
        shapes.append(polygon(*rings))
        day = datetime.date(1980, 1, 1) + datetime.timedelta(days=chance.randrange(16000))
        owner = f"Höfe und Gärten {chance.randrange(1000)}"
        values.append((number + 1, owner, round(chance.uniform(80, 9000), 2), day, number % 3 == 0))
    return layer(shapes, PARCEL_FIELDS, values, kind=POLYGON, prj=prj)


def write(bundle: Mapping[str, bytes], folder: Path, stem: str = "layer") -> Path:
    """Write each component to `folder/stem<extension>` and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for extension, content in bundle.items():
        (folder / f"{stem}{extension}").write_bytes(content)
    return folder


# --- damage -----------------------------------------------------------------

# (offset, struct format) of header fields, for `patched`.
SHP_CODE = SHX_CODE = (0, ">i")
SHP_WORDS = SHX_WORDS = (24, ">i")
SHP_VERSION = (28, "<i")
SHP_KIND = SHX_KIND = (32, "<i")
SHP_BOX = (36, "<4d")
DBF_VERSION = (0, "B")
DBF_COUNT = (4, "<I")
DBF_HEADER_BYTES = (8, "<H")
DBF_RECORD_BYTES = (10, "<H")
DBF_LANGUAGE = (29, "B")


def index_entry(row: int) -> tuple[int, str]:
    """Return where the .shx holds offset and length (in words) of a row, from 0."""
    return 100 + 8 * row, ">2i"


def patched(
    bundle: Mapping[str, bytes], extension: str, place: tuple[int, str], *values: Any
) -> Bundle:
    """Return the bundle with other values at one place of one component."""
    content = bytearray(bundle[extension])
    struct.pack_into(place[1], content, place[0], *values)
    return {**bundle, extension: bytes(content)}


def cut(bundle: Mapping[str, bytes], extension: str, size: int) -> Bundle:
    """Return the bundle with one component cut to its first `size` bytes."""
    return {**bundle, extension: bundle[extension][:size]}


def without(bundle: Mapping[str, bytes], *extensions: str) -> Bundle:
    """Return the bundle without these components."""
    return {name: content for name, content in bundle.items() if name not in extensions}


def flipped(bundle: Mapping[str, bytes], extension: str, offset: int, mask: int = 0xFF) -> Bundle:
    """Return the bundle with the bits of one byte flipped."""
    content = bytearray(bundle[extension])
    content[offset] ^= mask
    return {**bundle, extension: bytes(content)}


# --- .shp and .shx ----------------------------------------------------------


def geometry_files(shapes: Sequence[Shape], kind: int) -> tuple[bytes, bytes]:
    """Return the .shp and the .shx."""
    records, entries, words = [], [], 50
    for number, shape in enumerate(shapes, start=1):
        content = shape_content(shape)
        records.append(struct.pack(">2i", number, len(content) // 2) + content)
        entries.append(struct.pack(">2i", words, len(content) // 2))
        words += 4 + len(content) // 2
    box = _box([position for shape in shapes for part in shape.parts for position in part])
    shp = _geometry_header(words, kind, box) + b"".join(records)
    shx = _geometry_header(50 + 4 * len(shapes), kind, box) + b"".join(entries)
    return shp, shx


def shape_content(shape: Shape) -> bytes:
    """Return the content of one .shp record: type, then what the type asks for."""
    positions = [position for part in shape.parts for position in part]
    has_z = shape.kind == MULTIPATCH or shape.kind // 10 == 1
    has_m = not has_z and shape.kind // 10 == 2
    head = struct.pack("<i", shape.kind)
    if shape.kind == NULL:
        return head
    if shape.kind in (POINT, POINT + Z, POINT + M):
        position = (*positions[0], NO_MEASURE) if len(positions[0]) == 3 and has_z else positions[0]
        return head + struct.pack(f"<{len(position)}d", *position)
    content = [head, struct.pack("<4d", *_box(positions)), _part_table(shape, len(positions))]
    content += [struct.pack("<2d", *position[:2]) for position in positions]
    if has_z or has_m:
        content.append(_ranged([position[2] for position in positions]))
    if has_z and positions and len(positions[0]) == 4:
        content.append(_ranged([position[3] for position in positions]))
    return b"".join(content)


def _part_table(shape: Shape, points: int) -> bytes:
    """Return the counts of parts and points, where each part starts, and of what type it is."""
    if shape.kind in (MULTIPOINT, MULTIPOINT + Z, MULTIPOINT + M):
        return struct.pack("<i", points)
    lengths = [len(part) for part in shape.parts]
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    numbers = (len(lengths), points, *starts, *shape.part_types)
    return struct.pack(f"<{len(numbers)}i", *numbers)


def _ranged(values: Sequence[float]) -> bytes:
    """Return minimum, maximum and all values, as Z and M are stored."""
    ends = (min(values, default=0.0), max(values, default=0.0))
    return struct.pack(f"<{2 + len(values)}d", *ends, *values)


def _box(positions: Sequence[Position]) -> tuple[float, float, float, float]:
    if not positions:
        return (0.0, 0.0, 0.0, 0.0)
    eastings = [position[0] for position in positions]
    northings = [position[1] for position in positions]
    return (min(eastings), min(northings), max(eastings), max(northings))


def _geometry_header(words: int, kind: int, box: tuple[float, float, float, float]) -> bytes:
    return struct.pack(">7i", 9994, 0, 0, 0, 0, 0, words) + struct.pack(
        "<2i8d", 1000, kind, *box, 0.0, 0.0, 0.0, 0.0
    )


# --- .dbf -------------------------------------------------------------------


def table(
    fields: Sequence[Field],
    rows: Sequence[Sequence[Any]],
    *,
    deleted: Iterable[int] = (),
    language: int = 0,
    version: int = 3,
    text: str = "utf-8",
) -> bytes:
    """Return the .dbf: header, field descriptors, rows, end mark."""
    header_bytes = 33 + 32 * len(fields)
    record_bytes = 1 + sum(field.width for field in fields)
    header = struct.pack(
        "<4BIHH17xB2x", version, 124, 1, 1, len(rows), header_bytes, record_bytes, language
    )
    gone = frozenset(deleted)
    records = [
        (b"*" if index in gone else b" ")
        + b"".join(cell(field, value, text) for field, value in zip(fields, row, strict=True))
        for index, row in enumerate(rows)
    ]
    descriptors = b"".join(descriptor(field, text) for field in fields)
    return header + descriptors + b"\r" + b"".join(records) + b"\x1a"


def descriptor(field: Field, text: str = "utf-8") -> bytes:
    """Return the 32 bytes that describe a field."""
    name = field.name if isinstance(field.name, bytes) else field.name.encode(text)
    return struct.pack(
        "<11sc4xBB14x", name[:11], field.kind.encode(), field.width % 256, field.decimals
    )


def cell(field: Field, value: Any, text: str = "utf-8") -> bytes:
    """Return the bytes of one value, exactly as wide as the field; bytes pass as they are."""
    if isinstance(value, bytes):
        content = value
    else:
        content = _WRITERS.get(field.kind, _write_text)(field, value, text)
    if len(content) > field.width:
        raise ValueError(f"{value!r} does not fit {field}")
    return content.ljust(field.width)


def _write_text(field: Field, value: Any, text: str) -> bytes:
    return b"" if value is None else str(value).encode(text)


def _write_number(field: Field, value: Any, text: str) -> bytes:
    if value is None:
        return b""
    shown = f"{value:.{field.decimals}f}" if isinstance(value, float) else str(value)
    return shown.rjust(field.width).encode()


def _write_date(field: Field, value: Any, text: str) -> bytes:
    return b"" if value is None else value.isoformat().replace("-", "").encode()


def _write_logical(field: Field, value: Any, text: str) -> bytes:
    return b"?" if value is None else b"T" if value else b"F"


def _binary(layout: str) -> Callable[[Field, Any, str], bytes]:
    return lambda field, value, text: struct.pack(layout, value or 0)


def _write_moment(field: Field, value: Any, text: str) -> bytes:
    """Write days since the Julian epoch, then milliseconds of the day."""
    if value is None:
        return bytes(8)
    midnight = value.replace(hour=0, minute=0, second=0, microsecond=0)
    milliseconds = (value - midnight) // datetime.timedelta(milliseconds=1)
    return struct.pack("<2i", value.toordinal() + 1721425, milliseconds)


_WRITERS: dict[str, Callable[[Field, Any, str], bytes]] = {
    "N": _write_number,
    "F": _write_number,
    "D": _write_date,
    "L": _write_logical,
    "I": _binary("<i"),
    "B": _binary("<d"),
    "O": _binary("<d"),
    "@": _write_moment,
    "T": _write_moment,
}
