"""Which encoding the text of a table is in, and who says so.

Order of trust: a person's override, the `.cpg`, the `.cst` (the same, of other
writers), the language byte of the .dbf, the bytes themselves. Language byte
0x57 ("the ANSI code page of the machine") is what many programs write whatever
the text is, so it only breaks the tie when the bytes are not UTF-8.

Code pages of the language byte: dBase and Visual FoxPro documentation, as
listed in the driver pages of GDAL.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from gate.errors import UnknownOverrideError
from gate.shapefile.dbf import Table
from gate.shapefile.findings import Findings, shown

ANSI = 0x57
FALLBACK = "cp1252"

_PAGES: dict[str, tuple[int, ...]] = {
    "cp437": (0x01, 0x09, 0x0B, 0x0D, 0x0F, 0x11, 0x15, 0x18, 0x19, 0x1B),
    "cp850": (0x02, 0x0A, 0x0E, 0x10, 0x12, 0x14, 0x16, 0x1A, 0x1D, 0x25, 0x37),
    "cp1252": (0x03, 0x58, 0x59),
    "mac_roman": (0x04,),
    "cp865": (0x08, 0x17, 0x66),
    "cp932": (0x13, 0x7B),
    "cp863": (0x1C, 0x6C),
    "cp852": (0x1F, 0x22, 0x23, 0x40, 0x64, 0x87),
    "cp860": (0x24,),
    "cp866": (0x26, 0x65),
    "cp936": (0x4D, 0x7A),
    "cp949": (0x4E, 0x79),
    "cp950": (0x4F, 0x78),
    "cp874": (0x50, 0x7C),
    "cp861": (0x67,),
    "cp737": (0x6A, 0x86),
    "cp857": (0x6B, 0x88),
    "mac_cyrillic": (0x96,),
    "mac_latin2": (0x97,),
    "mac_greek": (0x98,),
    "cp1250": (0xC8,),
    "cp1251": (0xC9,),
    "cp1254": (0xCA,),
    "cp1253": (0xCB,),
    "cp1257": (0xCC,),
}
LANGUAGE = {byte: name for name, values in _PAGES.items() for byte in values}

_ALIASES = {
    "oem": "cp437",
    "ansi": "cp1252",
    "utf8": "utf-8",
    "big5": "cp950",
    "sjis": "cp932",
    "shiftjis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "cp936": "gb18030",
    "euckr": "cp949",
    "macintosh": "mac_roman",
}

# A C1 control character never stands in the text of a table; where one would
# come out, the writer meant the Windows superset of the ISO page.
_WINDOWS = {"iso8859-1": "cp1252", "iso8859-9": "cp1254", "ascii": "cp1252", "tis-620": "cp874"}

# Encodings of text in which the bytes of ASCII mean ASCII: others have no place in a .dbf.
# Python calls much else an encoding: escapes, names of hosts, what the machine prefers.
SINGLE_BYTE = frozenset(
    {"koi8-r", "koi8-t", "koi8-u", "kz1048", "ptcp154", "hp-roman8"}
    | {f"iso8859-{page}" for page in (*range(2, 9), 10, 11, 13, 14, 15, 16)}
    | {f"cp{page}" for page in (437, 720, 737, 775, 850, 852, *range(855, 859), *range(860, 864))}
    | {f"cp{page}" for page in (865, 866, 869, 874, 1006, 1125, *range(1250, 1259))}
    | {f"mac-{script}" for script in ("arabic", "croatian", "cyrillic", "farsi", "greek")}
    | {f"mac-{script}" for script in ("iceland", "latin2", "roman", "romanian", "turkish")}
)
_KNOWN = (
    SINGLE_BYTE
    | _WINDOWS.keys()
    | {"utf-8", "utf-8-sig", "cp932", "cp949", "cp950", "gb18030", "gb2312", "gbk", "big5"}
    | {"big5hkscs", "euc_jp", "euc_kr", "shift_jis", "johab", "euc_jis_2004", "euc_jisx0213"}
    | {"iso2022_jp", "iso2022_kr"}
)


class Source(Enum):
    """Who said which encoding it is."""

    OVERRIDE = "override"
    CPG = "cpg"
    CST = "cst"
    LANGUAGE = "language_byte"
    DETECTED = "detected"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Encoding:
    """A codec that Python has, and who named it."""

    name: str
    source: Source


def choose(
    table: Table, sidecars: Mapping[str, bytes], override: str, where: str, findings: Findings
) -> Encoding:
    """Return the encoding of a table's text.

    An unknown `.cpg`, `.cst` or language byte is a notice and the next source is
    asked. Text that is UTF-8 while the files say something else is a notice too.
    An unknown override raises `UnknownOverrideError`, because a person meant it.
    """
    if override:
        if (name := spelled(override)) is None:
            cure = "use UTF-8, CP1252, ISO-8859-2 or the like, and redrive the job"
            what = f"the metadata says encoding={shown(override)!r}, which is no encoding"
            raise UnknownOverrideError(what, where=where, cure=cure)
        return Encoding(name, Source.OVERRIDE)
    found = _stated(table, sidecars, findings) or _detected(table, findings)
    stated = found.source not in (Source.DETECTED, Source.DEFAULT)
    if stated and found.name != "utf-8" and _has_high_bytes(table) and _is_utf8(table):
        what = f"the text is UTF-8 though {found.source.value} says {found.name}; it is believed"
        findings.notice("looks_like_utf8", what)
    return found


def _stated(table: Table, sidecars: Mapping[str, bytes], findings: Findings) -> Encoding | None:
    """Return what the files say."""
    for source, extension in ((Source.CPG, ".cpg"), (Source.CST, ".cst")):
        if text := _plain(sidecars.get(extension, b"")):
            if (name := spelled(text)) is not None:
                return Encoding(name, source)
            what = f"the {extension} says {shown(text)!r}, which is no encoding"
            findings.notice(f"unknown_{source.value}", what)
    language = table.language
    return Encoding(LANGUAGE[language], Source.LANGUAGE) if language in LANGUAGE else None


def _detected(table: Table, findings: Findings) -> Encoding:
    """Return what the bytes of the text say, where nobody else does."""
    language = table.language
    if language not in (0, ANSI):
        what = f"the language byte 0x{language:02x} of the .dbf is unknown"
        findings.notice("unknown_language", what)
    if _is_utf8(table):
        return Encoding("utf-8", Source.DETECTED)
    stated, source = "no encoding is stated", Source.DEFAULT
    if language == ANSI:
        stated, source = "the language byte 0x57 names no certain encoding", Source.LANGUAGE
    what = f"{stated} and the text is not UTF-8; it is read as {FALLBACK}"
    findings.notice("encoding_guessed", what)
    return Encoding(FALLBACK, source)


def spelled(text: str) -> str | None:
    """Return the codec that a spelling means, `None` if there is none.

    Case, blanks, dashes and underscores do not matter; `1252`, `ANSI 1252`,
    `88591`, `ISO 8859-1`, `UTF8`, `LDID/87` and the like are understood.
    """
    squeezed = re.sub(r"[\s\-_./:]", "", text).lower()
    if match := re.fullmatch(r"ldid(\d+)", squeezed):
        byte = int(match[1])
        return FALLBACK if byte == ANSI else LANGUAGE.get(byte)
    if match := re.fullmatch(r"(?:iso)?8859(\d{1,2})", squeezed):
        return _known(f"iso8859-{match[1]}")
    if match := re.fullmatch(r"(?:cp|ansi|oem|windows|win|ms|ibm|dos)?(\d{3,5})", squeezed):
        return _known(f"cp{match[1]}")
    return _known(_ALIASES.get(squeezed, text.strip()))


def _known(name: str) -> str | None:
    name = _ALIASES.get(name, name)
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return _WINDOWS.get(found, found) if found in _KNOWN else None


def _plain(cpg: bytes) -> str:
    """Return the first line of a .cpg without byte order mark, NULs and blanks."""
    text = cpg.removeprefix(codecs.BOM_UTF8).decode("latin-1").replace("\0", "").strip()
    return text.splitlines()[0].strip() if text else ""


def _has_high_bytes(table: Table) -> bool:
    """Tell whether any text is not ASCII."""
    return any(not content.isascii() for content in _text(table))


def _is_utf8(table: Table) -> bool:
    """Tell whether all text is UTF-8; one character cut in half makes it something else."""
    try:
        for content in _text(table):
            content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _text(table: Table) -> Iterator[bytes]:
    """Yield the field names, then each text column that is not ASCII, a block of rows at a time.

    A blank ends every cell, so that none runs into its neighbour.
    """
    yield b" ".join(descriptor.name for descriptor in table.descriptors)
    for _, rows in table.blocks():
        for descriptor in table.descriptors:
            if descriptor.kind == "C":
                place = descriptor.offset_bytes
                cells = rows[:, place : place + descriptor.width_bytes]
                if (cells >= 0x80).any():
                    yield np.pad(cells, ((0, 0), (0, 1)), constant_values=0x20).tobytes()
