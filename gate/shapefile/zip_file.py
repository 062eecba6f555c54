"""One zip file, read so that nothing in it is believed.

Names are only compared, never used as paths. What the directory says of sizes
is checked before anything is unpacked, and what comes out is counted again.
Memory stays bounded: the directory is measured before it is parsed, and of the
compression methods only those are taken that the standard module unpacks in
bounded steps (a few kB of bzip2 come out as a hundred MB in one piece, and LZMA
lets the file say how much memory its reader needs).

Format: PKWARE, APPNOTE.TXT 6.3.10; section 4.6.9 for the names that Info-ZIP adds.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from gate.errors import (
    CorruptError,
    EmptyComponentError,
    EncryptedError,
    GateError,
    NotAnArchiveError,
    TooLargeError,
    TruncatedError,
    UnsafeArchiveError,
    UnsupportedError,
)

CHUNK_BYTES = 1 << 20
# What an entry of the directory needs on average: 46 bytes, a path, time stamps.
ENTRY_BYTES = 512
DIRECTORY_LEAST_BYTES = 1 << 17

_LOCAL_HEADER = b"PK\x03\x04"
_DIRECTORY_ENTRY = b"PK\x01\x02"
_ENCRYPTED = 0x1 | 0x40
_UTF8 = 0x800
_AES = 99
_EXTRA = struct.Struct("<HH")
_UNICODE_PATH, _UNICODE_PATH_HEAD = 0x7075, struct.Struct("<BI")
_METHODS = {
    1: "shrink",
    6: "implode",
    9: "deflate64",
    12: "bzip2",
    14: "LZMA",
    93: "Zstandard",
    95: "xz",
    98: "PPMd",
}
_DRIVE = re.compile(r"[A-Za-z]:")

REPACK = "pack the files again and upload the archive"


@dataclass(slots=True)
class Budget:
    """How much an archive, and the archives inside it, may still list and unpack to."""

    entries: int
    unpacked_bytes: int

    def list(self, entries: int, where: str) -> None:
        """Take `entries` off. Raises `TooLargeError` if there are not as many left."""
        if entries > self.entries:
            raise TooLargeError(
                f"lists more entries than the {self.entries} that are allowed",
                where=where,
                cure="pack fewer files, or raise MAX_ENTRIES and redrive the job",
            )
        self.entries -= entries

    def reserve(self, declared_bytes: int, where: str) -> None:
        """Raise `TooLargeError` if `declared_bytes` are more than is left."""
        if declared_bytes > self.unpacked_bytes:
            raise TooLargeError(
                f"unpacks to {declared_bytes} bytes, {self.unpacked_bytes} are allowed",
                where=where,
                cure="pack fewer layers, or raise MAX_UNPACKED_BYTES with the function's memory"
                " and redrive the job",
            )

    def spend(self, written_bytes: int, where: str) -> None:
        """Take bytes off that are about to be written. Raises `TooLargeError` as `reserve` does."""
        self.reserve(written_bytes, where)
        self.unpacked_bytes -= written_bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One file in a zip: its path with `/` between the parts, and its size as declared.

    `naming` is how the path was decoded: `utf-8`, `unflagged` for UTF-8 that
    the entry announces nowhere, `cp437` for an old code page nobody names.
    """

    path: str
    size_bytes: int
    naming: str
    packed: zipfile.ZipInfo


class Zip:
    """An open zip file whose entries have all been found harmless.

    Raises on opening `EmptyComponentError` for no bytes, `NotAnArchiveError`,
    `TruncatedError` or `CorruptError` for something that is none or is broken,
    `TooLargeError` for more entries than `budget` has, `UnsafeArchiveError` if
    any entry is a link or is named so as to leave the folder it is unpacked to.
    """

    def __init__(self, path: Path, where: str, budget: Budget) -> None:
        self._where = where
        self._budget = budget
        self._stream = _Measured(path, where, budget.entries)
        try:
            self._zip = _opened(self._stream, where)
            listed = self._zip.infolist()
            budget.list(len(listed), where)
            self.entries = tuple(
                entry for packed in listed if (entry := _entry(packed, where)) is not None
            )
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Zip:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()
        self._stream.close()

    def copy(self, entry: Entry, target: Path, step: Callable[[], object]) -> None:
        """Unpack one entry to `target`, proven by its CRC-32, and call `step` between chunks.

        Raises `EncryptedError`, `UnsupportedError` for a method that is not
        taken, `CorruptError` if the bytes are not those that were packed,
        `TooLargeError` beyond the budget. The target may then hold a part.
        """
        where = f"{self._where}/{entry.path}"
        packed = entry.packed
        if packed.flag_bits & _ENCRYPTED or packed.compress_type == _AES:
            raise EncryptedError("is encrypted", where=where)
        if packed.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            method = _METHODS.get(packed.compress_type, f"method {packed.compress_type}")
            cure = "pack it with deflate, the usual method, and upload the archive again"
            raise UnsupportedError(f"is packed with {method}", where=where, cure=cure)
        with target.open("wb") as file:
            for chunk in self._chunks(packed, where):
                self._budget.spend(len(chunk), where)
                file.write(chunk)
                step()
            if file.tell() != packed.file_size:
                what = f"unpacks to {file.tell()} of {packed.file_size} declared bytes"
                raise CorruptError(what, where=where, cure=REPACK)

    def _chunks(self, packed: zipfile.ZipInfo, where: str) -> Iterator[bytes]:
        stream: IO[bytes] | None = None
        try:
            while True:
                try:
                    stream = stream or self._zip.open(packed)
                    chunk = stream.read(CHUNK_BYTES)
                except Exception as error:
                    raise _meaning(error, where) from error
                if not chunk:
                    return
                yield chunk
        finally:
            if stream:
                stream.close()


