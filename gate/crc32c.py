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
    checksum = size_bytes = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            checksum = google_crc32c.extend(checksum, chunk)
            size_bytes += len(chunk)
    return size_bytes, _spell(checksum)


def _spell(checksum: int) -> str:
    return base64.b64encode(checksum.to_bytes(4, "big")).decode("ascii")
