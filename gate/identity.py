"""The ids of jobs, bundles and revisions: md5 over lines that cannot be confused.

Object names cannot contain CR or LF (Cloud Storage, object naming
requirements), so joining with a newline is unambiguous. md5 is used for its
length and spread, not for security.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gate.names import Bundle

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Pin:
    """One object at one generation: what a revision holds of a component."""

    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class Revision:
    """The components of a bundle at the generations that make one version.

    `pins` maps each extension to its pin, in sorted order. `order` grows from
    one revision of a bundle to the next, because components only get newer or
    are added; it is compared as an integer and needs no counter.
    """

    bundle: Bundle
    pins: tuple[tuple[str, Pin], ...]

    @classmethod
    def of(cls, bundle: Bundle, pins: Mapping[str, Pin]) -> Revision:
        """Return the revision that holds `pins` (extension → pin)."""
        return cls(bundle, tuple(sorted(pins.items(), key=lambda item: item[0])))

    @property
    def id(self) -> str:
        """Return the md5 of the bundle id and the sorted `ext=generation` lines."""
        lines = (f"{extension}={pin.generation}" for extension, pin in self.pins)
        return digest(bundle_id(self.bundle), *lines)

    @property
    def order(self) -> int:
        """Return the sum of the generations."""
        return sum(pin.generation for _, pin in self.pins)

    @property
    def generations(self) -> dict[str, int]:
        """Return extension → generation."""
        return {extension: pin.generation for extension, pin in self.pins}


def job_id(bucket: str, name: str, generation: int) -> str:
    """Return the id under which one object generation is claimed: 32 hex digits."""
    return digest(bucket, name, str(generation))


def bundle_id(bundle: Bundle) -> str:
    """Return the id of a bundle's manifest: 32 hex digits.

    An archive adds a line, so that `a.zip` never meets a bundle whose stem is
    literally `a.zip` (the one of `a.zip.shp`).
    """
    lines = (bundle.archive,) if bundle.archive else ()
    return digest(bundle.bucket, f"{bundle.folder}{bundle.stem}", *lines)


def is_id(text: str) -> bool:
    """Tell whether a text has the form of an id; nothing else may be asked of a store."""
    return _ID.fullmatch(text) is not None


def digest(*lines: str) -> str:
    """Return the md5 of the lines joined by a newline, in hex."""
    return hashlib.md5("\n".join(lines).encode(), usedforsecurity=False).hexdigest()
