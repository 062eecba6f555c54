"""The port to small objects of a bucket: what a store without a database stands on.

One object changes in one step, and only if it is still at the generation that
was expected; nothing spans two objects. A read that begins after a write was
answered sees it, and so does a listing (Cloud Storage, "Consistency").

Times are those of the answers, by the server's clock. A read and a listing are
dated in whole seconds, rounded down: everything that was written before that
second is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

ABSENT = 0
"""The generation of an object that is not there."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a read found: `payload` is `None`, and `generation` `ABSENT`, if there is no object."""

    payload: bytes | None
    generation: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Wrote:
    """The generation that a write has made, and when."""

    generation: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing shows it: what it holds is not read.

    `labels` and `expires_at` are those of the write that made its generation.
    """

    name: str
    generation: int
    labels: Mapping[str, str]
    expires_at: datetime | None


class Objects(Protocol):
    """The objects below one prefix of one bucket; names begin after it.

    Every method raises `StoreBusyError` when the bucket could not be reached or
    refused for its load, and `ConfigurationError` when it may not be used.
    """

    def read(self, name: str) -> Found:
        """Return the live object."""
        ...

    def write(
        self,
        name: str,
        payload: bytes,
        expected: int,
        *,
        labels: Mapping[str, str],
        expires_at: datetime | None,
    ) -> Wrote | None:
        """Replace the object if it is still at generation `expected`, or create it if `ABSENT`.

        `labels` and `expires_at` take the place of those it had. `None` if the
        condition does not hold; that may be for one's own write, whose answer
        was lost: read before believing it.
        """
        ...

    def listed(self, folder: str) -> tuple[tuple[Listed, ...], datetime]:
        """Return every object of a folder in the order of names, and when the listing began.

        Names in it are without the folder.
        """
        ...
