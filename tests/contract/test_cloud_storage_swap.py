"""The one atomic step of the Cloud Storage sink, when its answer is lost or somebody else moves."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import storage

from gate.cloud_storage import CloudStorage
from gate.errors import ConfigurationError, StorageBusyError
from gate.sinks import layout
from gate.sinks.port import Outdated, Published
from tests.contract.network import answer, before_answer, lose, refuse
from tests.contract.sinks import CloudSinkBench
from tests.layers import points, publication, revision

OLDEST = revision(shp=5)
OLD = revision(shp=10, shx=10, dbf=10)
NEW = revision(shp=20, shx=20, dbf=20)
FOLDER = "out/in/roads/"


def dataset(of: Any, fence: int, token: int) -> str:
    """Return the name of the dataset that the call with this token made."""
    return FOLDER + layout.Attempt.of(of, fence, f"{token:08x}").dataset


def test_an_attempt_stopped_in_its_second_round_leaves_nothing(
    cloud_sink_bench: CloudSinkBench,
) -> None:
    """E9: once a swap is known to have been refused, the upload is as removable as before."""
    cloud_sink_bench.before_swap(lambda: cloud_sink_bench.publish(OLDEST, points(1)))
    answers = iter([True, False])

    cloud_sink_bench.sink.publish(publication(OLD), points(1), dict, lambda: next(answers))

    assert cloud_sink_bench.objects(".parquet") == [dataset(OLDEST, 1, 2)]


def test_a_lost_answer_to_the_swap_is_found_out_at_once(cloud_sink_bench: CloudSinkBench) -> None:
    """E13: the swap was applied and its answer lost; reading the pointer again tells."""
    cloud_sink_bench.network.on("POST", "/latest.json", lose)

    outcome = cloud_sink_bench.publish(OLD, points(3))

    assert isinstance(outcome, Published)
    assert not outcome.already
    assert cloud_sink_bench.seen(OLD.bundle).names == ["row 0", "row 1", "row 2"]  # type: ignore[union-attr]


def test_a_repeated_swap_that_meets_itself_is_believed(
    cloud_sink_bench: CloudSinkBench, faulty_client: storage.Client
) -> None:
    """E13: the library repeats a swap whose answer was lost and gets 412 for its own write."""
    cloud_sink_bench.sink = cloud_sink_bench.open(CloudStorage(faulty_client, retry_seconds=20))
    cloud_sink_bench.network.on("POST", "/latest.json", lose)

    outcome = cloud_sink_bench.publish(OLD, points(3))

    assert isinstance(outcome, Published)
    assert not outcome.already
    assert cloud_sink_bench.objects(".parquet") == [dataset(OLD, 1, 1)]


def test_a_repeated_upload_that_meets_itself_is_believed(
    cloud_sink_bench: CloudSinkBench, faulty_client: storage.Client
) -> None:
    """The library repeats an upload whose answer was lost and gets 412 for its own object."""
    cloud_sink_bench.sink = cloud_sink_bench.open(CloudStorage(faulty_client, retry_seconds=20))
    cloud_sink_bench.network.on("POST", ".parquet", lose)

    assert isinstance(cloud_sink_bench.publish(OLD, points(3)), Published)


def test_a_swap_that_never_arrived_is_busy(cloud_sink_bench: CloudSinkBench) -> None:
    """While it is unknown whether the swap may still be applied, the upload stays."""
    cloud_sink_bench.network.on("POST", "/latest.json", refuse)

    with pytest.raises(StorageBusyError):
        cloud_sink_bench.publish(OLD, points(3))
    assert cloud_sink_bench.pointer(OLD.bundle) is None
    assert cloud_sink_bench.objects(".parquet") == [dataset(OLD, 1, 1)]

    cloud_sink_bench.publish(OLD, points(3), fence=2)
    assert cloud_sink_bench.objects(".parquet") == [dataset(OLD, 2, 2)]


def test_a_dataset_that_was_current_for_a_moment_is_kept(
    cloud_sink_bench: CloudSinkBench,
) -> None:
    """A swap applied, its answer lost, and superseded at once: readers may still be there."""

    def overtake() -> None:
        cloud_sink_bench.publish(NEW, points(2))
        raise ConnectionError

    cloud_sink_bench.network.on("POST", "/latest.json", before_answer(overtake))

    assert cloud_sink_bench.publish(OLD, points(1)) == Outdated(NEW.order)
    assert cloud_sink_bench.objects(".parquet") == [dataset(OLD, 1, 1), dataset(NEW, 1, 2)]


def test_a_pointer_that_moves_in_every_round_is_busy(cloud_sink_bench: CloudSinkBench) -> None:
    """The rounds are bounded: an endless race ends as a transient error."""
    cloud_sink_bench.network.on("POST", "/latest.json", answer(412), times=99)

    with pytest.raises(StorageBusyError, match="every round"):
        cloud_sink_bench.publish(OLD, points(1))


def test_a_swap_counts_rounds_not_time(cloud_sink_bench: CloudSinkBench) -> None:
    """A few refused swaps are no failure: each round reads again and asks the owner again."""
    cloud_sink_bench.network.on("POST", "/latest.json", answer(412), times=3)
    asked: list[int] = []

    def still_owner() -> bool:
        asked.append(1)
        return True

    outcome = cloud_sink_bench.sink.publish(publication(OLD), points(1), dict, still_owner)

    assert isinstance(outcome, Published)
    assert len(asked) == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"7",
        b"{}",
        b'{"format_version": 2}',
        b'{"format_version": 1, "order": "x"}',
        b"\xff\xfe",
    ],
)
def test_a_pointer_that_is_none_stops_everything(
    cloud_sink_bench: CloudSinkBench, content: bytes
) -> None:
    """A `latest.json` that cannot be understood is never replaced; the error says what to do."""
    bucket = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket)
    bucket.blob(f"{FOLDER}latest.json").upload_from_string(content)

    with pytest.raises(ConfigurationError, match=r"latest\.json: .*; move the object away"):
        cloud_sink_bench.sink.current(OLD)
    with pytest.raises(ConfigurationError):
        cloud_sink_bench.publish(OLD, points(1))
    assert cloud_sink_bench.content(f"{FOLDER}latest.json") == content


def test_an_index_that_moves_in_every_round_is_busy(cloud_sink_bench: CloudSinkBench) -> None:
    """The rounds are bounded: an endless race ends as a transient error."""
    cloud_sink_bench.network.on("POST", "/index.json", answer(412), times=99)

    with pytest.raises(StorageBusyError, match="every round"):
        cloud_sink_bench.publish_index(revision("in/a.zip", zip=10))


def test_a_repeated_index_that_meets_itself_is_believed(
    cloud_sink_bench: CloudSinkBench, faulty_client: storage.Client
) -> None:
    """E13: the library repeats a swap whose answer was lost and gets 412 for its own write."""
    cloud_sink_bench.sink = cloud_sink_bench.open(CloudStorage(faulty_client, retry_seconds=20))
    cloud_sink_bench.network.on("POST", "/index.json", lose)
    asked: list[int] = []

    outcome = cloud_sink_bench.sink.publish_index(
        publication(revision("in/a.zip", zip=10)), {}, lambda: not asked.append(1)
    )

    assert isinstance(outcome, str)
    assert len(asked) == 1
