"""Rows along a Hilbert curve: the curve, and that no row is lost or bent on the way."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from gate.errors import CorruptError
from gate.sinks import geoparquet, hilbert
from gate.sinks.formats import Origin
from gate.sinks.geoparquet import GeoParquet
from tests.layers import Layer, batch, points, wkb


def scattered(rows: int) -> Layer:
    """Return points in no order, in batches of 100."""
    chance = np.random.default_rng(1)
    places = shapely.to_wkb(shapely.points(chance.uniform(0, 100, (rows, 2)))).tolist()
    return Layer([batch(places[start : start + 100]) for start in range(0, rows, 100)])


def written(layer: Layer, folder: Path) -> pa.Table:
    """Return what a reader finds of a layer that was written along the curve."""
    target = io.BytesIO()
    outcome = GeoParquet(hilbert=True).write(target, layer, Origin("roads", {}), folder)
    table = pq.read_table(target)
    assert outcome.rows == table.num_rows
    return table


def test_the_curve_visits_every_cell_and_only_steps() -> None:
    """Each of the first 4096 cells along the curve is one step from the one before."""
    side = np.arange(64, dtype=np.uint32)
    x, y = (axis.ravel() for axis in np.meshgrid(side, side))
    order = np.argsort(hilbert.distances(x, y))
    steps = np.abs(np.diff(x[order].astype(int))) + np.abs(np.diff(y[order].astype(int)))

    assert sorted(hilbert.distances(x, y).tolist()) == list(range(4096))
    assert set(steps.tolist()) == {1}


def test_the_curve_ends_where_it_should() -> None:
    """The whole grid of 2^16 cells a side goes from its lower left to its lower right."""
    most = np.uint32(2**16 - 1)
    ends = hilbert.distances(np.array([0, most]), np.array([0, 0], dtype=np.uint32))

    assert ends.tolist() == [0, 2**32 - 1]


@pytest.mark.parametrize("group_rows", [65_536, 300])
def test_every_row_is_there_once_with_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int
) -> None:
    """Issue 4: the order is another one, the rows are the same, however many batches wait."""
    monkeypatch.setattr(geoparquet, "ROW_GROUP_ROWS", group_rows)
    layer = scattered(1234)
    table = written(layer, tmp_path)

    given = pa.Table.from_batches(layer.pieces).to_pylist()
    found = table.drop_columns("bbox").to_pylist()
    assert found != given
    assert sorted(found, key=str) == sorted(given, key=str)
    shapes = shapely.from_wkb(table.column("geometry").to_numpy())
    boxes = table.column("bbox").to_pylist()
    pairs = zip(shapes, boxes, strict=True)
    assert all(box["xmin"] <= shape.x <= box["xmax"] for shape, box in pairs)


def test_near_rows_stand_near_each_other(tmp_path: Path) -> None:
    """Issue 4: the way from row to row is a small part of what it is in file order."""
    layer = scattered(5000)

    def way(column: pa.ChunkedArray) -> float:
        places = shapely.get_coordinates(shapely.from_wkb(column.to_numpy()))
        return float(np.hypot(*np.diff(places, axis=0).T).sum())

    table = written(layer, tmp_path)
    given = pa.Table.from_batches(layer.pieces)
    assert way(table.column("geometry")) < way(given.column("geometry")) / 20


def test_rows_without_a_place_come_last(tmp_path: Path) -> None:
    """Case 13: rows without extent are kept, in their own order, behind the others."""
    values = wkb(None, "POINT (9 9)", "POINT EMPTY", "POINT (0 0)")
    table = written(Layer([batch(values)]), tmp_path)

    assert table.column("size").to_pylist() == [3, 1, 0, 2]


@pytest.mark.parametrize("texts", [(), (None, None), ("POINT (1 1)", "POINT (1 1)")])
def test_layers_without_an_extent_are_written(
    texts: tuple[str | None, ...], tmp_path: Path
) -> None:
    """Case 7: no rows, nothing but nulls, or all rows in one place, in file order."""
    table = written(Layer([batch(wkb(*texts))] if texts else []), tmp_path)

    assert table.column("size").to_pylist() == list(range(len(texts)))


@pytest.mark.filterwarnings("error")
def test_rows_in_one_place_keep_the_order_of_the_file(tmp_path: Path) -> None:
    """Rows that the curve does not tell apart stand as they did, and nothing is divided by zero."""
    table = written(Layer([batch(wkb(*["POINT (1 1)"] * 1000))]), tmp_path)

    assert table.column("size").to_pylist() == list(range(1000))


def test_row_groups_stay_within_their_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory stays bounded: groups hold so many rows, or so many bytes of average rows."""
    monkeypatch.setattr(geoparquet, "ROW_GROUP_ROWS", 300)
    target = io.BytesIO()
    geoparquet.write(target, scattered(1000), {}, spool=tmp_path)  # type: ignore[arg-type]
    footer = pq.read_metadata(target)
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [300] * 3 + [100]

    monkeypatch.setattr(geoparquet, "ROW_GROUP_BYTES", 5000)
    (tmp_path / "again").mkdir()
    geoparquet.write(target, scattered(1000), {}, spool=tmp_path / "again")  # type: ignore[arg-type]
    assert pq.read_metadata(target).num_row_groups > 5


def test_an_error_of_the_table_passes_through(tmp_path: Path) -> None:
    """A table that fails half-way fails the dataset with its own error."""
    with pytest.raises(CorruptError):
        written(points(3, error=CorruptError("row 4")), tmp_path)
