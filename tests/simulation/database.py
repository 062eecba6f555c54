"""Firestore in memory: as much of its client as the store uses, with its semantics.

Commits are atomic, with all their conditions or not at all; transforms, merges
and preconditions do what Firestore's do. Every call goes through `around`, which
may let others run, fail, or lose the answer. `watch` sees every document that
a commit has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any

from google.api_core import exceptions as api
from google.cloud.firestore import DELETE_FIELD, SERVER_TIMESTAMP, ArrayUnion, Maximum

Document = dict[str, Any]
Around = Callable[[str, Callable[[], Any]], Any]
Watch = Callable[[str, str, Document | None], object]


def undisturbed(_name: str, call: Callable[[], Any]) -> Any:
    """Make a call, and nothing else."""
    return call()


@dataclass(frozen=True, slots=True)
class Reference:
    """The place of one document."""

    collection: str
    id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a read found; `update_time` grows with every write."""

    reference: Reference
    document: Document | None
    update_time: datetime | None
    read_time: datetime

    @property
    def id(self) -> str:
        """Return the id of the document."""
        return self.reference.id

    @property
    def exists(self) -> bool:
        """Tell whether there is a document."""
        return self.document is not None

    def get(self, field_path: str) -> Any:
        """Return one field of a document that exists."""
        return _copied((self.document or {}).get(field_path))

    def to_dict(self) -> Document | None:
        """Return a copy of the document."""
        return _copied(self.document)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The condition that a document was last written at `update_time`."""

    update_time: datetime


@dataclass(frozen=True, slots=True)
class Result:
    """The value of a field after a transform; it counts only where that is a number."""

    integer_value: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """What a commit answers for each of its writes.

    The values of its transforms are in the order of their field paths.
    """

    update_time: datetime
    transform_results: tuple[Result, ...]


@dataclass
class Database:
    """The documents of one database, under the server's clock."""

    clock: Callable[[], datetime]
    around: Around = undisturbed
    watch: Watch = lambda _collection, _key, _document: None
    stored: dict[Reference, tuple[Document, datetime]] = field(default_factory=dict)
    _moments: Iterator[int] = field(default_factory=lambda: count(1))

    def collection(self, name: str) -> Collection:
        """Return a collection."""
        return Collection(self, name)

    def batch(self) -> Batch:
        """Return writes that are committed together."""
        return Batch(self)

    def write_option(self, *, last_update_time: datetime) -> Unchanged:
        """Return the condition that a document has not changed since."""
        return Unchanged(last_update_time)

    def get_all(self, references: Iterable[Reference], **_: object) -> list[Snapshot]:
        """Read documents, all at one time."""
        wanted = list(references)
        names = " ".join(f"{one.collection}/{one.id[:6]}" for one in wanted)
        answer: list[Snapshot] = self.around(
            f"firestore.read {names}", lambda: [self.snapshot(one) for one in wanted]
        )
        return answer

    def snapshot(self, reference: Reference) -> Snapshot:
        """Return a document as it stands, without a call."""
        document, version = self.stored.get(reference, (None, None))
        return Snapshot(reference, _copied(document), version, self.clock())

    def all_of(self, collection: str) -> dict[str, Document]:
        """Return every document of a collection, without a call."""
        return {
            reference.id: document
            for reference, (document, _) in self.stored.items()
            if reference.collection == collection
        }

    def remove(self, collection: str, key: str) -> None:
        """Delete a document, as its time-to-live does."""
        del self.stored[Reference(collection, key)]
        self.watch(collection, key, None)

    def commit(self, writes: list[Write]) -> list[Written]:
        """Apply all writes, or raise for the first whose condition does not hold."""
        for write in writes:
            write.check(self.stored.get(write.reference))
        now = self.clock()
        time = now + next(self._moments) * datetime.resolution
        results = []
        for write in writes:
            before = self.stored.get(write.reference)
            document = write.applied(_copied(before[0]) if before else {}, now)
            self.stored[write.reference] = document, time
            paths = sorted(_transforms(write.fields))
            results.append(Written(time, tuple(_result(document, path) for path in paths)))
        for write in writes:
            self.watch(*_place(write.reference), self.stored[write.reference][0])
        return results


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection of a database."""

    database: Database
    name: str

    def document(self, key: str) -> Reference:
        """Return the place of a document."""
        return Reference(self.name, key)

    def order_by(self, field_path: str) -> Query:
        """Return the documents that have a field, in its order."""
        return Query(self.database, self.name, field_path)


@dataclass(frozen=True, slots=True)
class Query:
    """The first documents of a collection in the order of one field."""

    database: Database
    collection: str
    field_path: str
    most: int = 0

    def limit(self, most: int) -> Query:
        """Return the same query for no more than so many documents."""
        return replace(self, most=most)

    def select(self, field_paths: list[str]) -> Query:
        """Return the same query: that other fields are left out shows nowhere."""
        return self

    def get(self, **_: object) -> list[Snapshot]:
        """Read the documents."""
        answer: list[Snapshot] = self.database.around(
            f"firestore.query {self.collection}", self._found
        )
        return answer

    def _found(self) -> list[Snapshot]:
        found = [
            (document[self.field_path], reference.id, reference)
            for reference, (document, _) in self.database.stored.items()
            if reference.collection == self.collection and self.field_path in document
        ]
        return [self.database.snapshot(one) for *_, one in sorted(found)[: self.most]]


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a commit: `create`, `merge` or `update`."""

    kind: str
    reference: Reference
    fields: Document
    unchanged: Unchanged | None = None

    def check(self, before: tuple[Document, datetime] | None) -> None:
        """Raise what Firestore answers if the condition of the write does not hold."""
        if self.kind == "create" and before is not None:
            raise api.AlreadyExists(f"{self.reference} exists")
        if self.kind == "update" and before is None:
            raise api.NotFound(f"{self.reference} does not exist")
        if self.unchanged and (before is None or before[1] != self.unchanged.update_time):
            raise api.FailedPrecondition(f"{self.reference} has changed")

    def applied(self, document: Document, now: datetime) -> Document:
        """Return the document after the write."""
        if self.kind == "create":
            return _merged({}, self.fields, now)
        if self.kind == "merge":
            return _merged(document, self.fields, now)
        for key, value in self.fields.items():
            if not isinstance(value, dict):
                document = _merged(document, {key: value}, now)
            else:
                document[key] = _copied(value)
        return document


