"""Components in memory, with the faults of a network on demand: for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from gate import crc32c
from gate.identity import Pin
from gate.source.port import Gone, ObjectFacts
from gate.source.proof import demand_length, prove

_FIRST_GENERATION = 1_700_000_000_000_000


@dataclass(frozen=True, slots=True)
class _Stored:
    facts: ObjectFacts
    payload: bytes


class MemorySource:
    """The `gate.source.port.Source` over a dictionary.

    `before(operation, name)` is called ahead of every `stat`, `fetch`, `read` and
    `siblings`; it may raise what the network would, or `put` and `delete`, so
    that an object changes under the reader. `damage` maps the bytes that a fetch
    or a read delivers.
    """

    def __init__(self) -> None:
        self.before: Callable[[str, str], None] = lambda _operation, _name: None
        self.damage: Callable[[bytes], bytes] = lambda payload: payload
        self._live: dict[tuple[str, str], _Stored] = {}
        self._generation = _FIRST_GENERATION
        self._lock = threading.Lock()

    def put(
        self, bucket: str, name: str, payload: bytes, metadata: Mapping[str, str] | None = None
    ) -> ObjectFacts:
        """Store an object as an upload does: under a new, greater generation."""
        with self._lock:
            self._generation += 1
            facts = ObjectFacts(
                name, self._generation, len(payload), crc32c.of_bytes(payload), metadata or {}
            )
            self._live[bucket, name] = _Stored(facts, payload)
        return facts

    def describe(self, bucket: str, name: str, metadata: Mapping[str, str]) -> None:
        """Set the metadata of the live object, as a person does: its generation stays."""
        with self._lock:
            stored = self._live[bucket, name]
            facts = replace(stored.facts, metadata=dict(metadata))
            self._live[bucket, name] = _Stored(facts, stored.payload)

    def delete(self, bucket: str, name: str) -> None:
        """Remove the live object."""
        del self._live[bucket, name]

    def stat(self, bucket: str, pin: Pin) -> ObjectFacts | Gone:
        """Return the facts of exactly this generation, or `Gone` if it does not exist."""
        self.before("stat", pin.name)
        found = self._find(bucket, pin)
        return found if isinstance(found, Gone) else found.facts

    def fetch(self, bucket: str, facts: ObjectFacts, path: Path) -> Gone | None:
        """Write exactly this generation's bytes to `path`, verified by size and crc32c."""
        self.before("fetch", facts.name)
        found = self._find(bucket, facts.pin)
        if isinstance(found, Gone):
            return found
        try:
            path.write_bytes(self.damage(found.payload))
            prove(bucket, facts, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return None

    def read(self, bucket: str, facts: ObjectFacts, start: int, stop: int) -> bytes | Gone:
        """Return the bytes from `start` to before `stop` of exactly this generation, unproven."""
        self.before("read", facts.name)
        found = self._find(bucket, facts.pin)
        if isinstance(found, Gone):
            return found
        content = self.damage(found.payload[start:stop])
        demand_length(bucket, facts, content, stop - start)
        return content

    def siblings(self, bucket: str, folder: str, start: str) -> Iterator[Pin]:
        """Yield the live objects directly in `folder` whose names begin with `folder + start`."""
        prefix = f"{folder}{start}"
        self.before("siblings", prefix)
        for (of, name), stored in sorted(self._live.items()):
            if of == bucket and name.startswith(prefix) and "/" not in name[len(prefix) :]:
                yield stored.facts.pin

    def page(self, bucket: str, prefix: str, after: str, limit: int) -> tuple[Pin, ...]:
        """Return up to `limit` live objects below `prefix` whose names come after `after`."""
        self.before("page", prefix)
        found = (
            stored.facts.pin
            for (of, name), stored in sorted(self._live.items())
            if of == bucket and name.startswith(prefix) and name > after
        )
        return tuple(islice(found, limit))

    def _find(self, bucket: str, pin: Pin) -> _Stored | Gone:
        live = self._live.get((bucket, pin.name))
        if live is not None and live.facts.generation == pin.generation:
            return live
        return Gone(pin, live.facts.pin if live else None)
