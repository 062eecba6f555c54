"""The event path over small objects, on a storage server of this machine.

    python -m benchmarks.gate --state blobs [--quick] [--threads N]

The server keeps everything in memory and does what it is asked at once. Cloud
Storage takes some tens of milliseconds for a write, and about one write a second
to one name: the last storm has both, as its worst case.
"""

from __future__ import annotations

import io
import re
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage
from requests.adapters import HTTPAdapter

from benchmarks.gate import (
    SETTINGS,
    Size,
    Storm,
    event,
    five,
    storm,
    summary,
    through,
    timed,
    verdict,
)
from gate.intake import Intake
from gate.local.processes import LOOPBACK, Child, answers, free_ports, stop_all
from gate.local.tools import bare_tools
from gate.store.blobs import BlobStore
from gate.store.cloud_objects import CloudObjects
from gate.store.objects import ABSENT

BUCKET = "state"
CALL_GOALS = {"ignored": 0, "waiting": 3, "duplicate": 3, "dispatching": 8}
LATENCY_GOAL, STORM_GOAL = 4.0, 6.0
SLOW_SECONDS = 0.03
BETWEEN_WRITES_SECONDS = 1.0
SLOW_BUNDLES = 8
_WRITTEN = re.compile(rb'"name": "([^"]+)"')


class Line(HTTPAdapter):
    """The way of every request to the server: counted, and slowed down if so told.

    `answered` counts the answers by status. When `slow`, each request takes
    `SLOW_SECONDS` longer, and a write to an object that was written less than
    `BETWEEN_WRITES_SECONDS` ago is refused with 429.
    """

    def __init__(self) -> None:
        super().__init__(pool_maxsize=64)
        self.answered: Counter[int] = Counter()
        self.slow = False
        self._written: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        """Send a request, or refuse it."""
        refused = False
        if self.slow:
            time.sleep(SLOW_SECONDS)
            refused = self._too_soon(request)
        response = refusal(request) if refused else super().send(request, **settings)
        with self._lock:
            self.answered[response.status_code] += 1
        return response

    def _too_soon(self, request: requests.PreparedRequest) -> bool:
        named = _WRITTEN.search(request.body) if isinstance(request.body, bytes) else None
        if named is None:
            return False
        with self._lock:
            now = time.monotonic()
            if now - self._written.get(named[1], 0.0) < BETWEEN_WRITES_SECONDS:
                return True
            self._written[named[1]] = now
            return False


def refusal(request: requests.PreparedRequest) -> requests.Response:
    """Return what Cloud Storage answers to a write that comes too soon."""
    response = requests.Response()
    response.status_code = 429
    response.request = request
    response.url = request.url or ""
    response.raw = io.BytesIO()
    return response


@contextmanager
def running_server() -> Iterator[str]:
    """Start a storage server with an empty bucket; yield its URL."""
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    host, _, port = address.partition(":")
    url = f"http://{address}"
    with tempfile.TemporaryDirectory(prefix="gate-storage-") as folder:
        child = Child(
            "storage",
            (
                bare_tools().storage_server,
                *("-scheme", "http", "-backend", "memory", "-host", host, "-port", port),
                *("-external-url", url, "-public-host", address),
            ),
            environment={},
            log=Path(folder) / "storage.log",
        )
        try:
            child.wait_until(lambda: answers(f"{url}/storage/v1/b"), seconds=60)
            connected(url, Line()).create_bucket(BUCKET)
            yield url
        finally:
            stop_all([child])


def connected(url: str, line: Line) -> storage.Client:
    """Return a client whose requests go over `line`."""
    session = AuthorizedSession(AnonymousCredentials())
    session.mount("http://", line)
    return storage.Client(
        project="bench",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": url},
        _http=session,
    )


def objects(client: storage.Client) -> CloudObjects:
    """Return objects below a prefix that nobody has used."""
    return CloudObjects(client, BUCKET, f"{uuid.uuid4().hex}/")


def intake(client: storage.Client) -> Intake:
    """Return an intake over a store that is empty."""
    store = BlobStore(objects(client), SETTINGS.retention, lambda: datetime.now(UTC))
    return Intake(store, SETTINGS, five, lambda: uuid.uuid4().hex)


def create(place: CloudObjects) -> None:
    """Create one object of the size of a claim, bare."""
    assert place.write(uuid.uuid4().hex, b"x" * 300, ABSENT, labels={}, expires_at=None)


