"""What the deployment decides about rows and CRSs that are not as one would wish.

Pure values: settings check and carry them, the reader acts on them, and the
report counts what they led to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

E = TypeVar("E", bound=Enum)

_AUTHORITY = re.compile(r"\s*EPSG\s*:{1,2}\s*([1-9]\d{3,5})\s*", re.ASCII | re.IGNORECASE)


class RowPolicy(Enum):
    """What becomes of a row whose geometry is of a certain kind.

    Either way the rows are counted. A row that is left out is a rejected row:
    the count of `SKIP` says that they were expected, and the list of rejected
    rows has those of `REJECT` only.
    """

    KEEP = "keep"
    SKIP = "skip"
    REJECT = "reject"


class MissingCrs(Enum):
    """What becomes of a layer that states no CRS, where the deployment assumes none."""

    ACCEPT = "accept"
    HOLD = "hold"


class Reader(Enum):
    """How rows are decoded: from the bytes wherever that is certain, or feature by feature."""

    AUTO = "auto"
    FIONA = "fiona"


class Multi(Enum):
    """When lines and polygons become their multi types: where any has several parts, or always."""

    MIXED = "mixed"
    ALWAYS = "always"


class Heights(Enum):
    """What becomes of Z values."""

    KEEP = "keep"
    DROP = "drop"


class Measures(Enum):
    """What becomes of M values, which no dataset can hold: they go, or their rows do."""

    DROP = "drop"
    REJECT = "reject"


class Validity(Enum):
    """What becomes of invalid polygons: nobody looks, they are counted, or they are repaired."""

    OFF = "off"
    FLAG = "flag"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of one deployment, with the defaults of the settings.

    `missing_crs` is a policy or the CRS to assume, as `EPSG:n`; `target_crs` is
    `EPSG:n`, or empty to leave coordinates as they are.
    """

    missing_crs: MissingCrs | str = MissingCrs.ACCEPT
    target_crs: str = ""
    null_geometry: RowPolicy = RowPolicy.KEEP
    empty_geometry: RowPolicy = RowPolicy.KEEP
    nan_coordinates: RowPolicy = RowPolicy.KEEP
    collapsed_geometry: RowPolicy = RowPolicy.KEEP
    multi_geometry: Multi = Multi.MIXED
    z_values: Heights = Heights.KEEP
    m_values: Measures = Measures.DROP
    reader: Reader = Reader.AUTO
    validity: Validity = Validity.FLAG

    def as_json(self) -> dict[str, str]:
        """Return each policy as its setting spells it."""
        return {
            "missing_crs": str(getattr(self.missing_crs, "value", self.missing_crs)),
            "target_crs": self.target_crs,
            "null_geometry": self.null_geometry.value,
            "empty_geometry": self.empty_geometry.value,
            "nan_coordinates": self.nan_coordinates.value,
            "collapsed_geometry": self.collapsed_geometry.value,
            "multi_geometry": self.multi_geometry.value,
            "z_values": self.z_values.value,
            "m_values": self.m_values.value,
            "reader": self.reader.value,
            "validity": self.validity.value,
        }


DEFAULTS = Policies()


def authority(text: str) -> str | None:
    """Return a CRS in the form `EPSG:n`, `None` if it is not spelled as one.

    Case and blanks do not matter; whether PROJ knows the number is for whoever
    uses it to find out.
    """
    match = _AUTHORITY.fullmatch(text)
    return f"EPSG:{match[1]}" if match else None


def missing_crs(text: str) -> MissingCrs | str:
    """Return what `MISSING_CRS` says. Raises `ValueError`."""
    if text.lower() in {policy.value for policy in MissingCrs}:
        return MissingCrs(text.lower())
    if known := authority(text):
        return known
    raise ValueError(f"{text!r} is none of accept, hold and EPSG:NUMBER")


def target_crs(text: str) -> str:
    """Return what `TARGET_CRS` says. Raises `ValueError`."""
    if not text:
        return ""
    if known := authority(text):
        return known
    raise ValueError(f"{text!r} is no CRS; use EPSG:NUMBER, or nothing")


def row_policy(text: str) -> RowPolicy:
    """Return what one of the policies for rows says. Raises `ValueError`."""
    return _one_of(RowPolicy, text)


def multi(text: str) -> Multi:
    """Return what `MULTI_GEOMETRY` says. Raises `ValueError`."""
    return _one_of(Multi, text)


def heights(text: str) -> Heights:
    """Return what `Z_VALUES` says. Raises `ValueError`."""
    return _one_of(Heights, text)


def measures(text: str) -> Measures:
    """Return what `M_VALUES` says. Raises `ValueError`."""
    return _one_of(Measures, text)


def reader(text: str) -> Reader:
    """Return what `READER` says. Raises `ValueError`."""
    return _one_of(Reader, text)


def validity(text: str) -> Validity:
    """Return what `VALIDITY` says. Raises `ValueError`."""
    return _one_of(Validity, text)


def _one_of(kind: type[E], text: str) -> E:
    try:
        return kind(text.lower())
    except ValueError:
        known = ", ".join(str(each.value) for each in kind)
        raise ValueError(f"{text!r} is none of {known}") from None
