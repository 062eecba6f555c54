"""The extents of WKB geometries, read from their bytes, all rows at once.

Every row is followed from head to head: each step reads one head, or one run of
positions, of every row that is not at its end. Rows that do not end exactly
where their bytes do, and all that is rare (other byte order, nested collections,
very many parts, numbers that are not finite), are left to a slower way.

Layout: OGC 06-103r4, ISO flavour (a type with Z is the plain type + 1000).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gate import gather
from gate.gather import Bytes, Floats, Integers, Mask

_POINT, _LINE, _POLYGON, _MULTIPOINT, _MULTILINE, _MULTIPOLYGON = range(1, 7)
_PART_OF = {_MULTIPOINT: _POINT, _MULTILINE: _LINE, _MULTIPOLYGON: _POLYGON}
_ISO_Z = 1000
_HEAD_BYTES, _COUNT_BYTES = 5, 4

# Heads and rings of one row that are followed; rows with more are few.
STEP_LIMIT = 128

_AXIS = gather.Scratch()


def extents(column: pa.BinaryArray) -> tuple[tuple[Floats, Floats], Mask]:
    """Return low and high, rows × (x, y, z), and which rows could be measured.

    Rows without positions have inf and -inf, and so has z where there is none;
    a null row is measured.
    """
    null = column.is_null().to_numpy(zero_copy_only=False)
    found = _Found(np.full((len(column), 3), np.inf), np.full((len(column), 3), -np.inf))
    content, starts, ends = _bytes_of(column)
    whole = np.flatnonzero(~null & (ends - starts >= _HEAD_BYTES))
    little = whole[content[starts[whole]] == 1]
    codes = gather.integers(content, starts[little] + 1)
    measured = null.copy()
    one = len(codes) and bool((codes == codes[0]).all())
    for code in codes[:1].tolist() if one else np.unique(codes).tolist():
        kind = code % _ISO_Z
        if code < 2 * _ISO_Z and _POINT <= kind <= _MULTIPOLYGON:
            rows = little if one else little[codes == code]
            walk = _points if _PART_OF.get(kind, kind) == _POINT else _rings
            try:
                done = walk(content, code, rows, starts[rows], ends[rows], found)
            except IndexError:
                continue  # a count that leads out of all bytes
            measured[rows[done]] = True
    measured &= ~np.isnan(found.low).any(axis=1)
    measured &= (found.low > -np.inf).all(axis=1) & (found.high < np.inf).all(axis=1)
    found.low[~measured], found.high[~measured] = np.inf, -np.inf
    return (found.low, found.high), measured


@dataclass(frozen=True, slots=True)
class _Found:
    """The extents so far."""

    low: Floats
    high: Floats

    def fold(self, rows: Integers, first: Integers, positions: Floats) -> None:
        """Take a run of positions into each of these rows, which are distinct."""
        if len(first) == len(positions) + 1 and (np.diff(first) == 1).all():
            axes = positions.shape[1]
            self.low[rows, :axes] = np.minimum(self.low[rows, :axes], positions)
            self.high[rows, :axes] = np.maximum(self.high[rows, :axes], positions)
            return
        held = np.flatnonzero(np.diff(first))
        rows, begins = rows[held], first[:-1][held]
        if not len(rows):
            return
        values = _AXIS.floats(len(positions))
        for axis in range(positions.shape[1]):
            values[:] = positions[:, axis]
            low, high = np.minimum.reduceat(values, begins), np.maximum.reduceat(values, begins)
            self.low[rows, axis] = np.minimum(self.low[rows, axis], low)
            self.high[rows, axis] = np.maximum(self.high[rows, axis], high)


def _points(
    content: Bytes, code: int, rows: Integers, starts: Integers, ends: Integers, found: _Found
) -> Mask:
    """Measure points and multipoints; return which of the rows ended where they should."""
    item_bytes = 8 * _axes(code)
    counts, begins = np.ones(len(rows), np.int64), starts
    if code % _ISO_Z == _MULTIPOINT:
        counts = gather.integers(content, starts + _HEAD_BYTES)
        begins = starts + _HEAD_BYTES + _COUNT_BYTES
    done: Mask = (counts >= 0) & (begins + counts * (_HEAD_BYTES + item_bytes) == ends)
    rows, counts, begins = rows[done], counts[done], begins[done]
    first = gather.starts_of(counts)
    places = np.repeat(begins - first[:-1] * (_HEAD_BYTES + item_bytes), counts)
    places += np.arange(len(places)) * (_HEAD_BYTES + item_bytes) + _HEAD_BYTES
    positions = gather.picked(content, places, item_bytes).view("<f8").reshape(-1, _axes(code))
    found.fold(rows, first, positions)
    return done


def _rings(
    content: Bytes, code: int, rows: Integers, starts: Integers, ends: Integers, found: _Found
) -> Mask:
    """Measure lines and polygons, and several of them.

    Every row keeps its place, how many parts are left to it, and how many runs of
    positions to its part. A line is a part of one run.
    """
    kind, part = code % _ISO_Z, _PART_OF.get(code % _ISO_Z, code % _ISO_Z)
    item_bytes = 8 * _axes(code)
    done = np.zeros(len(rows), np.bool_)
    index, at = np.arange(len(rows)), starts
    parts, runs = np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64)
    if kind != part:
        parts = gather.integers(content, at + _HEAD_BYTES)
        at = at + _HEAD_BYTES + _COUNT_BYTES
    for _ in range(STEP_LIMIT):
        ended = (parts <= 0) & (runs <= 0)
        done[index[ended]] = at[ended] == ends[index[ended]]
        index, at, parts, runs = (each[~ended] for each in (index, at, parts, runs))
        if not len(index):
            break
        headed = np.flatnonzero(runs == 0)
        if len(headed):
            right = gather.integers(content, at[headed] + 1) == code - kind + part
            if not right.all():
                raise IndexError("a part of another type")
            at[headed] += _HEAD_BYTES
            parts[headed] -= 1
            runs[headed] = 1
            if part == _POLYGON:
                runs[headed] = gather.integers(content, at[headed])
                at[headed] += _COUNT_BYTES
        running = np.flatnonzero(runs > 0)
        lengths = gather.integers(content, at[running])
        begins, first = at[running] + _COUNT_BYTES, gather.starts_of(lengths)
        picked = gather.picked_runs(content, begins, first, item_bytes)
        found.fold(rows[index[running]], first, picked.view("<f8").reshape(-1, _axes(code)))
        at[running] = begins + item_bytes * lengths
        runs[running] -= 1
    return done


def _axes(code: int) -> int:
    return 3 if code >= _ISO_Z else 2


def _bytes_of(column: pa.BinaryArray) -> tuple[Bytes, Integers, Integers]:
    """Return the bytes under a column, and where each row starts and ends in them."""
    _, offsets, content = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    held = np.frombuffer(content, np.uint8) if content else np.empty(0, np.uint8)
    return held, places[:-1].astype(np.int64), places[1:].astype(np.int64)
