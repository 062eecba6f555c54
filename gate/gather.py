"""Values picked from, and put into, bytes at many places at once.

A .shp aligns its records to two bytes and WKB to none, so neither can be viewed
as numbers. Items of raw bytes have no alignment: a view that holds one at every
byte lets numpy copy thousands of them in one step. Runs of items are values of a
binary column, of which Arrow takes some; other threads go on meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

SCRATCH_LIMIT_BYTES = 8 << 20

STRETCH_ITEMS = 1 << 17


class Scratch(threading.local):
    """Memory for numbers that are needed for a moment, kept by each thread for the next time.

    Fresh memory costs a page fault for every 4 kB, which takes longer than most of
    what is done to the numbers in it. It is freed with the thread.
    """

    def __init__(self) -> None:
        self._kept: Floats = np.empty(0)

    def floats(self, count: int) -> Floats:
        """Return room for so many numbers, which the next call in this thread returns again.

        More than `SCRATCH_LIMIT_BYTES` are not kept.
        """
        if 8 * count > SCRATCH_LIMIT_BYTES:
            return np.empty(count)
        if count > len(self._kept):
            self._kept = np.empty(count)
        return self._kept[:count]


def picked(content: Bytes, offsets: Integers, item_bytes: int) -> Bytes:
    """Return the items at these byte offsets, one after the other."""
    return _every(content, item_bytes)[offsets].view(np.uint8)


def integers(content: Bytes, offsets: Integers) -> Integers:
    """Return the little-endian 32-bit integers at these byte offsets."""
    return picked(content, offsets, 4).view("<i4").astype(np.int64)


def big_integers(content: Bytes, offsets: Integers) -> Integers:
    """Return the big-endian 32-bit integers at these byte offsets."""
    return picked(content, offsets, 4).view(">i4").astype(np.int64)


def reals(content: Bytes, offsets: Integers) -> Floats:
    """Return the little-endian 64-bit floats at these byte offsets."""
    return picked(content, offsets, 8).view("<f8")


def put(content: Bytes, offsets: Integers, items: npt.NDArray[Any]) -> None:
    """Write each of `items`, of any type, at its byte offset."""
    if len(offsets):
        raw = np.ascontiguousarray(items).view(np.dtype((np.void, items.dtype.itemsize)))
        _every(content, items.dtype.itemsize)[offsets] = raw


def starts_of(lengths: Integers) -> Integers:
    """Return where each of the runs that follow each other starts, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def room(size: int) -> Bytes:
    """Return fresh bytes from Arrow's pool, which has its memory in large pages and uses it again.

    Fresh memory of the system costs a page fault for every 4 kB.
    """
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def picked_runs(content: Bytes, offsets: Integers, first: Integers, item_bytes: int) -> Bytes:
    """Return runs of items, one after the other; run i has the items `first[i]` to `first[i+1]`.

    Each run begins at its byte offset in `content`. Raises `IndexError` for one that
    does not lie in there.
    """
    ends = offsets + np.diff(first) * item_bytes
    # Arrow does not look whether there are such bytes.
    if ((offsets < 0) | (ends < offsets) | (ends > content.size)).any():
        raise IndexError("a run beyond the bytes")
    places = np.arange(len(offsets))
    if (offsets[1:] < ends[:-1]).any():
        order = np.argsort(offsets, kind="stable")
        places[order] = np.arange(len(offsets))
        offsets, ends = offsets[order], ends[order]
        if (offsets[1:] < ends[:-1]).any():  # They share bytes.
            return picked(content, _places(offsets[places], first, item_bytes), item_bytes)
    # What lies between the runs makes a value as well.
    bounds = np.zeros(2 * len(offsets) + 1, np.int64)
    bounds[1::2], bounds[2::2] = offsets, ends
    taken, _ = _taken(content, bounds, 2 * places + 1)
    return taken


def interleaved(
    heads: Bytes,
    head_ends: Integers,
    items: npt.NDArray[np.void],
    first: Integers,
    order: Integers | None = None,
    backwards: Mask | None = None,
) -> tuple[Bytes, Integers]:
    """Return heads and runs of items in turns, and where each run ends.

    Head i ends at `head_ends[i]` and is followed by run `order[i]` (i, where there
    is no order), which has the items `first[run]` to `first[run+1]`, from last to
    first if `backwards[run]`.
    """
    count = len(head_ends)
    order = np.arange(count) if order is None else order
    turned = np.zeros(count, np.bool_) if backwards is None else backwards[order]
    edges, size = [np.zeros(1, np.int64), head_ends], heads.size
    runs = first * items.dtype.itemsize
    wanted = np.empty(2 * count, np.int64)
    wanted[0::2] = np.arange(count)
    pieces: list[npt.NDArray[Any]] = [heads]
    values = count
    if not turned.all():
        edges.append(size + runs[1:])
        wanted[1::2] = values + order
        pieces.append(items)
        size, values = size + items.nbytes, values + count
    if turned.any():
        # All items in one step from last to first: the last run is the first one then.
        edges.append(size + runs[-1] - runs[-2::-1])
        wanted[1::2][turned] = values + count - 1 - order[turned]
        pieces.append(items[::-1])
        size += items.nbytes
    source = room(size)
    at = 0
    for piece in pieces:
        source[at : at + piece.nbytes].view(piece.dtype)[:] = piece
        at += piece.nbytes
    content, ends = _taken(source, np.concatenate(edges), wanted)
    return content, ends[1::2]


def _taken(content: Bytes, bounds: Integers, wanted: Integers) -> tuple[Bytes, Integers]:
    """Return some of the values between bounds, one after the other, and where each ends."""
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(content)]
    values = pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    _, ends, taken = values.take(pa.array(wanted)).buffers()
    found = np.frombuffer(taken, np.uint8) if taken else np.empty(0, np.uint8)
    return found, np.frombuffer(ends, np.int32)[1 : len(wanted) + 1].astype(np.int64)


def stretches(first: Integers) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of runs, as many at a time as `STRETCH_ITEMS` hold, or one.

    What is done to them needs little memory, which is near then.
    """
    start = 0
    while start < len(first) - 1:
        fitting = int(np.searchsorted(first, first[start] + STRETCH_ITEMS, side="right")) - 1
        stop = max(fitting, start + 1)
        yield start, stop
        start = stop


def _places(offsets: Integers, first: Integers, item_bytes: int) -> Integers:
    places = np.repeat(offsets - item_bytes * first[:-1], np.diff(first))
    places += item_bytes * np.arange(int(first[-1]))
    return places


def _every(content: Bytes, item_bytes: int) -> npt.NDArray[np.void]:
    """Return a view of the item that begins at each byte."""
    count = max(content.size - item_bytes + 1, 0)
    return np.ndarray((count,), np.dtype((np.void, item_bytes)), content, strides=(1,))
