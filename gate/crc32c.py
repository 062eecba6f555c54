"""crc32c as Cloud Storage writes it: big-endian, base64.

Every object has one, composite objects included, which have no md5.
"""

from __future__ import annotations

import base64
from pathlib import Path

import google_crc32c

_CHUNK_BYTES = 1 << 20


def of_bytes(payload: bytes) -> str:
    """Return the checksum of `payload`."""
    return _spell(google_crc32c.value(payload))


def of_file(path: Path) -> tuple[int, str]:
    """Return the size in bytes and the checksum of what the disk holds under `path`."""
    running = Running()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            running.add(chunk)
    return running.size_bytes, running.checksum


class Running:
    """The size and the checksum of bytes that come piece by piece."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._value = 0

    def add(self, piece: bytes) -> None:
        """Count the next piece in."""
        self._value = google_crc32c.extend(self._value, piece)
        self.size_bytes += len(piece)

    @property
    def checksum(self) -> str:
        """Return the checksum of all pieces so far."""
        return _spell(self._value)


def _spell(checksum: int) -> str:
    return base64.b64encode(checksum.to_bytes(4, "big")).decode("ascii")
