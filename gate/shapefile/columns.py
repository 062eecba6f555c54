"""From the fixed-width cells of a .dbf to Arrow columns of exact types.

A blank cell is null. A cell that cannot be read as its type is null too, and is
counted with its row and its text: nothing becomes 0 or false by accident. Fast
paths are vectorised; only irregular cells are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gate.errors import UnsupportedError
from gate.shapefile.dbf import Descriptor
from gate.shapefile.findings import EXAMPLES, Example, Findings, shown
from gate.shapefile.text import C1, REPLACEMENT, decoded

Cells: TypeAlias = npt.NDArray[np.uint8]
Rows: TypeAlias = npt.NDArray[np.int64]

BLANK = 0x20
INT64_DIGITS = 18
DECIMAL_DIGITS = 38

_PLAIN_NUMBER = np.zeros(256, dtype=np.bool_)
_PLAIN_NUMBER[list(b" 0123456789-.")] = True
_INTEGER = re.compile(r"[+-]?\d+(\.0*)?", re.ASCII)
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d{1,4})?", re.ASCII)

_TRUE, _FALSE, _UNKNOWN, _WRONG = 1, 0, 2, 3
_LOGICAL = np.full(256, _WRONG, dtype=np.uint8)
_LOGICAL[list(b"TtYy")] = _TRUE
_LOGICAL[list(b"FfNn")] = _FALSE
_LOGICAL[list(b"? \0")] = _UNKNOWN

_JULIAN_1970 = 2440588
_DAY_MILLISECONDS = 86_400_000


@dataclass(frozen=True, slots=True)
class Column:
    """A field of the table with the name and type it takes in Arrow."""

    descriptor: Descriptor
    original: str
    name: str
    type: pa.DataType

    @property
    def field(self) -> pa.Field:
        """Return the Arrow field, with the original name as metadata."""
        return pa.field(self.name, self.type, metadata={b"original_name": self.original.encode()})


def plan(
    descriptors: Sequence[Descriptor], encoding: str, taken: str, where: str, findings: Findings
) -> tuple[Column, ...]:
    """Give every field a type and a name of its own; `taken` is the geometry's name.

    Names stay as they are. One that was met before, in whatever case, gets the
    first free `_1`, `_2` …, in the order of the file, so the result is the same
    for every upload. Raises `UnsupportedError` for a binary type that cannot be
    read.
    """
    originals = [C1.sub(REPLACEMENT, each.name.decode(encoding, "replace")) for each in descriptors]
    reserved = {taken.casefold(), *(original.casefold() for original in originals)}
    used = {taken.casefold()}
    columns = []
    for descriptor, original in zip(descriptors, originals, strict=True):
        if REPLACEMENT in original:
            findings.notice("undecodable_name", f"the name of the field {original} is not whole")
        name = original
        if name.casefold() in used:
            name = next(
                candidate
                for number in range(1, len(originals) + 2)
                if (candidate := f"{original}_{number}").casefold() not in used | reserved
            )
            findings.notice("renamed_field", f"the field {original} is called {name}")
        used.add(name.casefold())
        columns.append(Column(descriptor, original, name, _type(descriptor, where, findings)))
    return tuple(columns)


def decode(
    column: Column, rows: Cells, numbers: Rows, encoding: str, findings: Findings
) -> pa.Array:
    """Return the values of one column for these rows of the table.

    `numbers` are the row numbers that findings are filed under.
    """
    cells = _cells(column.descriptor, rows)
    reader = _Reader(column, numbers, encoding, findings)
    return _READERS[column.type.id](reader, cells)


def _cells(descriptor: Descriptor, rows: Cells) -> Cells:
    """Return the cells of one column, one after the other: copied whole, not byte by byte."""
    start, width = descriptor.offset_bytes, descriptor.width_bytes
    if not len(rows) or not rows.flags.c_contiguous:
        return np.ascontiguousarray(rows[:, start : start + width])
    item = np.dtype((np.void, width))
    strided = np.ndarray((len(rows),), item, rows, offset=start, strides=rows.strides[:1])
    return strided.copy().view(np.uint8).reshape(-1, width)


def _type(descriptor: Descriptor, where: str, findings: Findings) -> pa.DataType:
    kind, width = descriptor.kind, descriptor.width_bytes
    if kind == "N" and descriptor.decimals == 0:
        known = pa.int64() if width <= INT64_DIGITS else None
        if INT64_DIGITS < width <= DECIMAL_DIGITS:
            known = pa.decimal128(width, 0)
    else:
        known = _TYPES.get(kind) or _TYPES.get(f"{kind}{width}")
    if known is not None:
        return known
    name = descriptor.name.decode("latin-1")
    if kind in _BINARY:
        cure = "convert the field to text, number or date, and upload the layer again"
        what = f"field {name} is of the binary type {descriptor}"
        raise UnsupportedError(what, where=where, cure=cure)
    what = f"the field {name} is of type {descriptor}, which shapefiles lack; it is read as text"
    findings.notice("foreign_type", what)
    return pa.string()


_TYPES: dict[str, pa.DataType] = {
    "C": pa.string(),
    "N": pa.float64(),
    "F": pa.float64(),
    "D8": pa.date32(),
    "L1": pa.bool_(),
    "I4": pa.int64(),
    "B8": pa.float64(),
    "O8": pa.float64(),
    "T8": pa.timestamp("ms"),
    "@8": pa.timestamp("ms"),
}
_BINARY = frozenset("IBOT@+YVQWP0")


@dataclass(frozen=True, slots=True)
class _Reader:
    column: Column
    numbers: Rows
    encoding: str
    findings: Findings

    def integers(self, cells: Cells) -> pa.Array:
        if self.column.descriptor.kind == "I":
            return pa.array(cells.view("<i4").reshape(-1).astype(np.int64))
        return self._numbers(cells, self.column.type, _INTEGER, _to_int64)

    def decimals(self, cells: Cells) -> pa.Array:
        return self._numbers(cells, self.column.type, _INTEGER, Decimal)

    def reals(self, cells: Cells) -> pa.Array:
        if self.column.descriptor.kind in "BO":
            return pa.array(cells.view("<f8").reshape(-1))
        return self._numbers(cells, self.column.type, _REAL, _to_float)

    def dates(self, cells: Cells) -> pa.Array:
        number, whole = _eight_digits(cells)
        year, month, day = number // 10_000, number // 100 % 100, number % 100
        good = whole & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
        months = np.where(good, (year - 1970) * 12 + month - 1, 0)
        first = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
        following = (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
        good &= day <= following - first
        if not good.all():
            empty = np.isin(cells, (BLANK, 0)).all(axis=1) | (cells == ord("0")).all(axis=1)
            self._count(cells, ~good & ~empty, "not_a_date")
        days = (first + day - 1).astype(np.int32)
        return pa.array(days, mask=~good).cast(pa.date32())

    def logicals(self, cells: Cells) -> pa.Array:
        values = _LOGICAL[cells[:, 0]]
        self._count(cells, values == _WRONG, "not_a_logical")
        return pa.array(values == _TRUE, mask=values >= _UNKNOWN)

    def moments(self, cells: Cells) -> pa.Array:
        days, milliseconds = cells.view("<i4").astype(np.int64).T
        empty = (days == 0) | np.isin(cells, (BLANK, 0)).all(axis=1)
        good = ~empty & (days > 0) & (milliseconds >= 0) & (milliseconds <= _DAY_MILLISECONDS)
        self._count(cells, ~good & ~empty, "not_a_time")
        moments = (days - _JULIAN_1970) * _DAY_MILLISECONDS + milliseconds
        return pa.array(moments, mask=~good).cast(pa.timestamp("ms"))

    def texts(self, cells: Cells) -> pa.Array:
        if not cells.all():
            nul: npt.NDArray[np.bool_] = np.logical_or.accumulate(cells == 0, axis=1)
            lost = (nul & (cells != 0) & (cells != BLANK)).any(axis=1)
            self._count(cells, lost, "cut_at_nul")
            cells = np.where(nul, np.uint8(BLANK), cells)
        texts, replaced = decoded(pc.ascii_rtrim(_fixed(cells), " "), self.encoding)
        self._count(cells, replaced, "undecodable_text")
        return _without_empty(texts)

    def _numbers(
        self,
        cells: Cells,
        type_: pa.DataType,
        pattern: re.Pattern[str],
        convert: Callable[[str], Any],
    ) -> pa.Array:
        if not cells.all():
            cells = np.where(cells == 0, np.uint8(BLANK), cells)
        regular, plain = cells, np.ones(len(cells), np.bool_)
        plain_bytes = _PLAIN_NUMBER[cells]
        all_plain = bool(plain_bytes.all())
        if not all_plain:
            plain = np.all(plain_bytes, axis=1)
            regular = np.where(plain[:, None], cells, np.uint8(BLANK))
        texts = _without_empty(pc.ascii_trim(_fixed(regular), " "))
        try:
            values = texts.cast(type_)
        except pa.ArrowInvalid:
            return self._one_by_one(cells, type_, pattern, convert)
        if all_plain:
            return values
        strange = self._one_by_one(cells[~plain], type_, pattern, convert, self.numbers[~plain])
        return pc.replace_with_mask(values, pa.array(~plain), strange)

    def _one_by_one(
        self,
        cells: Cells,
        type_: pa.DataType,
        pattern: re.Pattern[str],
        convert: Callable[[str], Any],
        numbers: Rows | None = None,
    ) -> pa.Array:
        values: list[Any] = []
        wrong: dict[str, list[int]] = {}
        for index, cell in enumerate(cells):
            text = cell.tobytes().decode("latin-1").strip()
            value = convert(text) if pattern.fullmatch(text) else None
            values.append(value)
            if value is None and text:
                wrong.setdefault(_fault(text, pattern), []).append(index)
        for reason, places in wrong.items():
            mask = np.zeros(len(cells), dtype=np.bool_)
            mask[places] = True
            self._count(cells, mask, reason, numbers)
        return pa.array(values, type_)

    def _count(
        self,
        cells: Cells,
        mask: npt.NDArray[np.bool_],
        reason: str,
        numbers: Rows | None = None,
    ) -> None:
        places = np.flatnonzero(mask)
        numbers = self.numbers if numbers is None else numbers
        examples = (
            Example(
                int(numbers[place]),
                shown(cells[place].tobytes().decode(self.encoding, "backslashreplace").strip()),
            )
            for place in places[:EXAMPLES]
        )
        self.findings.value(self.column.name, reason, examples, len(places))


_READERS: dict[int, Callable[[_Reader, Cells], pa.Array]] = {
    pa.int64().id: _Reader.integers,
    pa.decimal128(1).id: _Reader.decimals,
    pa.float64().id: _Reader.reals,
    pa.date32().id: _Reader.dates,
    pa.bool_().id: _Reader.logicals,
    pa.timestamp("ms").id: _Reader.moments,
    pa.string().id: _Reader.texts,
}


def _eight_digits(cells: Cells) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return cells of eight bytes as numbers, and tell which of them are digits throughout.

    The bytes of a cell are the bytes of one integer. Each step adds neighbours:
    digits to pairs, pairs to fours, fours to the number.
    """
    packed = cells.view("<u8").reshape(-1)
    high, digit, tens = (np.uint64(int(byte * 8, 16)) for byte in ("f0", "30", "06"))
    whole = ((packed & high) == digit) & (((packed + tens) & high) == digit)
    packed = packed & ~high
    for factor, bits, mask in (
        (10, 8, 0x00FF00FF00FF00FF),
        (100, 16, 0x0000FFFF0000FFFF),
        (10_000, 32, 0x00000000FFFFFFFF),
    ):
        packed = (packed * np.uint64(factor) + (packed >> np.uint64(bits))) & np.uint64(mask)
    return packed.astype(np.int64), whole


def _fixed(cells: Cells) -> pa.Array:
    """Return cells as strings of equal length over the same bytes."""
    rows, width = cells.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    cells = np.ascontiguousarray(cells)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(cells))


def _without_empty(texts: pa.Array) -> pa.Array:
    """Return strings with null for those that are empty."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    held = ends[1:] > ends[:-1]
    if held.all():
        return texts
    return pc.if_else(pa.array(held), texts, pa.scalar(None, pa.string()))


def _fault(text: str, pattern: re.Pattern[str]) -> str:
    if not text.strip("*"):
        return "overflow"
    return "out_of_range" if pattern.fullmatch(text) else "not_a_number"


def _to_int64(text: str) -> int:
    """Return an integer of any spelling; no field of this type is wide enough to overflow."""
    return int(text.partition(".")[0])


def _to_float(text: str) -> float | None:
    """Return a finite number, else `None`."""
    value = float(text.upper().replace("D", "E"))
    return value if abs(value) != float("inf") else None
