"""One PostgreSQL database: a warm connection, statements, COPY, and its errors as ours.

Names stand in statements as `{placeholders}` that psycopg quotes, so that no
name can become SQL, and values are parameters. Rows go in by binary COPY, which
pgpq makes from Arrow batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString, TypeAlias

import pgpq
import psycopg
import pyarrow as pa
from psycopg import IsolationLevel, errors, sql
from psycopg.conninfo import make_conninfo

from gate.errors import (
    ConfigurationError,
    DatabaseBusyError,
    GateError,
    SchemaMismatchError,
    UnexpectedError,
    UnsupportedError,
)
from gate.sinks.postgis_address import DatabaseAddress

# One name, or a schema and a name in it; or several names with commas between.
Name: TypeAlias = tuple[str, ...]
Names: TypeAlias = list[str]

CONNECT_SECONDS = 10
LOCK_SECONDS = 3
# A worker that falls silent between two statements, frozen perhaps with a lock, is given up.
SILENT_SECONDS = 600
_BEGIN: LiteralString = (
    "set local statement_timeout = 0;"
    f" set local idle_in_transaction_session_timeout = '{SILENT_SECONDS}s';"
    f" set local lock_timeout = '{LOCK_SECONDS}s'"
)
# A network that is silent for half a minute is a connection that is lost.
_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_FACTS: LiteralString = """
    select current_setting('server_encoding'),
           exists (select from pg_namespace where nspname = %s),
           (select nspname from pg_extension join pg_namespace n on n.oid = extnamespace
             where extname = 'postgis')
