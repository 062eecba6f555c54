"""The reader as its callers see it: a table read once, with a report that adds up."""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fiona
import numpy as np
import pytest
import shapely.geometry

from gate.errors import BundleError, CorruptError, LostRowsError, UnreadableError
from gate.gather import Bytes
from gate.policies import Policies, Reader
from gate.shapefile import excerpt, features, reader
from gate.shapefile.excerpt import write_records
from gate.shapefile.extent import Extent
from gate.shapefile.findings import Findings
from gate.shapefile.gdal_log import WARNING_LIMIT, GdalLog
from gate.shapefile.geometry import Taken, Tally
from gate.shapefile.headers import Structure
from gate.shapefile.reader import Layer, ReadOptions, open_layer
from gate.sinks.port import Table
from tests.reading import read
from tests.shapefiles import (
    LINE,
    POINT,
    POLYGON,
    Bundle,
    Field,
    Z,
    column,
    flipped,
    layer,
    line,
    multipatch,
    null,
    parcels,
    point,
    points,
    polygon,
    square,
    without,
    write,
)


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[Layer]:
    """Open a bundle of 100 points under the name roads."""
    write(points(100), folder)
    with open_layer(folder, name="roads.shp", options=ReadOptions(**options)) as found:
        yield found


def test_a_layer_is_a_table_for_sinks(tmp_path: Path) -> None:
    """A layer has what the sinks' port asks for: schema with geometry last, CRS, batches."""
    with opened(tmp_path) as found:
        table: Table = found
        assert table.schema.names == ["ID", "geometry"]
        assert table.geo_crs is not None
        assert [batch.schema for batch in table.batches()] == [table.schema]


