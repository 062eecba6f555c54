"""What google-cloud-storage raises, and what becomes of it; what it is asked, and what not."""

from __future__ import annotations

import gzip
import http.client
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3
from google.auth import exceptions as auth
from google.cloud import storage

from gate.cloud_storage import CHUNK_BYTES, CloudStorage, connect
from gate.errors import (
    ChecksumError,
    ConfigurationError,
    GateError,
    PermissionDeniedError,
    StorageBusyError,
    UnexpectedError,
)
from gate.identity import Pin
from gate.source.cloud_storage import CloudStorageSource
from gate.source.port import Gone, ObjectFacts
from tests.contract.network import Action, Network, after, answer, lose, refuse
from tests.contract.sources import CloudSourceBench


def created(cloud: CloudStorage, bucket: str, content: bytes) -> ObjectFacts:
    """Write an object in one piece."""
    file = cloud.create(bucket, "name", "text/plain")
    file.write(content)
    return file.finish()


BUSY_STATUSES = [408, 409, 429, 500, 502, 503, 504]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((status, StorageBusyError) for status in BUSY_STATUSES),
        (401, PermissionDeniedError),
        (403, PermissionDeniedError),
        (400, UnexpectedError),
    ],
)
@pytest.mark.parametrize(
    "operation", ["stat", "download", "names", "create", "create in pieces", "swap", "delete"]
)
def test_each_status_has_its_error(
    cloud: CloudStorage,
    bucket: str,
    network: Network,
    tmp_path: Path,
    status: int,
    error: type[GateError],
    operation: str,
) -> None:
    """D6: 429, 408, 409 and 5xx pass by themselves; 401 and 403 do not; in every operation."""
    calls: dict[str, Any] = {
        "stat": lambda: cloud.stat(bucket, "name"),
        "download": lambda: cloud.download(bucket, Pin("name", 1), tmp_path / "to"),
        "names": lambda: list(cloud.names(bucket, "name")),
        "create": lambda: created(cloud, bucket, b"payload"),
        "create in pieces": lambda: created(cloud, bucket, b"x" * (CHUNK_BYTES + 1)),
        "swap": lambda: cloud.swap(bucket, "name", b"payload", "text/plain", 0),
        "delete": lambda: cloud.delete(bucket, Pin("name", 1)),
    }
    for method in ("GET", "POST", "DELETE"):
        network.on(method, "", answer(status))

    with pytest.raises(error) as caught:
        calls[operation]()
    assert type(caught.value) is error
    assert caught.value.where.startswith(f"gs://{bucket}/name")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (requests.ConnectionError("reset"), StorageBusyError),
        (requests.Timeout("slow"), StorageBusyError),
        (requests.exceptions.ChunkedEncodingError("cut"), StorageBusyError),
        (urllib3.exceptions.ProtocolError("reset"), StorageBusyError),
        (http.client.IncompleteRead(b"half"), StorageBusyError),
        (ConnectionResetError("reset"), StorageBusyError),
        (TimeoutError("slow"), StorageBusyError),
        (auth.TransportError(requests.ConnectionError("no metadata server")), StorageBusyError),
        (auth.RefreshError("later", retryable=True), StorageBusyError),
        (auth.RefreshError("revoked"), PermissionDeniedError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.code,
)
def test_each_broken_connection_has_its_error(
    cloud: CloudStorage, network: Network, bucket: str, raised: Exception, error: type[GateError]
) -> None:
    """D6: a lost connection passes by itself, revoked credentials do not."""

    def fail() -> None:
        raise raised

    network.on("GET", "", after(fail))

    with pytest.raises(error) as caught:
        cloud.stat(bucket, "name")
    assert type(caught.value) is error


@pytest.mark.parametrize("page", ["first line\n" + "x" * 10_000, "y" * 10_000])
def test_an_error_message_is_one_short_line(
    cloud: CloudStorage, network: Network, bucket: str, page: str
) -> None:
    """G10: a page of HTML in an answer does not end up in the job."""

    def fail() -> None:
        raise requests.ConnectionError(page)

    network.on("GET", "", after(fail))

    with pytest.raises(StorageBusyError) as caught:
        cloud.stat(bucket, "name")
    assert caught.value.what in {"first line", "y" * 300}


