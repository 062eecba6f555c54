"""The simulation's database served by a real Firestore, under the clock of the simulation.

What the server would stamp with its own time is stamped with the simulation's:
`SERVER_TIMESTAMP` on the way in, the times of reads and writes on the way out. All else
(conditions, merges, transforms, queries) is the server's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from google.cloud import firestore

from tests.simulation.database import Around, Document, Watch, undisturbed

_PREFIXES = count(1)


@dataclass(frozen=True, slots=True)
class Read:
    """A snapshot of the server's, written and read at times of the simulation."""

    snapshot: Any
    update_time: datetime | None
    read_time: datetime

    def __getattr__(self, name: str) -> Any:
        return getattr(self.snapshot, name)


@dataclass(frozen=True, slots=True)
class Written:
    """What the server has answered to one write of a commit, made at a time of the simulation."""

    update_time: datetime
    transform_results: Any


@dataclass
class Served:
    """What `tests.simulation.database.Database` is, in collections of its own."""

    client: firestore.Client
    clock: Callable[[], datetime]
    around: Around = undisturbed
    watch: Watch = lambda _collection, _key, _document: None
    _prefix: str = field(default_factory=lambda: f"simulation-{next(_PREFIXES)}-")
    _moments: Iterator[int] = field(default_factory=lambda: count(1))
    _simulated: dict[Any, datetime] = field(default_factory=dict)
    _served: dict[datetime, Any] = field(default_factory=dict)

    def collection(self, name: str) -> Collection:
        """Return a collection."""
        return Collection(self, self.client.collection(f"{self._prefix}{name}"))

    def batch(self) -> Batch:
        """Return writes that are committed together."""
        return Batch(self, self.client.batch())

    def write_option(self, *, last_update_time: Any) -> Any:
        """Return the condition that a document has not changed since."""
        return self.client.write_option(last_update_time=self._served[last_update_time])

    def get_all(self, references: Iterable[Any], **options: Any) -> list[Read]:
        """Read documents, all at one time."""
        wanted = list(references)
        names = " ".join(self.name_of(one) for one in wanted)
        answer: list[Read] = self.around(
            f"firestore.read {names}",
            lambda: self.read(self.client.get_all(wanted, **options)),
        )
        return answer

    def read(self, found: Iterable[Any]) -> list[Read]:
        """Return what the server has answered, as of now."""
        return [
            Read(snapshot, self._simulated.get(snapshot.update_time), self.clock())
            for snapshot in found
        ]

    def written(self, results: Iterable[Any], now: datetime) -> list[Written]:
        """Return what the server has answered to a commit that was made at `now`."""
        time = now + next(self._moments) * datetime.resolution
        answers = []
        for result in results:
            self._simulated[result.update_time] = time
            self._served[time] = result.update_time
            answers.append(Written(time, result.transform_results))
        return answers

    def all_of(self, collection: str) -> dict[str, Document]:
        """Return every document of a collection, outside of the simulation."""
        found = self.client.collection(f"{self._prefix}{collection}").stream()
        return {snapshot.id: snapshot.to_dict() for snapshot in found}

    def remove(self, collection: str, key: str) -> None:
        """Delete a document, as its time-to-live does."""
        self.client.collection(f"{self._prefix}{collection}").document(key).delete()
        self.watch(collection, key, None)

    def seen(self, references: Iterable[Any]) -> None:
        """Show the watch what a commit has written."""
        for snapshot in self.client.get_all(list(references)):
            collection = snapshot.reference.parent.id.removeprefix(self._prefix)
            self.watch(collection, snapshot.id, snapshot.to_dict())

    def name_of(self, reference: Any) -> str:
        """Return the name of a document in the account of a run."""
        collection = reference.parent.id.removeprefix(self._prefix)
        return f"{collection}/{reference.id[:6]}"


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection, or the beginning of a query over it."""

    database: Served
    served: Any

    def document(self, key: str) -> Any:
        """Return the place of a document."""
        return self.served.document(key)

    def order_by(self, field_path: str) -> Query:
        """Return the documents that have a field, in its order."""
        name = self.database.name_of(self.served.document("-")).partition("/")[0]
        return Query(self.database, name, self.served.order_by(field_path))


@dataclass(frozen=True, slots=True)
class Query:
    """A query that is made at a time of the simulation."""

    database: Served
    name: str
    served: Any

    def limit(self, most: int) -> Query:
        """Return the same query for no more than so many documents."""
        return Query(self.database, self.name, self.served.limit(most))

    def select(self, field_paths: list[str]) -> Query:
        """Return the same query for these fields only."""
        return Query(self.database, self.name, self.served.select(field_paths))

    def get(self, **options: Any) -> list[Read]:
        """Read the documents."""
        answer: list[Read] = self.database.around(
            f"firestore.query {self.name}",
            lambda: self.database.read(self.served.get(**options)),
        )
        return answer


@dataclass
class Batch:
    """Writes that are committed together, stamped with the time at which they are."""

    database: Served
    served: Any
    writes: list[tuple[str, Any, Document, Any]] = field(default_factory=list)

    def create(self, reference: Any, fields: Document) -> None:
        """Add a document that must not exist."""
        self.writes.append(("create", reference, fields, None))

    def set(self, reference: Any, fields: Document, *, merge: bool) -> None:
        """Add fields to a document, whether it exists or not."""
        assert merge
        self.writes.append(("merge", reference, fields, None))

    def update(self, reference: Any, fields: Document, option: Any = None) -> None:
        """Replace fields of a document that must exist."""
        self.writes.append(("update", reference, fields, option))

    def commit(self, **options: Any) -> Any:
        """Apply all writes, or none."""
        name_of = self.database.name_of
        names = " ".join(f"{kind} {name_of(reference)}" for kind, reference, *_ in self.writes)
        return self.database.around(f"firestore.commit {names}", lambda: self._applied(options))

    def _applied(self, options: dict[str, Any]) -> Any:
        now = self.database.clock()
        for kind, reference, fields, option in self.writes:
            stamped = _stamped(fields, now)
            if kind == "create":
                self.served.create(reference, stamped)
            elif kind == "merge":
                self.served.set(reference, stamped, merge=True)
            else:
                self.served.update(reference, stamped, option=option)
        results = self.database.written(self.served.commit(**options), now)
        self.database.seen(reference for _, reference, *_ in self.writes)
        return results


def _stamped(fields: Document, now: datetime) -> Document:
    return {
        key: now if value is firestore.SERVER_TIMESTAMP else value for key, value in fields.items()
    }
