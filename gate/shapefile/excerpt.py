"""What GDAL is shown of a layer that is long, or that does not lie on this machine.

GDAL loads the whole index of a layer that it opens, at a cost of 16 bytes a row
(measured: 152 MB for ten million rows). What it says of a layer before it reads
a row depends on the headers, on the first shape and on the size of the table, so
it is shown these alone, and to decode a row it is shown that row's record behind
the first shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gate import gather
from gate.gather import Bytes
from gate.shapefile.files import STEM
from gate.shapefile.headers import Structure
from gate.shapefile.records import HEADER_BYTES, Block

# Layers of up to so many rows are shown as they are, where they lie on this machine.
WHOLE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Two files for GDAL: `layer` has schema and CRS, `table` has as many rows as the layer."""

    layer: Path
    table: Path


@contextmanager
def exhibited(structure: Structure) -> Iterator[Exhibit]:
    """Give GDAL the layer, or what stands for it while the block runs.

    That is its first shape with a table and the .prj, and the table alone. The
    table is a header with room for the rows: none of them is looked at.
    """
    files = structure.files
    folder = files.folder
    if structure.rows <= WHOLE_ROWS and not files.remote:
        layer = folder / f"{STEM}.shp"
        yield Exhibit(layer, layer)
        return
    with TemporaryDirectory(prefix="excerpt-", dir=folder) as place:
        first, alone = Path(place) / "first", Path(place) / "alone"
        for made in (first, alone):
            made.mkdir()
            _write_table(made / f"{STEM}.dbf", structure)
        projection = folder / f"{STEM}.prj"
        if projection.exists():
            (first / projection.name).symlink_to(projection.resolve())
        shapes = [first_shape(structure)[1]] if structure.rows else []
        layer = write_records(first, structure, shapes)
        yield Exhibit(layer, alone / f"{STEM}.dbf")


def first_shape(structure: Structure) -> tuple[int, Bytes]:
    """Return the row and the record of the first shape that is not null, or else of the first."""
    records = structure.records
    for block in records.blocks():
        shapes = np.flatnonzero(block.kinds == records.kind)
        if len(shapes):
            return block.start + int(shapes[0]), record_of(block, int(shapes[0])).copy()
    return 0, record_of(records.block(0, 1), 0)


def record_of(block: Block, place: int) -> Bytes:
    """Return the bytes of one record of a block, with its own header."""
    begin = int(block.offset_bytes[place])
    return block.content[begin : begin + 8 + int(block.content_bytes[place])]


def write_records(folder: Path, structure: Structure, records: Sequence[Bytes]) -> Path:
    """Write a .shp of these records, and its .shx, into `folder`; return the .shp.

    The headers are those of the layer but for the lengths that they state.
    """
    files = structure.files
    lengths = np.array([record.size for record in records], np.int64)
    offsets = HEADER_BYTES + gather.starts_of(lengths)[:-1]
    entries = np.stack([offsets, lengths - 8], axis=1) // 2
    _write(folder / f"{STEM}.shx", files.shx[:HEADER_BYTES], entries.astype(">i4").tobytes())
    path = folder / f"{STEM}.shp"
    _write(path, files.shp[:HEADER_BYTES], b"".join(record.tobytes() for record in records))
    return path


def _write(path: Path, original: Bytes, content: bytes) -> None:
    """Write a file with this content, under the header of the original with its length set."""
    header = original.copy()
    words = (HEADER_BYTES + len(content)) // 2
    header[24:28] = np.array([words], ">i4").view(np.uint8)
    path.write_bytes(header.tobytes() + content)


def _write_table(path: Path, structure: Structure) -> None:
    """Write the header of the table, and as large a hole as its rows take, which takes no room."""
    table = structure.table
    with path.open("wb") as file:
        file.write(table.content[: table.header_bytes].tobytes())
        file.truncate(table.content.size)
