"""How a table is replaced: in one transaction, whatever is lost or in the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gate.errors import DatabaseBusyError, DatasetTakenError, SchemaMismatchError, UnexpectedError
from gate.sinks import postgis_database
from gate.sinks.port import Outdated, Published
from tests.contract.postgis_bench import PostgisBench
from tests.contract.postgres_wire import COMMIT, after, lose, lose_answer
from tests.layers import SCHEMA, Layer, batch, points, publication, revision, wkb

pytestmark = pytest.mark.emulator

OLD = revision(shp=10)
NEW = revision(shp=20)
TABLE = "in__roads"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on a lock soon, and after few rounds."""
    begin = postgis_database._BEGIN.replace(f"{postgis_database.LOCK_SECONDS}s", "30ms")
    monkeypatch.setattr(postgis_database, "_BEGIN", begin)


def names(rows: int, label: str = "row") -> list[str]:
    """Return the names that `points` gives its rows."""
    return [f"{label} {number}" for number in range(rows)]


@pytest.mark.parametrize(
    "message",
    [
        "create table",
        "copy ",
        "new 700",
        "create index",
        "comment on",
        "analyze",
        "SAVEPOINT",
        "_gate_ledger",
        "for update",
        "rename to",
        'update "',
        "_gate_rejects",
        "RELEASE",
        COMMIT,
    ],
)
def test_a_connection_lost_at_any_step_leaves_nothing_half_done(
    postgis_sink_bench: PostgisBench, message: str
) -> None:
    """Issue 4: wherever it is lost, readers see the old table, and a retry publishes."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    postgis_sink_bench.wire.on(message, lose)

    with pytest.raises(DatabaseBusyError):
        postgis_sink_bench.publish(NEW, points(2000, "new"))
    assert postgis_sink_bench.wire.rules == []
    assert postgis_sink_bench.seen(OLD.bundle).names == names(2, "old")  # type: ignore[union-attr]
    assert postgis_sink_bench.tables() == [TABLE]

    outcome = postgis_sink_bench.publish(NEW, points(2000, "new"), fence=2)
    assert isinstance(outcome, Published)
    assert (outcome.rows, outcome.already) == (2000, False)


def test_case_60_a_lost_answer_to_the_commit_is_no_second_load(
    postgis_sink_bench: PostgisBench,
) -> None:
    """Case 60: the commit landed and its answer was lost; the retry finds the revision, once."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    postgis_sink_bench.wire.on(COMMIT, lose_answer)

    with pytest.raises(DatabaseBusyError):
        postgis_sink_bench.publish(NEW, points(3, "new"))

    outcome = postgis_sink_bench.publish(NEW, points(9, "again"), fence=2)
    assert isinstance(outcome, Published)
    assert (outcome.rows, outcome.already) == (3, True)
    assert postgis_sink_bench.seen(OLD.bundle).names == names(3, "new")  # type: ignore[union-attr]


