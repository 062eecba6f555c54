"""One table for many bundles: each has its own rows in it, replaced by themselves."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gate.errors import DatabaseBusyError, DatasetTakenError, SchemaMismatchError
from gate.sinks.port import Outdated, Published, Table
from gate.sinks.postgis import PostgisSink
from tests.contract.postgis_bench import PostgisBench
from tests.contract.postgres_wire import COMMIT, lose
from tests.contract.test_postgis_swap import names, narrow
from tests.layers import Layer, points, publication, revision

pytestmark = pytest.mark.emulator

NORTH = revision("north/parcels.shp", shp=10)
NORTH_NEW = revision("north/parcels.shp", shp=20)
SOUTH = revision("south/parcels.shp", shp=5)


@pytest.fixture
def sink(postgis_sink_bench: PostgisBench) -> PostgisSink:
    """Return a sink that appends to the table `parcels`."""
    return postgis_sink_bench.open(table="parcels", mode="append")


def publish(
    sink: PostgisSink, of: Any, table: Table, layer: str = ""
) -> Published | Outdated | None:
    """Publish with an owner who never changes."""
    return sink.publish(publication(of, layer=layer), table, dict, lambda: True)


def rows_of(bench: PostgisBench) -> dict[str, list[str]]:
    """Return the names of the rows of each source."""
    found: dict[str, list[str]] = {}
    for source, name in bench.rows(
        "select gate_source, name from parcels order by gate_source, size"
    ):
        found.setdefault(source, []).append(name)
    return found


def test_each_bundle_has_its_own_rows(postgis_sink_bench: PostgisBench, sink: PostgisSink) -> None:
    """Issue 4: a new version replaces the rows of its bundle, fewer of them too, and no others."""
    assert isinstance(publish(sink, NORTH, points(5, "north")), Published)
    assert isinstance(publish(sink, SOUTH, points(3, "south")), Published)
    outcome = publish(sink, NORTH_NEW, points(2, "new"))

    assert isinstance(outcome, Published)
    assert (outcome.rows, outcome.already) == (2, False)
    assert rows_of(postgis_sink_bench) == {
        "gs://uploads/north/parcels": names(2, "new"),
        "gs://uploads/south/parcels": names(3, "south"),
    }
    assert postgis_sink_bench.tables() == ["parcels"]


def test_a_redelivered_or_late_load_changes_nothing(
    postgis_sink_bench: PostgisBench, sink: PostgisSink
) -> None:
    """Issue 4: appending is as much exactly once as replacing is."""
    publish(sink, NORTH_NEW, points(2, "new"))

    again = publish(sink, NORTH_NEW, points(4, "again"))
    assert isinstance(again, Published)
    assert (again.rows, again.already) == (2, True)
    assert publish(sink, NORTH, points(4, "late")) == Outdated(20)
    assert sink.current(NORTH) == Outdated(20)
    assert sink.current(SOUTH) is None
    assert rows_of(postgis_sink_bench) == {"gs://uploads/north/parcels": names(2, "new")}


def test_a_zombie_finds_its_rows_there(postgis_sink_bench: PostgisBench, sink: PostgisSink) -> None:
    """E8: the taker-over appends between the zombie's last question and its step."""
    postgis_sink_bench.before_swap(lambda: publish(sink, NORTH, points(3)))

    outcome = publish(sink, NORTH, points(2, "zombie"))

    assert isinstance(outcome, Published)
    assert (outcome.rows, outcome.already) == (3, True)
    assert rows_of(postgis_sink_bench) == {"gs://uploads/north/parcels": names(3)}


@pytest.mark.parametrize("message", ["copy ", "create index", "delete from", COMMIT])
def test_a_lost_connection_leaves_the_old_rows(
    postgis_sink_bench: PostgisBench, sink: PostgisSink, message: str
) -> None:
    """Issue 4: what is appended half-way is not there."""
    publish(sink, SOUTH, points(3, "south"))
    if message == "create index":
        postgis_sink_bench.run("drop table parcels; truncate _gate_ledger")
    postgis_sink_bench.wire.on(message, lose)

    with pytest.raises(DatabaseBusyError):
        publish(sink, NORTH, points(500, "north"))
    if message == "create index":
        assert postgis_sink_bench.tables() == []
    else:
        assert rows_of(postgis_sink_bench) == {"gs://uploads/south/parcels": names(3, "south")}


