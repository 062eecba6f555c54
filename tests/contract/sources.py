"""Benches for sources: the source, what fills its bucket, and what breaks it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from google.cloud import storage

from gate.cloud_storage import CloudStorage
from gate.errors import PermissionDeniedError, StorageBusyError
from gate.source.cloud_storage import CloudStorageSource
from gate.source.memory import MemorySource
from gate.source.port import ObjectFacts, Source
from tests.contract.network import Network, after, answer, damaged, refuse


class SourceBench(ABC):
    """One source under test, and its bucket from the uploader's side."""

    bucket: str
    source: Source

    @abstractmethod
    def put(
        self, name: str, payload: bytes, metadata: Mapping[str, str] | None = None
    ) -> ObjectFacts:
        """Upload an object and return what the server says of it."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete the live object."""

    @abstractmethod
    def busy(self) -> None:
        """Let the next request fail as if the connection were lost."""

    @abstractmethod
    def denied(self) -> None:
        """Let the next request be refused for want of permission."""

    @abstractmethod
    def before_fetch(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, after a fetch has begun and before bytes are asked for."""

    @abstractmethod
    def damage(self, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes that the next fetch receives."""


class MemorySourceBench(SourceBench):
    """The bench of the source in memory."""

    def __init__(self) -> None:
        self.bucket = "memory"
        self.source: MemorySource = MemorySource()

    def put(
        self, name: str, payload: bytes, metadata: Mapping[str, str] | None = None
    ) -> ObjectFacts:
        """Upload an object and return what the server says of it."""
        return self.source.put(self.bucket, name, payload, metadata)

    def delete(self, name: str) -> None:
        """Delete the live object."""
        self.source.delete(self.bucket, name)

    def busy(self) -> None:
        """Let the next request fail as if the connection were lost."""
        self._fail(StorageBusyError("lost"))

    def denied(self) -> None:
        """Let the next request be refused for want of permission."""
        self._fail(PermissionDeniedError("refused"))

    def before_fetch(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, after a fetch has begun and before bytes are asked for."""

        def before(operation: str, name: str) -> None:
            if operation == "fetch":
                callback()

        self.source.before = before

    def damage(self, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes that the next fetch receives."""
        self.source.damage = change

    def _fail(self, error: Exception) -> None:
        def before(operation: str, name: str) -> None:
            raise error

        self.source.before = before


class CloudSourceBench(SourceBench):
    """The bench of the source on Cloud Storage."""

    def __init__(
        self, cloud: CloudStorage, client: storage.Client, bucket: str, network: Network
    ) -> None:
        self.bucket = bucket
        self.source = CloudStorageSource(cloud)
        self.network = network
        self.client = client

    def put(
        self, name: str, payload: bytes, metadata: Mapping[str, str] | None = None
    ) -> ObjectFacts:
        """Upload an object and return what the server says of it."""
        blob = self.client.bucket(self.bucket).blob(name)
        blob.metadata = dict(metadata or {})
        blob.upload_from_string(payload)
        return ObjectFacts(name, int(blob.generation), blob.size, blob.crc32c, dict(metadata or {}))

    def delete(self, name: str) -> None:
        """Delete the live object."""
        self.client.bucket(self.bucket).delete_blob(name)

    def busy(self) -> None:
        """Let the next request fail as if the connection were lost."""
        self.network.on("GET", "", refuse)

    def denied(self) -> None:
        """Let the next request be refused for want of permission."""
        self.network.on("GET", "", answer(403))

    def before_fetch(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, after a fetch has begun and before bytes are asked for."""
        self.network.on("GET", "alt=media", after(callback))

    def damage(self, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes that the next fetch receives."""
        self.network.on("GET", "alt=media", damaged(change))