@pytest.mark.parametrize("size_bytes", [7, CHUNK_BYTES + 1])
def test_an_upload_that_arrives_damaged_is_a_checksum_error(
    cloud: CloudStorage, network: Network, bucket: str, size_bytes: int
) -> None:
    """D5: the crc32c of what was written is compared with that of what is stored."""

    def lie(response: requests.Response) -> requests.Response:
        response._content = response.content.replace(b'"crc32c":"', b'"crc32c":"A')
        return response

    for method in ("POST", "GET"):
        network.on(method, "name", lambda request, send: lie(send()), times=2)

    with pytest.raises(ChecksumError):
        created(cloud, bucket, b"x" * size_bytes)


def test_a_precondition_on_a_download_means_gone(
    cloud_source_bench: CloudSourceBench, network: Network, tmp_path: Path
) -> None:
    """D3: 412 on a pinned download is `Gone`, as 404 is, and leaves no file."""
    facts = cloud_source_bench.put("in/roads.shp", b"payload")
    network.on("GET", "alt=media", answer(412))

    gone = cloud_source_bench.source.fetch(cloud_source_bench.bucket, facts, tmp_path / "layer.shp")

    assert gone == Gone(facts.pin, facts.pin)
    assert not (tmp_path / "layer.shp").exists()


def test_a_composite_object_is_verified(
    cloud_source_bench: CloudSourceBench, tmp_path: Path
) -> None:
    """D7, B2: an object composed of parts is fetched and proven by its crc32c."""
    for part in ("one", "two"):
        cloud_source_bench.put(part, part.encode())
    bucket = cloud_source_bench.client.bucket(cloud_source_bench.bucket)
    bucket.blob("in/roads.shp").compose([bucket.blob("one"), bucket.blob("two")])
    live = bucket.get_blob("in/roads.shp")

    facts = cloud_source_bench.source.stat(
        cloud_source_bench.bucket, Pin("in/roads.shp", live.generation)
    )
    assert isinstance(facts, ObjectFacts)
    cloud_source_bench.source.fetch(cloud_source_bench.bucket, facts, tmp_path / "layer.shp")

    assert (tmp_path / "layer.shp").read_bytes() == b"onetwo"


def test_stored_bytes_are_fetched_as_they_are(
    cloud_source_bench: CloudSourceBench, tmp_path: Path
) -> None:
    """D7: an object with `Content-Encoding: gzip` is proven by what is stored of it."""
    blob = cloud_source_bench.client.bucket(cloud_source_bench.bucket).blob("in/roads.shp")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(b"payload"))
    pin = Pin("in/roads.shp", blob.generation)
    facts = cloud_source_bench.source.stat(cloud_source_bench.bucket, pin)
    assert isinstance(facts, ObjectFacts)

    cloud_source_bench.source.fetch(cloud_source_bench.bucket, facts, tmp_path / "layer.shp")

    assert (tmp_path / "layer.shp").read_bytes() == gzip.compress(b"payload")


def test_a_passing_fault_is_sat_out(
    faulty_client: storage.Client, bucket: str, network: Network, client: storage.Client
) -> None:
    """D6: with patience, a request that failed once is repeated and nothing is raised."""
    client.bucket(bucket).blob("name").upload_from_string("payload")
    network.on("GET", "", answer(503))

    assert CloudStorage(faulty_client, retry_seconds=20).stat(bucket, "name") is not None
    assert len(network.requests) == 2


def test_patience_ends(faulty_client: storage.Client, bucket: str, network: Network) -> None:
    """D6: when the time for repeating is over, the error is `StorageBusyError`."""
    network.on("GET", "", refuse, times=99)

    with pytest.raises(StorageBusyError):
        CloudStorage(faulty_client, retry_seconds=0.01).stat(bucket, "name")


def test_a_fetch_is_one_request(
    cloud_source_bench: CloudSourceBench, network: Network, tmp_path: Path
) -> None:
    """No request is made that nobody asked for: one for the facts, one for the bytes."""
    facts = cloud_source_bench.put("in/roads.shp", b"payload")

    cloud_source_bench.source.stat(cloud_source_bench.bucket, facts.pin)
    cloud_source_bench.source.fetch(cloud_source_bench.bucket, facts, tmp_path / "layer.shp")

    assert len(network.requests) == 2
    assert all(f"generation={facts.generation}" in request for request in network.requests)