def test_other_columns_are_refused(postgis_sink_bench: PostgisBench, sink: PostgisSink) -> None:
    """Issue 4: a layer whose fields are not those of the table is refused, and they are named."""
    publish(sink, SOUTH, points(3, "south"))

    with pytest.raises(SchemaMismatchError, match="size is bigint there and absent here"):
        publish(sink, NORTH, narrow())
    assert list(rows_of(postgis_sink_bench)) == ["gs://uploads/south/parcels"]


def test_a_table_that_is_one_layer_is_not_appended_to(
    postgis_sink_bench: PostgisBench,
) -> None:
    """A table that was published as one layer has no column for sources, and is refused."""
    of = revision("parcels.shp")
    postgis_sink_bench.publish(of, points(3))
    sink = postgis_sink_bench.open(table="parcels", mode="append")

    with pytest.raises(SchemaMismatchError, match="gate_source is absent there and text here"):
        publish(sink, NORTH, points(1))
    assert postgis_sink_bench.names("parcels") == names(3)


def test_a_shared_table_is_not_replaced(
    postgis_sink_bench: PostgisBench, sink: PostgisSink
) -> None:
    """A table that bundles share is not the table of one bundle, whatever that is called."""
    publish(sink, NORTH, points(3))

    with pytest.raises(DatasetTakenError):
        postgis_sink_bench.publish(revision("parcels.shp"), points(1))
    assert rows_of(postgis_sink_bench) == {"gs://uploads/north/parcels": names(3)}


def test_the_first_loads_of_a_table_may_come_at_once(
    postgis_sink_bench: PostgisBench, sink: PostgisSink
) -> None:
    """Issue 4: six bundles that all find no table end in one table with the rows of all."""
    start = threading.Barrier(6, timeout=20)
    outcomes: list[Any] = []

    def load(number: int) -> None:
        of = revision(f"{number}/parcels.shp")
        start.wait()
        outcomes.append(publish(sink, of, points(number, str(number))))

    threads = [threading.Thread(target=load, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert sum(outcome.rows for outcome in outcomes) == 21
    assert {source: len(rows) for source, rows in rows_of(postgis_sink_bench).items()} == {
        f"gs://uploads/{number}/parcels": number for number in range(1, 7)
    }


def test_layers_of_an_archive_are_sources(
    postgis_sink_bench: PostgisBench, sink: PostgisSink
) -> None:
    """Case 33: the layers of an archive have rows of their own in a shared table."""
    packed = revision("in/a.zip", zip=1)
    publish(sink, packed, points(1, "a"), "a")
    publish(sink, packed, points(2, "b"), "x/b")

    assert rows_of(postgis_sink_bench) == {
        "gs://uploads/in/a.zip#a": names(1, "a"),
        "gs://uploads/in/a.zip#x/b": names(2, "b"),
    }


def test_a_shared_table_is_indexed_and_says_whose_rows_it_has(
    postgis_sink_bench: PostgisBench, sink: PostgisSink
) -> None:
    """Issue 4: the geometry and the source are indexed; names of the file stay as comments."""
    publish(sink, NORTH, Layer([]))

    found = postgis_sink_bench.rows(
        "select indexdef from pg_indexes where tablename = 'parcels' and schemaname = %s",
        (postgis_sink_bench.schema,),
    )
    kinds = sorted(definition.partition("USING ")[2] for (definition,) in found)
    assert kinds == ["btree (gate_source)", "gist (geometry)"]
    comments = postgis_sink_bench.rows(
        "select attname, col_description(attrelid, attnum) from pg_attribute"
        " where attrelid = 'parcels'::regclass and attnum > 0 order by attnum"
    )
    assert comments == [
        ("gate_source", None),
        ("name", "NAME"),
        ("size", "SIZE"),
        ("geometry", None),
    ]


def test_stems_share_a_table(postgis_sink_bench: PostgisBench) -> None:
    """Two folders with a layer of one name may share the table that is called like it."""
    sink = postgis_sink_bench.open(table="{stem}", mode="append")
    publish(sink, NORTH, points(1))
    publish(sink, SOUTH, points(1))

    assert postgis_sink_bench.tables() == ["parcels"]
    assert len(rows_of(postgis_sink_bench)) == 2
