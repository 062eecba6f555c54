"""Which encoding a table's text is in: who may say so, in which order, in which spelling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate.errors import UnknownOverrideError
from gate.shapefile.encoding import LANGUAGE, spelled
from tests.reading import Reading, read
from tests.shapefiles import Bundle, Field, column, layer, point

TEXT = Field("T", "C", 10)
C1 = re.compile("[\x80-\x9f]")


def texts(reading: Reading) -> tuple[list[str | None], str, str]:
    """Return the values, the encoding and who named it."""
    encoding = reading.report.encoding
    return reading.column("T"), encoding.name, encoding.source


@pytest.mark.parametrize(
    ("cpg", "cst", "language", "override", "expected"),
    [
        ("CP1252", "CP1251", 0xC8, "CP1253", ("ι", "cp1253", "override")),
        ("CP1252", "CP1251", 0xC8, "", ("é", "cp1252", "cpg")),
        (None, "CP1251", 0xC8, "", ("й", "cp1251", "cst")),
        ("klingon", "CP1251", 0xC8, "", ("й", "cp1251", "cst")),
        ("", "klingon", 0xC9, "", ("й", "cp1251", "language_byte")),
        (None, None, 0xC9, "", ("й", "cp1251", "language_byte")),
        (None, None, 0x57, "", ("é", "cp1252", "language_byte")),
        (None, None, 0, "", ("é", "cp1252", "default")),
    ],
)
def test_cases_1_to_3_there_is_an_order_of_trust(
    cpg: str | None,
    cst: str | None,
    language: int,
    override: str,
    expected: tuple[str, str, str],
    tmp_path: Path,
) -> None:
    """Cases 1, 2, 3: override, .cpg, .cst, language byte, bytes; the report says which and who."""
    bundle: Bundle = column(TEXT, b"\xe9", language=language, cpg=cpg)
    if cst is not None:
        bundle[".cst"] = cst.encode()
    value, name, source = expected
    assert texts(read(bundle, tmp_path, encoding=override)) == ([value], name, source)


@pytest.mark.parametrize("spelling", ["UTF-8", " utf8\r\n", "65001"])
def test_case_2_a_cst_is_spelled_like_a_cpg(spelling: str, tmp_path: Path) -> None:
    """Case 2: the .cst of other writers is understood in the same spellings."""
    bundle = {**column(TEXT, "Größe", cpg=None), ".cst": spelling.encode()}
    assert texts(read(bundle, tmp_path)) == (["Größe"], "utf-8", "cst")


def test_case_2_an_unknown_cst_is_a_notice(tmp_path: Path) -> None:
    """Case 2: a .cst that is no encoding is noted, and the next source is asked."""
    bundle = {**column(TEXT, "Größe", cpg=None), ".cst": b"klingon"}
    reading = read(bundle, tmp_path)
    assert reading.report.encoding.source == "detected"
    assert reading.notices == {"unknown_cst": 1}


@pytest.mark.parametrize("language", [0x03, 0xC9])
@pytest.mark.parametrize("cpg", [None, "ISO-8859-1"])
def test_text_that_is_utf8_under_another_name_is_noted(
    language: int, cpg: str | None, tmp_path: Path
) -> None:
    """Case 5: what is stated is believed; that the bytes are all UTF-8 is said, never silent."""
    reading = read(column(TEXT, "Größe", language=language, cpg=cpg), tmp_path / "a")
    assert reading.notices["looks_like_utf8"] == 1
    right = read(column(TEXT, "Größe", language=language, cpg=cpg), tmp_path / "b", encoding="utf8")
    assert right.column("T") == ["Größe"]
    assert right.notices == {}


@pytest.mark.parametrize("cpg", ["UTF-8", "65001"])
def test_utf8_that_is_stated_raises_no_doubt(cpg: str, tmp_path: Path) -> None:
    """Case 5: text that is what the files say it is leaves nothing to be noted."""
    assert read(column(TEXT, "Größe", cpg=cpg), tmp_path).notices == {}


@pytest.mark.parametrize("values", [(b"plain",), (b"caf\xe9",), (b"Gr\xc3\xb6\xc3\x9fe", b"\xe9")])
def test_text_that_is_not_utf8_is_not_said_to_be(values: tuple[bytes, ...], tmp_path: Path) -> None:
    """Case 5: ASCII alone, or bytes that are no UTF-8 anywhere, raise no such doubt."""
    reading = read(column(TEXT, *values, cpg="CP1252"), tmp_path)
    assert reading.notices == {}


def test_case_3_an_unknown_override_names_the_file_and_the_cure(tmp_path: Path) -> None:
    """Case 3: who meant an encoding that does not exist is told where and what to write."""
    with pytest.raises(
        UnknownOverrideError,
        match=r"^roads.dbf: .*'klingon'.*use UTF-8, CP1252.* and redrive the job",
    ):
        read(column(TEXT, "x"), tmp_path, encoding="klingon")


SINGLE_BYTES = sorted(
    {*LANGUAGE.values(), *(f"iso8859-{page}" for page in (*range(1, 12), 13, 14, 15, 16))}
)


@pytest.mark.parametrize("encoding", SINGLE_BYTES)
def test_case_1_no_encoding_lets_a_control_character_through(encoding: str, tmp_path: Path) -> None:
    """Case 1: whatever byte stands in text or in a field's name, no C1 control comes out."""
    values = [bytes([byte, 0x41]) for byte in range(0x80, 0x100)]
    fields = [TEXT, Field(b"N\x80\x9fM", "C", 1)]
    rows = [(value, None) for value in values]
    bundle = layer([point(0, 0)] * len(values), fields, rows, cpg=None)
    reading = read(bundle, tmp_path, encoding=encoding)
    found = [value for value in reading.column("T") if value]
    assert len(found) == len(values)
    assert not [value for value in (*found, *reading.table.schema.names) if C1.search(value)]


