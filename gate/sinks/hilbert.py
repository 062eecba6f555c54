"""Rows in the order in which a Hilbert curve visits them: near rows stand near each other.

All rows have to be seen before the first can be placed, so they wait in an Arrow
file in the temporary folder, as large as the rows are in memory. On Cloud
Functions that is memory too. Beside it go about 24 bytes a row, and one row group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Keys = NDArray[np.uint32]
Rows = NDArray[np.uint32]

_BITS = 16
_SIDE = (1 << _BITS) - 1


def ordered(
    groups: Iterator[pa.Table],
    schema: pa.Schema,
    boxes: str,
    folder: Path,
    *,
    most_rows: int,
    most_bytes: int,
) -> Iterator[pa.Table]:
    """Yield the rows along the curve, in groups of no more than so many rows and bytes.

    `boxes` is the column that covers the geometry of each row: the centre of the
    box is what counts. Rows without one come last, in their own order. The bytes
    of a group are those of an average row.
    """
    path = folder / "rows.arrow"
    centres = [np.empty((0, 2), np.float32)]
    bytes_waiting = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as waiting:
        for group in groups:
            waiting.write_table(group)
            centres.append(_centres(group.column(boxes)))
            bytes_waiting += group.nbytes
    order = _order(np.concatenate(centres))
    size = max(1, min(most_rows, most_bytes * len(order) // max(bytes_waiting, 1)))
    with pa.memory_map(str(path)) as file:
        picker = _Picker(pa.ipc.open_file(file))
        for start in range(0, len(order), size):
            yield picker.rows(order[start : start + size])


def distances(x: Keys, y: Keys) -> Keys:
    """Return how far along the curve each cell of the grid of 2^16 × 2^16 stands.

    The rule is that of Wikipedia, "Hilbert curve", `xy2d`, for all cells at once.
    """
    x, y, found = x.copy(), y.copy(), np.zeros(len(x), np.uint32)
    for bit in range(_BITS - 1, -1, -1):
        right, upper = (x >> bit) & 1, (y >> bit) & 1
        found = ((found << 2) | ((3 * right) ^ upper)).astype(np.uint32)
        flipped = (upper == 0) & (right == 1)
        x, y = np.where(flipped, _SIDE - x, x), np.where(flipped, _SIDE - y, y)
        x, y = np.where(upper == 0, y, x), np.where(upper == 0, x, y)
    return found


def _centres(boxes: pa.ChunkedArray) -> NDArray[np.float32]:
    """Return the centre of each box, NaN where there is none."""
    low_x, low_y, high_x, high_y = (
        pc.struct_field(boxes, [corner]).to_numpy() for corner in range(4)
    )
    return np.stack([(low_x / 2 + high_x / 2), (low_y / 2 + high_y / 2)], axis=1)


def _order(centres: NDArray[np.float32]) -> Rows:
    known = np.flatnonzero(np.isfinite(centres).all(axis=1))
    places = centres[known]
    if not len(known):
        return np.arange(len(centres), dtype=np.uint32)
    low = places.min(axis=0)
    extent = np.maximum(places.max(axis=0) - low, np.finfo(np.float32).tiny)
    x, y = ((places - low) / extent * _SIDE).astype(np.uint32).T
    along = known[np.argsort(distances(x, y), kind="stable")]
    others = np.setdiff1d(np.arange(len(centres)), known, assume_unique=True)
    return np.concatenate([along, others]).astype(np.uint32)


class _Picker:
    """Takes rows by number out of a file of batches."""

    def __init__(self, file: pa.ipc.RecordBatchFileReader) -> None:
        self._file = file
        sizes = [file.get_batch(index).num_rows for index in range(file.num_record_batches)]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])

    def rows(self, wanted: Rows) -> pa.Table:
        """Return these rows, in this order. Each batch is asked once."""
        ascending = np.sort(wanted)
        bounds = np.searchsorted(ascending, self._starts)
        pieces = []
        for index in np.flatnonzero(np.diff(bounds)).tolist():
            within = ascending[bounds[index] : bounds[index + 1]] - self._starts[index]
            pieces.append(self._file.get_batch(index).take(pa.array(within)))
        merged = pa.Table.from_batches(pieces).combine_chunks()
        return merged.take(pa.array(np.searchsorted(ascending, wanted)))
