"""A6, A7, E2, H1: the process is killed at every call and every statement of the PostGIS sink.

The same as `test_crash_matrix`, over a real server. A kill ends the connection,
as it does where a process dies. One that comes after a statement leaves what one
before the next leaves; so they come before each, and after each commit. Of the
stories, one is told of a table that many bundles share, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from gate.local.postgres import Server
from gate.sinks import postgis_address
from gate.sinks.postgis import PostgisSink
from gate.sinks.postgis_address import Mode
from gate.sinks.postgis_database import Connected, Database
from gate.sinks.postgis_names import ARCHIVES, LEDGER, REJECTS
from tests.clouds import Located
from tests.stories import (
    MOMENTS,
    STORIES,
    Rows,
    SinkWorld,
    Story,
    disturbed,
    replaced,
    undisturbed,
)
from tests.world import Faults, Watched, expected

pytestmark = pytest.mark.emulator

COMMIT = "connection.commit"
TABLE = "roads"


class WatchedConnection:
    """A connection of which each statement, commit and piece of a COPY is a call.

    `committed` is called after every commit that took effect.
    """

    def __init__(self, connection: Any, faults: Faults, committed: Callable[[], None]) -> None:
        self._connection, self._faults, self._committed = connection, faults, committed

    def execute(self, *statement: Any) -> Any:
        """Run a statement."""
        return self._faults.run("connection.execute", lambda: self._connection.execute(*statement))

    def rollback(self) -> None:
        """Undo what was not committed."""
        self._faults.run("connection.rollback", self._connection.rollback)

    def commit(self) -> None:
        """Commit."""
        self._faults.run(COMMIT, self._commit)

    def _commit(self) -> None:
        self._connection.commit()
        self._committed()

    def close(self) -> None:
        """End the connection, as the death of the process does."""
        self._connection.close()

    def transaction(self) -> Any:
        """Return a savepoint of the connection."""
        return self._connection.transaction()

    @contextmanager
    def cursor(self) -> Iterator[WatchedCursor]:
        """Open a cursor for a COPY."""
        with self._connection.cursor() as cursor:
            yield WatchedCursor(cursor, self._faults)


class WatchedCursor:
    """A cursor whose COPY goes piece by piece."""

    def __init__(self, cursor: Any, faults: Faults) -> None:
        self._cursor, self._faults = cursor, faults

    @property
    def rowcount(self) -> int:
        """Return how many rows the last statement was about."""
        count: int = self._cursor.rowcount
        return count

    @contextmanager
    def copy(self, statement: Any) -> Iterator[Watched]:
        """Begin a COPY."""
        with self._cursor.copy(statement) as copying:
            yield Watched("copy", copying, self._faults)


class WatchedDatabase(Database):
    """A database whose connections are watched."""

    def __init__(self, uri: str, faults: Faults, committed: Callable[[], None]) -> None:
        super().__init__(postgis_address.parse(uri))
        self._faults, self._committed = faults, committed

    def _connected(self) -> Connected:
        connection, geometry_schema = super()._connected()
        watched: Any = WatchedConnection(connection, self._faults, self._committed)
        return watched, geometry_schema


class PostgisWorld(SinkWorld):
    """A deployment whose sink is a schema of its own in a database.

    `reader` is a connection of somebody else; `orders` are told by what it sees
    of the ledger after each commit.
    """

    def __init__(self, uri: str, schema: str, mode: Mode, reader: psycopg.Connection[Any]) -> None:
        super().__init__()
        self._schema, self._reader = schema, reader
        self._orders: dict[Any, int] = {}
        tokens = itertools.count(1)
        table = {Mode.REPLACE: "{stem}", Mode.APPEND: TABLE}[mode]
        place = f"{uri}?schema={schema}&mode={mode.value}&table={table}"
        self.database = WatchedDatabase(place, self.faults, self._note)
        sink = PostgisSink(self.database, token=lambda: f"{next(tokens):08x}")
        self.publish_into(Watched("sink", sink, self.faults), Located())

    def seen(self) -> Rows:
        """Return what readers of the table see."""
        return self._rows(TABLE, "select shape, record, crs from {} order by ctid")

    def orders(self) -> list[int]:
        """Return the orders of the revisions that took effect, in turn."""
        return list(self._orders.values())

    def tables(self) -> list[str]:
        """Return the tables that there are, beside those of the gate."""
        query = "select tablename from pg_tables where schemaname = %s order by 1"
        found = self._reader.execute(query, (self._schema,))
        return [name for (name,) in found if name not in (LEDGER, REJECTS, ARCHIVES)]

    def _note(self) -> None:
        ledger = "select published_at, revision_order from {} where revision_id <> ''"
        for published_at, order in self._rows(LEDGER, ledger):
            self._orders[published_at] = int(order)

    def _rows(self, table: str, query: str) -> list[tuple[Any, ...]]:
        place = f"{self._schema}.{table}"
        if self._reader.execute("select to_regclass(%s)", (place,)).fetchone() == (None,):
            return []
        return self._reader.execute(query.replace("{}", place)).fetchall()


class PostgisWorlds:
    """Makes worlds, one after the other, each in a new schema of one server."""

    def __init__(self, server: Server, mode: Mode, reader: psycopg.Connection[Any]) -> None:
        self._uri, self._mode, self._reader = server.uri, mode, reader
        self._numbers = itertools.count(1)
        self.last: PostgisWorld | None = None

    def __call__(self) -> PostgisWorld:
        """Return a new world; the one before has ended."""
        self.close()
        self._schema = f"killed_{self._mode.value}_{next(self._numbers)}"
        self._reader.execute(f"create schema {self._schema}")
        self.last = PostgisWorld(self._uri, self._schema, self._mode, self._reader)
        return self.last

    def close(self) -> None:
        """End the last world, and drop its schema."""
        if self.last:
            self.last.database.close()
            self._reader.execute(f"drop schema {self._schema} cascade")
            self.last = None


@pytest.fixture(scope="module")
def worlds(postgis_server: Server, request: pytest.FixtureRequest) -> Iterator[PostgisWorlds]:
    """Return what makes worlds whose sink is in the mode that a test asks for."""
    with psycopg.connect(postgis_server.uri, autocommit=True) as reader:
        made = PostgisWorlds(postgis_server, request.param, reader)
        yield made
        made.close()


def kills(calls: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield number, name and moment of each call to die at."""
    for number, name in enumerate(calls):
        statement = name.startswith(("connection.", "copy.")) and name != COMMIT
        for moment in MOMENTS[: 1 if statement else 2]:
            yield number, name, moment


@pytest.mark.parametrize(
    ("worlds", "story"),
    [*((Mode.REPLACE, story) for story in STORIES), (Mode.APPEND, replaced)],
    indirect=["worlds"],
)
def test_a_kill_anywhere_changes_nothing_in_the_end(worlds: PostgisWorlds, story: Story) -> None:
    """A6, A7, E2, H1: after a kill at any call or statement, sweeps end as if there was none."""
    end, calls = undisturbed(worlds, story)
    tables = [TABLE] if end["rows"] else []
    differing = [
        (number, name, moment)
        for number, name, moment in kills(calls)
        if disturbed(worlds, story, number, moment) != end or worlds.last.tables() != tables
    ]
    assert differing == []


@pytest.mark.parametrize("worlds", Mode, indirect=True)
def test_the_stories_end_as_told(worlds: PostgisWorlds) -> None:
    """A6: without a kill the stories end with a table, or with a dead letter and none."""
    assert [undisturbed(worlds, story)[0]["rows"] for story in STORIES] == [
        expected("first", crs="first"),
        expected("first", crs="first"),
        expected("first", records="second", crs="first"),
        [],
    ]
