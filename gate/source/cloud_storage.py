"""Components read from Cloud Storage: pinned, and proven by crc32c."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gate.cloud_storage import CloudStorage
from gate.identity import Pin
from gate.source.port import Gone, ObjectFacts
from gate.source.proof import demand_length, prove


class CloudStorageSource:
    """The `gate.source.port.Source` over Cloud Storage."""

    def __init__(self, storage: CloudStorage) -> None:
        self._storage = storage

    def stat(self, bucket: str, pin: Pin) -> ObjectFacts | Gone:
        """Return the facts of exactly this generation, or `Gone` if it does not exist."""
        return self._storage.stat(bucket, pin.name, pin.generation) or self._gone(bucket, pin)

    def fetch(self, bucket: str, facts: ObjectFacts, path: Path) -> Gone | None:
        """Write exactly this generation's bytes to `path`, verified by size and crc32c."""
        proven = False
        try:
            if not self._storage.download(bucket, facts.pin, path):
                return self._gone(bucket, facts.pin)
            prove(bucket, facts, path)
            proven = True
        finally:
            if not proven:
                path.unlink(missing_ok=True)
        return None

    def read(self, bucket: str, facts: ObjectFacts, start: int, stop: int) -> bytes | Gone:
        """Return the bytes from `start` to before `stop` of exactly this generation, unproven."""
        content = self._storage.download_range(bucket, facts.pin, start, stop)
        if content is None:
            return self._gone(bucket, facts.pin)
        demand_length(bucket, facts, content, stop - start)
        return content

    def siblings(self, bucket: str, folder: str, start: str) -> Iterator[Pin]:
        """Yield the live objects directly in `folder` whose names begin with `folder + start`."""
        return self._storage.names(bucket, f"{folder}{start}")

    def page(self, bucket: str, prefix: str, after: str, limit: int) -> tuple[Pin, ...]:
        """Return up to `limit` live objects below `prefix` whose names come after `after`."""
        return self._storage.page(bucket, prefix, after, limit)

    def _gone(self, bucket: str, pin: Pin) -> Gone:
        live = self._storage.stat(bucket, pin.name)
        return Gone(pin, None if live is None else live.pin)
