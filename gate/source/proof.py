"""The proof that what was downloaded is the object that is stored, or a part of it."""

from __future__ import annotations

from pathlib import Path

from gate import crc32c
from gate.errors import ChecksumError
from gate.source.port import ObjectFacts


def prove(bucket: str, facts: ObjectFacts, path: Path) -> None:
    """Compare the file with the facts; raise `ChecksumError` if size or crc32c differ."""
    size_bytes, checksum = crc32c.of_file(path)
    where = f"gs://{bucket}/{facts.name}"
    if size_bytes != facts.size_bytes:
        raise ChecksumError(f"{size_bytes} of {facts.size_bytes} bytes arrived", where=where)
    if checksum != facts.crc32c:
        raise ChecksumError(f"crc32c is {checksum}, not {facts.crc32c}", where=where)


def demand_length(bucket: str, facts: ObjectFacts, content: bytes, length_bytes: int) -> None:
    """Raise `ChecksumError` if a part of the object has other than so many bytes."""
    if len(content) != length_bytes:
        what = f"{len(content)} of {length_bytes} bytes of a part arrived"
        raise ChecksumError(what, where=f"gs://{bucket}/{facts.name}")
