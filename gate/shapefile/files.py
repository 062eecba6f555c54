"""The components of one bundle, as bytes that stay where they are until they are looked at."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gate.errors import BundleError, EmptyComponentError, HeldError, MissingComponentError
from gate.gather import Bytes
from gate.names import PRIMARY_EXTENSIONS
from gate.shapefile.port import NOWHERE_ELSE, Content, Remote

STEM = "layer"
SIDECAR_LIMIT_BYTES = 1 << 20
TEXT_SIDECARS = (".prj", ".cpg", ".cst")


@dataclass(frozen=True, slots=True)
class Files:
    """The three required components, and the text sidecars that are there.

    `stem` is the user's name without extension; messages are made with it. Of
    the components, those in `remote` do not lie in `folder`.
    """

    folder: Path
    stem: str
    shp: Content
    shx: Content
    dbf: Content
    sidecars: Mapping[str, bytes]
    remote: Mapping[str, Remote]

    def where(self, extension: str) -> str:
        """Return the user's name of a component, for messages."""
        return f"{self.stem}{extension}"

    @contextmanager
    def proven(self) -> Iterator[None]:
        """Prove the remote components by the end of the block.

        What the block finds wrong with the bundle is believed only once its
        bytes are known to be those that were uploaded.
        """
        try:
            yield
        except (BundleError, HeldError):
            self._prove()
            raise
        self._prove()

    def _prove(self) -> None:
        for component in self.remote.values():
            component.prove()


def map_files(folder: Path, name: str, remote: Mapping[str, Remote] = NOWHERE_ELSE) -> Files:
    """Map `layer.shp`, `.shx` and `.dbf` of a folder; read the text sidecars that are there.

    `name` is what the user calls the layer, with or without `.shp`. Components in
    `remote` are taken from there. Raises `MissingComponentError` or, for a file
    of no bytes, `EmptyComponentError`.
    """
    stem = name[:-4] if name.lower().endswith(".shp") else name
    shp, shx, dbf = (
        _content(folder / f"{STEM}{known}", f"{stem}{known}", remote.get(known))
        for known in PRIMARY_EXTENSIONS
    )
    sidecars = {
        known: content
        for known in TEXT_SIDECARS
        if (content := _head(folder / f"{STEM}{known}")) is not None
    }
    return Files(folder, stem, shp, shx, dbf, sidecars, remote)


def let_go(content: Content) -> None:
    """Take the pages of a mapped component out of memory; they return when they are looked at.

    Without that, a file that is read to its end counts in full as memory of the
    process. Bytes that are not mapped stay where they are.
    """
    base: object = content
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _content(path: Path, where: str, remote: Remote | None) -> Content:
    try:
        size = path.stat().st_size if remote is None else remote.size
    except FileNotFoundError:
        raise MissingComponentError("is missing", where=where) from None
    if size == 0:
        raise EmptyComponentError("holds no bytes", where=where)
    return _mapped(path) if remote is None else remote


def _mapped(path: Path) -> Bytes:
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))


def _head(path: Path) -> bytes | None:
    """Return what a sidecar begins with: real ones are far smaller than the limit."""
    try:
        with path.open("rb") as stream:
            return stream.read(SIDECAR_LIMIT_BYTES)
    except FileNotFoundError:
        return None
