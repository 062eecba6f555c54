"""Layers as tables of PostGIS: data and ledger change in one transaction.

A publication stores its layer under a name of its own, which nobody knows, and
asks whether it is still wanted. Then it locks its row of the ledger, compares
the revisions, and puts the table in place. All of it is one transaction, so
whatever goes wrong on the way, nothing has happened; and readers see the old
rows or the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from gate.errors import DatabaseBusyError, GateError
from gate.identity import Revision
from gate.sinks import postgis_archives, postgis_ledger, postgis_tables
from gate.sinks.index import Index
from gate.sinks.port import Outdated, Publication, Published, Table
from gate.sinks.postgis_address import Mode
from gate.sinks.postgis_database import Database, Session
from gate.sinks.postgis_ledger import Entry, Place
from gate.sinks.postgis_names import ARCHIVES, source_name, table_name
from gate.sinks.postgis_tables import Staged

E = TypeVar("E")
V = TypeVar("V")

_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Step(Generic[E, V]):
    """What is done to one entry: `put` replaces the one that `lock` shows, and makes it `done`.

    `verdict` tells why an entry is to stay, if it is.
    """

    read: Callable[[], E | None]
    lock: Callable[[], E | None]
    verdict: Callable[[E], V | None]
    put: Callable[[E | None], None]
    done: V

    def taken(self, expected: E | None) -> bool:
        """Lock the entry and replace it, unless it is another than expected; tell which."""
        if self.lock() != expected:
            return False
        self.put(expected)
        return True


class PostgisSink:
    """The `gate.sinks.port.Sink` over one PostgreSQL database with PostGIS.

    `token` returns hex digits that no other call gets: they name what is not
    yet in place.
    """

    def __init__(self, database: Database, *, token: Callable[[], str]) -> None:
        self._database = database
        self._address = database.address
        self._token = token
        self._prepared = False

    def current(self, revision: Revision, layer: str = "") -> Published | Outdated | None:
        """Tell what the ledger says of this revision."""
        with self._session() as session:
            standing = postgis_ledger.read(session, self._place(revision, layer))
        return standing.verdict(revision, layer) if standing else None

    def publish(
        self,
        publication: Publication,
        table: Table,
        report: Callable[[], Mapping[str, Any]],
        still_owner: Callable[[], bool],
    ) -> Published | Outdated | None:
        """Store the table and make it current, all or nothing: see the port.

        Raises `DatabaseBusyError` for what passes, `ConfigurationError` for
        what the deployment lacks, `SchemaMismatchError` if the columns are not
        those of the shared table, or of one that views depend on, or a
        constraint of it refuses the rows, `UnsupportedError` for a layer that is
        beyond PostgreSQL's limits.
        """
        revision, layer = publication.revision, publication.layer
        place = self._place(revision, layer)

        def verdict(entry: Entry) -> Published | Outdated | None:
            return entry.verdict(revision, layer)

        with self._session() as session:
            standing = postgis_ledger.read(session, place)
            settled = standing and verdict(standing)
            if settled:
                return settled
            staged = postgis_tables.stage(
                session,
                table,
                self._token(),
                source_name(revision.bundle, layer),
                temporary=bool(place.source),
            )
            content = report()
            published = Published(self._location(place.table), staged.rows)

            def put(replaced: Entry | None) -> None:
                self._put(session, place, staged, ours=replaced is not None)
                postgis_ledger.write(session, place, publication, published, table.geo_crs, content)
                postgis_ledger.write_rejects(session, place, table.rejects())

            step: Step[Entry, Published | Outdated] = Step(
                read=lambda: postgis_ledger.read(session, place),
                lock=lambda: postgis_ledger.lock(session, place),
                verdict=verdict,
                put=put,
                done=published,
            )
            return self._taken(session, step, still_owner)

    def publish_index(
        self,
        publication: Publication,
        index: Mapping[str, Any],
        still_owner: Callable[[], bool],
    ) -> str | Outdated | None:
        """Replace the row of an archive's index: see the port."""
        revision = publication.revision
        basename = revision.bundle.basename
        with self._session() as session:
            step: Step[Index, str | Outdated] = Step(
                read=lambda: postgis_archives.read(session, basename),
                lock=lambda: postgis_archives.lock(session, basename),
                verdict=lambda standing: standing.verdict(revision),
                put=lambda _replaced: postgis_archives.write(session, publication, index),
                done=self._location(ARCHIVES),
            )
            return self._taken(session, step, still_owner)

    def _taken(
        self, session: Session, step: Step[E, V], still_owner: Callable[[], bool]
    ) -> V | None:
        """Take a step if what it replaces is still what was compared, and commit it.

        Nobody is kept waiting while the owner is asked: the lock comes after
        the question. So what the lock shows may be another entry; then all is
        compared, and asked, again.
        """
        for _ in range(_ROUNDS):
            standing = step.read()
            settled = step.verdict(standing) if standing else None
            if settled:
                return settled
            if not still_owner():
                return None
            if session.attempt(partial(step.taken, standing)):
                session.commit()
                return step.done
        raise DatabaseBusyError(
            "the table was in use, or its entry moved, in every round", where=str(self._address)
        )

    def _put(self, session: Session, place: Place, staged: Staged, *, ours: bool) -> None:
        target = (self._address.schema, place.table)
        if self._address.mode is Mode.APPEND:
            postgis_tables.append(session, staged, target, place.source)
        else:
            postgis_tables.replace(session, staged, target, ours=ours)

    def _place(self, revision: Revision, layer: str) -> Place:
        table = table_name(self._address.table, revision.bundle, layer)
        if self._address.mode is Mode.REPLACE:
            return Place(table)
        return Place(table, source_name(revision.bundle, layer))

    def _location(self, table: str) -> str:
        return f"{self._address}/{self._address.schema}.{table}"

    @contextmanager
    def _session(self) -> Iterator[Session]:
        if not self._prepared:
            with self._database.session() as session:
                postgis_ledger.prepare(session)
                session.commit()
            self._prepared = True
        try:
            with self._database.session() as session:
                yield session
        except GateError:
            # Somebody may have removed the ledger: the next call makes it again.
            self._prepared = False
            raise
