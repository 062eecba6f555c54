"""The port to the bucket that components are uploaded to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gate.identity import Pin


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What Cloud Storage says of one object generation.

    `crc32c` is the big-endian base64 form of the API; every object has one,
    composite objects included (they have no md5). `metadata` is the custom
    metadata a user may set on upload.
    """

    name: str
    generation: int
    size_bytes: int
    crc32c: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def pin(self) -> Pin:
        """Return the name and generation alone."""
        return Pin(self.name, self.generation)


@dataclass(frozen=True, slots=True)
class Gone:
    """A pinned generation that no longer exists; `live` is what replaced it, if anything."""

    pin: Pin
    live: Pin | None


class Source(Protocol):
    """Read access to objects. No method changes anything in the bucket.

    Every method raises `StorageBusyError` for what passes by itself (429, 5xx,
    a lost connection) and `PermissionDeniedError` for 401 and 403.
    """

    def stat(self, bucket: str, pin: Pin) -> ObjectFacts | Gone:
        """Return the facts of exactly this generation, or `Gone` if it does not exist."""
        ...

    def fetch(self, bucket: str, facts: ObjectFacts, path: Path) -> Gone | None:
        """Write exactly this generation's bytes to `path`, verified by crc32c.

        Return `None` once the file is whole and proven, or `Gone` if the
        generation vanished (404, or 412 on a precondition). Whenever the file
        is not proven, it does not exist afterwards. Raises `ChecksumError` if
        size or crc32c differ from `facts`.
        """
        ...

    def read(self, bucket: str, facts: ObjectFacts, start: int, stop: int) -> bytes | Gone:
        """Return the bytes from `start` to before `stop` of exactly this generation, unproven.

        There must be some, within the size that `facts` tells. `Gone` if the
        generation vanished. Raises `ChecksumError` if other than so many bytes
        arrive.
        """
        ...

    def siblings(self, bucket: str, folder: str, start: str) -> Iterator[Pin]:
        """Yield the live objects directly in `folder` whose names begin with `folder + start`.

        The listing is strongly consistent, paged, and does not descend into
        sub-folders.
        """
        ...

    def page(self, bucket: str, prefix: str, after: str, limit: int) -> tuple[Pin, ...]:
        """Return up to `limit` live objects below `prefix` whose names come after `after`.

        In the order of the names' UTF-8 bytes, at any depth. Fewer than `limit`
        are the last.
        """
        ...
