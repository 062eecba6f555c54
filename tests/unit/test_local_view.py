"""What clients see: they find a dataset where the sink puts it."""

from __future__ import annotations

import json

import pytest

from gate import settings
from gate.local import view
from gate.names import Bundle
from gate.sinks.layout import folder


class Database:
    """A state store that nobody asks anything."""

    def collection(self, _name: str) -> None:
        """Return nothing: no document is looked for."""


class Bucket:
    """The objects of the sink's bucket."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def read(self, bucket: str, name: str) -> tuple[bytes, int] | None:
        """Return the bytes of an object with a generation."""
        found = self.objects.get(f"{bucket}/{name}")
        return None if found is None else (found, 1)


@pytest.mark.parametrize(
    "bundle",
    [
        Bundle("uploads", "in/", "roads"),
        Bundle("uploads", "../", "roads"),
        Bundle("uploads", "in//", "x" * 900),
        Bundle("uploads", "in/", "parts", ".zip"),
    ],
    ids=["plain", "dotted", "long", "archive"],
)
def test_a_dataset_is_found_whatever_its_bundle_is_called(
    monkeypatch: pytest.MonkeyPatch, bundle: Bundle
) -> None:
    """Cases 36, 65: names that the sink spells otherwise are looked for as it spells them."""
    bucket = Bucket()
    place = f"datasets/{folder('layers/', bundle)}"
    bucket.objects[f"{place}latest.json"] = json.dumps({"dataset": "1.parquet"}).encode()
    bucket.objects[f"{place}1.parquet"] = b"rows"
    monkeypatch.setattr(view, "connect_storage", lambda: bucket)
    monkeypatch.setattr(view, "connect_firestore", lambda _database: Database())
    seen = view.View(settings.load({"SINK": "gs://datasets/layers"}))
    assert seen.dataset(bundle) == b"rows"