class _Measured(io.BufferedReader):
    """A file that tells an overlong directory before it is in memory.

    The standard module reads the directory in one call, of the size that the
    file states, and then makes an object of every entry.
    """

    def __init__(self, path: Path, where: str, entries: int) -> None:
        super().__init__(io.FileIO(path))
        self._where = where
        self._entries = entries
        self._most_bytes = max(entries * ENTRY_BYTES, DIRECTORY_LEAST_BYTES, CHUNK_BYTES)

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > self._most_bytes:
            raise TooLargeError(
                f"its directory takes {size} bytes, {self._most_bytes} are allowed",
                where=self._where,
                cure="pack fewer files, or raise MAX_ENTRIES and redrive the job",
            )
        content = super().read(size)
        # Each entry begins with this, so a directory of too many is found out here.
        Budget(self._entries, 0).list(content.count(_DIRECTORY_ENTRY), self._where)
        return content


def _opened(stream: _Measured, where: str) -> zipfile.ZipFile:
    """Parse the directory, and tell apart what is no archive and what is a broken one."""
    beginning = stream.read(len(_LOCAL_HEADER))
    if not beginning:
        raise EmptyComponentError("holds no bytes", where=where)
    try:
        if zipfile.is_zipfile(stream):
            return zipfile.ZipFile(stream)
    except Exception as error:
        raise _meaning(error, where) from error
    if beginning == _LOCAL_HEADER:
        raise TruncatedError("ends before its directory", where=where)
    raise NotAnArchiveError(f"begins with {beginning!r} and has no directory", where=where)


def _meaning(error: Exception, where: str) -> Exception:
    """Return what an error of the standard module says of the archive.

    It raises `BadZipFile`, and on damaged headers also whatever decoding,
    seeking and unpacking raise. Running out of memory says nothing of it.
    """
    if isinstance(error, (GateError, MemoryError)):
        return error
    if isinstance(error, NotImplementedError):
        return UnsupportedError(f"needs a newer unpacker ({error})", where=where, cure=REPACK)
    named = isinstance(error, (zipfile.BadZipFile, zlib.error)) and str(error)
    what = f"cannot be unpacked ({named or type(error).__name__})"
    return CorruptError(what, where=where, cure=REPACK)


def _entry(packed: zipfile.ZipInfo, where: str) -> Entry | None:
    """Return the entry, `None` for a folder. Raises `UnsafeArchiveError`."""
    name, naming = _decoded(packed)
    path = name.replace("\\", "/")
    parts = path.split("/")
    if path.startswith("/") or _DRIVE.match(path) or ".." in parts:
        raise UnsafeArchiveError(f"its entry {name[:200]!r} leaves the archive", where=where)
    if stat.S_IFMT(packed.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UnsafeArchiveError(f"its entry {name[:200]!r} is a link or a device", where=where)
    if parts[-1] in ("", "."):
        return None
    plain = "/".join(part for part in parts if part not in ("", "."))
    return Entry(plain, packed.file_size, naming, packed)


def _decoded(packed: zipfile.ZipInfo) -> tuple[str, str]:
    """Return the name of an entry and how it was decoded.

    Without the flag for UTF-8 the standard module reads cp437, which gives
    every byte a character of its own: the same bytes are always the same name.
    """
    name = packed.orig_filename
    if packed.flag_bits & _UTF8:
        return name, "utf-8"
    raw = name.encode("cp437")
    if stated := _unicode_path(packed.extra, raw):
        return stated, "utf-8"
    try:
        return raw.decode("utf-8"), "utf-8" if name.isascii() else "unflagged"
    except UnicodeDecodeError:
        return name, "cp437"


def _unicode_path(extra: bytes, raw: bytes) -> str:
    """Return the name in UTF-8 that Info-ZIP states beside the raw one, empty if there is none.

    A field whose checksum is not that of the raw name is of a name that some
    other program has changed since, and does not count.
    """
    place = 0
    while place + _EXTRA.size <= len(extra):
        kind, size = _EXTRA.unpack_from(extra, place)
        place += _EXTRA.size
        content = extra[place : place + size]
        place += size
        if kind == _UNICODE_PATH and len(content) >= _UNICODE_PATH_HEAD.size:
            version, checksum = _UNICODE_PATH_HEAD.unpack_from(content)
            if version == 1 and checksum == zlib.crc32(raw):
                return _utf8(content[_UNICODE_PATH_HEAD.size :])
    return ""


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
