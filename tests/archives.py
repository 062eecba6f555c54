"""Zip archives made in code, so that any byte of them can be wrong on purpose.

    packed = archive(files("a", points(3)), files("data/b", parcels(10)))
    bad = patched(packed, "a.dbf", CRC, 0)          # one field of an entry, wrong

The layouts follow PKWARE, APPNOTE.TXT.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

Files = dict[str, bytes]

# (offset in the directory entry, offset in the local header, struct format).
FLAGS = (8, 6, "<H")
METHOD = (10, 8, "<H")
CRC = (16, 14, "<I")
PACKED_BYTES = (20, 18, "<I")
FILE_BYTES = (24, 22, "<I")
VERSION = (6, 4, "<H")

LINK = 0o120777
DEVICE = 0o020644


def files(stem: str, bundle: Mapping[str, bytes]) -> Files:
    """Return the files of a bundle (extension → bytes) under a stem."""
    return {f"{stem}{extension}": content for extension, content in bundle.items()}


def archive(
    *parts: Mapping[str, bytes],
    folders: tuple[str, ...] = (),
    links: Mapping[str, str] | None = None,
    method: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """Return a zip of the files of all parts, in this order; a name may come twice."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as packed:
        for folder in folders:
            packed.writestr(zipfile.ZipInfo(folder), b"")
        for name, content in (pair for part in parts for pair in part.items()):
            packed.writestr(entry(name, method), content)
        for name, target in (links or {}).items():
            linked = entry(name, method)
            linked.external_attr = LINK << 16
            packed.writestr(linked, target)
    return stream.getvalue()


def entry(name: str, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    """Return an entry of a fixed date, whose name is written as it is."""
    made = zipfile.ZipInfo("x", (2026, 1, 2, 3, 4, 6))
    made.filename = name
    made.compress_type = method
    return made


def patched(packed: bytes, name: str, place: tuple[int, int, str], value: int) -> bytes:
    """Return the zip with one field of an entry changed, in directory and local header."""
    content = bytearray(packed)
    start = _directory_entry(packed, name)
    (local,) = struct.unpack_from("<I", packed, start + 42)
    struct.pack_into(place[2], content, start + place[0], value)
    struct.pack_into(place[2], content, local + place[1], value)
    return bytes(content)


def _directory_entry(packed: bytes, name: str) -> int:
    encoded = name.encode()
    start = packed.find(b"PK\x01\x02")
    while start >= 0:
        (length,) = struct.unpack_from("<H", packed, start + 28)
        if packed[start + 46 : start + 46 + length] == encoded:
            return start
        start = packed.find(b"PK\x01\x02", start + 1)
    raise KeyError(name)
