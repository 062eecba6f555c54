"""The whole local stack, once for all tests, with eyes on what it does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore, storage
from test_utils.prefixer import Prefixer

from gate.errors import ConfigurationError
from gate.identity import bundle_id
from gate.local.decisions import Decisions, Entry
from gate.local.stack import PROJECT, SINK_BUCKET, SOURCE_BUCKET, Stack
from gate.local.tools import find_tools
from gate.names import Bundle

FOLDERS = Prefixer("shapefile-gate", "e2e", separator="-")
# Short, so that a test need not wait: it is the order of things that counts.
SETTINGS = {"SETTLE_SECONDS": "2", "RETRY_SECONDS": "1", "LEASE_SECONDS": "10"}
# Enough for a worker that was killed: its lease and Pub/Sub's longest pause.
PATIENCE_SECONDS = 60.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder.

    Pub/Sub advises against `return_immediately` because it may miss messages of
    a distributed service; the emulator is one process.
    """
    for item in items:
        if "tests/e2e/" in item.path.as_posix():
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.filterwarnings("ignore:The return_immediately flag"))


@pytest.fixture(scope="session")
def _tools() -> None:
    """Skip where the stack cannot run, or fail where services are demanded."""
    try:
        find_tools()
    except ConfigurationError as missing:
        if os.environ.get("GATE_REQUIRE_SERVICES") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def shared_stack(_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run one stack for all tests."""
    with Stack(SETTINGS, folder=tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def stack(shared_stack: Stack) -> Iterator[Stack]:
    """Return the running stack; a function that a test replaced is replaced again."""
    before = shared_stack.pids["function"]
    yield shared_stack
    if shared_stack.pids.get("function") != before:
        shared_stack.restart_function()


@dataclass
class World:
    """A folder of the source bucket that belongs to one test, and what came of it."""

    stack: Stack
    folder: str
    storage: storage.Client
    firestore: firestore.Client
    decisions: Decisions = field(init=False)
    generations: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.decisions = Decisions(self.stack.function_log, lambda _entry: None)

    def bundle(self, stem: str) -> Bundle:
        """Return the bundle of this stem in the test's folder."""
        return Bundle(SOURCE_BUCKET, self.folder, stem)

    def upload(self, name: str, content: bytes) -> int:
        """Upload an object into the test's folder and return its generation."""
        blob = self.storage.bucket(SOURCE_BUCKET).blob(f"{self.folder}{name}")
        blob.upload_from_string(content, content_type="application/octet-stream")
        self.generations[name] = int(blob.generation)
        return int(blob.generation)

    def upload_all(self, stem: str, files: Mapping[str, bytes], *extensions: str) -> None:
        """Upload components in the order given."""
        for extension in extensions:
            self.upload(f"{stem}{extension}", files[extension])

    def of(self, name: str) -> list[str]:
        """Return the decisions about the live generation of an object, in order."""
        return [
            str(entry["decision"])
            for entry in self.deliveries()
            if entry.get("name") == f"{self.folder}{name}"
            and entry.get("generation") == str(self.generations[name])
        ]

    def deliveries(self) -> list[Entry]:
        """Return the decisions about objects in the test's folder."""
        self.decisions.read()
        return [
            entry
            for entry in self.decisions.of("delivery")
            if str(entry.get("name", "")).startswith(self.folder)
        ]

    def count(self, message: str, stem: str) -> int:
        """Return how many lines with this message the bundle has."""
        self.decisions.read()
        bundle = str(self.bundle(stem))
        return sum(entry.get("bundle") == bundle for entry in self.decisions.of(message))

    def wait(self, what: str, met: Callable[[], bool]) -> None:
        """Wait for something to come to pass, or show what did instead."""
        try:
            self.decisions.wait(what, met, seconds=PATIENCE_SECONDS)
        except ConfigurationError:
            print(self.stack.function_log.read_text())  # noqa: T201 (pytest shows it)
            raise

    def wait_for(self, name: str, decision: str) -> None:
        """Wait until the live generation of an object has led to this decision."""
        self.wait(f"{decision} for {name}", lambda: decision in self.of(name))

    def wait_until_current(self, stem: str) -> Mapping[str, Any]:
        """Wait until readers see all that was uploaded last; return the pointer."""
        expected = sum(
            generation
            for name, generation in self.generations.items()
            if name.startswith(f"{stem}.")
        )
        found: list[Mapping[str, Any]] = []

        def current() -> bool:
            found[:] = [pointer] if (pointer := self.pointer(stem)) else []
            return bool(found) and int(found[0]["order"]) == expected

        self.wait(f"{stem} at its newest", current)
        return found[0]

    def pointer(self, stem: str) -> Mapping[str, Any] | None:
        """Return what readers of the sink are pointed to, `None` if nothing is there."""
        blob = self.sink.get_blob(f"layers/{self.folder}{stem}/latest.json")
        return json.loads(blob.download_as_bytes()) if blob else None

    def dataset(self, stem: str) -> bytes:
        """Return the dataset that the pointer leads to."""
        pointer = self.pointer(stem)
        assert pointer is not None
        content: bytes = self.sink.blob(
            f"layers/{self.folder}{stem}/{pointer['dataset']}"
        ).download_as_bytes()
        return content

    @property
    def sink(self) -> storage.Bucket:
        """Return the bucket that datasets go to."""
        return self.storage.bucket(SINK_BUCKET)

    def manifest(self, stem: str) -> dict[str, Any]:
        """Return the bundle's manifest document."""
        document = self.firestore.document(f"manifests/{bundle_id(self.bundle(stem))}").get()
        return document.to_dict() or {}

    def job(self, revision_id: str) -> dict[str, Any]:
        """Return the job document of a revision."""
        return self.firestore.document(f"jobs/{revision_id}").get().to_dict() or {}


@pytest.fixture
def world(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a folder of its own for one test, with clients that need no credentials."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    for name, value in stack.environment.items():
        monkeypatch.setenv(name, value)
    client = storage.Client(project=PROJECT, credentials=AnonymousCredentials())
    return World(stack, f"{FOLDERS.create_prefix()}/", client, firestore.Client(project=PROJECT))
