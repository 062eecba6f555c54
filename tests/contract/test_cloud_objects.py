"""Small objects on Cloud Storage: conditions, times, expiry, and what the store makes of faults."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import requests
from google.cloud import storage

from gate.errors import ConfigurationError, StoreBusyError
from gate.store import cloud_objects
from gate.store.cloud_objects import CloudObjects
from gate.store.objects import ABSENT, Found, Wrote
from tests.contract.network import Action, Network, Send, answer, lose, refuse
from tests.contract.stores import CloudBlobBench, claim_of, whole

EXPIRY = datetime(2026, 3, 1, 12, tzinfo=UTC)
THEN = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def objects(faulty_client: storage.Client, bucket: str) -> CloudObjects:
    """Return objects below a prefix, whose requests go through `network` and are not repeated."""
    return CloudObjects(faulty_client, bucket, "state/", patience_seconds=0)


@pytest.fixture
def patient(faulty_client: storage.Client, bucket: str) -> CloudObjects:
    """Return the same objects, with the repetitions that a deployment has."""
    return CloudObjects(faulty_client, bucket, "state/")


def put(objects: CloudObjects, name: str, expected: int = ABSENT) -> Wrote | None:
    """Write an object that expires and is labelled."""
    return objects.write(name, b"{}", expected, labels={"due_at": "é"}, expires_at=EXPIRY)


def dated(at: datetime) -> Action:
    """Deliver the request, and date its answer."""

    def act(request: requests.PreparedRequest, send: Send) -> requests.Response:
        response = send()
        response.headers["Date"] = format_datetime(at, usegmt=True)
        return response

    return act


def test_only_the_generation_that_was_expected_is_replaced(objects: CloudObjects) -> None:
    """E1: of two writes from one read the second is refused, also where there was nothing."""
    first = put(objects, "jobs/a")
    assert first
    assert put(objects, "jobs/a") is None
    assert objects.read("jobs/a").generation == first.generation
    second = put(objects, "jobs/a", first.generation)
    assert second
    assert put(objects, "jobs/a", first.generation) is None
    assert put(objects, "jobs/gone", first.generation) is None
    assert objects.read("jobs/a") == Found(b"{}", second.generation, objects.read("jobs/a").now)


def test_no_cache_may_keep_an_object(
    objects: CloudObjects, client: storage.Client, bucket: str
) -> None:
    """Objects.read: a read sees the last write, also where everybody may read the bucket."""
    put(objects, "jobs/a")
    blob = client.bucket(bucket).get_blob("state/jobs/a")
    assert (blob.cache_control, blob.content_type) == ("no-store", "application/json")


def test_an_object_that_is_not_there_is_told_with_the_time(
    objects: CloudObjects, network: Network
) -> None:
    """Objects.read: nothing there is no error, and the answer is dated like any other."""
    network.on("GET", "jobs/a", dated(THEN))
    assert objects.read("jobs/a") == Found(None, ABSENT, THEN)


def test_time_is_the_servers(objects: CloudObjects, network: Network) -> None:
    """E11: reads and listings tell the time of the answer, in whole seconds, rounded down."""
    wrote = put(objects, "jobs/a")
    assert wrote
    assert wrote.now.tzinfo
    network.on("GET", "", dated(THEN), times=2)
    assert objects.read("jobs/a").now == THEN
    assert objects.listed("jobs")[1] == THEN
    assert abs(objects.read("jobs/a").now - wrote.now) < timedelta(seconds=60)


def test_a_listing_shows_labels_and_expiry_of_one_folder(objects: CloudObjects) -> None:
    """Design 7: what is due is found without a read, and by the last write of each object."""
    first = put(objects, "jobs/b")
    put(objects, "jobs/a")
    put(objects, "claims/a")
    assert first
    assert objects.write("jobs/b", b"[]", first.generation, labels={}, expires_at=None)
    listed, _ = objects.listed("jobs")
    shown = [(one.name, dict(one.labels), one.expires_at) for one in listed]
    assert shown == [("a", {"due_at": "é"}, EXPIRY), ("b", {}, None)]


def test_a_listing_of_many_is_dated_when_it_began(
    objects: CloudObjects, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E11: what is written while the pages are read may be missing, so the first page counts."""
    monkeypatch.setattr(cloud_objects, "PAGE", 2)
    for name in "abc":
        put(objects, f"jobs/{name}")
    network.on("GET", "prefix=state/jobs/", dated(THEN))
    listed, now = objects.listed("jobs")
    assert (len(listed), now) == (3, THEN)
    assert sum("prefix=state/jobs/" in one for one in network.requests) == 2


@pytest.mark.parametrize(
    ("action", "error", "told"),
    [
        (refuse, StoreBusyError, "refused by the test"),
        (answer(429), StoreBusyError, "429"),
        (answer(503), StoreBusyError, "503"),
        (answer(418), StoreBusyError, "418"),
        (answer(403), ConfigurationError, "roles/storage.objectUser"),
    ],
)
def test_what_helps_is_told_of_every_call(
    objects: CloudObjects, network: Network, action: Action, error: type[Exception], told: str
) -> None:
    """F9: load and lost connections pass by themselves; a refusal names the role."""
    network.on("GET", "", action, times=2)
    network.on("POST", "", action)
    with pytest.raises(error, match=told):
        objects.read("jobs/a")
    with pytest.raises(error, match=told):
        objects.listed("jobs")
    with pytest.raises(error, match=told):
        put(objects, "jobs/a")


def test_an_object_that_is_written_too_often_is_tried_again(
    patient: CloudObjects, network: Network
) -> None:
    """F9: Cloud Storage takes about one write per second to an object, and says 429 beyond."""
    network.on("POST", "", answer(429))
    assert put(patient, "manifests/a")


def test_the_answer_that_counts_dates_a_read(patient: CloudObjects, network: Network) -> None:
    """E11: a refusal that was waited out is not taken for the time of what was read later."""
    put(patient, "jobs/a")

    def busy(request: requests.PreparedRequest, send: Send) -> requests.Response:
        response = answer(503)(request, send)
        response.headers["Date"] = format_datetime(THEN, usegmt=True)
        return response

    network.on("GET", "", busy)
    assert patient.read("jobs/a").now < THEN


def test_a_bucket_that_is_not_there_is_named(faulty_client: storage.Client) -> None:
    """F10: the setting is at fault, and waiting does not help."""
    objects = CloudObjects(faulty_client, "no-such-bucket", "", patience_seconds=0)
    with pytest.raises(ConfigurationError, match="no such bucket"):
        put(objects, "jobs/a")


def test_a_write_whose_answer_was_lost_is_found_out(
    faulty_client: storage.Client, bucket: str, network: Network
) -> None:
    """E12: the library sends it again, is refused for its own object, and the store reads it."""
    bench = CloudBlobBench(faulty_client, bucket)
    network.on("POST", "claims", lose)
    network.on("POST", "manifests", lose)
    recorded = whole(bench.store.record(claim_of("in/roads.shp")))
    assert recorded.first
    assert recorded.latest