def test_batches_are_sized_by_bytes(tmp_path: Path) -> None:
    """A batch is made of about as many bytes as asked for; the rows are the same in any size."""
    whole = read(parcels(200), tmp_path).table
    for size in (1, 1_000, 10_000, 10**12):
        write(parcels(200), tmp_path)
        with open_layer(tmp_path, name="a", options=ReadOptions(batch_bytes=size)) as found:
            batches = list(found.batches())
        rows = [batch.num_rows for batch in batches]
        assert sum(rows) == 200
        assert max(rows) <= max(1, size // 150)
        assert [value for batch in batches for value in batch.to_pylist()] == whole.to_pylist()


def test_batches_without_live_rows_are_not_yielded(tmp_path: Path) -> None:
    """A stretch of deleted rows makes no empty batch."""
    bundle = layer([point(number, 0) for number in range(9)], deleted=range(2, 7))
    write(bundle, tmp_path)
    with open_layer(tmp_path, name="a", options=ReadOptions(batch_bytes=1)) as found:
        assert [batch.num_rows for batch in found.batches()] == [1, 1, 1, 1]
        assert found.report().rows.deleted == 5


def test_a_layer_is_read_once(tmp_path: Path) -> None:
    """A second pass over the batches is refused: it would count every row twice."""
    with opened(tmp_path) as found:
        list(found.batches())
        with pytest.raises(RuntimeError, match="once"):
            next(found.batches())


def test_there_is_no_report_before_the_end(tmp_path: Path) -> None:
    """A report on half a layer does not exist."""
    with opened(tmp_path, batch_bytes=100) as found:
        with pytest.raises(RuntimeError, match="after the last batch"):
            found.report()
        next(found.batches())
        with pytest.raises(RuntimeError, match="after the last batch"):
            found.report()


def test_an_abandoned_read_lets_go_of_its_files(tmp_path: Path) -> None:
    """A read that stops half-way closes GDAL's files at once, and its own when it is let go of."""
    with opened(tmp_path, batch_bytes=100, policies=Policies(reader=Reader.FIONA)) as found:
        mapped = open_files(tmp_path)
        batches = found.batches()
        next(batches)
        assert len(open_files(tmp_path)) > len(mapped)
    assert open_files(tmp_path) == mapped
    with pytest.raises(RuntimeError, match="closed"):
        next(batches)
    del found, batches
    assert open_files(tmp_path) == []


@pytest.mark.parametrize(("x", "shown"), [(1, 0), (math.nan, 9)])
def test_gdal_is_shown_only_rows_that_are_not_plain(
    x: float, shown: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole index costs GDAL memory for every row, so of each batch it gets what it is for."""
    counts: list[int] = []

    def counted(folder: Path, structure: Structure, records: Sequence[Bytes]) -> Path:
        counts.append(len(records) - 1)
        return write_records(folder, structure, records)

    monkeypatch.setattr("gate.shapefile.features.write_records", counted)
    write(layer([point(x, 2)] * 9), tmp_path)
    with open_layer(tmp_path, name="a", options=ReadOptions(batch_bytes=1)) as found:
        list(found.batches())
    assert sum(counts) == shown


def test_an_exhausted_read_lets_go_of_its_files(tmp_path: Path) -> None:
    """After the last batch GDAL holds no file, even before the layer is closed."""
    with opened(tmp_path) as found:
        mapped = open_files(tmp_path)
        list(found.batches())
        assert open_files(tmp_path) == mapped


def open_files(folder: Path) -> list[str]:
    """Return the files under `folder` that this process holds open."""
    if sys.platform != "linux":
        pytest.skip("open files are listed in /proc")
    targets = (link.resolve() for link in Path("/proc/self/fd").iterdir())
    return sorted(str(target) for target in targets if folder in target.parents)


def test_the_report_is_plain_json(tmp_path: Path) -> None:
    """The report survives JSON and has the facts that design 11 asks for."""
    bundle = column(Field("N", "N", 4), 1, b"x", deleted=[], cpg=None)
    report = read(bundle, tmp_path).report.as_json()
    assert json.loads(json.dumps(report)) == report
    assert report["layer"] == "roads"
    assert report["rows"] == {"in_file": 2, "loaded": 2, "deleted": 0, "rejected": 0}
    assert report["geometry"]["types"] == ["Point"]
    assert report["geometry"]["bounds"] == [0, 0, 1, 1]
    assert report["encoding"] == {"name": "utf-8", "source": "detected"}
    assert report["crs"] == {
        "name": "EPSG:4326",
        "source": "prj",
        "kind": "geographic",
        "recognised": {"name": "EPSG:4326", "confidence": 100},
        "transformed": None,
    }
    assert report["fields"] == [
        {"original_name": "N", "name": "N", "type": "int64", "file_type": "N(4,0)"}
    ]
    assert report["values"] == [
        {"field": "N", "reason": "not_a_number", "count": 1, "examples": [{"row": 2, "text": "x"}]}
    ]
    assert report["rejects"] == []
    assert report["notices"] == []
    assert report["judgement"] == {
        "geometry_type": "Point",
        "rows": 2,
        "fields": {"N": "int32:4"},
    }
    assert report["versions"].keys() == {
        "fiona",
        "gdal",
        "numpy",
        "pyarrow",
        "pyproj",
        "shapely",
    }


def test_rows_that_do_not_add_up_are_never_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 3: if rows vanish between file and batches, the last step refuses."""
    decode = reader.Geometries.take

    def losing(self: Any, *arguments: Any) -> Any:
        encoded, taken = decode(self, *arguments)
        taken.kept[3] = False
        return [*encoded[:3], *encoded[4:]], taken

    monkeypatch.setattr(reader.Geometries, "take", losing)
    with opened(tmp_path) as found:
        batches = found.batches()
        assert next(batches).num_rows == 99
        with pytest.raises(LostRowsError, match=r"^roads.shp: read 99 of 100 rows \(0 deleted"):
            next(batches)
        with pytest.raises(LostRowsError):
            found.report()


def test_a_library_that_gives_too_much_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feature after the last row of the files means that the two read different things."""
    tally = Tally(Extent(), 100, np.empty(0, np.int64), {}, np.zeros(100, np.bool_))

    def satisfied(_self: Any, _block: Any, live: Any, _next: Any) -> Any:
        return [None] * 100, Taken(None, live, tally)

    monkeypatch.setattr(reader.Geometries, "take", satisfied)
    with (
        opened(tmp_path, policies=Policies(reader=Reader.FIONA)) as found,
        pytest.raises(LostRowsError, match="more features than the 100"),
    ):
        list(found.batches())


@pytest.mark.parametrize("whole_rows", [0, 1000])
def test_a_library_that_counts_otherwise_is_not_believed(
    whole_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If GDAL counts other rows than the files hold, nothing is read."""
    monkeypatch.setattr(excerpt, "WHOLE_ROWS", whole_rows)
    monkeypatch.setattr(fiona.Collection, "__len__", lambda self: 99)
    with (
        pytest.raises(CorruptError, match="GDAL counts 99 rows, the files hold 100"),
        opened(tmp_path),
    ):
        pass


LONG = [
    layer([null(), point(1, 2)]),
    layer([null(), null()], kind=POLYGON),
    layer([null(), line([(0, 0, 1, 1), (1, 1, 1, 1)], kind=LINE + Z)]),
    layer([point(0, 0, 1, kind=POINT + Z), point(0, 0, 1, 5, kind=POINT + Z)]),
    layer([multipatch((5, square(0, 0, 1, 3)))] * 3),
    parcels(7),
    without(points(5), ".prj"),
]


@pytest.mark.parametrize("bundle", LONG)
def test_gdal_says_the_same_of_an_excerpt_as_of_the_layer(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long layer GDAL is shown the first shape and the table, and judges it no differently."""
    found = []
    for limit in (excerpt.WHOLE_ROWS, 0):
        monkeypatch.setattr(excerpt, "WHOLE_ROWS", limit)
        loaded: list[str] = []
        monkeypatch.setattr(reader.fiona, "open", noting(loaded))
        reading = read(bundle, tmp_path)
        assert all(Path(path).parent == tmp_path for path in loaded) is bool(limit)
        found.append(reading.report.as_json())
    assert found[0] == found[1]
    assert not list(tmp_path.glob("excerpt-*"))


def noting(paths: list[str]) -> Callable[..., Any]:
    """Return `fiona.open`, noting what the first call opens."""
    original = fiona.open

    def noted(path: Path, **options: Any) -> Any:
        if not paths:
            paths.append(str(path))
        return original(path, **options)

    return noted


@pytest.mark.parametrize(
    "error", [ValueError("odd"), SystemError("odd"), fiona.errors.DriverError("odd")]
)
def test_whatever_fiona_raises_is_unreadable(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fiona's exceptions have no common root; none of them gets past the reader."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(reader.fiona, "open", fail)
    with (
        pytest.raises(UnreadableError, match=r"^roads.shp: GDAL refused it: odd"),
        opened(tmp_path),
    ):
        pass


def test_no_other_driver_opens_the_layer(tmp_path: Path) -> None:
    """A file of another format is refused by Fiona as well, whatever the checks before it say."""
    feature = {
        "type": "Feature",
        "properties": {},
        "geometry": {"type": "Point", "coordinates": [0, 0]},
    }
    collection = {"type": "FeatureCollection", "features": [feature]}
    (tmp_path / "layer.shp").write_text(json.dumps(collection))
    log = GdalLog("roads.shp", Findings())
    with pytest.raises(fiona.errors.DriverError), features.opened(tmp_path / "layer.shp", log):
        pass


def test_errors_of_the_caller_pass_through(tmp_path: Path) -> None:
    """What goes wrong in the caller's block is not taken for the layer's fault."""
    with pytest.raises(KeyError), opened(tmp_path):
        raise KeyError


def test_a_layer_may_be_read_in_another_thread(tmp_path: Path) -> None:
    """Options and log belong to the thread that reads, even if another one opened the layer."""
    reversed_rings = [tuple(reversed(square(0, 0, 10))), square(4, 4, 2)]
    write(layer([polygon(*reversed_rings)] * 3), tmp_path)
    failures: list[BaseException] = []
    counts: list[int] = []
    with open_layer(tmp_path, name="a", options=ReadOptions(batch_bytes=1)) as found:
        batches = found.batches()
        next(batches)

        def rest() -> None:
            try:
                counts.extend(batch.num_rows for batch in batches)
            except BaseException as error:  # noqa: BLE001 - shown by the assertion
                failures.append(error)

        thread = threading.Thread(target=rest)
        thread.start()
        thread.join()
        assert failures == []
        assert counts == [1, 1]
        assert found.report().geometry.rewound == 3


def test_two_layers_are_read_side_by_side(tmp_path: Path) -> None:
    """Interleaved reads in one thread do not mix their rows or their notices."""
    open_ring = layer([polygon(square(0, 0)[:-1])] * 3)
    write(open_ring, tmp_path / "odd")
    write(layer([polygon(square(0, 0))] * 3), tmp_path / "good")
    options = ReadOptions(batch_bytes=1)
    with (
        open_layer(tmp_path / "odd", name="odd", options=options) as odd,
        open_layer(tmp_path / "good", name="good", options=options) as good,
    ):
        pairs = list(zip(odd.batches(), good.batches(), strict=True))
        assert len(pairs) == 3
        assert [notice.code for notice in odd.report().notices] == ["gdal_warning"]
        assert good.report().notices == ()


def test_an_error_fails_only_the_read_of_its_thread() -> None:
    """An ERROR logged by another thread's read is not heard here."""
    log = GdalLog("roads.shp", Findings())
    elsewhere = threading.Thread(target=logging.getLogger("fiona._env").error, args=("broken",))
    with log.listening():
        elsewhere.start()
        elsewhere.join()


def test_an_error_in_the_log_is_unreadable() -> None:
    """An ERROR in GDAL's log fails the read although nothing was raised."""
    log = GdalLog("roads.shp", Findings())
    with (
        pytest.raises(UnreadableError, match=r"^roads.shp: GDAL reported: broken 1;"),
        log.listening(),
    ):
        logging.getLogger("fiona._env").error("broken %d", 1)


def test_the_log_is_heard_whatever_its_level() -> None:
    """A deployment that quietens the `fiona` logger does not make the reader deaf."""
    logger = logging.getLogger("fiona")
    before = logger.level
    findings = Findings()
    try:
        logger.setLevel(logging.CRITICAL)
        with GdalLog("roads.shp", findings).listening():
            logging.getLogger("fiona._env").warning("odd")
    finally:
        logger.setLevel(before)
    assert [notice.what for notice in findings.notices()] == ["GDAL: odd"]


def test_nobody_listens_afterwards() -> None:
    """When a read is over, nothing of it stays in the logger."""
    findings = Findings()
    log = GdalLog("roads.shp", findings)
    with log.listening():
        pass
    logging.getLogger("fiona._env").warning("late")
    assert list(findings.notices()) == []


def test_warnings_of_many_kinds_are_bounded() -> None:
    """A million different warnings make no report of a million lines, and are all counted."""
    findings = Findings()
    with GdalLog("roads.shp", findings).listening():
        for number in range(500):
            logging.getLogger("fiona._env").warning("odd thing %d", number)
    notices = list(findings.notices())
    assert len(notices) == WARNING_LIMIT + 1
    assert sum(notice.count for notice in notices) == 500


def test_a_bad_prj_does_not_fail_the_rows(tmp_path: Path) -> None:
    """GDAL logs an ERROR for a .prj it cannot parse; that costs the CRS, not the layer."""
    reading = read(flipped(points(3), ".prj", 6), tmp_path)
    assert reading.table.num_rows == 3
    assert reading.notices == {"unreadable_crs": 1}


def test_values_and_shapes_are_those_of_fiona(tmp_path: Path) -> None:
    """Where GDAL loses nothing, a plain Fiona loop gives the same rows."""
    reading = read(parcels(120), tmp_path)
    with fiona.open(tmp_path / "layer.shp") as features:
        expected = list(features)
    assert reading.table.num_rows == len(expected)
    for row, shape, feature in zip(
        reading.table.drop(["geometry"]).to_pylist(), reading.geometries, expected, strict=True
    ):
        assert {**row, "SURVEYED": row["SURVEYED"].isoformat()} == dict(feature.properties)
        assert shape.equals(shapely.geometry.shape(feature.geometry))


def test_errors_are_those_of_a_bundle(tmp_path: Path) -> None:
    """A retry would read the same bytes, so what is wrong with them is never transient."""
    with pytest.raises(BundleError):
        read({".shp": b"", ".shx": b"", ".dbf": b""}, tmp_path)
