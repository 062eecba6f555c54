"""The names that fields, and tables, take where only plain ones are allowed.

The rule for warehouses (PostGIS, BigQuery): what is left of a name in ASCII
(`Größe` → `grosse`), in lower case; every run of other characters is one `_`;
none at either end; a digit never stands first; and no two are alike. A sink
keeps the original as the column's description. GeoParquet needs no such rule:
there a name stays as it is (`gate.shapefile.columns.plan`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

# PostgreSQL, 5.4 and 5.6: identifiers have up to 63 bytes, and each table has
# these columns of its own. BigQuery allows 300 characters; what it reserves
# begins with `_`, which no name here does.
MOST_CHARACTERS = 63
RESERVED = ("geometry", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")

# Letters that Unicode does not take apart.
_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ı": "i", "æ": "ae"})
_OTHERS = re.compile(r"[^a-z0-9]+")


def warehouse_name(original: str, *, most: int = MOST_CHARACTERS) -> str:
    """Return the plain form of one name, of 1 to `most` characters out of `a-z`, `0-9` and `_`.

    The same name always gives the same form; two names may give the same one. A
    name of which nothing is left is `f_` and the beginning of its md5.
    """
    letters = unicodedata.normalize("NFKD", original.casefold().translate(_LETTERS))
    ascii_only = "".join(letter for letter in letters if not unicodedata.combining(letter))
    plain = _OTHERS.sub("_", ascii_only).strip("_")
    if not plain:
        plain = hashlib.md5(original.encode(), usedforsecurity=False).hexdigest()[:8]
    if plain[0].isdigit() or not _OTHERS.sub("", ascii_only):
        plain = f"f_{plain}"
    return plain[:most].rstrip("_")


def warehouse_names(
    originals: Sequence[str],
    *,
    most: int = MOST_CHARACTERS,
    taken: Iterable[str] = RESERVED,
) -> tuple[str, ...]:
    """Return a plain name of its own for each field, in order; none is one of `taken`.

    The first field that a plain name comes from has it; each later one gets the
    first free `_1`, `_2` …, which no other field has by itself. So the result
    depends on the fields alone and is the same for every upload.
    """
    plain = [warehouse_name(original, most=most) for original in originals]
    used, names = set(taken), list[str]()
    for name in plain:
        number, free = 0, name
        while free in used or (number and free in plain):
            number += 1
            ending = f"_{number}"
            free = f"{name[: most - len(ending)]}{ending}"
        used.add(free)
        names.append(free)
    return tuple(names)
