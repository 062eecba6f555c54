"""Values picked from, and put into, bytes at many places at once.

A .shp aligns its records to two bytes and WKB to none, so neither can be viewed
as numbers. Items of raw bytes have no alignment: a view that holds one at every
byte lets numpy copy thousands of them in one step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gate.shapefile.files import Bytes

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def picked(content: Bytes, offsets: Integers, item_bytes: int) -> Bytes:
    """Return the items at these byte offsets, one after the other."""
    return _every(content, item_bytes)[offsets].view(np.uint8)


def put(content: Bytes, offsets: Integers, items: npt.NDArray[np.generic]) -> None:
    """Write each of `items` (any type, contiguous) at its byte offset."""
    if len(offsets):
        raw = items.view(np.dtype((np.void, items.dtype.itemsize)))
        _every(content, items.dtype.itemsize)[offsets] = raw


def integers(content: Bytes, offsets: Integers) -> Integers:
    """Return the little-endian 32-bit integers at these byte offsets."""
    return picked(content, offsets, 4).view("<i4").astype(np.int64)


def big_integers(content: Bytes, offsets: Integers) -> Integers:
    """Return the big-endian 32-bit integers at these byte offsets."""
    return picked(content, offsets, 4).view(">i4").astype(np.int64)


def reals(content: Bytes, offsets: Integers) -> Floats:
    """Return the little-endian 64-bit floats at these byte offsets."""
    return picked(content, offsets, 8).view("<f8")


def starts_of(lengths: Integers) -> Integers:
    """Return where each of the runs that follow each other starts, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _every(content: Bytes, item_bytes: int) -> npt.NDArray[np.void]:
    """Return a view of the item that begins at each byte."""
    count = max(content.size - item_bytes + 1, 0)
    return np.ndarray((count,), np.dtype((np.void, item_bytes)), content, strides=(1,))
