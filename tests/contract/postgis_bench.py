"""The bench of the sink into PostGIS: a schema on a real server, behind a wire that can fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from gate.local import postgres
from gate.local.postgres import Server
from gate.names import Bundle
from gate.sinks import postgis_address
from gate.sinks.postgis import PostgisSink
from gate.sinks.postgis_database import Database
from gate.sinks.postgis_names import table_name
from tests.contract.postgres_wire import COMMIT, PostgresWire, after, lose, lose_answer
from tests.contract.sinks import Seen, SinkBench


class PostgisBench(SinkBench):
    """The sink, in a schema of its own."""

    _schemas = itertools.count(1)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.wire = PostgresWire(server.port)
        self.schema = f"test_{next(self._schemas)}"
        self.opened: list[Database] = []
        self._tokens = itertools.count(1)
        self.run(f"create schema {self.schema}")
        self.sink: PostgisSink = self.open()

    def open(self, uri: str = "", **parameters: str) -> PostgisSink:
        """Return a sink into this schema with other parameters."""
        place = f"{postgres.USER}@127.0.0.1:{self.wire.port}/{postgres.DATABASE}"
        stated = "&".join(f"{name}={text}" for name, text in parameters.items())
        address = postgis_address.parse(
            uri or f"postgresql://{place}?schema={self.schema}&{stated}"
        )
        database = Database(address)
        self.opened.append(database)
        return PostgisSink(database, token=lambda: f"{next(self._tokens):08x}")

    def close(self) -> None:
        """End all connections and drop the schema."""
        for database in self.opened:
            database.close()
        self.wire.close()
        self.run(f"drop schema {self.schema} cascade")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a reader's query gives; unqualified names are those of the schema."""
        with self.reader() as connection:
            return connection.execute(statement, values or None).fetchall()

    def run(self, statement: str) -> None:
        """Run statements as an administrator would."""
        with self.reader() as connection:
            connection.execute(statement)

    def reader(self, user: str = postgres.USER) -> psycopg.Connection[Any]:
        """Return a connection straight to the server, with the schema first on its path."""
        uri = self.server.uri.replace(postgres.USER, user, 1)
        return psycopg.connect(uri, options=f"-c search_path={self.schema},public")

    def seen(self, bundle: Bundle, layer: str = "") -> Seen | None:
        """Return what readers see of a bundle or layer, `None` if there is nothing."""
        table = table_name("{name}", bundle, layer)
        if not self.rows("select to_regclass('_gate_ledger')")[0][0]:
            return None
        found = self.rows(
            "select revision_id, crs, report, metadata from _gate_ledger where table_name = %s",
            (table,),
        )
        if not found:
            return None
        revision_id, crs, report, metadata = found[0]
        rejects = self.rows(
            "select row_number, reason, content from _gate_rejects where table_name = %s"
            " order by row_number",
            (table,),
        )
        return Seen(
            revision_id,
            self.names(table),
            crs,
            report,
            metadata or b"",
            [dict(zip(("row", "reason", "text"), row, strict=True)) for row in rejects],
        )

    def names(self, table: str) -> list[str]:
        """Return the names of a table's rows in the order in which they went in."""
        with self.reader() as connection:
            query = sql.SQL("select name from {} order by ctid").format(sql.Identifier(table))
            return [name for (name,) in connection.execute(query)]

    def seen_index(self, bundle: Bundle) -> Mapping[str, Any] | None:
        """Return the index of an archive, `None` if there is none."""
        found = self.rows(
            "select content from _gate_archives where basename = %s", (bundle.basename,)
        )
        return found[0][0] if found else None

    def tables(self) -> list[str]:
        """Return the names of all tables but the gate's own."""
        found = self.rows(
            "select tablename from pg_tables where schemaname = %s order by 1", (self.schema,)
        )
        own = ("_gate_ledger", "_gate_rejects", "_gate_archives")
        return [name for (name,) in found if name not in own]

    def before_index(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the step for an index."""
        self.wire.on('insert into "' + self.schema + '"."_gate_archives"', after(callback))

    def before_swap(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the atomic step."""
        self.wire.on('insert into "' + self.schema + '"."_gate_ledger"', after(callback))

    def cut_upload(self) -> None:
        """Lose the connection on the next upload of a dataset."""
        self.wire.on("copy ", lose)

    def cut_answer(self) -> None:
        """Lose the answer to the next atomic step, and whatever is asked after it."""
        self.wire.on(
            f'update "{self.schema}"."_gate_ledger"',
            after(lambda: self.wire.on(COMMIT, lose_answer)),
        )