def test_an_object_that_changes_under_its_reader_is_read_whole(
    cloud: CloudStorage, network: Network, client: storage.Client, bucket: str
) -> None:
    """The bytes and the generation that `read` returns belong together."""
    blob = client.bucket(bucket).blob("name")
    blob.upload_from_string("old")
    network.on("GET", "alt=media", after(lambda: blob.upload_from_string("new")))

    assert cloud.read(bucket, "name") == (b"new", blob.generation)


def test_an_object_that_changes_at_every_read_is_busy(
    cloud: CloudStorage, network: Network, client: storage.Client, bucket: str
) -> None:
    """Reading is bounded: an object that never stands still ends as a transient error."""
    client.bucket(bucket).blob("name").upload_from_string("old")
    network.on("GET", "alt=media", answer(404), times=99)

    with pytest.raises(StorageBusyError, match="changed"):
        cloud.read(bucket, "name")


def test_an_upload_never_overwrites(
    cloud: CloudStorage, client: storage.Client, bucket: str
) -> None:
    """A name that is taken by something else keeps its object."""
    blob = client.bucket(bucket).blob("name")
    blob.upload_from_string("first")

    with pytest.raises(ChecksumError, match="5 bytes"):
        created(cloud, bucket, b"second one")
    assert blob.download_as_bytes() == b"first"


@pytest.mark.parametrize("size_bytes", [0, 7])
def test_an_upload_that_meets_itself_is_believed(
    faulty_client: storage.Client,
    client: storage.Client,
    network: Network,
    bucket: str,
    size_bytes: int,
) -> None:
    """E13: a request is repeated after its answer was lost, and the object is there, once."""
    cloud = CloudStorage(faulty_client, retry_seconds=20)
    network.on("POST", "upload", lose)

    facts = created(cloud, bucket, b"x" * size_bytes)

    (stored,) = client.list_blobs(bucket)
    assert (stored.generation, stored.size) == (facts.generation, size_bytes)


def test_a_piece_that_is_counted_twice_is_found_out(
    faulty_client: storage.Client, network: Network, bucket: str
) -> None:
    """D5: fake-gcs-server appends a piece whose answer was lost again; that is never believed."""
    network.on("PUT", "upload", lose)

    with pytest.raises(ChecksumError):
        created(CloudStorage(faulty_client, retry_seconds=20), bucket, b"x" * (CHUNK_BYTES + 1))


def test_a_taken_name_that_vanishes_is_busy(
    cloud: CloudStorage, network: Network, bucket: str
) -> None:
    """A refused upload whose rival is gone at the next look is tried again later."""
    network.on("POST", "", answer(412))

    with pytest.raises(StorageBusyError, match="gone"):
        created(cloud, bucket, b"payload")


def test_a_large_upload_goes_in_pieces(
    cloud: CloudStorage, client: storage.Client, network: Network, bucket: str
) -> None:
    """Issue 4: what is written is sent as it comes, and is there, whole, at the end only."""
    file = cloud.create(bucket, "name", "text/plain")
    pieces = [bytes([number]) * (1 << 20) for number in range(20)]
    for piece in pieces:
        file.write(memoryview(piece))
    assert sum(request.startswith("PUT") for request in network.requests) == 2
    assert not list(client.list_blobs(bucket))

    facts = file.finish()

    blob = client.bucket(bucket).get_blob("name")
    assert blob.download_as_bytes() == b"".join(pieces)
    assert (facts.size_bytes, facts.crc32c, blob.content_type) == (
        20 << 20,
        blob.crc32c,
        "text/plain",
    )


def test_a_cancelled_upload_leaves_nothing(
    cloud: CloudStorage, client: storage.Client, network: Network, bucket: str
) -> None:
    """Issue 4: an upload that is given up half-way is cancelled at the server."""
    file = cloud.create(bucket, "name", "text/plain")
    file.write(b"x" * (CHUNK_BYTES + 1))

    file.cancel()

    assert network.requests[-1].startswith("DELETE")
    assert not list(client.list_blobs(bucket))


@pytest.mark.parametrize("action", [answer(503), refuse])
def test_what_cannot_be_cancelled_is_left(
    cloud: CloudStorage, network: Network, bucket: str, action: Action
) -> None:
    """A server that does not take the cancellation changes nothing about the first error."""
    file = cloud.create(bucket, "name", "text/plain")
    file.write(b"x" * (CHUNK_BYTES + 1))
    network.on("DELETE", "", action)

    file.cancel()

    assert network.requests[-1].startswith("DELETE")


