"""A bucket of small objects in memory, with the semantics of Cloud Storage that the store uses.

A write is one step under the condition of its generation, or none. Reads and
listings are dated in whole seconds. Every call goes through `around`, which may
let others run, fail, or lose the answer. `watch` sees every document that was
written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gate.store.blob_documents import decoded, encoded, labels_of, time_of
from gate.store.documents import DUE_AT, WAKE_AT
from gate.store.objects import ABSENT, Found, Listed, Wrote
from tests.simulation.database import Around, Document, Watch, undisturbed

FIRST_GENERATION = 1_731_000_000_000_000


@dataclass(frozen=True, slots=True)
class Stored:
    """One live object."""

    payload: bytes
    generation: int
    labels: Mapping[str, str]
    expires_at: datetime | None


@dataclass
class Bucket:
    """The objects below one prefix, under the server's clock."""

    clock: Callable[[], datetime]
    around: Around = undisturbed
    watch: Watch | None = None
    stored: dict[str, Stored] = field(default_factory=dict)
    _generation: int = FIRST_GENERATION
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, name: str) -> Found:
        """Return the live object."""
        answer: Found = self.around(f"objects.read {_short(name)}", lambda: self._read(name))
        return answer

    def write(
        self,
        name: str,
        payload: bytes,
        expected: int,
        *,
        labels: Mapping[str, str],
        expires_at: datetime | None,
    ) -> Wrote | None:
        """Replace or create the object, if it is at the generation expected."""

        def write() -> Wrote | None:
            return self._write(name, payload, expected, dict(labels), expires_at)

        kind = "swap" if expected else "create"
        answer: Wrote | None = self.around(f"objects.{kind} {_short(name)}", write)
        return answer

    def listed(self, folder: str) -> tuple[tuple[Listed, ...], datetime]:
        """Return every object of a folder."""
        answer: tuple[tuple[Listed, ...], datetime] = self.around(
            f"objects.list {folder}", lambda: self._listed(f"{folder}/")
        )
        return answer

    def all_of(self, kind: str) -> dict[str, Document]:
        """Return every document of a kind as a listing and a read together show it."""
        names = [name for name in self.stored if name.startswith(f"{kind}/")]
        return {name.partition("/")[2]: shown(self.stored[name], name) for name in sorted(names)}

    def put(self, kind: str, key: str, document: Document) -> None:
        """Write a document over what there is, without a call."""
        name = f"{kind}/{key}"
        standing = self._read(name).generation
        expires_at = document.get("expires_at")
        labels = labels_of(kind, document)
        assert self._write(name, encoded(document), standing, labels, expires_at)

    def remove(self, kind: str, key: str) -> None:
        """Delete an object, as its lifecycle does."""
        del self.stored[f"{kind}/{key}"]
        if self.watch:
            self.watch(kind, key, None)

    def _read(self, name: str) -> Found:
        found = self.stored.get(name)
        now = self.clock().replace(microsecond=0)
        if found is None:
            return Found(None, ABSENT, now)
        return Found(found.payload, found.generation, now)

    def _write(
        self,
        name: str,
        payload: bytes,
        expected: int,
        labels: Mapping[str, str],
        expires_at: datetime | None,
    ) -> Wrote | None:
        with self._lock:
            standing = self.stored.get(name)
            if expected != (standing.generation if standing else ABSENT):
                return None
            self._generation += 1
            self.stored[name] = Stored(payload, self._generation, labels, expires_at)
            wrote = Wrote(self._generation, self.clock())
        if self.watch:
            kind, _, key = name.partition("/")
            self.watch(kind, key, shown(self.stored[name], name))
        return wrote

    def _listed(self, folder: str) -> tuple[tuple[Listed, ...], datetime]:
        listed = tuple(
            Listed(name.removeprefix(folder), one.generation, one.labels, one.expires_at)
            for name, one in sorted(self.stored.items())
            if name.startswith(folder)
        )
        return listed, self.clock().replace(microsecond=0)


def shown(stored: Any, name: str) -> Document:
    """Return the document of an object; when it is due is what its label says."""
    document = decoded(stored.payload, name)
    due = {key: time_of(each) for key, each in stored.labels.items() if key in (DUE_AT, WAKE_AT)}
    return {**document, **{key: each for key, each in due.items() if each}}


def _short(name: str) -> str:
    kind, _, key = name.partition("/")
    return f"{kind}/{key[:6]}"
