"""The parts of many records at once: where each lies, and the positions in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gate import gather
from gate.gather import Floats, Integers, Mask
from gate.shapefile.records import MULTIPOINTS, POINTS, POLYGONS, WITH_Z, Block, Records

# Where, from the start of a record, the numbers begin that follow the counts.
_POINT_PLACE, _MULTIPOINT_PLACE, _PARTS_PLACE = 12, 48, 52


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of some records, in file order.

    `record` tells of which record each part is, counted from 0 among those
    records. `first` is the index of each part's first position, with one more
    entry for the end. `positions` has two columns, or three with z.
    """

    record: Integers
    first: Integers
    positions: Floats

    @property
    def lengths(self) -> Integers:
        """Return how many positions each part has."""
        return np.diff(self.first)

    @property
    def records(self) -> int:
        """Return how many records there are, each of which has a part."""
        return int(self.record[-1]) + 1 if len(self.record) else 0

    def of(self, records: Mask) -> Parts:
        """Return the parts of these records only."""
        if records.all():
            return self
        held = records[self.record]
        positions = self.positions[np.repeat(held, self.lengths)]
        renumbered = np.cumsum(records) - 1
        return Parts(renumbered[self.record[held]], gather.starts_of(self.lengths[held]), positions)


def parts_of(
    records: Records,
    block: Block,
    rows: Mask,
    least: int,
    *,
    flat: bool = False,
) -> tuple[Mask, Parts]:
    """Return those of `rows` that are plain so far, and their parts.

    They have positions, all of them finite, and their parts, of at least `least`
    positions, follow each other from the first position on; of a polygon, x and y
    are left to `gate.shapefile.rings.organise`. The records have been checked
    (`Records.check`). A point, and a multipoint, is one part. With `flat`,
    positions are x and y alone.
    """
    if records.kind in (*POINTS, *MULTIPOINTS):
        rows = only(rows, block.points[rows] > 0)
        offsets, lengths = block.offset_bytes[rows], block.points[rows]
        record, begins = np.arange(len(offsets)), offsets
        begins = begins + (_POINT_PLACE if records.kind in POINTS else _MULTIPOINT_PLACE)
    else:
        rows = only(rows, (block.parts[rows] > 0) & (block.points[rows] > 0))
        good, record, lengths = _part_table(block, rows, least)
        if not good.all():
            rows, held = only(rows, good), good[record]
            record, lengths = (np.cumsum(good) - 1)[record[held]], lengths[held]
        begins = block.offset_bytes[rows] + _PARTS_PLACE + 4 * block.parts[rows]
    has_z = records.kind in WITH_Z and not flat
    positions = _positions(records, block, begins, rows, has_z=has_z)
    parts = Parts(record, gather.starts_of(lengths), positions)
    # One sum tells it for all, since whatever is not finite stays so in it.
    with np.errstate(over="ignore", invalid="ignore"):
        loose = positions[:, 2:] if records.kind in POLYGONS else positions
        if np.isfinite(loose.sum()):
            return rows, parts
    finite = np.isfinite(loose)
    owners = np.repeat(np.arange(parts.records), block.points[rows])
    good = np.ones(parts.records, np.bool_)
    good[owners[~finite.all(axis=1)]] = False
    return only(rows, good), parts.of(good)


def _part_table(block: Block, rows: Mask, least: int) -> tuple[Mask, Integers, Integers]:
    """Return which records have parts in order, and of each part its record and length."""
    offsets, counts, points = block.offset_bytes[rows], block.parts[rows], block.points[rows]
    record = np.repeat(np.arange(len(counts)), counts)
    begins = gather.starts_of(counts)
    within = np.arange(len(record)) - begins[record]
    starts = gather.integers(block.content, offsets[record] + _PARTS_PLACE + 4 * within)
    ends = np.append(starts[1:], 0)
    ends[begins[1:] - 1] = points
    good = starts[begins[:-1]] == 0
    good[record[ends - starts < max(least, 1)]] = False
    return good, record, ends - starts


def _positions(
    records: Records,
    block: Block,
    begins: Integers,
    rows: Mask,
    *,
    has_z: bool,
) -> Floats:
    content, points = block.content, block.points[rows]
    first = gather.starts_of(points)
    if records.kind in POINTS:
        axes = 3 if has_z else 2
        return gather.picked(content, begins, 8 * axes).view("<f8").reshape(-1, axes)
    picked = gather.picked_runs(content, begins, first, 16)
    flat = picked.view("<f8").reshape(-1, 2)
    if not has_z:
        return flat
    heights = gather.picked_runs(content, begins + 16 * points + 16, first, 8).view("<f8")
    return np.concatenate((flat, heights[:, None]), axis=1)


def only(rows: Mask, good: Mask) -> Mask:
    """Return `rows` without those that are not good; `good` has one entry per row that is set."""
    if good.all():
        return rows
    left = rows.copy()
    left[rows] = good
    return left
