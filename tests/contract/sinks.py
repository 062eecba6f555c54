"""Benches for sinks: the sink, a reader's eyes on it, and what breaks it."""

from __future__ import annotations

import io
import itertools
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio.raw
from google.cloud import storage

from gate.cloud_storage import CloudStorage
from gate.errors import StorageBusyError
from gate.identity import Revision
from gate.names import Bundle
from gate.sinks import layout
from gate.sinks.address import SinkAddress
from gate.sinks.cloud_storage import CloudStorageSink
from gate.sinks.memory import MemorySink, key
from gate.sinks.port import Outdated, Published, Sink
from tests.contract.network import Network, after, before_answer, lose, refuse
from tests.layers import WGS84, Layer, publication

PUBLISHED_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Seen:
    """What a reader who follows the pointer sees."""

    revision_id: str
    names: list[str]
    geo_crs: Mapping[str, Any] | None
    report: Mapping[str, Any]
    metadata: bytes = b""
    rejects: Sequence[Mapping[str, Any]] = ()


def read(content: bytes, name: str) -> tuple[list[str], Mapping[str, Any] | None]:
    """Return the names in a dataset, in order, and its CRS, as a reader of its form finds them."""
    if name.endswith(".geojsonl"):
        features = map(json.loads, content.splitlines())
        return [feature["properties"]["name"] for feature in features], WGS84
    if name.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(content))
        geo = json.loads(table.schema.metadata[b"geo"])
        return table.column("name").to_pylist(), geo["columns"]["geometry"]["crs"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        facts, table = pyogrio.raw.read_arrow(path)
    names = sorted(table.column("name").to_pylist(), key=lambda text: int(text.split()[-1]))
    return names, WGS84 if facts["crs"] == "EPSG:4326" else facts["crs"]


class SinkBench(ABC):
    """One sink under test, and its datasets from the reader's side."""

    sink: Sink

    @abstractmethod
    def seen(self, bundle: Bundle, layer: str = "") -> Seen | None:
        """Return what readers see of a bundle or layer, `None` if there is nothing."""

    @abstractmethod
    def seen_index(self, bundle: Bundle) -> Mapping[str, Any] | None:
        """Return the index of an archive, `None` if there is none."""

    @abstractmethod
    def before_index(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the step for an index."""

    @abstractmethod
    def before_swap(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the atomic step."""

    @abstractmethod
    def cut_upload(self) -> None:
        """Lose the connection on the next upload of a dataset."""

    @abstractmethod
    def cut_answer(self) -> None:
        """Lose the answer to the next atomic step, and whatever is asked after it."""

    def publish(
        self,
        of: Revision,
        layer: Layer,
        fence: int = 1,
        *,
        name: str = "",
        metadata: bytes = b"",
        owner: bool = True,
    ) -> Published | Outdated | None:
        """Publish with a plain report and an owner who never changes; `name` is the layer's."""
        return self.sink.publish(
            publication(of, fence, name, metadata),
            layer,
            lambda: {"layer": of.bundle.stem},
            lambda: owner,
        )

    def publish_index(
        self, of: Revision, fence: int = 1, *, owner: bool = True, **index: Any
    ) -> str | Outdated | None:
        """Publish the index of an archive with an owner who never changes."""
        return self.sink.publish_index(publication(of, fence), index, lambda: owner)


class MemorySinkBench(SinkBench):
    """The bench of the sink in memory."""

    def __init__(self) -> None:
        self.sink: MemorySink = MemorySink()

    def seen(self, bundle: Bundle, layer: str = "") -> Seen | None:
        """Return what readers see of a bundle or layer, `None` if there is nothing."""
        dataset = self.sink.datasets.get(key(bundle.basename, layer))
        if dataset is None:
            return None
        names = [name for batch in dataset.batches for name in batch.column("name").to_pylist()]
        publication = dataset.publication
        return Seen(
            publication.revision.id,
            names,
            dataset.geo_crs,
            dataset.report,
            publication.metadata,
            dataset.rejects,
        )

    def seen_index(self, bundle: Bundle) -> Mapping[str, Any] | None:
        """Return the index of an archive, `None` if there is none."""
        index = self.sink.indexes.get(bundle.basename)
        return index.content if index else None

    def before_index(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the step for an index."""
        self._once("index", callback)

    def before_swap(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the atomic step."""
        self._once("swap", callback)

    def cut_upload(self) -> None:
        """Lose the connection on the next upload of a dataset."""
        self._once("upload", _lost)

    def cut_answer(self) -> None:
        """Lose the answer to the next atomic step, and whatever is asked after it."""
        self._once("answer", _lost)

    def _once(self, step: str, callback: Callable[[], object]) -> None:
        def on(reached: str) -> None:
            if reached == step:
                self.sink.on = lambda _step: None
                callback()

        self.sink.on = on


def _lost() -> None:
    raise StorageBusyError("lost")


class CloudSinkBench(SinkBench):
    """The bench of the sink on Cloud Storage, below `out/`."""

    def __init__(
        self, cloud: CloudStorage, client: storage.Client, bucket: str, network: Network
    ) -> None:
        self.cloud = cloud
        self.network = network
        self.client = client
        self.bucket = bucket
        self.now = PUBLISHED_AT
        self._tokens = itertools.count(1)
        self.sink: CloudStorageSink = self.open()

    def open(self, cloud: CloudStorage | None = None, **settings: Any) -> CloudStorageSink:
        """Return a sink of this bucket with other settings."""
        return CloudStorageSink(
            cloud or self.cloud,
            SinkAddress(self.bucket, **{"prefix": "out", **settings}),
            now=lambda: self.now,
            token=lambda: f"{next(self._tokens):08x}",
        )

    def seen(self, bundle: Bundle, layer: str = "") -> Seen | None:
        """Return what readers see of a bundle or layer, `None` if there is nothing."""
        pointer = self.pointer(bundle, layer)
        if pointer is None:
            return None
        folder = layout.folder("out/", bundle, layer)
        described = pointer["metadata"] and self.content(folder + pointer["metadata"])
        names, crs = read(self.content(folder + pointer["dataset"]), pointer["dataset"])
        report = json.loads(self.content(folder + pointer["report"]))
        listed = self.content(folder + pointer["rejects"]) if pointer["rejects"] else b""
        rejects = tuple(map(json.loads, listed.splitlines()))
        return Seen(pointer["revision_id"], names, crs, report, described or b"", rejects)

    def seen_index(self, bundle: Bundle) -> Mapping[str, Any] | None:
        """Return the index of an archive, `None` if there is none."""
        return self._parsed(f"{layout.folder('out/', bundle)}index.json")

    def before_index(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the step for an index."""
        self.network.on("POST", "/index.json", after(callback))

    def pointer(self, bundle: Bundle, layer: str = "") -> dict[str, Any] | None:
        """Return the pointer of a bundle or layer as a reader parses it."""
        return self._parsed(f"{layout.folder('out/', bundle, layer)}latest.json")

    def _parsed(self, name: str) -> dict[str, Any] | None:
        blob = self.client.bucket(self.bucket).get_blob(name)
        return json.loads(blob.download_as_bytes()) if blob else None

    def table(self, name: str) -> pa.Table:
        """Return a dataset."""
        return pq.read_table(io.BytesIO(self.content(name)))

    def content(self, name: str) -> bytes:
        """Return the bytes of an object."""
        return self.client.bucket(self.bucket).blob(name).download_as_bytes()

    def objects(self, ending: str = "") -> list[str]:
        """Return the names of all objects that end so, sorted."""
        found = (blob.name for blob in self.client.list_blobs(self.bucket))
        return sorted(name for name in found if name.endswith(ending))

    def before_swap(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, between the question to the owner and the atomic step."""
        self.network.on("POST", "/latest.json", after(callback))

    def after_swap(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, when the atomic step is applied and not yet answered."""
        self.network.on("POST", "/latest.json", before_answer(callback))

    def cut_upload(self) -> None:
        """Lose the connection on the next upload of a dataset, the first that is sent."""
        self.network.on("POST", "", refuse)

    def cut_answer(self) -> None:
        """Lose the answer to the next atomic step, and whatever is asked after it."""

        def lose_all(request: Any, send: Any) -> Any:
            self.network.on("GET", "/latest.json", refuse)
            return lose(request, send)

        self.network.on("POST", "/latest.json", lose_all)