# What Python calls encodings and is none of text, or changes what ASCII means.
ODD = (
    "idna",
    "punycode",
    "unicode_escape",
    "raw_unicode_escape",
    "charmap",
    "undefined",
    "palmos",
    "mbcs",
    "oem_codec",
    "base64",
    "hex",
    "bz2",
    "zlib",
    "uu",
    "quopri",
    "rot13",
    "utf-7",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "hz",
    "cp037",
    "cp500",
    "cp864",
    "iso2022_jp_2004",
)


@pytest.mark.parametrize("codec", ODD)
@pytest.mark.parametrize("extension", [".cpg", ".cst"])
def test_case_3_what_is_no_encoding_of_text_is_never_used(
    codec: str, extension: str, tmp_path: Path
) -> None:
    """Case 3: a codec of Python that no table is written in is unknown to files and to persons."""
    bundle = {**column(TEXT, "Größe", cpg=None), extension: codec.encode()}
    reading = read(bundle, tmp_path)
    assert texts(reading) == (["Größe"], "utf-8", "detected")
    assert reading.notices == {f"unknown_{extension[1:]}": 1}
    with pytest.raises(UnknownOverrideError):
        read(bundle, tmp_path, encoding=codec)


@pytest.mark.parametrize("encoding", sorted(set(LANGUAGE.values())))
def test_every_encoding_of_a_language_byte_may_be_stated_too(encoding: str) -> None:
    """Case 1: files, persons and the language byte mean the same encodings of text."""
    assert spelled(encoding) in {encoding.replace("mac_", "mac-"), "gb18030"}


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("ISO 8859-2", "iso8859-2"),
        ("iso_8859_15", "iso8859-15"),
        ("885915", "iso8859-15"),
        ("ISO-8859-1", "cp1252"),
        ("LATIN1", "cp1252"),
        ("US-ASCII", "cp1252"),
        ("ANSI 1251", "cp1251"),
        ("OEM 850", "cp850"),
        ("OEM", "cp437"),
        ("ANSI", "cp1252"),
        ("windows-1250", "cp1250"),
        ("IBM437", "cp437"),
        ("LDID/87", "cp1252"),
        ("LDID/201", "cp1251"),
        ("LDID/7", None),
        ("Big5", "cp950"),
        ("SJIS", "cp932"),
        ("shift_jis", "cp932"),
        ("GBK", "gb18030"),
        ("936", "gb18030"),
        ("EUC-KR", "cp949"),
        ("KOI8-R", "koi8-r"),
        ("UTF-16", None),
        ("utf-7", None),
        ("rot13", None),
        ("12345", None),
        ("8859", None),
        ("", None),
    ],
)
def test_case_2_spellings_have_one_meaning(text: str, codec: str | None) -> None:
    """Case 2: each spelling in the field means one codec, and what is none is said to be none."""
    assert spelled(text) == codec
