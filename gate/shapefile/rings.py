"""Which ring of a polygon is a shell and which is a hole, where that is certain.

GDAL, told to compare the rings themselves, sorts them by area and takes a ring
for a hole if its first position lies inside the next larger ring around it.
Here the same is told for the ordinary cases alone: rings side by side, and holes
directly inside a shell, wound as the format asks. A record with a ring that is
open, encloses next to nothing, touches what it might lie in, lies in a hole, or
is wound against what its place says, is not certain and left to GDAL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gate import gather
from gate.gather import Floats, Integers, Mask
from gate.shapefile.parts import Parts

# How many rings of one record are compared with each other.
RING_LIMIT = 32
# x, y and the terms of the area of some positions.
_SCRATCH = gather.Scratch()
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_TOUCHING = 1e-9


@dataclass(frozen=True, slots=True)
class Rings:
    """The rings of polygons: their parts, and of each ring what it is.

    `shell` is the index of the shell that a ring belongs to, its own if it is
    one. `clockwise` is how it is wound in the file. `low` and `high` are corners
    of its box.
    """

    parts: Parts
    shell: Integers
    clockwise: Mask
    low: Floats
    high: Floats

    @property
    def is_shell(self) -> Mask:
        """Return which rings are shells."""
        return np.equal(self.shell, np.arange(len(self.shell)))

    def of(self, records: Mask) -> Rings:
        """Return the rings of these records only."""
        if records.all():
            return self
        held = records[self.parts.record]
        shell = (np.cumsum(held) - 1)[self.shell[held]]
        parts = self.parts.of(records)
        return Rings(parts, shell, self.clockwise[held], self.low[held], self.high[held])

    @property
    def in_order(self) -> bool:
        """Tell whether each shell is followed by its holes in the file."""
        places = np.arange(len(self.shell))
        return bool((np.diff(self.shell) >= 0).all() and (self.shell <= places).all())

    @property
    def order(self) -> Integers:
        """Return the order in which each shell is followed by its holes."""
        if self.in_order:
            return np.arange(len(self.shell))
        return np.lexsort((~self.is_shell, self.shell))


def organise(parts: Parts) -> tuple[Mask, Rings]:
    """Return which records are certain, and the rings of those.

    Every part has four positions at least. A record with an x or a y that is not
    finite is not certain.
    """
    if not parts.records:
        nothing = np.empty((0, 2))
        empty = np.empty(0, np.int64)
        return np.empty(0, np.bool_), Rings(parts, empty, empty.astype(np.bool_), nothing, nothing)
    # What is not finite stays so in the area or in its error, and no comparison holds for it.
    with np.errstate(over="ignore", invalid="ignore"):
        low, high, area, error = _measured(parts)
    starts, ends = parts.first[:-1], parts.first[1:] - 1
    closed = (parts.positions[starts] == parts.positions[ends]).all(axis=1)
    certain = np.ones(parts.records, np.bool_)
    certain[parts.record[~(closed & (abs(area) > error))]] = False
    shell = np.arange(len(area))
    if len(shell) > parts.records:
        with np.errstate(over="ignore", invalid="ignore"):
            holes, doubtful = _nested(parts, low, high, area)
        certain[parts.record[doubtful]] = False
        inner, outer = holes
        shell[inner] = outer
        # One ring alone is a shell however it is wound.
        alone = np.bincount(parts.record, minlength=parts.records)[parts.record] == 1
        proper = (area < 0) == (shell == np.arange(len(shell)))
        certain[parts.record[~alone & ~proper]] = False
    return certain, Rings(parts, shell, area < 0, low, high).of(certain)


def _measured(parts: Parts) -> tuple[Floats, Floats, Floats, Floats]:
    """Return of each ring its box, twice its signed area, and how wrong that may be by rounding.

    Areas hold for closed rings. They are sums of x times the step in y from the
    position before to the one after, which around a ring add up to nothing: so it
    does not matter, but for the rounding, where x is counted from.
    """
    low, high = np.empty((2, len(parts.record), 2))
    area = np.empty(len(parts.record))
    for start, stop in gather.stretches(parts.first):
        first = parts.first[start : stop + 1]
        positions = parts.positions[first[0] : first[-1]]
        low[start:stop], high[start:stop], area[start:stop] = _boxed(positions, first - first[0])
    farthest = np.maximum(abs(low[:, 0]), abs(high[:, 0]))
    height = (high - low)[:, 1]
    return low, high, area, _ROUNDING * (parts.lengths + 8) * farthest * height


def _boxed(positions: Floats, first: Integers) -> tuple[Floats, Floats, Floats]:
    """Return of each ring the corners of its box and twice its signed area."""
    starts, ends = first[:-1], first[1:] - 1
    x, y, terms = _SCRATCH.floats(3 * len(positions)).reshape(3, -1)
    x[:], y[:] = positions[:, 0], positions[:, 1]
    low = np.stack([np.minimum.reduceat(axis, starts) for axis in (x, y)], axis=1)
    high = np.stack([np.maximum.reduceat(axis, starts) for axis in (x, y)], axis=1)
    np.subtract(y[2:], y[:-2], out=terms[1:-1])
    terms[starts] = y[starts + 1] - y[ends - 1]
    terms[ends] = 0
    terms *= x
    return low, high, np.add.reduceat(terms, starts)


def star_shaped(rings: Rings) -> Mask:
    """Return which records are one ring that can be seen from its middle as a whole.

    Such a ring is valid, and so that need not be found out in a dearer way: from
    step to step it turns the same way around the middle, and once in all. Rings
    that pass close to the middle, or step nowhere, are not told as such.
    """
    parts = rings.parts
    alone = np.bincount(parts.record, minlength=parts.records) == 1
    starts, lengths = parts.first[:-1], parts.lengths
    turns, ends = [], parts.first[1:] - 1
    for axis in (0, 1):
        along = parts.positions[:, axis]
        middle = (np.add.reduceat(along, starts) - along[ends]) / (lengths - 1)
        turns.append(along - np.repeat(middle, lengths))
    x, y = turns
    steps = np.zeros_like(x)
    steps[:-1] = x[:-1] * y[1:] - x[1:] * y[:-1]
    steps *= np.repeat(np.where(rings.clockwise, -1.0, 1.0), lengths)
    steps[ends] = np.inf
    certain = np.minimum.reduceat(steps, starts) > 4 * _ROUNDING * (rings.high - rings.low).prod(
        axis=1
    )
    south = y < 0
    changes = np.zeros(len(y), np.int64)
    changes[:-1] = south[:-1] != south[1:]
    changes[ends] = 0
    once = np.add.reduceat(changes, starts) == 2
    found = np.zeros(parts.records, np.bool_)
    found[parts.record[certain & once]] = True
    found &= alone
    return found


def _nested(
    parts: Parts, low: Floats, high: Floats, area: Floats
) -> tuple[tuple[Integers, Integers], Integers]:
    """Return pairs of a hole and its shell, and rings of which that cannot be told."""
    counts = np.bincount(parts.record)
    firsts = np.flatnonzero(np.diff(parts.record, prepend=-1))
    doubtful = [firsts[counts > RING_LIMIT]]
    inner, outer = _boxes_inside(parts, low, high, counts)
    twice = np.flatnonzero(np.bincount(inner, minlength=len(area)) > 1)
    doubtful.append(twice)
    doubtful.append(inner[abs(area[outer]) <= abs(area[inner]) * (1 + _TOUCHING)])
    inside, unclear = _first_inside(parts, inner, outer, low, high)
    doubtful.append(inner[unclear])
    return (inner[inside], outer[inside]), np.concatenate(doubtful)


def _boxes_inside(
    parts: Parts, low: Floats, high: Floats, counts: Integers
) -> tuple[Integers, Integers]:
    """Return pairs of rings of one record of which the first has its box in that of the second."""
    several = np.flatnonzero((counts > 1) & (counts <= RING_LIMIT))
    rings = np.flatnonzero(np.isin(parts.record, several)) if len(several) else several
    inner, outer = [], []
    for distance in range(1, int(counts[several].max(initial=1))):
        one = rings[:-distance] if distance < len(rings) else rings[:0]
        one = one[one + distance < len(parts.record)]
        other = one + distance
        same = parts.record[one] == parts.record[other]
        for a, b in ((one[same], other[same]), (other[same], one[same])):
            held = (low[a] >= low[b]).all(axis=1) & (high[a] <= high[b]).all(axis=1)
            inner.append(a[held])
            outer.append(b[held])
    nothing = np.empty(0, np.int64)
    return np.concatenate([nothing, *inner]), np.concatenate([nothing, *outer])


def _first_inside(
    parts: Parts, inner: Integers, outer: Integers, low: Floats, high: Floats
) -> tuple[Mask, Mask]:
    """Tell which inner rings begin inside the outer one, and of which that is unclear.

    A ray to the east crosses an even number of edges from outside, an odd one
    from inside.
    """
    if not len(inner):
        return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
    edges = parts.lengths[outer] - 1
    pair = np.repeat(np.arange(len(outer)), edges)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(edges) - edges, edges)
    at = parts.first[outer][pair] + within
    x, y = parts.positions[parts.first[inner], :2].T[:, pair]
    x1, y1 = parts.positions[at, :2].T
    x2, y2 = parts.positions[at + 1, :2].T
    crossing = (y1 > y) != (y2 > y)
    rise = np.where(crossing, y2 - y1, 1.0)
    reach = x1 + (y - y1) * (x2 - x1) / rise - x
    width = (high - low)[outer, 0][pair]
    east1, east2 = x1 - x, x2 - x
    close = crossing & (abs(reach) <= _TOUCHING * width)
    close |= (y1 == y) & (abs(east1) <= _TOUCHING * width)
    close |= (y1 == y) & (y2 == y) & (east1 * east2 <= 0)
    begins = np.cumsum(edges) - edges
    inside = np.add.reduceat((crossing & (reach > 0)).astype(np.int64), begins) % 2 == 1
    return inside, np.logical_or.reduceat(close, begins)
