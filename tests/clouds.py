"""Cloud Storage in memory, for the sink: each request is a point where faults may strike.

It stands in for `gate.cloud_storage.CloudStorage`, whose own behaviour against a
server is the contract suite's matter.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gate import crc32c
from gate.cloud_storage import ABSENT
from gate.identity import Pin
from gate.names import Bundle
from gate.overrides import NOTHING, Overrides
from gate.shapefile.port import NOWHERE_ELSE, Remote
from gate.sinks import layout
from gate.source.port import ObjectFacts
from tests.world import Reader

Around = Callable[[str, Callable[[], Any]], Any]
BUCKET, PREFIX = "datasets", "out/"
POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


class MemoryCloud:
    """One bucket. `pointers` is every pointer that was made current, in order."""

    def __init__(self, around: Around) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.pointers: list[Mapping[str, Any]] = []
        self._around = around
        self._generations = count(1)

    def stat(self, bucket: str, name: str, generation: int | None = None) -> ObjectFacts | None:
        """Return the facts of the live object, `None` if there is none."""
        return self._around("cloud.stat", lambda: self._facts(name))  # type: ignore[no-any-return]

    def read(self, bucket: str, name: str) -> tuple[bytes, int] | None:
        """Return the live object with its generation, `None` if there is none."""
        return self._around("cloud.read", lambda: self.objects.get(name))  # type: ignore[no-any-return]

    def names(self, bucket: str, prefix: str) -> Iterator[Pin]:
        """Yield the live objects directly below `prefix`."""
        found = self._around("cloud.names", lambda: sorted(self.objects.items()))
        for name, (_, generation) in found:
            if name.startswith(prefix) and "/" not in name[len(prefix) :]:
                yield Pin(name, generation)

    def create(self, bucket: str, name: str, media_type: str) -> MemoryUpload:
        """Begin a new object."""
        return MemoryUpload(self, name)

    def finish(self, name: str, content: bytes) -> None:
        """Make a new object visible, unless its name is taken."""
        self._around("cloud.finish", lambda: self._put(name, content, ABSENT))

    def swap(
        self, bucket: str, name: str, payload: bytes, media_type: str, expected: int
    ) -> int | None:
        """Replace the live object if it is still at generation `expected`."""
        if isinstance(payload, str):
            payload = payload.encode()
        return self._around(  # type: ignore[no-any-return]
            "cloud.swap", lambda: self._put(name, payload, expected)
        )

    def delete(self, bucket: str, pin: Pin) -> None:
        """Remove exactly this generation."""
        self._around("cloud.delete", lambda: self._remove(pin))

    def rows(self, bundle: Bundle) -> list[tuple[str, str, str | None]]:
        """Return what readers who follow the pointer see: (shape, record, crs)."""
        folder = layout.folder(PREFIX, bundle)
        found = self.objects.get(f"{folder}{layout.POINTER}")
        if found is None:
            return []
        dataset, _ = self.objects[f"{folder}{json.loads(found[0])['dataset']}"]
        table = pq.read_table(io.BytesIO(dataset)).select(["shape", "record", "crs"])
        return [tuple(row.values()) for row in table.to_pylist()]

    def _facts(self, name: str) -> ObjectFacts | None:
        if name not in self.objects:
            return None
        content, generation = self.objects[name]
        return ObjectFacts(name, generation, len(content), crc32c.of_bytes(content))

    def _put(self, name: str, content: bytes, expected: int) -> int | None:
        standing = self.objects.get(name)
        if (standing[1] if standing else ABSENT) != expected:
            return None
        self.objects[name] = content, next(self._generations)
        if name.endswith(f"/{layout.POINTER}"):
            self.pointers.append(json.loads(content))
        return self.objects[name][1]

    def _remove(self, pin: Pin) -> None:
        if self.objects.get(pin.name, (b"", ABSENT))[1] == pin.generation:
            del self.objects[pin.name]


class MemoryUpload(io.RawIOBase):
    """A new object that is written piece by piece."""

    def __init__(self, cloud: MemoryCloud, name: str) -> None:
        super().__init__()
        self._cloud, self._name, self._content = cloud, name, bytearray()
        self.written = crc32c.Running()

    def writable(self) -> bool:
        """Tell that bytes can be written."""
        return True

    def write(self, piece: Any, /) -> int:
        """Take the next bytes."""
        self._content += bytes(piece)
        self.written.add(bytes(piece))
        return len(bytes(piece))

    def finish(self) -> None:
        """Make the object visible."""
        self._cloud.finish(self._name, bytes(self._content))

    def cancel(self) -> None:
        """Give up what was sent."""


@dataclass
class Located(Reader):
    """The reader of tests, whose rows lie at a point: a dataset has a geometry column."""

    @contextmanager
    def __call__(
        self,
        folder: Path,
        name: str,
        overrides: Overrides = NOTHING,
        remote: Mapping[str, Remote] = NOWHERE_ELSE,
    ) -> Iterator[LocatedLayer]:
        """Open the layer in `folder`."""
        with super().__call__(folder, name, overrides, remote) as layer:
            yield LocatedLayer(layer)


@dataclass(frozen=True, slots=True)
class LocatedLayer:
    """A layer of the reader of tests, with a geometry column."""

    layer: Any
    geo_crs: Mapping[str, Any] | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the schema, with the geometry last."""
        return self.layer.schema.append(pa.field("geometry", pa.binary()))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, each at the same point."""
        for batch in self.layer.batches():
            points = pa.array([POINT] * batch.num_rows, pa.binary())
            yield pa.RecordBatch.from_arrays([*batch.columns, points], schema=self.schema)

    def rejects(self) -> None:
        """Return nothing: there are none."""

    def report(self) -> Any:
        """Return the report of the layer."""
        return self.layer.report()
