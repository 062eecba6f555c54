"""Where `READER=auto` and `READER=fiona` differ: what Fiona loses, written down once.

The differential test proves each entry, and `make docs` makes a page of them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.shapefiles import Bundle, Field, layer, point

# What an entry has in place of the values where Fiona reads no row at all.
UNREADABLE = "no row: the layer cannot be read"


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that the two ways read differently.

    `cells` are its values as they are stored, bytes or what is written as such;
    `here` and `there` are what is read from the bytes and what Fiona gives, by
    field. A cell that is `counted` is in the report, with its row.
    """

    what: str
    fields: tuple[Field, ...]
    cells: tuple[Any, ...]
    here: Mapping[str, Any]
    there: Mapping[str, Any] | str
    counted: bool

    @property
    def bundle(self) -> Bundle:
        """Return a layer of this row."""
        return layer([point(0, 0)], self.fields, [self.cells])


def _of(
    what: str, field: Field, cell: Any, here: Any, there: Any, *, counted: bool = False
) -> Difference:
    """Return a difference in one cell."""
    lost = there if there == UNREADABLE else {"V": there}
    return Difference(what, (field,), (cell,), {"V": here}, lost, counted)


def _null(what: str, field: Field, cell: bytes, there: Any) -> Difference:
    """Return a cell that cannot be read, which is null here and counted."""
    return _of(what, field, cell, None, there, counted=True)


_MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5)  # noqa: DTZ001 - a table has no zones

DIFFERENCES = (
    _of(
        "an integer of 19 digits loses digits",
        Field("V", "N", 19),
        2**63 - 1,
        Decimal(2**63 - 1),
        2.0**63,
    ),
    _null("an integer with a gap is cut", Field("V", "N", 9), b"12345   9", 12345),
    _null("a fraction in an integer field is cut", Field("V", "N", 9), b"   12.500", 12),
    _null("… also one with a comma", Field("V", "N", 9), b"      1,5", 1),
    _null("letters become 0", Field("V", "N", 9), b"      abc", 0),
    _null("a decimal comma cuts a number", Field("V", "N", 8, 2), b"     1,5", 1.0),
    _null("letters become 0", Field("V", "N", 8, 2), b"     abc", 0.0),
    _of("an exponent spelt with D is lost", Field("V", "N", 8, 2), b"  1.5D2 ", 150.0, 1.5),
    _of("NULs before a number make it null", Field("V", "N", 9), b"\0\0\0     9", 9, None),
    _null("a word becomes infinity", Field("V", "N", 8, 2), b"     inf", math.inf),
    _of("a blank logical becomes false", Field("V", "L", 1), b" ", None, False),
    _null("a wrong logical becomes false", Field("V", "L", 1), b"x", False),
    _null("one impossible date ends the layer", Field("V", "D", 8), b"20210229", UNREADABLE),
    _of("leading blanks vanish", Field("V", "C", 6), b" lead", " lead", "lead"),
    _of(
        "a character cut in half makes the text null",
        Field("V", "C", 4),
        b"caf\xc3",
        "caf\ufffd",
        None,
        counted=True,
    ),
    _of("an integer of FoxPro is null", Field("V", "I", 4), -7, -7, None),
    _of("a double of FoxPro is null", Field("V", "B", 8), 1.5, 1.5, None),
    _of("a double of dBase 7 is null", Field("V", "O", 8), 1.5, 1.5, None),
    _of("a time of FoxPro is null", Field("V", "T", 8), _MOMENT, _MOMENT, None),
    _of("a time of dBase 7 is null", Field("V", "@", 8), _MOMENT, _MOMENT, None),
    Difference(
        "of two fields of one name, one vanishes",
        (Field("V"), Field("V")),
        ("a", "b"),
        {"V": "a", "V_1": "b"},
        {"V": "b"},
        counted=False,
    ),
)