@dataclass
class Batch:
    """Writes that are committed together."""

    database: Database
    writes: list[Write] = field(default_factory=list)

    def create(self, reference: Reference, fields: Document) -> None:
        """Add a document that must not exist."""
        self.writes.append(Write("create", reference, fields))

    def set(self, reference: Reference, fields: Document, *, merge: bool) -> None:
        """Add fields to a document, whether it exists or not."""
        assert merge
        self.writes.append(Write("merge", reference, fields))

    def update(
        self, reference: Reference, fields: Document, option: Unchanged | None = None
    ) -> None:
        """Replace fields of a document that must exist."""
        self.writes.append(Write("update", reference, fields, option))

    def commit(self, **_: object) -> list[Written]:
        """Apply all writes, or none."""
        names = " ".join(
            f"{one.kind} {one.reference.collection}/{one.reference.id[:6]}" for one in self.writes
        )
        answer: list[Written] = self.database.around(
            f"firestore.commit {names}", lambda: self.database.commit(self.writes)
        )
        return answer


def _merged(document: Document, fields: Document, now: datetime) -> Document:
    """Merge fields deeply into a document, transforms applied to what stands there."""
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            standing = document.get(key)
            document[key] = _merged(standing if isinstance(standing, dict) else {}, value, now)
        elif value is DELETE_FIELD:
            document.pop(key, None)
        elif value is SERVER_TIMESTAMP:
            document[key] = now
        elif isinstance(value, Maximum):
            standing = document.get(key)
            document[key] = value.value if standing is None else max(standing, value.value)
        elif isinstance(value, ArrayUnion):
            standing = document.get(key) or []
            document[key] = [*standing, *(one for one in value.values if one not in standing)]
        else:
            document[key] = _copied(value)
    return document


def _transforms(fields: Document, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the fields whose value Firestore works out."""
    for key, value in fields.items():
        if isinstance(value, dict):
            yield from _transforms(value, (*above, key))
        elif isinstance(value, (Maximum, ArrayUnion)) or value is SERVER_TIMESTAMP:
            yield (*above, key)


def _result(document: Any, path: tuple[str, ...]) -> Result:
    for key in path:
        document = document[key]
    return Result(document if isinstance(document, int) else 0)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(one) for one in value]
    return value


def _place(reference: Reference) -> tuple[str, str]:
    return reference.collection, reference.id
