"""The records of a .shp, found through its .shx and checked before GDAL sees them.

GDAL answers a record it cannot read with a null geometry and goes on, so every
record is proven here first: it lies inside the file, overlaps no other, both
files give it the same length, and the length holds the points it announces.
All checks are vectorised over blocks of rows; memory does not grow with the file.

Layout: ESRI Shapefile Technical Description (July 1998).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gate.errors import CorruptError, EmptyComponentError, NotAShapefileError, TruncatedError
from gate.shapefile.files import Bytes

FILE_CODE = (9994).to_bytes(4, "big")
HEADER_BYTES = 100
BLOCK_ROWS = 1 << 16
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

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Facts of consecutive records: type, parts, points, and where they lie in bytes.

    `parts` is 0 for types without parts; `points` is 1 for a point.
    """

    start: int
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

    shp: Bytes
    shx: Bytes
    kind: int
    rows: int
    stem: str

    def blocks(self) -> Iterator[Block]:
        """Yield all records in row order; call it only after `check_index`."""
        for start in range(0, self.rows, BLOCK_ROWS):
            yield self.block(start, min(start + BLOCK_ROWS, self.rows))

    def entries(self, start: int, stop: int) -> tuple[Integers, Integers]:
        """Return offsets and content lengths of the index, in bytes."""
        raw = self.shx[HEADER_BYTES + 8 * start : HEADER_BYTES + 8 * stop]
        pairs = raw.view(">i4").reshape(-1, 2).astype(np.int64) * 2
        return pairs[:, 0], pairs[:, 1]

    def block(self, start: int, stop: int) -> Block:
        """Return the facts of the rows from `start` to before `stop`."""
        offsets, lengths = self.entries(start, stop)
        kinds = self._little(offsets + 8)
        parts = np.zeros_like(kinds)
        points = np.where(np.isin(kinds, POINTS), 1, 0)
        counted = np.isin(kinds, MULTIPOINTS) & (lengths >= 40)
        points[counted] = self._little(offsets[counted] + 44)
        parted = np.isin(kinds, (*LINES, *POLYGONS, MULTIPATCH)) & (lengths >= 44)
        parts[parted] = self._little(offsets[parted] + 44)
        points[parted] = self._little(offsets[parted] + 48)
        return Block(start, kinds, parts, points, offsets, lengths)

    def measured(self, block: Block) -> npt.NDArray[np.bool_]:
        """Tell which records hold M values, by their M range (for a point, its M)."""
        single = np.isin(block.kinds, POINTS)
        place = _needed(block) + np.where(single, 0, 8)
        present = np.isin(block.kinds, (*WITH_Z, *WITH_M)) & (block.points > 0)
        present &= place + 8 <= block.content_bytes
        at = (block.offset_bytes + 8 + place)[present] // 2
        words = self._words()[at[:, None] + np.arange(4)]
        present[present] = np.ascontiguousarray(words).view("<f8").reshape(-1) > NO_MEASURE
        return present

    def check_index(self) -> int:
        """Prove that every record lies inside the .shp, alone and at its stated length.

        Return the number of bytes that belong to no record. Raises
        `TruncatedError` or `CorruptError`.
        """
        declared = int(self.shp[24:28].view(">i4")[0]) * 2
        used, end, ordered = HEADER_BYTES, HEADER_BYTES, True
        for start in range(0, self.rows, BLOCK_ROWS):
            offsets, lengths = self.entries(start, min(start + BLOCK_ROWS, self.rows))
            ends = offsets + 8 + lengths
            self._refuse(
                start, (offsets < HEADER_BYTES) | (lengths < 4), "its index entry is no record"
            )
            outside = np.flatnonzero(ends > self.shp.size)
            if outside.size:
                self._refuse_outside(start + int(outside[0]) + 1, declared)
            self._refuse(
                start,
                (self._big(offsets + 4) * 2) != lengths,
                "the .shp and the .shx state different lengths for it",
            )
            ordered = ordered and bool((offsets >= np.append(end, ends[:-1])).all())
            used, end = used + int((lengths + 8).sum()), int(ends[-1])
        if not ordered:
            self._check_overlap()
        return int(self.shp.size) - used

    def check_content(self) -> None:
        """Prove that each record is null or of the header's type, and holds its points.

        The format asks for one type, and GDAL forces each geometry into it: the Z
        of a `PointZ` among points is lost without a word.
        """
        for block in self.blocks():
            self._refuse(
                block.start, ~np.isin(block.kinds, (NULL, self.kind)), "its type is foreign"
            )
            self._refuse(
                block.start,
                (block.parts < 0) | (block.points < 0) | (block.content_bytes < _needed(block)),
                "it is shorter than the points it announces",
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

    def _refuse(self, start: int, bad: npt.NDArray[np.bool_], what: str) -> None:
        rows = np.flatnonzero(bad)
        if rows.size:
            raise CorruptError(
                f"record {start + int(rows[0]) + 1}: {what}", where=f"{self.stem}.shp"
            )

    def _little(self, offsets: Integers) -> Integers:
        """Return the little-endian 32-bit integers at these (even) byte offsets."""
        words = self._words()
        return (
            (words[offsets // 2].astype(np.int64) | words[offsets // 2 + 1].astype(np.int64) << 16)
            .astype(np.int32)
            .astype(np.int64)
        )

    def _big(self, offsets: Integers) -> Integers:
        """Return the big-endian 32-bit integers at these (even) byte offsets."""
        return self._little(offsets).astype(np.int32).byteswap().astype(np.int64)

    def _words(self) -> npt.NDArray[np.uint16]:
        return self.shp[: self.shp.size // 2 * 2].view("<u2")


def _needed(block: Block) -> Integers:
    """Return the least content length of each record; M values are optional in every type."""
    kinds, points = block.kinds, block.points
    needed = np.full_like(kinds, 4)
    has_z = np.isin(kinds, WITH_Z)
    single = np.isin(kinds, POINTS)
    needed[single] = 20 + 8 * has_z[single]
    head = np.where(np.isin(kinds, MULTIPOINTS), 40, 44 + 4 * block.parts)
    head = np.where(kinds == MULTIPATCH, head + 4 * block.parts, head)
    z_bytes = np.where(has_z & (points > 0), 16 + 8 * points, 0)
    many = ~single & (kinds != NULL)
    needed[many] = (head + 16 * points + z_bytes)[many]
    return needed


def geometry_header(content: Bytes, where: str) -> tuple[int, int]:
    """Return the shape type and the declared length in bytes of a .shp or .shx.

    Raises `NotAShapefileError`, or `EmptyComponentError` if the header is not
    whole, or `CorruptError` for a version or type that the format does not have.
    """
    if not FILE_CODE.startswith(content[:4].tobytes()):
        raise NotAShapefileError("does not begin with the file code 9994", where=where)
    if content.size < HEADER_BYTES:
        what = f"holds {content.size} bytes, fewer than its header"
        raise EmptyComponentError(what, where=where)
    words = int(content[24:28].view(">i4")[0])
    version, kind = content[28:36].view("<i4").tolist()
    if version != 1000:
        raise CorruptError(f"states version {version}, not 1000", where=where)
    if kind not in KINDS:
        raise CorruptError(f"states shape type {kind}, which does not exist", where=where)
    return kind, words * 2
