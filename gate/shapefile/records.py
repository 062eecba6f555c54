"""The records of a .shp, found through its .shx and checked before GDAL sees them.

GDAL answers a record it cannot read with a null geometry and goes on, so every
record is proven here first: it lies inside the file, overlaps no other, both
files give it the same length, and that is the length of the points it announces.
All checks are vectorised over blocks of rows, in one pass over both files; memory
does not grow with them.

Layout: ESRI Shapefile Technical Description (July 1998).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gate import gather
from gate.errors import (
    CorruptError,
    RecordTooLargeError,
    TooLargeError,
    TruncatedError,
)
from gate.gather import Bytes, Floats, Integers, Mask
from gate.shapefile.files import let_go
from gate.shapefile.port import Content

HEADER_BYTES = 100
BLOCK_ROWS = 1 << 16
BLOCK_BYTES = 16 << 20
# A record is decoded in one piece, and several are under way at a time. Layers of
# records of this size were measured to take 0.8 GiB, about 25 times the size of one.
RECORD_LIMIT_BYTES = 32 << 20
RECORD_FACTOR = 25
# What records that belong together may have between them.
GAP_BYTES = 1 << 16
NO_MEASURE = -1e38  # any M below means "none"

NULL = 0
POINTS = (1, 11, 21)
LINES = (3, 13, 23)
POLYGONS = (5, 15, 25)
MULTIPOINTS = (8, 18, 28)
MULTIPATCH = 31
KINDS = (NULL, *POINTS, *LINES, *POLYGONS, *MULTIPOINTS, MULTIPATCH)
WITH_Z = (11, 13, 15, 18, MULTIPATCH)
WITH_M = (21, 23, 25, 28)

_OTHER_LENGTH = "the .shp and the .shx state different lengths for it"


@dataclass(frozen=True, slots=True)
class Block:
    """Facts of consecutive records: type, parts, points, and where they lie in `content`.

    `parts` is 0 for types without parts; `points` is 1 for a point.
    """

    start: int
    content: Bytes
    kinds: Integers
    parts: Integers
    points: Integers
    offset_bytes: Integers
    content_bytes: Integers


@dataclass(frozen=True, slots=True)
class Records:
    """The records that an index of `rows` entries points at.

    `kind` is the type that the .shp header announces for all of them.
    """

    shp: Content
    shx: Content
    kind: int
    rows: int
    stem: str

    def blocks(self) -> Iterator[Block]:
        """Yield all records in row order; call it only after `check`."""
        for start, stop in self.spans(BLOCK_ROWS, BLOCK_BYTES):
            yield self.block(start, stop)
            let_go(self.shp)

    def entries(self, start: int, stop: int) -> tuple[Integers, Integers]:
        """Return offsets and content lengths of the index, in bytes."""
        raw = self.shx[HEADER_BYTES + 8 * start : HEADER_BYTES + 8 * stop]
        pairs = raw.view(">i4").reshape(-1, 2).astype(np.int64) * 2
        return pairs[:, 0], pairs[:, 1]

    def block(self, start: int, stop: int) -> Block:
        """Return the facts of the rows from `start` to before `stop`."""
        content, offsets, lengths = self._content_of(*self.entries(start, stop))
        kinds = gather.integers(content, offsets + 8)
        parts, points = np.zeros_like(kinds), np.zeros_like(kinds)
        known = kinds == self.kind
        if self.kind in POINTS:
            points[known] = 1
        elif self.kind in MULTIPOINTS:
            known &= lengths >= 40
            points[known] = gather.integers(content, offsets[known] + 44)
        elif self.kind != NULL:
            known &= lengths >= 44
            parts[known] = gather.integers(content, offsets[known] + 44)
            points[known] = gather.integers(content, offsets[known] + 48)
        return Block(start, content, kinds, parts, points, offsets, lengths)

    def measured(self, block: Block) -> npt.NDArray[np.bool_]:
        """Tell which records hold M values, by their M range (for a point, its M)."""
        if self.kind not in (*WITH_Z, *WITH_M):
            return np.zeros(len(block.kinds), dtype=np.bool_)
        place = self._needed(block) + (0 if self.kind in POINTS else 8)
        present = (block.points > 0) & (place + 8 <= block.content_bytes)
        least = gather.reals(block.content, (block.offset_bytes + 8 + place)[present])
        present[present] = least > NO_MEASURE
        return present

    def spans(
        self, most_rows: int, most_bytes: int, beside_bytes: int = 0
    ) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of rows that are few enough, and of few enough bytes, for one go.

        Of each row `beside_bytes` are counted too. One larger row makes a span by itself.
        """
        start = 0
        while start < self.rows:
            _, lengths = self.entries(start, min(start + most_rows, self.rows))
            total = np.cumsum(np.maximum(lengths, 0) + beside_bytes)
            stop = start + max(int(np.searchsorted(total, most_bytes, side="right")), 1)
            yield start, stop
            start = stop

    def check(self, memory_bytes: int) -> tuple[int, bool]:
        """Prove that every record lies inside the .shp, alone, whole and of the header's type.

        Return the number of bytes that belong to no record, and whether any
        record has more than one part. Raises `TruncatedError`, `CorruptError`,
        `RecordTooLargeError` for a record of more than `RECORD_LIMIT_BYTES`, or
        `TooLargeError` for one that takes more than `memory_bytes` to decode.
        """
        declared = int(self.shp[24:28].view(">i4")[0]) * 2
        used, end, ordered, several_parts = HEADER_BYTES, HEADER_BYTES, True, False
        for start, stop in self.spans(BLOCK_ROWS, BLOCK_BYTES):
            offsets, lengths = self.entries(start, stop)
            ends = offsets + 8 + lengths
            self._check_entries(start, offsets, lengths, declared)
            self._refuse_huge(start, offsets, lengths, memory_bytes)
            block = self.block(start, stop)
            self._refuse(
                start,
                (gather.big_integers(block.content, block.offset_bytes + 4) * 2) != lengths,
                _OTHER_LENGTH,
            )
            self._check_content(block)
            several_parts |= bool((block.parts > 1).any())
            ordered = ordered and bool((offsets >= np.append(end, ends[:-1])).all())
            used, end = used + int((lengths + 8).sum()), int(ends[-1])
            let_go(self.shp)
            let_go(self.shx)
        if not ordered:
            self._check_overlap()
        return int(self.shp.size) - used, several_parts

    def _content_of(self, offsets: Integers, lengths: Integers) -> tuple[Bytes, Integers, Integers]:
        """Return bytes that hold these records, where in them each begins, and its length.

        Records that lie together are fetched in one piece, those that are scattered
        over the file one by one.
        """
        ends = offsets + 8 + lengths
        first, last = int(offsets.min()), int(ends.max())
        if last - first <= 2 * int((lengths + 8).sum()) + GAP_BYTES:
            return self.shp[first:last], offsets - first, lengths
        order = np.argsort(offsets, kind="stable")
        pieces = [self.shp[offsets[row] : ends[row]] for row in order.tolist()]
        begins = np.empty_like(offsets)
        begins[order] = gather.starts_of((lengths + 8)[order])[:-1]
        return np.concatenate(pieces), begins, lengths

    def _check_entries(
        self, start: int, offsets: Integers, lengths: Integers, declared: int
    ) -> None:
        """Prove that these entries of the index point at places where there can be a record."""
        self._refuse(
            start, (offsets < HEADER_BYTES) | (lengths < 4), "its index entry is no record"
        )
        outside = np.flatnonzero(offsets + 8 + lengths > self.shp.size)
        if outside.size:
            self._refuse_outside(start + int(outside[0]) + 1, declared)

    def _check_content(self, block: Block) -> None:
        """Prove that each record is null or of the header's type, and holds its points.

        The format asks for one type, and GDAL forces each geometry into it: the Z
        of a `PointZ` among points is lost without a word. A record holds its
        points and nothing else, for what is left over is what a damaged type or
        count has hidden; GDAL would drop it without a word.
        """
        self._refuse(
            block.start,
            (block.kinds != self.kind) & (block.kinds != NULL),
            "its type is foreign",
        )
        self._refuse(
            block.start,
            (block.parts < 0) | (block.points < 0) | (block.content_bytes < self._needed(block)),
            "it is shorter than the points it announces",
        )
        null = block.kinds == NULL
        self._refuse(
            block.start, null & (block.content_bytes > 4), "it is null and yet holds bytes"
        )
        self._refuse(
            block.start,
            ~null & ~self._is_exact(block),
            "its length is not that of the points it announces",
        )
        if self.kind not in (NULL, *POINTS, *MULTIPOINTS):
            self._refuse(
                block.start,
                (block.parts == 0) & (block.points > 0),
                "it announces points and no part that they are in",
            )
        self._refuse(
            block.start,
            self._miscounted(block),
            "its extent is that of another number of points",
        )

    def numbered_beyond(self) -> bool:
        """Tell whether the .shp goes on after its last indexed record with one more record."""
        if not self.rows:
            end = HEADER_BYTES
        else:
            offsets, lengths = self.entries(self.rows - 1, self.rows)
            end = int(offsets[0] + 8 + lengths[0])
        if self.shp.size < end + 12:
            return False
        number, words = self.shp[end : end + 8].view(">i4").tolist()
        kind = int(self.shp[end + 8 : end + 12].view("<i4")[0])
        fits = words >= 2 and end + 8 + 2 * words <= self.shp.size
        return bool(number == self.rows + 1 and fits and kind in (NULL, self.kind))

    def _check_overlap(self) -> None:
        """Prove that no two records share bytes where the index is not in file order."""
        offsets, lengths = self.entries(0, self.rows)
        order = np.argsort(offsets, kind="stable")
        ends = (offsets + 8 + lengths)[order]
        clash = np.flatnonzero(offsets[order][1:] < ends[:-1])
        if clash.size:
            row = int(order[clash[0] + 1]) + 1
            raise CorruptError(f"record {row} shares bytes with another", where=f"{self.stem}.shx")

    def _refuse_outside(self, row: int, declared: int) -> None:
        size = int(self.shp.size)
        if size < declared:
            what = f"holds {size} of {declared} declared bytes; record {row} is not whole"
            raise TruncatedError(what, where=f"{self.stem}.shp")
        what = f"points at record {row} beyond the end of the .shp"
        raise CorruptError(what, where=f"{self.stem}.shx")

    def _refuse_huge(
        self, start: int, offsets: Integers, lengths: Integers, memory_bytes: int
    ) -> None:
        rows = np.flatnonzero(lengths > min(RECORD_LIMIT_BYTES, memory_bytes // RECORD_FACTOR))
        if not rows.size:
            return
        row = int(rows[0])
        stated = self.shp[offsets[row] + 4 : offsets[row] + 8].view(">i4")[0]
        self._refuse(start + row, np.array([2 * int(stated) != lengths[row]]), _OTHER_LENGTH)
        what = f"record {start + row + 1} holds {lengths[row]} bytes"
        where = f"{self.stem}.shp"
        if lengths[row] > RECORD_LIMIT_BYTES:
            what = f"{what}, the limit for one is {RECORD_LIMIT_BYTES}"
            raise RecordTooLargeError(what, where=where)
        raise TooLargeError(
            f"{what}, which take about {RECORD_FACTOR * lengths[row]} to decode, of"
            f" {memory_bytes} that there are",
            where=where,
            cure="give the function more memory, or simplify the shape of that row, and redrive"
            " the job or upload the layer again",
        )

    def _refuse(self, start: int, bad: npt.NDArray[np.bool_], what: str) -> None:
        rows = np.flatnonzero(bad)
        if rows.size:
            raise CorruptError(
                f"record {start + int(rows[0]) + 1}: {what}", where=f"{self.stem}.shp"
            )

    def _needed(self, block: Block) -> Integers:
        """Return the least content length of each record; M values are optional in every type."""
        kind, points = self.kind, block.points
        if kind in POINTS:
            needed = np.full_like(points, 28 if kind in WITH_Z else 20)
        else:
            needed = self._head(block) + 16 * points
            if kind in WITH_Z:
                needed += np.where(points > 0, 16 + 8 * points, 0)
        return np.where(block.kinds == NULL, 4, needed)

    def _head(self, block: Block) -> Integers:
        """Return how many bytes of each record, which is no point, precede its positions."""
        if self.kind in MULTIPOINTS:
            return np.full_like(block.points, 40)
        return 44 + (8 if self.kind == MULTIPATCH else 4) * block.parts

    def _is_exact(self, block: Block) -> Mask:
        """Tell which records are as long as their positions ask for, with or without M values.

        Where there are no positions, the ranges of Z and M may be there or not.
        """
        surplus = block.content_bytes - self._needed(block)
        exact: Mask = surplus == 0
        if self.kind in POINTS:
            exact |= surplus == (8 if self.kind in (*WITH_Z, *WITH_M) else 0)
            return exact
        if self.kind in (*WITH_Z, *WITH_M):
            exact |= surplus == 16 + 8 * block.points
        if self.kind in WITH_Z:
            exact |= (block.points == 0) & (surplus == 32)
        return exact

    def _miscounted(self, block: Block) -> Mask:
        """Tell which records hold another number of positions than they announce.

        As M values are optional, some lengths fit two numbers: that of 4
        positions with Z and M is that of 6 with Z. There the extents that the
        record states decide, if they are those of the other number only.
        """
        wrong = np.zeros(len(block.kinds), dtype=np.bool_)
        if self.kind in POINTS or self.kind not in (*WITH_Z, *WITH_M):
            return wrong
        length = block.content_bytes - self._head(block)
        for axes, others in ((1, 2), (2, 1)) if self.kind in WITH_Z else ((0, 1), (1, 0)):
            fits = (block.kinds == self.kind) & (
                length == 16 * axes + (16 + 8 * axes) * block.points
            )
            count, left = np.divmod(length - 16 * others, 16 + 8 * others)
            rows = np.flatnonzero(fits & (left == 0) & (count > 0))
            rows = rows[~self._in_extent(block, rows, block.points[rows], axes)]
            wrong[rows[self._in_extent(block, rows, count[rows], others)]] = True
        return wrong

    def _in_extent(self, block: Block, rows: Integers, counts: Integers, axes: int) -> Mask:
        """Tell which of `rows` state the extents that so many positions have.

        These are the box and, if there are further axes, the range of the first.
        A record without positions has a box of zeros, or of no numbers.
        """
        boxes = gather.picked(block.content, block.offset_bytes[rows] + 12, 32).view("<f8")
        boxes = boxes.reshape(-1, 4)
        agreed: Mask = ((boxes == 0) | np.isnan(boxes)).all(axis=1)
        some = counts > 0
        rows, counts, boxes = rows[some], counts[some], boxes[some]
        if not rows.size:
            return agreed
        begins = block.offset_bytes[rows] + 8 + self._head(block)[rows]
        first = gather.starts_of(counts)
        flat = gather.picked_runs(block.content, begins, first, 16).view("<f8").reshape(-1, 2)
        found = _ranges(flat, first) == boxes
        if axes:
            begins = begins + 16 * counts
            stated = gather.picked(block.content, begins, 16).view("<f8").reshape(-1, 2)
            values = gather.picked_runs(block.content, begins + 16, first, 8).view("<f8")
            ends = _ranges(values.reshape(-1, 1), first) == stated
            found = np.concatenate((found, ends), axis=1)
        agreed[some] = found.all(axis=1)
        return agreed


def _ranges(values: Floats, first: Integers) -> Floats:
    """Return the least and then the greatest of each column, for each run of rows."""
    low, high = (each.reduceat(values, first[:-1]) for each in (np.minimum, np.maximum))
    return np.concatenate((low, high), axis=1)
