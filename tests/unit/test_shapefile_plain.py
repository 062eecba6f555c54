"""Plain records: told from the others, decoded from their bytes alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from gate.policies import Reader, RowPolicy
from gate.shapefile import plain
from gate.shapefile.files import let_go, map_files
from gate.shapefile.findings import Findings
from gate.shapefile.geometry import Geometries
from gate.shapefile.headers import check
from gate.shapefile.plain import Plain
from gate.shapefile.records import Block, Records
from gate.shapefile.rings import RING_LIMIT
from tests.reading import read
from tests.shapefiles import (
    LINE,
    POINT,
    POLYGON,
    M,
    Shape,
    Z,
    layer,
    line,
    multipatch,
    multipoint,
    null,
    point,
    polygon,
    square,
    write,
)


def decoded(shapes: list[Shape], folder: Path, *, multi: bool = False, **how: bool) -> Plain:
    """Decode the plain ones of these shapes, of which the last one says the type."""
    bundle = layer(shapes, kind=next(shape.kind for shape in reversed(shapes) if shape.kind))
    structure = check(map_files(write(bundle, folder), "a"), Findings())
    block = structure.records.block(0, structure.rows)
    live = np.ones(structure.rows, np.bool_)
    return plain.decode(structure.records, block, live, multi=multi, **how)


def hole(x: float, y: float, side: float = 1.0) -> tuple[tuple[float, ...], ...]:
    """Return a ring wound as the format wants holes."""
    return tuple(reversed(square(x, y, side)))


# A shell with a bay in its east side: boxes alone do not tell what lies in it.
BAY = ((0, 0), (0, 9), (9, 9), (9, 6), (3, 6), (3, 3), (9, 3), (9, 0), (0, 0))


@pytest.mark.parametrize(
    "shape",
    [
        point(1, 2),
        point(1, 2, 3, kind=POINT + Z),
        point(1, 2, 3, kind=POINT + M),
        multipoint((1, 2), (3, 4)),
        line([(0, 0), (1, 1)]),
        line([(0, 0), (1, 1)], [(2, 2), (3, 3)]),
        line([(0, 0, 5), (1, 1, 6)], kind=LINE + Z),
        polygon(square(0, 0)),
        polygon(hole(0, 0)),
        polygon(square(0, 0, 9), hole(1, 1)),
        polygon(hole(1, 1), square(0, 0, 9)),
        polygon(square(0, 0, 9), hole(1, 1), hole(3, 3)),
        polygon(square(0, 0, 9), square(20, 0, 9), hole(21, 1), hole(1, 1)),
        polygon(square(0, 0), square(5, 5)),
        polygon(square(0, 0, 2), square(1, 1, 2)),
        polygon(BAY, square(5, 4)),
        polygon(BAY, hole(1, 4)),
        polygon(square(0, 0, 9, 1.0), square(20, 0, 1, 2.0), kind=POLYGON + Z),
    ],
)
def test_what_is_certain_is_plain(shape: Shape, tmp_path: Path) -> None:
    """Ordinary shapes are decoded from their bytes, and to what Fiona gives."""
    fiona = read(layer([shape]), tmp_path, reader=Reader.FIONA).column("geometry")
    found = decoded([shape], tmp_path, multi=len(shape.parts) > 1)
    assert found.rows.all()
    assert found.wkb.to_pylist() == fiona


@pytest.mark.parametrize(
    "shape",
    [
        point(math.nan, 2),
        point(1, math.inf),
        point(1, 2, math.nan, kind=POINT + Z),
        multipoint((1, 2), (math.nan, 4)),
        multipoint(),
        line(),
        line([(0, 0)]),
        line([(0, 0), (1, 1)], [(2, 2)]),
        line([(0, 0), (1, math.nan)]),
        polygon(),
        polygon(square(0, 0)[:-1]),
        *(
            polygon(square(0, 0, 9), [(1, 1), odd, (2, 2), (2, 1), (1, 1)])
            for value in (math.nan, math.inf, -math.inf)
            for odd in ((value, 1.5), (1.5, value), (value, value))
        ),
        polygon([(0, 0), (0, 1), (math.inf, 1), (0, 0)], square(1, 1)),
        polygon([(math.nan, 0), (0, 1), (1, 1), (math.nan, 0)]),
        polygon([(0, 0, 1), (0, 1, math.nan), (1, 1, 1), (0, 0, 1)], kind=POLYGON + Z),
        polygon([(0, 0, 1), (0, 1, math.inf), (1, 1, 1), (0, 0, 1)], kind=POLYGON + Z),
        polygon([(0, 0), (1, 1), (0, 0)]),
        polygon([(0, 0), (1, 1), (2, 2), (0, 0)]),
        polygon([(0, 0), (1e300, 1), (0, 1e300), (0, 0)]),
        polygon(square(0, 0, 9), square(1, 1)),
        polygon(hole(0, 0, 9), hole(1, 1)),
        polygon(hole(0, 0, 9), square(1, 1)),
        polygon(hole(0, 0), hole(5, 5)),
        polygon(square(0, 0, 9), hole(0, 0)),
        polygon(square(0, 0, 9), hole(0, 3)),
        polygon(square(0, 0, 9), hole(0, 0, 9)),
        polygon(square(0, 0, 9), hole(1, 1, 7), square(2, 2, 2)),
        polygon(square(0, 0, 9), square(0, 0, 9)),
        polygon(square(0, 0, 4), square(1, 1, 4), hole(2, 2)),
        polygon((*square(0, 0, 1, 1.0)[:-1], (0, 0, 2.0)), kind=POLYGON + Z),
        polygon(*[square(2 * number, 0) for number in range(RING_LIMIT + 1)]),
        multipatch((5, square(0, 0, 1, 3))),
    ],
)
def test_what_is_not_certain_is_left_to_fiona(shape: Shape, tmp_path: Path) -> None:
    """Odd shapes are not decoded here, and do not keep their neighbours from it."""
    assert not decoded([shape], tmp_path).rows.any()
    if shape.kind % 10 in (POLYGON, LINE):
        dimensions = () if shape.kind < Z else (1.0,)
        ring = square(50, 50, 1, *dimensions)
        good = polygon(ring, kind=shape.kind) if shape.kind % 10 == POLYGON else line(ring)
        assert decoded([good, shape, good], tmp_path).rows.tolist() == [True, False, True]


@pytest.mark.parametrize("rings", [1, 2])
@pytest.mark.parametrize("first", [-1, 1])
def test_a_part_that_does_not_begin_at_the_first_position_is_not_certain(
    tmp_path: Path, rings: int, first: int
) -> None:
    """What lies before the first part would be lost, so the record is left to Fiona."""
    bundle = layer([polygon(*[square(3 * number, 0) for number in range(rings)])] * 2)
    content = bytearray(bundle[".shp"])
    content[100 + 52 : 100 + 56] = first.to_bytes(4, "little", signed=True)
    files = map_files(write({**bundle, ".shp": bytes(content)}, tmp_path), "a")
    records = check(files, Findings()).records
    found = plain.decode(records, records.block(0, 2), np.ones(2, np.bool_), multi=False)
    assert found.rows.tolist() == [False, True]
    assert len(found.wkb) == 1


def test_rings_that_are_not_kept_leave_the_geometry_as_it_is(tmp_path: Path) -> None:
    """What is decoded does not lie in memory that the next block is decoded in."""
    for corners in (5, 200):
        angles = np.linspace(0, -2 * np.pi, corners)
        ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        ring[-1] = ring[0]
        near, far = (
            [polygon((ring + offset).tolist(), hole(offset, offset, 0.1))] * 3 for offset in (0, 50)
        )
        kept = decoded(near, tmp_path)
        brief = decoded(near, tmp_path, keep_rings=False)
        decoded(far, tmp_path, keep_rings=False)
        assert brief.rings is None
        assert kept.rings is not None
        assert kept.rings.parts.positions[:, 0].max() < 2
        assert brief.wkb.equals(kept.wkb)


def test_null_shapes_are_plain_unless_a_policy_wants_to_see_them(tmp_path: Path) -> None:
    """A null shape is a null in the column, or left to the rules for rows."""
    shapes = [null(), point(1, 2), null()]
    found = decoded(shapes, tmp_path)
    assert found.rows.tolist() == [True, True, True]
    assert [value is None for value in found.wkb.to_pylist()] == [True, False, True]
    assert found.null == 2
    assert decoded(shapes, tmp_path, nulls=False).rows.tolist() == [False, True, False]
    skipped = read(layer(shapes, kind=POINT), tmp_path, null_geometry=RowPolicy.SKIP)
    assert skipped.report.rows.rejected == 2


def test_the_facts_are_those_of_the_plain_rows(tmp_path: Path) -> None:
    """Type, bounds and rewound shells are told with the rows."""
    found = decoded([polygon(hole(0, 0)), polygon(square(3, 4))], tmp_path)
    assert (found.type, found.bounds, len(found.rewound)) == ("Polygon", (0, 0, 4, 5), 1)
    assert decoded([null(), polygon(square(0, 0)[:-1])], tmp_path).type == ""


def test_long_and_short_rings_stand_side_by_side(tmp_path: Path) -> None:
    """Rings of many positions and of few come out as they are, each in its place."""
    angles = np.linspace(0, 2 * math.pi, 400, endpoint=False)
    ring = [(math.cos(angle) * 9, math.sin(angle) * 9) for angle in angles]
    ring.append(ring[0])
    for shapes in ([polygon(ring)], [polygon(ring), *[polygon(square(20, 0))] * 99]):
        found = decoded(shapes, tmp_path)
        assert found.rows.all()
        geometries = shapely.from_wkb(found.wkb.to_pylist())
        assert shapely.get_coordinates(geometries[0]).tolist() == [list(each) for each in ring]
        assert all(geometry.exterior.is_ccw for geometry in geometries)


@pytest.mark.parametrize("batch_bytes", [1 << 20, 200])
def test_the_geometry_of_a_batch_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    """A layer of one batch, which no other thread reads ahead, takes no more work than another."""
    calls: list[int] = []
    decode = plain.decode

    def counting(records: Records, block: Block, *args: Any, **how: Any) -> Plain:
        calls.append(block.start)
        return decode(records, block, *args, **how)

    monkeypatch.setattr(plain, "decode", counting)
    reading = read(
        layer([polygon(square(n, 0)) for n in range(3)]), tmp_path, batch_bytes=batch_bytes
    )
    assert len(reading.geometries) == 3
    assert sorted(calls) == ([0] if batch_bytes > 200 else [0, 1, 2])


def test_one_core_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no core can be left to the thread that reads values, several batches are read too."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    shapes = [polygon(square(number, 0)) for number in range(3)]
    assert len(read(layer(shapes), tmp_path, batch_bytes=200).geometries) == 3


def test_the_reader_asks_fiona_for_the_odd_rows_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a layer with one open ring, one feature is read; the rows stay in order."""
    asked: list[int] = []
    expect = Geometries._expect

    def counting(self: Geometries, row: int, feature: object) -> object:
        asked.append(row)
        return expect(self, row, feature)  # type: ignore[arg-type]

    monkeypatch.setattr(Geometries, "_expect", counting)
    shapes = [polygon(square(number, 0)) for number in range(5)]
    shapes[3] = polygon(square(3, 0)[:-1])
    reading = read(layer(shapes), tmp_path)
    assert asked == [3]
    assert [shape.bounds[0] for shape in reading.geometries] == [0, 1, 2, 3, 4]


def test_a_mapped_file_is_the_same_after_it_was_let_go_of(tmp_path: Path) -> None:
    """Pages that were taken out of memory return with the same bytes; other bytes are left."""
    write(layer([point(1, 2)]), tmp_path)
    files = map_files(tmp_path, "a")
    before = files.shp.tobytes()
    let_go(files.shp)
    let_go(np.zeros(9, np.uint8))
    assert files.shp.tobytes() == before


def test_policies_reach_rows_beside_plain_ones(tmp_path: Path) -> None:
    """A policy for empty shapes acts although their neighbours are decoded from bytes."""
    shapes = [polygon(square(0, 0)), polygon(), polygon(square(5, 5))]
    report = read(layer(shapes), tmp_path, empty_geometry=RowPolicy.REJECT).report
    assert (report.rows.loaded, report.rows.rejected) == (2, 1)
    assert report.rejects[0].examples[0].row == 2