def test_one_connection_is_kept_and_renewed(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: calls share one warm connection; one that has died is replaced unnoticed."""
    for number in range(1, 5):
        postgis_sink_bench.publish(revision(shp=number), points(1))
        postgis_sink_bench.sink.current(revision(shp=number))
    assert postgis_sink_bench.wire.connections == 1

    postgis_sink_bench.wire.cut()
    assert isinstance(postgis_sink_bench.sink.current(revision(shp=4)), Published)
    assert postgis_sink_bench.wire.connections == 2


def test_calls_at_once_have_connections_of_their_own(postgis_sink_bench: PostgisBench) -> None:
    """A second call does not wait for the connection of the first; one is kept afterwards."""
    postgis_sink_bench.before_swap(lambda: postgis_sink_bench.publish(NEW, points(1)))

    assert postgis_sink_bench.publish(OLD, points(1)) == Outdated(20)
    assert postgis_sink_bench.wire.connections == 2
    backends = "select count(*) from pg_stat_activity where application_name = 'shapefile-gate'"
    for _ in range(50):
        ((open_,),) = postgis_sink_bench.rows(backends)
        if open_ == 1:
            break
        threading.Event().wait(0.02)
    assert open_ == 1


def waiting(bench: PostgisBench) -> bool:
    """Tell whether somebody waits for a lock in a transaction of the gate."""
    found = bench.rows(
        "select count(*) from pg_stat_activity"
        " where application_name = 'shapefile-gate' and wait_event_type = 'Lock'"
    )
    return found != [(0,)]


@pytest.mark.parametrize("first", [True, False], ids=["first ever", "there before"])
def test_a_publication_waits_for_the_one_that_holds_the_ledger(
    postgis_sink_bench: PostgisBench, first: bool
) -> None:
    """Issue 4: two loads are one after the other from the comparison to the commit."""
    if not first:
        postgis_sink_bench.publish(revision(shp=1), points(1))
    outcomes: list[Any] = []
    older = threading.Thread(
        target=lambda: outcomes.append(postgis_sink_bench.publish(OLD, points(2, "old")))
    )

    def meanwhile() -> None:
        older.start()
        for _ in range(500):
            if waiting(postgis_sink_bench):
                return
            threading.Event().wait(0.01)
        pytest.fail("nobody waits")

    postgis_sink_bench.wire.on("rename to", after(meanwhile))
    assert isinstance(postgis_sink_bench.publish(NEW, points(3, "new")), Published)
    older.join(timeout=20)

    assert outcomes == [Outdated(20)]
    assert postgis_sink_bench.seen(OLD.bundle).names == names(3, "new")  # type: ignore[union-attr]


def test_what_was_not_published_is_not_committed_later(postgis_sink_bench: PostgisBench) -> None:
    """E4: the connection of a load that was given up brings nothing of it into the next one."""
    assert postgis_sink_bench.publish(OLD, points(2), owner=False) is None
    postgis_sink_bench.publish(revision("in/rivers.shp"), points(1))

    assert postgis_sink_bench.tables() == ["in__rivers"]


def test_readers_see_the_old_table_or_the_new_one(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a reader who never stops reading sees whole versions only, and no error."""
    postgis_sink_bench.publish(revision(shp=1), points(1))
    done = threading.Event()
    seen: list[list[tuple[Any, ...]]] = []
    errors: list[Exception] = []

    def read() -> None:
        with postgis_sink_bench.reader() as connection:
            connection.autocommit = True
            try:
                while not done.is_set():
                    found = connection.execute(f"select count(*), max(size) from {TABLE}")
                    seen.append(found.fetchall())
            except Exception as error:  # noqa: BLE001
                errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for rows in range(2, 12):
        postgis_sink_bench.publish(revision(shp=rows), points(rows))
    done.set()
    reader.join(timeout=20)

    assert errors == []
    assert all(rows == most + 1 for [(rows, most)] in seen)
    assert len({rows for [(rows, _)] in seen}) > 1


def test_a_reader_with_an_old_snapshot_never_sees_an_empty_table(
    postgis_sink_bench: PostgisBench,
) -> None:
    """Issue 4: a transaction that is older than the new table sees its rows, not none."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    with postgis_sink_bench.reader() as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select 1 from pg_class")
        postgis_sink_bench.publish(NEW, points(3, "new"))
        assert connection.execute(f"select count(*) from {TABLE}").fetchall() == [(3,)]


@pytest.mark.usefixtures("impatient")
def test_a_reader_that_holds_the_table_is_waited_for_in_vain(
    postgis_sink_bench: PostgisBench,
) -> None:
    """Issue 4: a table that stays in use is not replaced; the fault passes, and so does a retry."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    with postgis_sink_bench.reader() as connection:
        connection.execute(f"select from {TABLE}")
        with pytest.raises(DatabaseBusyError, match="in every round"):
            postgis_sink_bench.publish(NEW, points(3))

    assert isinstance(postgis_sink_bench.publish(NEW, points(3)), Published)


@pytest.mark.usefixtures("impatient")
def test_the_load_survives_a_reader_that_lets_go(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a lock that is not to be had in time costs a round, not the load; all ask again."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    reader = postgis_sink_bench.reader()
    reader.execute(f"select from {TABLE}")
    asked: list[int] = []

    def still_owner() -> bool:
        asked.append(1)
        if len(asked) == 2:
            reader.close()
        return True

    outcome = postgis_sink_bench.sink.publish(publication(NEW), points(3), dict, still_owner)

    assert isinstance(outcome, Published)
    assert len(asked) == 2


def test_a_worker_that_falls_silent_is_given_up(
    postgis_sink_bench: PostgisBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E8: a frozen worker keeps no lock: the server ends its transaction, and all is undone."""
    begin = postgis_database._BEGIN.replace(f"{postgis_database.SILENT_SECONDS}s", "30ms")
    monkeypatch.setattr(postgis_database, "_BEGIN", begin)

    def frozen() -> bool:
        threading.Event().wait(0.1)
        return True

    with pytest.raises(DatabaseBusyError):
        postgis_sink_bench.sink.publish(publication(OLD), points(1), dict, frozen)
    assert postgis_sink_bench.tables() == []


@pytest.fixture
def analyst(postgis_sink_bench: PostgisBench) -> Iterator[str]:
    """Return a role that may look into the schema."""
    role = f"analyst {postgis_sink_bench.schema}"
    postgis_sink_bench.run(f'create role "{role}" login')
    postgis_sink_bench.run(f'grant usage on schema {postgis_sink_bench.schema} to "{role}"')
    yield role
    postgis_sink_bench.run(f'drop owned by "{role}"; drop role "{role}"')


def privileges(bench: PostgisBench, role: str) -> list[Any]:
    """Return what a role, or everybody, may do with the table."""
    return bench.rows(
        "select privilege_type, is_grantable from information_schema.role_table_grants"
        " where table_name = %s and table_schema = %s and grantee = %s order by 1",
        (TABLE, bench.schema, role),
    )


def test_privileges_stay(postgis_sink_bench: PostgisBench, analyst: str) -> None:
    """Issue 4: what was granted on the table holds for the one that replaces it."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    postgis_sink_bench.run(f'grant select on {TABLE} to "{analyst}" with grant option')
    postgis_sink_bench.run(
        f'grant update on {TABLE} to "{analyst}"; grant select on {TABLE} to public'
    )
    postgis_sink_bench.publish(NEW, points(3, "new"))

    assert privileges(postgis_sink_bench, analyst) == [("SELECT", "YES"), ("UPDATE", "NO")]
    assert privileges(postgis_sink_bench, "PUBLIC") == [("SELECT", "NO")]


def test_views_stay(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a table that a view depends on is refilled, in the same transaction."""
    postgis_sink_bench.publish(OLD, points(5, "old"))
    postgis_sink_bench.run(f"create view of_roads as select name, geometry from {TABLE}")
    outcome = postgis_sink_bench.publish(NEW, points(3, "new"))

    assert isinstance(outcome, Published)
    seen = postgis_sink_bench.rows("select name from of_roads order by name")
    assert [name for (name,) in seen] == names(3, "new")
    assert postgis_sink_bench.seen(OLD.bundle).names == names(3, "new")  # type: ignore[union-attr]
    assert postgis_sink_bench.tables() == [TABLE]


def test_a_table_that_swallows_rows_is_not_refilled(postgis_sink_bench: PostgisBench) -> None:
    """Promise 3: if a trigger on the table keeps rows out, the load fails and nothing changes."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    postgis_sink_bench.run(f"create view of_roads as select name from {TABLE}")
    postgis_sink_bench.run(
        "create function swallow() returns trigger language plpgsql as"
        " 'begin if new.size = 1 then return null; end if; return new; end'"
    )
    postgis_sink_bench.run(
        f"create trigger swallow before insert on {TABLE} for each row execute function swallow()"
    )

    with pytest.raises(UnexpectedError, match="2 of 3 rows were moved"):
        postgis_sink_bench.publish(NEW, points(3, "new"))
    assert postgis_sink_bench.seen(OLD.bundle).names == names(2, "old")  # type: ignore[union-attr]


def narrow() -> Layer:
    """Return a layer without the field `size`."""
    schema = pa.schema([SCHEMA.field("name"), SCHEMA.field("geometry")])
    rows = batch(wkb("POINT (1 2)")).select(["name", "geometry"])
    return Layer([pa.RecordBatch.from_arrays(rows.columns, schema=schema)], schema=schema)


def test_a_view_keeps_the_columns(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: other columns than those of a table with a view are refused, and named."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    postgis_sink_bench.run(f"create view of_roads as select name from {TABLE}")

    with pytest.raises(SchemaMismatchError, match=r"size is bigint there and absent here; .*views"):
        postgis_sink_bench.publish(NEW, narrow())
    assert postgis_sink_bench.seen(OLD.bundle).names == names(2, "old")  # type: ignore[union-attr]


def test_other_columns_replace_a_table(postgis_sink_bench: PostgisBench) -> None:
    """A new version may have other fields, as long as nothing depends on the table."""
    postgis_sink_bench.publish(OLD, points(2))

    assert isinstance(postgis_sink_bench.publish(NEW, narrow()), Published)


@pytest.mark.parametrize("kind", ["table", "view", "sequence", "type"])
def test_what_the_gate_has_not_made_is_never_replaced(
    postgis_sink_bench: PostgisBench, kind: str
) -> None:
    """Issue 4: a table of this name that somebody else made is refused, and stays.

    A type is one of PostGIS's own, where a bundle is called `geometry`.
    """
    made = {
        "table": "(precious int)",
        "view": "as select 1 as precious",
        "sequence": "",
        "type": "as enum ('precious')",
    }
    postgis_sink_bench.run(f"create {kind} {TABLE} {made[kind]}")

    with pytest.raises(DatasetTakenError, match="the gate has not made; rename"):
        postgis_sink_bench.publish(OLD, points(1))
    assert postgis_sink_bench.sink.current(OLD) is None
    assert postgis_sink_bench.rows("select count(*) from _gate_ledger") == [(0,)]


def test_a_table_that_others_refer_to_is_not_emptied(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: what refers to rows keeps them; the refusal says why, and no retry is promised."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    postgis_sink_bench.run(
        f"alter table {TABLE} add primary key (name);"
        f"create table signs (road text references {TABLE}); insert into signs values ('old 0')"
    )

    with pytest.raises(SchemaMismatchError, match=r"foreign key constraint .*drop the constraint"):
        postgis_sink_bench.publish(NEW, points(2, "new"))
    assert postgis_sink_bench.seen(OLD.bundle).names == names(2, "old")  # type: ignore[union-attr]


def test_a_ledger_that_was_removed_is_made_again(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a worker that has seen the ledger goes on after somebody has dropped it."""
    postgis_sink_bench.publish(OLD, points(2, "old"))
    postgis_sink_bench.run(
        f"drop table {TABLE}, _gate_ledger, _gate_rejects, _gate_archives",
    )

    with pytest.raises(UnexpectedError, match="_gate_ledger"):
        postgis_sink_bench.publish(NEW, points(2, "new"))
    assert isinstance(postgis_sink_bench.publish(NEW, points(2, "new")), Published)


def test_stems_that_share_a_table_are_refused(postgis_sink_bench: PostgisBench) -> None:
    """With `table={stem}` the second of two folders is refused instead of overwriting the first."""
    sink = postgis_sink_bench.open(table="x_{stem}")
    here, there = revision("a/Roads.shp"), revision("b/roads.shp", shp=9)
    assert isinstance(sink.publish(publication(here), points(1), dict, lambda: True), Published)

    with pytest.raises(DatasetTakenError, match="gs://uploads/a/roads already publishes as"):
        sink.publish(publication(there), points(2), dict, lambda: True)
    assert postgis_sink_bench.tables() == ["x_roads"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_no_report_is_stored_that_is_not_json(
    postgis_sink_bench: PostgisBench, number: float
) -> None:
    """A report with NaN or Infinity is never published."""
    with pytest.raises(ValueError, match="JSON"):
        postgis_sink_bench.sink.publish(
            publication(OLD), points(1), lambda: {"number": number}, lambda: True
        )
    assert postgis_sink_bench.tables() == []


def test_rejected_rows_of_two_tables_do_not_meet(
    postgis_sink_bench: PostgisBench, tmp_path: Path
) -> None:
    """Case 51: the rejected rows of a table are replaced with it, and no others are."""
    listed = tmp_path / "rejects.ndjson"
    listed.write_text('{"row": 1, "reason": "r", "text": "a\\u0000b"}\n')
    other = revision("in/rivers.shp")
    postgis_sink_bench.publish(other, points(1, listed=listed))
    postgis_sink_bench.publish(OLD, points(1, listed=listed))
    postgis_sink_bench.publish(NEW, points(1))

    left = postgis_sink_bench.rows("select table_name, row_number, content from _gate_rejects")
    assert left == [("in__rivers", 1, "a\ufffdb")]
