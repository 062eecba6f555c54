"""Values picked from, and put into, bytes at many places at once.

A .shp aligns its records to two bytes and WKB to none, so neither can be viewed
as numbers. Items of raw bytes have no alignment: a view that holds one at every
byte lets numpy copy thousands of them in one step.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Runs of at least so many items on average are copied one by one: fewer, and
# the step from one to the next costs more than an index of every item.
LONG_RUN = 48

SCRATCH_LIMIT_BYTES = 8 << 20

STRETCH_ITEMS = 1 << 15


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


_SCRATCH = Scratch()


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


def picked_runs(
    content: Bytes,
    offsets: Integers,
    first: Integers,
    item_bytes: int,
    scratch: Scratch | None = None,
) -> Bytes:
    """Return runs of items, one after the other; run i has the items `first[i]` to `first[i+1]`.

    Each run begins at its byte offset in `content`. The items, of whole numbers of
    8 bytes, may lie in `scratch`.
    """
    if not _are_long(first):
        return picked(content, _places(offsets, first, item_bytes), item_bytes)
    size = int(first[-1]) * item_bytes
    runs = scratch.floats(size // 8).view(np.uint8) if scratch else np.empty(size, np.uint8)
    # Views of memory copy with less ado than arrays, and do not let the next thread in each time.
    source, target = content.data, runs.data
    ends = (first * item_bytes).tolist()
    for index, offset in enumerate(offsets.tolist()):
        start, stop = ends[index], ends[index + 1]
        target[start:stop] = source[offset : offset + stop - start]
    return runs


def put_runs(
    content: Bytes, offsets: Integers, first: Integers, items: npt.NDArray[Any], backwards: Mask
) -> None:
    """Write runs of items of raw bytes, each at its byte offset, some from last to first."""
    if not len(offsets):
        return
    item_bytes = items.dtype.itemsize
    if not _are_long(first):
        step = np.where(backwards, -item_bytes, item_bytes)
        begins = offsets + np.where(backwards, (np.diff(first) - 1) * item_bytes, 0)
        places = np.repeat(begins - step * first[:-1], np.diff(first))
        places += np.repeat(step, np.diff(first)) * np.arange(len(items))
        _every(content, item_bytes)[places] = items
        return
    for start, stop in stretches(first):
        some = items[first[start] : first[stop]]
        _put_long(
            content, offsets[start:stop], first[start : stop + 1], some, backwards[start:stop]
        )


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


def _put_long(
    content: Bytes, offsets: Integers, first: Integers, items: npt.NDArray[Any], backwards: Mask
) -> None:
    """Write runs one by one; those that go backwards are turned before, all in one step."""
    source = items.view(np.uint8).data
    turned = source
    if backwards.any():
        room = _SCRATCH.floats(len(source) // 8).view(items.dtype)
        room[:] = items[::-1]
        turned = room.view(np.uint8).data
    target, last = content.data, len(source)
    ends = ((first - first[0]) * items.dtype.itemsize).tolist()
    for index, (offset, back) in enumerate(zip(offsets.tolist(), backwards.tolist(), strict=True)):
        start, stop = ends[index], ends[index + 1]
        run = turned[last - stop : last - start] if back else source[start:stop]
        target[offset : offset + stop - start] = run


def _are_long(first: Integers) -> bool:
    return len(first) > 1 and int(first[-1]) >= LONG_RUN * (len(first) - 1)


def _places(offsets: Integers, first: Integers, item_bytes: int) -> Integers:
    places = np.repeat(offsets - item_bytes * first[:-1], np.diff(first))
    places += item_bytes * np.arange(int(first[-1]))
    return places


def _every(content: Bytes, item_bytes: int) -> npt.NDArray[np.void]:
    """Return a view of the item that begins at each byte."""
    count = max(content.size - item_bytes + 1, 0)
    return np.ndarray((count,), np.dtype((np.void, item_bytes)), content, strides=(1,))
