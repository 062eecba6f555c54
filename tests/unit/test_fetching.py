"""Fetching: the lease is looked after before every object."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gate.capacity import Capacity
from gate.errors import TooLargeError
from gate.fetching import FETCHED_EXTENSIONS, Fetch, Fetched
from gate.identity import Pin, Revision
from gate.names import ARCHIVE_EXTENSIONS, Bundle
from gate.source.memory import MemorySource
from gate.source.port import Gone, ObjectFacts
from tests.world import PARTS

BUNDLE = Bundle("uploads", "in/", "roads")


class Watched(MemorySource):
    """A source that notes its downloads in `steps`."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def fetch(self, bucket: str, facts: ObjectFacts, path: Path) -> Gone | None:
        """Note the download, then make it."""
        self.steps.append(path.suffix)
        return super().fetch(bucket, facts, path)


def stored(source: MemorySource, extensions: tuple[str, ...]) -> Revision:
    """Return a revision whose objects the source holds."""
    pins = {}
    for extension in extensions:
        name = f"in/roads{extension}"
        pins[extension] = Pin(name, source.put("uploads", name, b"payload").generation)
    return Revision.of(BUNDLE, pins)


def test_the_lease_is_looked_after_before_each_download(tmp_path: Path) -> None:
    """E10: whoever lost the job finds out before the next object, however many there are."""
    source = Watched()
    known = tuple(each for each in FETCHED_EXTENSIONS if each not in ARCHIVE_EXTENSIONS)
    revision = stored(source, known)
    found = Fetch(source, PARTS)(revision, tmp_path, lambda: source.steps.append("beat"))
    assert isinstance(found, Fetched)
    assert source.steps[::2] == ["beat"] * len(known)
    assert len(source.steps) == 2 * len(known)


def test_a_lost_lease_ends_the_downloads(tmp_path: Path) -> None:
    """E10: what the heartbeat raises is passed on, and nothing more is downloaded."""
    source = Watched()
    revision = stored(source, PARTS)

    def beat() -> Any:
        if source.steps:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        Fetch(source, PARTS)(revision, tmp_path, beat)
    assert len(source.steps) == 1


def test_main_files_beyond_the_bound_are_left_in_place(tmp_path: Path) -> None:
    """Issue 4: of a large bundle the sidecars alone are downloaded; the rest is read on demand."""
    source = Watched()
    revision = stored(source, (*PARTS, ".prj", ".sbn"))
    capacity = Capacity(1 << 20, 1 << 30, timedelta(hours=1), whole_bytes=27)
    found = Fetch(source, PARTS, capacity)(revision, tmp_path, lambda: None)
    assert isinstance(found, Fetched)
    assert source.steps == [".prj"]
    assert set(found.facts) == {*PARTS, ".prj"}
    assert {known: each[:].tobytes() for known, each in found.remote.items()} == dict.fromkeys(
        PARTS, b"payload"
    )
    found.close()


def test_a_small_bundle_is_downloaded_whole(tmp_path: Path) -> None:
    """Issue 4: up to the bound nothing is left in place, for that takes the fewest requests."""
    source = Watched()
    revision = stored(source, (*PARTS, ".prj"))
    capacity = Capacity(1 << 20, 1 << 30, timedelta(hours=1), whole_bytes=28)
    found = Fetch(source, PARTS, capacity)(revision, tmp_path, lambda: None)
    assert isinstance(found, Fetched)
    assert sorted(source.steps) == sorted((*PARTS, ".prj"))
    assert not found.remote
    found.close()


def test_what_is_too_large_is_refused_before_any_download(tmp_path: Path) -> None:
    """D8: sizes are known from the facts, so nothing is brought here to find out."""
    source = Watched()
    revision = stored(source, PARTS)
    capacity = Capacity(20, 1 << 30, timedelta(hours=1))
    with pytest.raises(TooLargeError, match=r"^gs://uploads/in/roads: .* hold 21 bytes"):
        Fetch(source, PARTS, capacity)(revision, tmp_path, lambda: None)
    assert source.steps == []
