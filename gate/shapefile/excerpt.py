"""What GDAL is shown of a long layer, to say what it takes it for.

GDAL loads the whole index of a layer that it opens, at a cost of 16 bytes a row
(measured: 152 MB for ten million rows). What it says of a layer before it reads
a row depends on the headers, on the first shape and on the table, so of a long
one it is shown these alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gate.shapefile.files import STEM, Bytes
from gate.shapefile.headers import Structure
from gate.shapefile.records import HEADER_BYTES

# Layers of up to so many rows are shown as they are.
WHOLE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Two files for GDAL: `layer` has schema and CRS, `table` has as many rows as the layer."""

    layer: Path
    table: Path


@contextmanager
def exhibited(structure: Structure) -> Iterator[Exhibit]:
    """Give GDAL the layer, or what stands for it while the block runs if it is long.

    That is its first shape with the whole table and the .prj, and the table alone.
    """
    folder = structure.files.folder
    if structure.rows <= WHOLE_ROWS:
        layer = folder / f"{STEM}.shp"
        yield Exhibit(layer, layer)
        return
    with TemporaryDirectory(prefix="excerpt-", dir=folder) as place:
        first, alone = Path(place) / "first", Path(place) / "alone"
        for made, extensions in ((first, (".dbf", ".prj")), (alone, (".dbf",))):
            made.mkdir()
            for extension in extensions:
                original = folder / f"{STEM}{extension}"
                if original.exists():
                    (made / original.name).symlink_to(original.resolve())
        offset, length = _first_shape(structure)
        record = structure.files.shp[offset : offset + 8 + length]
        entry = np.array([HEADER_BYTES, length], np.int64) // 2
        _write(first / f"{STEM}.shp", structure.files.shp, record)
        _write(first / f"{STEM}.shx", structure.files.shx, entry.astype(">i4").view(np.uint8))
        yield Exhibit(first / f"{STEM}.shp", alone / f"{STEM}.dbf")


def _first_shape(structure: Structure) -> tuple[int, int]:
    """Return offset and content length of the first record that is not null, else of the first."""
    records = structure.records
    for block in records.blocks():
        shapes = np.flatnonzero(block.kinds == records.kind)
        if len(shapes):
            return int(block.offset_bytes[shapes[0]]), int(block.content_bytes[shapes[0]])
    offsets, lengths = records.entries(0, 1)
    return int(offsets[0]), int(lengths[0])


def _write(path: Path, original: Bytes, content: Bytes) -> None:
    """Write a file with this content, under the header of the original with its length set."""
    header = original[:HEADER_BYTES].copy()
    words = (HEADER_BYTES + content.size) // 2
    header[24:28] = np.array([words], ">i4").view(np.uint8)
    path.write_bytes(header.tobytes() + content.tobytes())
