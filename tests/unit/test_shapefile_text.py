"""Text of single-byte code pages, decoded a column at a time."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate.shapefile.encoding import SINGLE_BYTE, spelled
from gate.shapefile.text import decoded

PAGES = sorted(SINGLE_BYTE)
OTHERS = ["utf-8", "utf-8-sig", "cp932", "gb18030", "cp949", "cp950", "iso2022_jp", "johab"]


def raw(cells: list[bytes]) -> pa.StringArray:
    """Return cells as strings of whatever bytes they hold."""
    return pa.array(cells, pa.binary()).view(pa.string())


def one_by_one(cells: list[bytes], encoding: str) -> tuple[list[str], list[bool]]:
    """Decode each cell by itself: what a column has to come to."""
    texts = [re.sub("[\x80-\x9f]", "\ufffd", cell.decode(encoding, "replace")) for cell in cells]
    return texts, ["\ufffd" in text for text in texts]


BYTES = st.one_of(st.binary(max_size=6), st.sampled_from([b"", b"abc", b"\xe9", b"\x81\x8d"]))


@settings(max_examples=300, deadline=None)
@example(cells=[b"caf\xc3", "Größe".encode()], encoding="utf-8")
@example(cells=[b"\xc2\x81", "Größe".encode()], encoding="utf-8")
@given(cells=st.lists(BYTES, max_size=8), encoding=st.sampled_from([*PAGES, *OTHERS]))
def test_a_column_is_its_cells_one_by_one(cells: list[bytes], encoding: str) -> None:
    """Any bytes in any encoding: the same texts and the same cells that are not whole."""
    texts, replaced = decoded(raw(cells), encoding)
    texts.validate(full=True)
    assert (texts.to_pylist(), replaced.tolist()) == one_by_one(cells, encoding)


@pytest.mark.parametrize("encoding", [*PAGES, *OTHERS])
def test_in_single_byte_pages_no_byte_means_anything_with_another(encoding: str) -> None:
    """Each pair of bytes is two characters, those of each byte alone; elsewhere it is not."""
    characters = [bytes([byte]).decode(encoding, "replace") for byte in range(256)]
    pairs = bytes(byte for first in range(256) for second in range(256) for byte in (first, second))
    apart = pairs.decode(encoding, "replace") == "".join(characters[byte] for byte in pairs)
    assert (apart and set(map(len, characters)) == {1}) == (encoding in SINGLE_BYTE)
    assert spelled(encoding) == encoding
