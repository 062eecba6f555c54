"""A layer that stays in the bucket is the layer that a download gives: rows, report and errors."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gate.errors import (
    BundleError,
    ChecksumError,
    EmptyComponentError,
    GateError,
    MissingComponentError,
    SourceChangedError,
    TooLargeError,
)
from gate.shapefile import excerpt
from gate.shapefile.headers import ANY_MEMORY
from gate.shapefile.reader import ReadOptions, open_layer
from gate.shapefile.records import GAP_BYTES
from gate.source.memory import MemorySource
from gate.source.ranges import Ranges
from tests.reading import MAIN, Reading, read, read_in_parts
from tests.shapefiles import (
    LINE,
    MULTIPOINT,
    POINT,
    POLYGON,
    Bundle,
    Field,
    M,
    Z,
    cut,
    flipped,
    layer,
    line,
    multipatch,
    multipoint,
    null,
    parcels,
    point,
    points,
    polygon,
    square,
    without,
)

FIELDS = (Field("ID", "N", 4), Field("NAME", "C", 6))
VALUES = [(1, "é"), (2, "two"), (None, "drei")]
HOLE = tuple(reversed(square(1, 1, 1)))


def scattered() -> Bundle:
    """Return points whose records are in the opposite order of the rows, and far apart."""
    bundle = points(12)
    shp, gap = bundle[".shp"], bytes(2 * GAP_BYTES // 12)
    body, entries = b"", b""
    for row in reversed(range(12)):
        begin = 100 + 28 * row
        entries = struct.pack(">2i", (100 + len(body)) // 2, 10) + entries
        body += shp[begin : begin + 28] + gap
    header = shp[:24] + struct.pack(">i", (100 + len(body)) // 2) + shp[28:100]
    return {**bundle, ".shp": header + body, ".shx": bundle[".shx"][:100] + entries}


BUNDLES: dict[str, Callable[[], Bundle]] = {
    "parcels": lambda: parcels(60),
    "deleted": lambda: layer([point(1, 2), null(), point(3, 4)], FIELDS, VALUES, deleted=[1]),
    "not plain": lambda: layer([point(math.nan, 2), point(1, 2), point(math.inf, 2)]),
    "measured": lambda: layer(
        [null(), *(multipoint((x, 0, 5), (1, 1, 6), kind=MULTIPOINT + M) for x in range(40))]
    ),
    "heights": lambda: layer(
        [
            line([(0, 0, 1, 2), (1, 1, 1, 3)], [(2, 2, 0, 0), (3, 3, 0, 0)], kind=LINE + Z),
            line([(0, math.nan, 1, 2), (1, 1, 1, 3)], kind=LINE + Z),
        ]
    ),
    "surfaces": lambda: layer([multipatch((5, square(0, 0, 1, 3))), null()]),
    "rings": lambda: layer([polygon(square(0, 0, 4), HOLE), polygon(square(5, 5), square(8, 8))]),
    "bow ties": lambda: layer([polygon(((0, 0), (2, 2), (2, 0), (0, 2), (0, 0)))] * 3),
    "no rows": lambda: layer([], kind=POLYGON),
    "null alone": lambda: layer([null(), null()], kind=POINT),
    "scattered": scattered,
    "a gap": lambda: {**points(3), ".shp": points(3)[".shp"] + bytes(500)},
    "no sidecars": lambda: without(layer([point(1, 2)], FIELDS, VALUES[:1]), ".prj", ".cpg"),
    "no table": lambda: without(points(3), ".dbf"),
    "no bytes": lambda: {**points(3), ".shx": b""},
}


def outcome(read_it: Callable[..., Reading], *given: Any, **options: Any) -> Any:
    """Return rows, CRS and report, or the whole message of the error."""
    try:
        found = read_it(*given, **options)
    except GateError as error:
        return type(error), str(error)
    # Through text, for NaN is not equal to itself.
    return found.table.schema, str(found.table.to_pydict()), found.crs, found.report.as_json()


def alike(bundle: Bundle, folder: Path, **options: Any) -> Any:
    """Assert that both ways end alike; return how."""
    downloaded = outcome(read, bundle, folder / "whole", **options)
    assert outcome(read_in_parts, bundle, folder / "parts", **options) == downloaded
    return downloaded


@pytest.mark.parametrize("batch_bytes", [1, 500, 4 << 20])
@pytest.mark.parametrize("make", BUNDLES.values(), ids=BUNDLES)
def test_a_layer_is_the_same_in_parts(
    make: Callable[[], Bundle], batch_bytes: int, tmp_path: Path
) -> None:
    """Issue 4: whatever the shapes and the size of batches, reading in place changes nothing."""
    alike(make(), tmp_path, batch_bytes=batch_bytes)


@pytest.mark.parametrize("make", BUNDLES.values(), ids=BUNDLES)
def test_a_long_layer_is_judged_alike(
    make: Callable[[], Bundle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4: what stands for a layer before GDAL leads to the judgement on the layer itself."""
    whole = outcome(read, make(), tmp_path / "whole")
    monkeypatch.setattr(excerpt, "WHOLE_ROWS", 0)
    assert alike(make(), tmp_path / "long") == whole