def measure(size: Size, workers: int) -> list[bool]:
    """Print what the event path costs over small objects; tell which goals are reached."""
    with running_server() as url:
        return [*calls(url), *latency(url, size), *storms(url, size, workers)]


def calls(url: str) -> list[bool]:
    """Print the requests of each kind of event; tell which are within the goal."""
    line = Line()
    take = intake(connected(url, line))
    for extension in (".shx", ".dbf"):
        take(event("in/whole", extension))
    kinds = {
        "ignored": event("in/notes", ".txt"),
        "waiting": event("in/roads", ".shp"),
        "duplicate": event("in/roads", ".shp"),
        "dispatching": event("in/whole", ".shp"),
    }
    print("requests to the bucket, by kind of event")
    kept = []
    for kind, taken in kinds.items():
        line.answered.clear()
        take(taken)
        kept.append(verdict(f"  {kind}", line.answered.total(), CALL_GOALS[kind]))
    return kept


def latency(url: str, size: Size) -> list[bool]:
    """Print the median latency of a waiting event against that of a bare create."""
    client = connected(url, Line())
    take, place = intake(client), objects(client)
    bare, waiting, again, dispatching = [], [], [], []
    for number in range(size.latency_events + 50):
        bare.append(timed(lambda: create(place)))
        shp, shx, dbf = (event(f"in/layer-{number}", each) for each in (".shp", ".shx", ".dbf"))
        waiting.append(timed(lambda one=shp: take(one)))  # type: ignore[misc]
        again.append(timed(lambda one=shp: take(one)))  # type: ignore[misc]
        take(shx)
        dispatching.append(timed(lambda one=dbf: take(one)))  # type: ignore[misc]
    told = {
        "bare create": bare,
        "waiting event": waiting,
        "duplicate": again,
        "dispatching event": dispatching,
    }
    print(f"\nmedian latency, {size.latency_events} bundles in turns with bare creates")
    milliseconds = {name: median(each[50:]) * 1000 for name, each in told.items()}
    for name, each in milliseconds.items():
        print(f"  {name:20}{each:8.2f} ms")
    ratio = milliseconds["waiting event"] / milliseconds["bare create"]
    return [verdict("  ratio", ratio, LATENCY_GOAL)]


def storms(url: str, size: Size, workers: int) -> list[bool]:
    """Print how storms of concurrent events go, in turns with bare creates."""
    line = Line()
    client = connected(url, line)
    bundles = size.storm_bundles
    count = bundles * 6

    def creates() -> None:
        place = objects(client)
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(lambda _: create(place), range(count)))

    creates()
    bare: list[float] = []
    gate: list[Storm] = []
    met = []
    for _ in range(size.storm_rounds):
        bare.append(timed(creates))
        line.answered.clear()
        gate.append(storm(through(intake(client)), bundles, workers))
        met.append(line.answered[412])
    print(f"\n{bundles} bundles × 6 events from {workers} threads", end=", ")
    print(f"median of {size.storm_rounds} rounds")
    print(f"  {'':26}{'seconds':>10}{'ratio':>8}{'failed':>8}{'dispatched':>12}")
    print(f"  {f'{count} bare creates':26}{median(bare):10.2f}")
    ratio = summary("the gate", gate, bare, bundles)
    print(f"  conditions not met: {median(met):.0f} of some {bundles * 20} requests")
    exact = all(one.dispatches == bundles and not one.failures for one in gate)
    print(f"  {'none failed, each dispatched once':44}{'ok' if exact else 'MISSED'}")
    return [exact, verdict("  ratio", ratio, STORM_GOAL), worst_case(line, client, workers)]


def worst_case(line: Line, client: storage.Client, workers: int) -> bool:
    """Print a storm over a bucket that is slow and refuses every second write within a second."""
    line.slow = True
    line.answered.clear()
    take = intake(client)
    one = storm(through(take), SLOW_BUNDLES, workers)
    print(f"\n{SLOW_BUNDLES} bundles × 6 events, {SLOW_SECONDS * 1000:.0f} ms more each request,")
    print(f"one write per object in {BETWEEN_WRITES_SECONDS:.0f} s, 429 otherwise")
    print(f"  {one.seconds:.0f} s, {line.answered[429]} refused with 429,", end=" ")
    print(f"{line.answered[412]} conditions not met, {one.failures} of {SLOW_BUNDLES * 6} events")
    print(f"  to come again, {one.dispatches} of {SLOW_BUNDLES} dispatched")
    return one.dispatches <= SLOW_BUNDLES
