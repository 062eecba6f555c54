"""Cells of a table become exact values, or null and counted."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.errors import UnsupportedError
from gate.shapefile import columns
from gate.shapefile.dbf import Descriptor
from gate.shapefile.findings import Findings
from tests.reading import read
from tests.shapefiles import Field, cell, column, layer, point


def values_of(field: Field, *values: Any, encoding: str = "utf-8") -> tuple[list[Any], Findings]:
    """Return the decoded values of one field, given as Python values or raw bytes."""
    findings = Findings()
    name = field.name if isinstance(field.name, bytes) else field.name.encode()
    descriptor = Descriptor(name, field.kind, 1, field.width, field.decimals)
    (planned,) = columns.plan([descriptor], encoding, "geometry", "roads.dbf", findings)
    rows = b"".join(b" " + cell(field, value) for value in values)
    matrix = np.frombuffer(rows, np.uint8).reshape(len(values), -1)
    numbers = np.arange(1, len(values) + 1)
    array = columns.decode(planned, matrix, numbers, encoding, findings)
    array.validate(full=True)
    assert array.type == planned.type
    decoded: list[Any] = array.to_pylist()
    return decoded, findings


def reasons(findings: Findings) -> dict[str, int]:
    """Return reason → count of the value problems."""
    return {problem.reason: problem.count for problem in findings.values()}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"     12345", 12345),
        (b"-12345    ", -12345),
        (b"+7", 7),
        (b"0007", 7),
        (b"12.00", 12),
        (b"", None),
        (b"\0" * 10, None),
        (b"  12\0\0\0", 12),
    ],
)
def test_integers_of_every_spelling(raw: bytes, value: int | None) -> None:
    """Blanks, signs, leading zeros, zero decimals and NUL padding are understood."""
    assert values_of(Field("N", "N", 10), raw, b"1")[0] == [value, 1]


@pytest.mark.parametrize(
    "raw", [b"abc", b"1,5", b"1.5", b"0x1F", b"1 2", b"-", b"nan", b"1-2", b"\xff"]
)
def test_what_is_no_integer_is_null_and_counted(raw: bytes) -> None:
    """Nothing becomes 0 or half a number: it is null, with its row and text."""
    decoded, findings = values_of(Field("N", "N", 10), b"5", raw, b"6")
    assert decoded == [5, None, 6]
    (problem,) = findings.values()
    assert (problem.field, problem.reason, problem.count) == ("N", "not_a_number", 1)
    assert problem.examples[0].row == 2


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"1.50", 1.5),
        (b"-.5", -0.5),
        (b"5.", 5.0),
        (b"1e3", 1000.0),
        (b"1.5D-2", 0.015),
        (b"+2.25", 2.25),
        (b"", None),
    ],
)
def test_reals_of_every_spelling(raw: bytes, value: float | None) -> None:
    """Points without digits on one side, exponents with E and D, and signs are understood."""
    for kind, decimals in (("N", 2), ("F", 2), ("F", 0)):
        assert values_of(Field("X", kind, 10, decimals), raw, b"1")[0] == [value, 1.0]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"abc", "not_a_number"),
        (b"1,5", "not_a_number"),
        (b"inf", "not_a_number"),
        (b"1.2.3", "not_a_number"),
        (b"1e999", "out_of_range"),
        (b"**********", "overflow"),
    ],
)
def test_what_is_no_real_is_null_and_counted(raw: bytes, reason: str) -> None:
    """A value that no finite number equals is null, with the reason."""
    decoded, findings = values_of(Field("X", "N", 10, 3), raw, b"1.5")
    assert decoded == [None, 1.5]
    assert reasons(findings) == {reason: 1}


@given(st.lists(st.integers(-(10**17) + 1, 10**18 - 1), min_size=1, max_size=20))
def test_every_integer_of_18_digits_is_exact(numbers: list[int]) -> None:
    """What was written in N(18,0) is what is read."""
    assert values_of(Field("N", "N", 18), *numbers)[0] == numbers


@given(st.lists(st.integers(-(10**24) + 1, 10**24), min_size=1, max_size=20))
def test_every_longer_integer_is_exact(numbers: list[int]) -> None:
    """What was written in N(25,0) is what is read, as a decimal."""
    assert values_of(Field("N", "N", 25), *numbers)[0] == [Decimal(number) for number in numbers]


@given(st.lists(st.decimals(-(10**9), 10**9, places=6), min_size=1, max_size=20))
def test_every_real_is_the_nearest_float(numbers: list[Decimal]) -> None:
    """What was written in N(18,6) is read as the float nearest to it."""
    raw = [f"{number:.6f}".rjust(18).encode() for number in numbers]
    assert values_of(Field("X", "N", 18, 6), *raw)[0] == [float(number) for number in numbers]


@given(st.lists(st.one_of(st.none(), st.dates()), min_size=1, max_size=20))
def test_every_date_is_exact(days: list[datetime.date | None]) -> None:
    """Any date of the calendar survives, with the years 1 and 9999."""
    assert values_of(Field("D", "D", 8), *days)[0] == days


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=20))
def test_any_bytes_in_any_field_are_a_value_or_null(cells: list[bytes]) -> None:
    """No content of a cell raises, whatever the type of its field."""
    for kind in "NFDC":
        values_of(Field("X", kind, 8, 2 if kind == "F" else 0), *cells)
    for encoding in ("cp1252", "cp932", "gb18030", "cp950", "iso8859-5"):
        values_of(Field("X", "C", 8), *cells, encoding=encoding)


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=5), max_size=9))
def test_text_survives_apart_from_trailing_blanks(texts: list[str]) -> None:
    """Text is what was written; trailing blanks are padding, and nothing but blanks is null."""
    cells = [*texts, "end"]
    expected = [text.rstrip(" ") or None for text in cells]
    assert values_of(Field("T", "C", 24), *cells)[0] == expected


def test_leading_blanks_are_kept() -> None:
    """Blanks before a text are part of it."""
    assert values_of(Field("T", "C", 5), b"  x")[0] == ["  x"]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Größe €"),
        ("cp932", "日本"),
        ("gb18030", "中文"),
        ("cp866", "Мир"),
        ("cp1250", "Łódź"),
    ],
)
def test_declared_encodings_are_used(encoding: str, text: str, tmp_path: Path) -> None:
    """Text under a .cpg is decoded with that encoding, names of fields as well."""
    name = text.split(maxsplit=1)[0]
    bundle = layer([point(0, 0)], [Field(name, "C", 12)], [(text,)], cpg=encoding, text=encoding)
    reading = read(bundle, tmp_path)
    assert reading.column(name) == [text]
    assert reading.table.schema.field(name).metadata == {b"original_name": name.encode()}
    assert list(reading.report.judgement.fields) == [name]


@pytest.mark.parametrize(
    ("language", "name"), [(0x01, "cp437"), (0x65, "cp866"), (0xC8, "cp1250"), (0x13, "cp932")]
)
def test_the_language_byte_counts_without_a_cpg(language: int, name: str, tmp_path: Path) -> None:
    """Without a .cpg the language byte of the table names the code page."""
    report = read(column(Field("T"), "x", cpg=None, language=language), tmp_path).report
    assert (report.encoding.name, report.encoding.source) == (name, "language_byte")


def test_an_unknown_language_byte_is_a_notice(tmp_path: Path) -> None:
    """A language byte nobody knows is noted, and the bytes are asked."""
    reading = read(column(Field("T"), "é", cpg=None, language=0x05), tmp_path)
    assert reading.notices == {"unknown_language": 1}
    assert reading.report.encoding.source == "detected"


def test_a_guessed_encoding_is_a_notice(tmp_path: Path) -> None:
    """With nothing stated and no UTF-8 the text is read as cp1252, and that is said."""
    reading = read(column(Field("T"), b"caf\xe9", cpg=None), tmp_path)
    assert reading.column("T") == ["café"]
    assert reading.notices == {"encoding_guessed": 1}
    assert reading.report.encoding.source == "default"


def test_detection_is_not_fooled_by_neighbouring_cells(tmp_path: Path) -> None:
    """The last byte of one cell and the first of the next never make a character."""
    reading = read(column(Field("T", "C", 1), b"\xc3", b"\xa9", cpg=None), tmp_path)
    assert reading.column("T") == ["Ã", "©"]
    assert reading.report.encoding.source == "default"


def test_binary_fields_are_typed() -> None:
    """Types of Visual FoxPro and dBase that lie in a table as binary numbers are read as such."""
    moment = datetime.datetime(2020, 2, 29, 23, 59, 59, 1000)  # noqa: DTZ001 - tables have none
    assert values_of(Field("I", "I", 4), 5, -1)[0] == [5, -1]
    assert values_of(Field("B", "B", 8), 5.5, -1)[0] == [5.5, -1.0]
    assert values_of(Field("O", "O", 8), 5.5, -1)[0] == [5.5, -1.0]
    assert values_of(Field("T", "T", 8), moment, None)[0] == [moment, None]
    assert values_of(Field("A", "@", 8), moment, None)[0] == [moment, None]


@pytest.mark.parametrize(
    "raw", [b"\xff" * 8, b"\x01\0\0\0\xff\xff\xff\xff", b"\x01\0\0\0\xff\xff\xff\x7f"]
)
def test_an_impossible_moment_is_null_and_counted(raw: bytes) -> None:
    """Days before the Julian epoch and times outside a day are null, with the reason."""
    decoded, findings = values_of(Field("T", "T", 8), raw)
    assert decoded == [None]
    assert reasons(findings) == {"not_a_time": 1}


@pytest.mark.parametrize(("kind", "width"), [("Y", 8), ("+", 4), ("V", 10), ("0", 1), ("I", 8)])
def test_a_binary_type_that_cannot_be_read_is_refused(kind: str, width: int) -> None:
    """A column that would come out as rubbish is refused by name."""
    with pytest.raises(UnsupportedError, match=r"^roads.dbf: field X is of the binary type"):
        values_of(Field("X", kind, width), bytes(width))


@pytest.mark.parametrize(("kind", "width"), [("M", 10), ("D", 10), ("L", 2), ("N", 39)])
def test_a_foreign_type_is_text_and_noted(kind: str, width: int) -> None:
    """A type or width that shapefiles lack is kept as the text that stands there."""
    decoded, findings = values_of(Field("X", kind, width), b"12")
    assert decoded == ["12"]
    assert [notice.code for notice in findings.notices()] == ["foreign_type"]


def test_a_name_cut_inside_a_character_is_noted(tmp_path: Path) -> None:
    """A field name of ten bytes that ends in half a character keeps its column, and is noted."""
    bundle = layer([point(0, 0)], [Field("abcdefghiö".encode()[:10])], [("x",)])
    reading = read(bundle, tmp_path)
    assert reading.column("abcdefghi\ufffd") == ["x"]
    assert reading.notices == {"undecodable_name": 1}


def test_a_table_without_fields_is_geometry_alone(tmp_path: Path) -> None:
    """A table may have no field at all: the rows are their geometries."""
    reading = read(layer([point(0, 0), point(1, 1)], [], [(), ()]), tmp_path)
    assert reading.table.schema.names == ["geometry"]
    assert reading.table.num_rows == 2


def test_no_rows_make_empty_columns(tmp_path: Path) -> None:
    """Every type has a column even where there is no row."""
    fields = [Field("N", "N", 9), Field("X", "N", 9, 2), Field("D", "D", 8), Field("L", "L", 1)]
    table = read(layer([], fields, [], kind=1), tmp_path).table
    assert table.schema.types == [pa.int64(), pa.float64(), pa.date32(), pa.bool_(), pa.binary()]
