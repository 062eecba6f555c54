"""A6, A7, E2, H1: the process is killed at every call of every port, and nobody redelivers.

What a story makes of it without a kill is compared with what it ends in when the
process dies at one call, before or after that takes effect: see `tests.stories`.
Each sink is tried, down to its own calls, each gate, and the store without a database.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from gate.sinks.address import SinkAddress
from gate.sinks.cloud_storage import CloudStorageSink
from gate.store.blobs_agenda import BlobAgenda
from gate.store.blobs_history import BlobHistory
from gate.store.history import History
from tests.clouds import BUCKET, PREFIX, Located, MemoryCloud
from tests.scenarios.gates import ENVIRONMENTS
from tests.simulation.bucket import Bucket
from tests.simulation.database import Document
from tests.stories import (
    BASE,
    MOMENTS,
    STORIES,
    Rows,
    SinkWorld,
    Story,
    disturbed,
    undisturbed,
)
from tests.world import bundle_of, expected


class CloudWorld(SinkWorld):
    """A deployment whose sink is on Cloud Storage, each request to which is a call."""

    def __init__(self) -> None:
        super().__init__()
        self.cloud = MemoryCloud(self.faults.run)
        tokens = count(1)
        storage: Any = self.cloud
        sink = CloudStorageSink(
            storage,
            SinkAddress(BUCKET, PREFIX.rstrip("/")),
            now=lambda: self.clock.now,
            token=lambda: f"{next(tokens):08x}",
        )
        self.publish_into(sink, Located())

    def seen(self) -> Rows:
        """Return what readers of the sink see."""
        return self.cloud.rows(bundle_of(f"{BASE}.shp"))

    def orders(self) -> list[int]:
        """Return the orders of the revisions that took effect, in turn."""
        return [int(pointer["order"]) for pointer in self.cloud.pointers]


class BlobStore(BlobAgenda):
    """The store on small objects, with a view on its documents."""

    @property
    def claims(self) -> dict[str, Document]:
        """Return every claim."""
        return self._objects.all_of("claims")

    @property
    def manifests(self) -> dict[str, Document]:
        """Return every manifest."""
        return self._objects.all_of("manifests")

    @property
    def jobs(self) -> dict[str, Document]:
        """Return every job."""
        return self._objects.all_of("jobs")


class BlobWorld(SinkWorld):
    """A deployment without a database, each request to whose bucket is a call."""

    def stores(self) -> tuple[Any, History, Any]:
        """Return the store on a bucket in memory."""
        bucket = Bucket(lambda: self.clock.now, self.faults.run)
        store = BlobStore(bucket, self.settings.retention, lambda: self.clock.now)
        return store, BlobHistory(bucket), store


class VerifyWorld(SinkWorld):
    """A deployment whose gate lists instead of remembering."""

    defaults = ENVIRONMENTS["verify"]


class PollWorld(SinkWorld):
    """A deployment whose gate lists in tasks."""

    defaults = ENVIRONMENTS["poll"]


SINKS: tuple[type[SinkWorld], ...] = (SinkWorld, CloudWorld, BlobWorld, VerifyWorld, PollWorld)
CASES = [
    pytest.param(
        sink, story, number, moment, id=f"{sink.__name__}-{story.__name__}-{number}-{name}-{moment}"
    )
    for sink in SINKS
    for story in STORIES
    for number, name in enumerate(undisturbed(sink, story)[1])
    for moment in MOMENTS
]


@pytest.mark.parametrize(("sink", "story", "number", "moment"), CASES)
def test_a_kill_anywhere_changes_nothing_in_the_end(
    sink: type[SinkWorld], story: Story, number: int, moment: str
) -> None:
    """A6, A7, E2, H1: after a kill at any call, sweeps alone end as if it had not happened."""
    assert disturbed(sink, story, number, moment) == undisturbed(sink, story)[0]


@pytest.mark.parametrize("sink", SINKS)
def test_the_stories_end_as_told(sink: type[SinkWorld]) -> None:
    """A6: without a kill the stories end with a dataset, or with a dead letter and none."""
    rows = [undisturbed(sink, story)[0]["rows"] for story in STORIES]
    assert rows == [
        expected("first", crs="first"),
        expected("first", crs="first"),
        expected("first", records="second", crs="first"),
        [],
    ]
