"""The text of a column, from bytes in any encoding to strings.

Where each byte is a character by itself, a column is decoded in one piece.
Where characters have several bytes, UTF-8 that is whole is taken as it is, and
everything else is decoded cell by cell.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gate.gather import Mask
from gate.shapefile.encoding import SINGLE_BYTE

Offsets: TypeAlias = npt.NDArray[np.int32]
Content: TypeAlias = npt.NDArray[np.uint8]

REPLACEMENT = "\ufffd"
# A C1 control character means nothing in the text of a table.
C1 = re.compile("[\x80-\x9f]")


def decoded(raw: pa.StringArray, encoding: str) -> tuple[pa.StringArray, Mask]:
    """Return texts, and which of them hold bytes that mean nothing in the encoding.

    U+FFFD stands for those bytes, and for C1 control characters. `raw` has no
    nulls and is no slice; its bytes need not be UTF-8.
    """
    offsets, content = _bytes_of(raw)
    whole = np.zeros(len(raw), np.bool_)
    if not (content >= 0x80).any():
        return raw, whole
    if encoding == "utf-8" and _is_valid(raw) and not _has_c1(content):
        return raw, whole
    if codecs.lookup(encoding).name in SINGLE_BYTE:
        return _by_table(offsets, content, _table(encoding))
    return _one_by_one(offsets, content, encoding)


@dataclass(frozen=True, slots=True)
class _Table:
    """What each byte is: its character, the length of that in UTF-8, whether it means nothing."""

    characters: str
    lengths: npt.NDArray[np.uint8]
    wrong: Mask


@cache
def _table(encoding: str) -> _Table:
    every = (bytes([byte]).decode(encoding, "replace") for byte in range(256))
    characters = C1.sub(REPLACEMENT, "".join(every))
    lengths = np.array([len(character.encode()) for character in characters], np.uint8)
    wrong = np.array([character == REPLACEMENT for character in characters])
    return _Table(characters, lengths, wrong)


def _by_table(offsets: Offsets, content: Content, table: _Table) -> tuple[pa.StringArray, Mask]:
    text, _ = codecs.charmap_decode(content.tobytes(), "strict", table.characters)
    ends = np.zeros(len(content) + 1, np.int32)
    np.cumsum(table.lengths[content], out=ends[1:])
    places = ends[offsets]
    buffers = pa.py_buffer(places), pa.py_buffer(text.encode())
    replaced = np.zeros(len(offsets) - 1, np.bool_)
    if REPLACEMENT in text:
        wrong = np.flatnonzero(table.wrong[content])
        replaced[np.searchsorted(offsets, wrong, side="right") - 1] = True
    return pa.StringArray.from_buffers(len(replaced), *buffers), replaced


def _one_by_one(offsets: Offsets, content: Content, encoding: str) -> tuple[pa.StringArray, Mask]:
    replaced = np.zeros(len(offsets) - 1, np.bool_)
    texts: list[str] = []
    joined, ends = content.tobytes(), offsets.tolist()
    for index, (start, end) in enumerate(pairwise(ends)):
        raw = joined[start:end]
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            replaced[index] = True
            text = raw.decode(encoding, "replace")
        if C1.search(text):
            replaced[index] = True
            text = C1.sub(REPLACEMENT, text)
        texts.append(text)
    return pa.array(texts, pa.string()), replaced


def _bytes_of(raw: pa.StringArray) -> tuple[Offsets, Content]:
    """Return where each text begins, with one more entry for the end, and the bytes of all."""
    _, starts, content = raw.buffers()
    offsets = np.frombuffer(starts, np.int32, len(raw) + 1)
    if content is None:
        return offsets, np.empty(0, np.uint8)
    return offsets, np.frombuffer(content, np.uint8, int(offsets[-1]))


def _is_valid(texts: pa.StringArray) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _has_c1(content: Content) -> bool:
    """Tell whether UTF-8 holds a C1 control character."""
    lead = content[:-1] == 0xC2
    return bool((lead & (content[1:] < 0xA0)).any())