@pytest.mark.parametrize("make", ["parcels", "deleted", "measured", "heights", "rings"])
@pytest.mark.parametrize("extension", MAIN)
def test_damage_is_met_alike_in_parts(make: str, extension: str, tmp_path: Path) -> None:
    """D8, issue 4: a flipped byte or a cut anywhere ends with the same rows, or the same words."""
    bundle = BUNDLES[make]()
    chance = random.Random(f"{make}{extension}")
    size = len(bundle[extension])
    for offset in {*range(0, min(size, 110), 7), *(chance.randrange(size) for _ in range(15))}:
        alike(flipped(bundle, extension, offset), tmp_path)
    for _ in range(5):
        alike(cut(bundle, extension, chance.randrange(size)), tmp_path)


# --- what the network does ---------------------------------------------------------


def stored(bundle: Bundle, source: MemorySource) -> dict[str, Ranges]:
    """Return the main files as objects in blocks of 64 bytes."""
    return {
        known: Ranges(source, "uploads", source.put("uploads", f"in/a{known}", bundle[known]), 64)
        for known in MAIN
    }


def rows_of(remote: dict[str, Ranges], folder: Path, memory_bytes: int = ANY_MEMORY) -> int:
    """Read a layer of objects to its end."""
    options = ReadOptions(memory_bytes=memory_bytes)
    try:
        with open_layer(folder, name="a", options=options, remote=remote) as opened:
            return sum(batch.num_rows for batch in opened.batches())
    finally:
        for component in remote.values():
            component.close()


@pytest.mark.parametrize("extension", MAIN)
def test_damage_on_the_way_is_no_fault_of_the_bundle(extension: str, tmp_path: Path) -> None:
    """D5: whatever byte of a first read changes on its way, the attempt fails and may pass."""
    bundle = parcels(30)
    for offset in range(0, len(bundle[extension]), 97):
        source = MemorySource()
        remote = stored(bundle, source)
        damage_at(source, f"in/a{extension}", offset)
        with pytest.raises(ChecksumError):
            rows_of(remote, tmp_path)


def test_a_record_that_seems_too_large_is_proven_first(tmp_path: Path) -> None:
    """D5: nobody is asked for more memory on account of bytes that changed on their way."""
    bundle, source = parcels(30), MemorySource()
    with pytest.raises(TooLargeError):
        rows_of(stored(bundle, source), tmp_path, memory_bytes=1)
    damage_at(source, "in/a.dbf", len(bundle[".dbf"]) - 1)
    with pytest.raises(ChecksumError):
        rows_of(stored(bundle, source), tmp_path, memory_bytes=1)


def test_bytes_that_nobody_needs_are_proven_too(tmp_path: Path) -> None:
    """D5: what lies behind the last record is part of the object, and of its checksum."""
    bundle, source = BUNDLES["a gap"](), MemorySource()
    remote = stored(bundle, source)
    damage_at(source, "in/a.shp", len(bundle[".shp"]) - 1)
    with pytest.raises(ChecksumError):
        rows_of(remote, tmp_path)


def damage_at(source: MemorySource, name: str, offset: int) -> None:
    """Let one byte of an object arrive changed whenever it is read."""
    read_it = source.read

    def damaged(bucket: str, facts: Any, start: int, stop: int) -> Any:
        content = read_it(bucket, facts, start, stop)
        if facts.name == name and start <= offset < stop:
            content = bytearray(content)
            content[offset - start] ^= 0xFF
        return bytes(content)

    source.read = damaged  # type: ignore[method-assign]


def test_damage_on_the_way_of_a_second_read_publishes_nothing(tmp_path: Path) -> None:
    """D5: rows are made of bytes that were proven, so a change between the passes is found."""
    source = MemorySource()
    with open_layer(tmp_path, name="a", remote=stored(parcels(300), source)) as opened:
        batches = opened.batches()
        source.damage = lambda content: content[:-1] + b"\xaa"
        with pytest.raises(ChecksumError, match="of block"):
            list(batches)


def test_an_object_that_vanishes_between_the_passes_is_told_as_such(tmp_path: Path) -> None:
    """D1: an overwrite while rows are decoded is no damage, and comes through to the caller."""
    source = MemorySource()
    with open_layer(tmp_path, name="a", remote=stored(parcels(300), source)) as opened:
        batches = opened.batches()
        source.put("uploads", "in/a.shp", b"newer")
        with pytest.raises(SourceChangedError, match=r"in/a\.shp"):
            list(batches)


def test_what_is_missing_is_missing_in_both_places(tmp_path: Path) -> None:
    """D8: a component is looked for where it should be, and an empty object is an empty file."""
    assert alike(BUNDLES["no table"](), tmp_path)[0] is MissingComponentError
    assert alike(BUNDLES["no bytes"](), tmp_path)[0] is EmptyComponentError
    assert issubclass(alike(cut(points(3), ".shp", 150), tmp_path)[0], BundleError)
