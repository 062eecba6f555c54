"""The header of a .dbf: what columns it has, where, and how many rows.

Layout: the dBase III+ table, which the shapefile format prescribes, with the
versions that Visual FoxPro writes. dBase 7 has another header and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gate.errors import (
    CorruptError,
    EmptyComponentError,
    NotAShapefileError,
    TruncatedError,
    UnsupportedError,
)
from gate.gather import Bytes
from gate.shapefile.files import let_go
from gate.shapefile.port import Content

FIXED_BYTES = 32
TERMINATOR = 0x0D
LIVE, DELETED = 0x20, 0x2A
BLOCK_ROWS = 1 << 16
BLOCK_BYTES = 8 << 20

VERSIONS = (0x03, 0x83, 0x8B, 0xF5, 0x30, 0x31, 0x32, 0x43, 0x63, 0xCB)
OTHER_VERSIONS = {0x02: "FoxBASE", 0x04: "dBase 7", 0x8C: "dBase 7"}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One column: its name as bytes, type letter, and place in a row.

    `offset_bytes` counts from the start of the row, whose byte 0 is the
    deletion flag.
    """

    name: bytes
    kind: str
    offset_bytes: int
    width_bytes: int
    decimals: int

    def __str__(self) -> str:
        decimals = f",{self.decimals}" if self.kind in "NF" else ""
        return f"{self.kind}({self.width_bytes}{decimals})"


@dataclass(frozen=True, slots=True)
class Table:
    """A .dbf whose header was found to be consistent with itself and its size.

    `rows` is the declared count, deleted rows included; `rows_by_size` is how
    many the file has room for.
    """

    content: Content
    rows: int
    header_bytes: int
    record_bytes: int
    language: int
    descriptors: tuple[Descriptor, ...]

    @property
    def rows_by_size(self) -> int:
        """Return how many whole rows follow the header."""
        return (int(self.content.size) - self.header_bytes) // self.record_bytes

    @property
    def trailing_bytes(self) -> int:
        """Return how many bytes follow the declared rows (one end mark is usual)."""
        return int(self.content.size) - self.header_bytes - self.rows * self.record_bytes

    def blocks(self) -> Iterator[tuple[int, Bytes]]:
        """Yield all rows, a few megabytes at a time: the number of the first, and their bytes."""
        step = max(1, min(BLOCK_ROWS, BLOCK_BYTES // self.record_bytes))
        for start in range(0, self.rows, step):
            yield start, self.block(start, min(start + step, self.rows))
            let_go(self.content)

    def block(self, start: int, stop: int) -> Bytes:
        """Return rows as a matrix of bytes, one line each."""
        first = self.header_bytes + start * self.record_bytes
        last = self.header_bytes + stop * self.record_bytes
        return self.content[first:last].reshape(stop - start, self.record_bytes)


def parse_table(content: Content, where: str) -> Table:
    """Read and check the header of a .dbf.

    Raises `NotAShapefileError`, `UnsupportedError` (another table format),
    `EmptyComponentError` (no whole header, or none of its rows), `TruncatedError` or
    `CorruptError`.
    """
    version = int(content[:1][0])
    if version in OTHER_VERSIONS:
        raise UnsupportedError(f"is a {OTHER_VERSIONS[version]} table", where=where)
    if version not in VERSIONS:
        raise NotAShapefileError(f"begins with byte 0x{version:02x}, no dBase table", where=where)
    if content.size < FIXED_BYTES:
        raise EmptyComponentError(f"holds {content.size} bytes, no whole header", where=where)
    rows = int(content[4:8].view("<u4")[0])
    header_bytes, record_bytes = content[8:12].view("<u2").tolist()
    if content.size < header_bytes:
        what = f"holds {content.size} bytes, its header alone has {header_bytes}"
        raise TruncatedError(what, where=where)
    descriptors = _descriptors(content[FIXED_BYTES:header_bytes], where)
    width = 1 + sum(descriptor.width_bytes for descriptor in descriptors)
    if width != record_bytes:
        what = f"states rows of {record_bytes} bytes, its fields need {width}"
        raise CorruptError(what, where=where)
    table = Table(content, rows, header_bytes, record_bytes, int(content[29:30][0]), descriptors)
    if table.rows and content.size <= header_bytes + 1:
        what = f"holds a header and no rows, though it declares {rows}"
        raise EmptyComponentError(what, where=where)
    if table.rows > table.rows_by_size:
        what = f"holds {table.rows_by_size} of {table.rows} declared rows"
        raise TruncatedError(what, where=where)
    return table


def count_deleted(table: Table, where: str) -> int:
    """Count the rows flagged as deleted.

    A flag that is neither blank nor `*` means that rows do not begin where the
    header says: `CorruptError`.
    """
    deleted = 0
    for start, rows in table.blocks():
        flags = rows[:, 0]
        gone = flags == DELETED
        strange = np.flatnonzero(~gone & (flags != LIVE))
        if strange.size:
            row = start + int(strange[0]) + 1
            what = f"row {row} begins with byte 0x{flags[strange[0]]:02x}, no deletion flag"
            raise CorruptError(what, where=where)
        deleted += int(gone.sum())
    return deleted


def _descriptors(content: Bytes, where: str) -> tuple[Descriptor, ...]:
    descriptors: list[Descriptor] = []
    offset = 1
    for start in range(0, content.size, 32):
        if content[start] == TERMINATOR:
            return tuple(descriptors)
        raw = content[start : start + 32].tobytes()
        if len(raw) < 32:
            break
        name = raw[:11].split(b"\0")[0].strip()
        kind, width = chr(raw[11]), raw[16]
        if not _plausible(name, kind, width):
            what = f"field {len(descriptors) + 1} ({name!r}, type {kind!r}, {width} bytes) is none"
            raise CorruptError(what, where=where)
        descriptors.append(Descriptor(name, kind, offset, width, raw[17]))
        offset += width
    raise CorruptError("its field list does not end where the header does", where=where)


def _plausible(name: bytes, kind: str, width: int) -> bool:
    return bool(
        name
        and min(name) >= 0x20
        and width > 0
        and ((kind.isascii() and kind.isalnum()) or kind in "@+")
    )
