"""The forms that a dataset on Cloud Storage can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gate.sinks.address import SinkAddress
from gate.sinks.port import Table


@dataclass(frozen=True, slots=True)
class Loss:
    """What a form of dataset cannot hold as it was: a stable code, in which field, how often.

    `field` is empty for what concerns the geometry.
    """

    code: str
    field: str
    count: int


@dataclass(frozen=True, slots=True)
class Written:
    """What one dataset holds: its rows, and what its form has cost them."""

    rows: int
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose dataset it is: the name of its layer, and where it comes from, as JSON values."""

    name: str
    lineage: Mapping[str, Any]


class Target(Protocol):
    """What a dataset is written to."""

    def write(self, piece: bytes, /) -> int | None:
        """Take the next bytes, all of them."""
        ...


class Format(Protocol):
    """One form of dataset: how it is called, and how it is written."""

    @property
    def extension(self) -> str:
        """Return the end of its name, with the dot."""
        ...

    @property
    def media_type(self) -> str:
        """Return its media type."""
        ...

    def write(self, target: Target, table: Table, origin: Origin, folder: Path) -> Written:
        """Write the table to `target`, from the first byte to the last.

        `folder` is empty and may be filled. Errors of the table and of the
        target pass through.
        """
        ...


def chosen(address: SinkAddress) -> Format:
    """Return the form that an address asks for; only this one's libraries are imported."""
    return _FORMATS[address.format]()


def _geoparquet() -> Format:
    from gate.sinks.geoparquet import GeoParquet

    return GeoParquet()


_FORMATS: Mapping[str, Callable[[], Format]] = {"geoparquet": _geoparquet}