"""

# PostgreSQL, appendix A. What passes: a lost connection, contention, resources,
# an operator, an input or output error, a standby that is not yet promoted.
_PASSING = ("08", "25006", "25P03", "40", "53", "55", "57", "58")
# What somebody has to set up: permission, login, database, schema, type, function.
_SETTINGS = ("42501", "28", "3D", "3F", "42704", "42883")
# What a table, or PostgreSQL itself, refuses of the layer: whoever keeps the one
# or makes the other has to change it.
_CONSTRAINTS = ("23", "P0001")
_LIMITS = ("54",)
# What a server that refuses a login says of a moment; all else, it says of the login.
_MOMENTS = ("starting up", "shutting down", "recovery", "too many", "connection slots", "accepting")
_LOGIN_FAULTS = ("FATAL:", "certificate", "SSL was required", "no password supplied")

_PRIVILEGES: dict[str, LiteralString] = {
    "SELECT": "select",
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "TRUNCATE": "truncate",
    "REFERENCES": "references",
    "TRIGGER": "trigger",
    "MAINTAIN": "maintain",
}


class Database:
    """The database at an address, with one connection kept warm."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._idle: Connected | None = None
        self._lock = threading.Lock()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Give one transaction: whatever `commit` was not called for is undone at the end.

        The connection that was kept is used if it still answers, else a new one
        is made; that happens too if another thread uses it. It is kept again
        unless something was raised. Raises `DatabaseBusyError` for what passes,
        `ConfigurationError` for what the deployment has to mend, `SchemaMismatchError`
        for rows that a constraint refuses, `UnsupportedError` for a layer beyond
        PostgreSQL's limits, and `UnexpectedError` for all else that the database refuses.
        """
        with self._translated():
            connection, geometry_schema = self._reused() or self._connected()
            try:
                yield Session(connection, self.address.schema, geometry_schema)
                connection.rollback()
            except BaseException:
                with suppress(psycopg.Error):
                    connection.close()
                raise
        self._keep((connection, geometry_schema))

    def close(self) -> None:
        """Close the connection that is kept."""
        with self._lock:
            kept, self._idle = self._idle, None
        if kept:
            kept[0].close()

    def _keep(self, connected: Connected) -> None:
        with self._lock:
            surplus, self._idle = self._idle, connected
        if surplus:
            surplus[0].close()

    def _reused(self) -> Connected | None:
        """Return the connection that was kept, in a new transaction, if it still answers."""
        with self._lock:
            kept, self._idle = self._idle, None
        if kept:
            try:
                kept[0].execute(_BEGIN)
            except psycopg.Error:
                kept[0].close()
                return None
        return kept

    def _connected(self) -> Connected:
        address = self.address
        told = make_conninfo(
            **address.connection,
            **_KEEPALIVE,
            application_name="shapefile-gate",
            connect_timeout=CONNECT_SECONDS,
            client_encoding="UTF8",
        )
        connection = psycopg.connect(told, prepare_threshold=None)
        try:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            connection.execute(_BEGIN)
            (facts,) = connection.execute(_FACTS, (address.schema,)).fetchall()
            return connection, self._checked(*facts)
        except BaseException:
            connection.close()
            raise

    def _checked(self, encoding: str, has_schema: bool, geometry_schema: str | None) -> str:
        """Return the schema that PostGIS is in; refuse a database that cannot hold layers."""
        where, schema = str(self.address), self.address.schema
        if encoding != "UTF8":
            cure = "create a database with encoding UTF8 and name it in SINK"
            raise ConfigurationError(f"its encoding is {encoding}", where=where, cure=cure)
        if not has_schema:
            cure = f'run: create schema "{schema}"'
            raise ConfigurationError(f"there is no schema {schema}", where=where, cure=cure)
        if geometry_schema is None:
            cure = "run in that database: create extension postgis"
            raise ConfigurationError("PostGIS is not installed", where=where, cure=cure)
        return geometry_schema

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translated(error, str(self.address)) from error


Connected: TypeAlias = tuple[psycopg.Connection[tuple[Any, ...]], str]


class Session:
    """One transaction. `schema` is where tables go, `geometry_schema` where PostGIS is."""

    def __init__(
        self, connection: psycopg.Connection[tuple[Any, ...]], schema: str, geometry_schema: str
    ) -> None:
        self.schema = schema
        self.geometry_schema = geometry_schema
        self._connection = connection

    def rows(
        self, statement: LiteralString, values: Sequence[Any] = (), **names: Name | Names
    ) -> list[tuple[Any, ...]]:
        """Run a statement and return the rows it gives."""
        return self._run(statement, values, names).fetchall()

    def run(
        self, statement: LiteralString, values: Sequence[Any] = (), **names: Name | Names
    ) -> int:
        """Run a statement and return how many rows it changed."""
        return self._run(statement, values, names).rowcount

    def create(
        self,
        statement: LiteralString,
        table: Name,
        columns: Sequence[tuple[str, LiteralString]],
        geometry: tuple[str, LiteralString, int],
    ) -> None:
        """Create `{table}` with `{columns}`, each with its type; the geometry has an SRID too."""
        typed = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(of)) for name, of in columns]
        name, kind, srid = geometry
        of = sql.Identifier(self.geometry_schema, "geometry")
        typed.append(
            sql.SQL("{} {}({}, {})").format(
                sql.Identifier(name), of, sql.SQL(kind), sql.Literal(srid)
            )
        )
        self._connection.execute(
            sql.SQL(statement).format(
                table=sql.Identifier(*table), columns=sql.SQL(", ").join(typed)
            )
        )

    def comment(self, statement: LiteralString, text: str, **names: Name) -> None:
        """Run a statement that ends in a text, which no parameter can be."""
        placed = {key: sql.Identifier(*name) for key, name in names.items()}
        literal = sql.Literal(storable(text))
        self._connection.execute(sql.SQL(statement).format(text=literal, **placed))

    def grant(self, privilege: str, table: Name, role: str | None, *, grantable: bool) -> None:
        """Grant a privilege on a table to a role, `None` for everybody."""
        statement = sql.SQL("grant {} on {} to {}{}").format(
            sql.SQL(_PRIVILEGES[privilege]),
            sql.Identifier(*table),
            sql.SQL("public") if role is None else sql.Identifier(role),
            sql.SQL(" with grant option" if grantable else ""),
        )
        self._connection.execute(statement)

    def copy(
        self, table: Name, columns: Names, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """Append batches to a table that this transaction made; return how many rows went in.

        The rows are stored as if they had always been there, so that a reader
        whose snapshot is older than the table sees all of them, not none. What
        the batches raise passes through.
        """
        bare = pa.schema([pa.field(field.name, field.type) for field in schema])
        encoder = pgpq.ArrowToPostgresBinaryEncoder(bare)
        statement = sql.SQL("copy {} ({}) from stdin (format binary, freeze)").format(
            sql.Identifier(*table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with self._connection.cursor() as cursor:
            with cursor.copy(statement) as copying:
                copying.write(encoder.write_header())
                for batch in batches:
                    plain = pa.RecordBatch.from_arrays(batch.columns, schema=bare)
                    copying.write(encoder.write_batch(plain))
                copying.write(encoder.finish())
            return cursor.rowcount

    def copy_rows(self, table: Name, columns: Names, rows: Iterable[Sequence[Any]]) -> None:
        """Append rows of plain values to a table."""
        statement = sql.SQL("copy {} ({}) from stdin").format(
            sql.Identifier(*table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copying:
            for row in rows:
                copying.write_row([storable(value) for value in row])

    def attempt(self, step: Callable[[], bool]) -> bool:
        """Run a step; undo it if it says `False`, or waited too long for a lock.

        The answer tells whether it stands; the transaction goes on in either
        case, and the locks of a step that was undone are free again.
        """
        contended = suppress(errors.LockNotAvailable, errors.DeadlockDetected)
        with contended, self._connection.transaction():
            if not step():
                raise psycopg.Rollback
            return True
        return False

    def drop(self, table: Name) -> bool:
        """Drop a table, unless something depends on it; the answer tells."""
        with suppress(errors.DependentObjectsStillExist), self._connection.transaction():
            self.run("drop table {table}", table=table)
            return True
        return False

    def commit(self) -> None:
        """Make what was done visible, at once and whole."""
        self._connection.commit()

    def _run(
        self, statement: LiteralString, values: Sequence[Any], names: dict[str, Any]
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        placed = {
            key: sql.SQL(", ").join(map(sql.Identifier, name))
            if isinstance(name, list)
            else sql.Identifier(*name)
            for key, name in names.items()
        }
        stored = [storable(value) for value in values]
        return self._connection.execute(sql.SQL(statement).format(**placed), stored or None)


def storable(value: Any) -> Any:
    """Return a value with U+FFFD for every NUL, which no text of PostgreSQL holds."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def translated(error: psycopg.Error, where: str) -> GateError:
    """Return what an error of the client means here."""
    what = " ".join(str(error).split()) or type(error).__name__
    if error.sqlstate is None:
        return _without_state(error, what, where)
    if error.sqlstate.startswith(_PASSING):
        return DatabaseBusyError(what, where=where)
    if error.sqlstate.startswith(_SETTINGS):
        cure = "grant the user of SINK what it lacks, or correct SINK"
        return ConfigurationError(what, where=where, cure=cure)
    if error.sqlstate.startswith(_CONSTRAINTS):
        cure = (
            "correct the rows and upload the bundle again, or drop the constraint or trigger that"
            " refuses them and redrive the job"
        )
        return SchemaMismatchError(what, where=where, cure=cure)
    if error.sqlstate.startswith(_LIMITS):
        cure = "upload the layer with fewer or shorter fields, or give SINK another form of output"
        return UnsupportedError(what, where=where, cure=cure)
    return UnexpectedError(f"{type(error).__name__}: {what}", where=where)


def _without_state(error: psycopg.Error, what: str, where: str) -> GateError:
    """Judge an error of which the server told no code: a refused login, or no server at all."""
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return UnexpectedError(f"{type(error).__name__}: {what}", where=where)
    login = any(each in what for each in _LOGIN_FAULTS)
    if login and not any(each in what for each in _MOMENTS):
        cure = "correct user, password, database and TLS options of SINK, and PGPASSWORD"
        return ConfigurationError(what, where=where, cure=cure)
    return DatabaseBusyError(what, where=where)