@pytest.mark.parametrize("status", [404, 410])
def test_an_upload_that_the_server_has_forgotten_is_busy(
    cloud: CloudStorage, network: Network, bucket: str, status: int
) -> None:
    """D6: a resumable upload that is gone half-way has to begin anew; the bucket is not blamed."""
    file = cloud.create(bucket, "name", "text/plain")
    file.write(b"x" * (CHUNK_BYTES + 1))
    network.on("PUT", "", answer(status))

    with pytest.raises(StorageBusyError):
        file.finish()


def test_a_failed_upload_stays_failed(cloud: CloudStorage, network: Network, bucket: str) -> None:
    """Whoever goes on writing, as a library does at its end, gets the first error again."""
    network.on("POST", "", answer(403))
    file = cloud.create(bucket, "name", "text/plain")
    with pytest.raises(PermissionDeniedError) as first:
        file.write(b"x" * (CHUNK_BYTES + 1))

    for again in (lambda: file.write(b"y"), file.finish):
        with pytest.raises(PermissionDeniedError) as caught:
            again()
        assert caught.value is first.value


def test_a_swap_holds_to_its_precondition(
    cloud: CloudStorage, client: storage.Client, bucket: str
) -> None:
    """A swap applies to the expected generation only, `ABSENT` included."""
    first = cloud.swap(bucket, "name", b"1", "text/plain", 0)
    assert first

    assert cloud.swap(bucket, "name", b"2", "text/plain", 0) is None
    assert cloud.swap(bucket, "name", b"2", "text/plain", first + 1) is None
    second = cloud.swap(bucket, "name", b"2", "text/plain", first)

    assert second is not None
    assert second > first
    assert client.bucket(bucket).blob("name").download_as_bytes() == b"2"


def test_a_repeated_swap_meets_its_own_write(
    faulty_client: storage.Client, bucket: str, network: Network
) -> None:
    """E13: `None` may hide one's own write, which is why the caller reads again."""
    network.on("POST", "", lose)

    swapped = CloudStorage(faulty_client, retry_seconds=20).swap(bucket, "n", b"1", "a/b", 0)

    assert swapped is None
    assert CloudStorage(faulty_client).read(bucket, "n") is not None


def test_deleting_what_is_gone_is_no_error(
    cloud: CloudStorage, client: storage.Client, bucket: str, network: Network
) -> None:
    """A generation that another call removed first is removed all the same."""
    blob = client.bucket(bucket).blob("name")
    blob.upload_from_string("payload")
    pin = Pin("name", blob.generation)

    cloud.delete(bucket, pin)
    cloud.delete(bucket, pin)

    assert cloud.stat(bucket, "name") is None
    assert all(f"generation={pin.generation}" in it for it in network.requests if "DELETE" in it)


def test_a_listing_is_paged(cloud: CloudStorage, network: Network, bucket: str) -> None:
    """A listing that comes in several pages is followed to its end."""
    pages = iter(
        [
            b'{"items": [{"name": "in/a", "generation": "1"}], "nextPageToken": "t"}',
            b'{"items": [{"name": "in/b", "generation": "2"}]}',
        ]
    )

    def page(request: requests.PreparedRequest, send: Any) -> requests.Response:
        response = answer(200)(request, send)
        response._content = next(pages)
        return response

    network.on("GET", "", page, times=2)

    assert list(cloud.names(bucket, "in/")) == [Pin("in/a", 1), Pin("in/b", 2)]
    assert "pageToken=t" in network.requests[-1]


def test_connecting_to_an_emulator_needs_no_credentials(
    storage_url: str, bucket: str, monkeypatch: pytest.MonkeyPatch, client: storage.Client
) -> None:
    """Issue 2: with `STORAGE_EMULATOR_HOST` set, nothing else is needed."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage_url)
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    client.bucket(bucket).blob("in/roads.shp").upload_from_string("payload")

    source = CloudStorageSource(connect())

    assert [pin.name for pin in source.siblings(bucket, "in/", "")] == ["in/roads.shp"]


def test_connecting_without_credentials_is_a_matter_of_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without an emulator, credentials that cannot be read are named as the fault."""
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))

    with pytest.raises(ConfigurationError, match=r"missing\.json.*application-default login"):
        connect()
