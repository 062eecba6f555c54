"""The components of one bundle, as bytes that stay on disk until they are looked at."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gate.errors import EmptyComponentError, MissingComponentError

Bytes: TypeAlias = npt.NDArray[np.uint8]

STEM = "layer"
SIDECAR_LIMIT_BYTES = 1 << 20
TEXT_SIDECARS = (".prj", ".cpg", ".cst")


@dataclass(frozen=True, slots=True)
class Files:
    """The three required components, mapped, and the text sidecars that are there.

    `stem` is the user's name without extension; messages are made with it.
    """

    folder: Path
    stem: str
    shp: Bytes
    shx: Bytes
    dbf: Bytes
    sidecars: Mapping[str, bytes]

    def where(self, extension: str) -> str:
        """Return the user's name of a component, for messages."""
        return f"{self.stem}{extension}"


def map_files(folder: Path, name: str) -> Files:
    """Map `layer.shp`, `.shx` and `.dbf` of a folder; read the text sidecars that are there.

    `name` is what the user calls the layer, with or without `.shp`. Raises
    `MissingComponentError` or, for a file of no bytes, `EmptyComponentError`.
    """
    stem = name[:-4] if name.lower().endswith(".shp") else name
    shp, shx, dbf = (
        _map(folder / f"{STEM}{known}", f"{stem}{known}") for known in (".shp", ".shx", ".dbf")
    )
    sidecars = {
        known: content
        for known in TEXT_SIDECARS
        if (content := _head(folder / f"{STEM}{known}")) is not None
    }
    return Files(folder, stem, shp, shx, dbf, sidecars)


def let_go(content: Bytes) -> None:
    """Take the pages of a mapped component out of memory; they return when they are looked at.

    Without that, a file that is read to its end counts in full as memory of the
    process. Bytes that are not mapped stay where they are.
    """
    base: object = content
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _map(path: Path, where: str) -> Bytes:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise MissingComponentError("is missing", where=where) from None
    if size == 0:
        raise EmptyComponentError("holds no bytes", where=where)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))


def _head(path: Path) -> bytes | None:
    """Return what a sidecar begins with: real ones are far smaller than the limit."""
    try:
        with path.open("rb") as stream:
            return stream.read(SIDECAR_LIMIT_BYTES)
    except FileNotFoundError:
        return None
