"""Send a storm of events through the function, on the Firestore emulator.

    python -m benchmarks.storm [--events N] [--threads N] [--seed N]

Every component of every bundle is there before the first event comes. A fifth of
the deliveries are duplicates, all are shuffled, and one in twenty fails: at some
call, before or after it takes effect, or on the way back. What fails comes again
after a pause. The bucket, the sink and the reader are in memory, so that the events
are what is measured. Exits with 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import functions_framework
from flask.testing import FlaskClient

from benchmarks.gate import collections, create
from gate import settings, wiring
from gate.dead_letters import LoggedDeadLetters
from gate.errors import GateError, StoreBusyError
from gate.events import ObjectFinalized
from gate.heartbeat import heartbeat, shutting_down
from gate.ingest import Ingest
from gate.intake import Intake
from gate.sinks.memory import Dataset, MemorySink
from gate.source.memory import MemorySource
from gate.store.firestore import FirestoreStore
from tests.emulator.firestore import connected, running_emulator
from tests.world import ALL_PARTS, BUCKET, Reader, text

MAIN = Path(__file__).parents[1] / "main.py"
DUPLICATES, FAILING = 0.2, 0.05
# At which call a delivery fails; one that makes fewer is lost on the way back.
FAILING_CALLS = (1, 1, 2, 3, 5, 8)
BARE_CREATES = 2000
MEMORY_GROWTH = 1.15
REDELIVERY_SECONDS = 3.0
ROUNDS = 40
# A worker whose last write was lost keeps its job for a lease: a short one, so that
# the end of the storm is not spent on waiting.
SETTINGS = settings.load(
    {"SINK": "gs://datasets/layers", "LEASE_SECONDS": "10", "RETRY_SECONDS": "1"}
)


class Thread(threading.local):
    """What is to happen to the delivery that a thread makes: which call fails, and when."""

    client: FlaskClient
    calls_left: int = 0
    after: bool = False


class Failing:
    """A store whose calls fail for deliveries that are doomed."""

    def __init__(self, store: FirestoreStore, thread: Thread) -> None:
        self._store, self._thread = store, thread

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*positional: Any, **named: Any) -> Any:
            self._thread.calls_left -= 1
            fails = self._thread.calls_left == 0
            if fails and not self._thread.after:
                raise StoreBusyError("lost on the way")
            answer = method(*positional, **named)
            if fails:
                raise StoreBusyError("answer lost")
            return answer

        return call


class CountingSink(MemorySink):
    """A sink in memory that counts how often each revision took effect."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: Counter[str] = Counter()

    def _swap(self, name: str, dataset: Dataset, expected: Dataset | None) -> bool:
        swapped = super()._swap(name, dataset, expected)
        self.effects[dataset.publication.revision.id] += swapped
        return swapped


class Ledger(io.TextIOBase):
    """Where the function's log goes: it keeps how often each outcome was told."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def write(self, line: str) -> int:
        """Count a line."""
        entry = json.loads(line)
        with self._lock:
            if entry["message"] == "delivery":
                self.outcomes[entry["decision"]] += 1
        return len(line)


@dataclass
class Gate:
    """The use cases over the emulator and memory, as `main` asks for them."""

    client: Any
    project: str = "storm"
    source: MemorySource = field(default_factory=MemorySource)
    sink: CountingSink = field(default_factory=CountingSink)
    letters: LoggedDeadLetters = field(default_factory=LoggedDeadLetters)
    thread: Thread = field(default_factory=Thread)

    def __post_init__(self) -> None:
        store: Any = Failing(
            FirestoreStore(
                self.client, collections(), SETTINGS.retention, lambda: datetime.now(UTC)
            ),
            self.thread,
        )
        self.intake = Intake(
            store,
            SETTINGS,
            lambda component: self.source.siblings(
                BUCKET, component.bundle.folder, component.sibling_start
            ),
            lambda: uuid.uuid4().hex,
        )
        self.ingest = Ingest(
            store=store,
            source=self.source,
            sink=self.sink,
            open_layer=Reader(),
            unpack=_no_archives,
            letters=self.letters,
            settings=SETTINGS,
            capacity=wiring.capacity(SETTINGS, 1 << 30),
            product="storm",
            new_token=lambda: uuid.uuid4().hex,
            monotonic=time.monotonic,
            heartbeat=heartbeat,
            shutting_down=shutting_down,
        )


def _no_archives(*_: Any) -> Any:
    raise AssertionError("the storm has no archives")


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way; a doomed one fails at its nth call, before or after that."""

    event: ObjectFinalized
    fails_at: int = 0
    after: bool = False


def uploaded(source: MemorySource, bundles: int) -> list[ObjectFinalized]:
    """Upload the five components of each bundle and return their events."""
    events = []
    for number in range(bundles):
        for part in ALL_PARTS:
            name = f"in/layer-{number}{part}"
            facts = source.put(BUCKET, name, text(part, f"v{number}"))
            events.append(ObjectFinalized(BUCKET, name, facts.generation, uuid.uuid4().hex))
    return events


def deliveries(events: list[ObjectFinalized], count: int, chance: random.Random) -> list[Delivery]:
    """Return `count` deliveries of the events: each once, the rest duplicates, in any order."""
    chosen = [*events, *chance.choices(events, k=count - len(events))]
    doomed = set(chance.sample(range(count), round(count * FAILING)))
    found = [
        Delivery(event, chance.choice(FAILING_CALLS), chance.random() < 0.5)
        if number in doomed
        else Delivery(event)
        for number, event in enumerate(chosen)
    ]
    chance.shuffle(found)
    return found


@contextmanager
def function(gate: Gate) -> Iterator[Callable[[], FlaskClient]]:
    """Give clients of the deployed application, whose gate is this one."""
    os.environ.setdefault("SINK", str(SETTINGS.sink))
    app = functions_framework.create_app("ingest", str(MAIN))
    sys.modules["main"].gate = gate  # type: ignore[attr-defined]
    yield app.test_client


@dataclass
class Storm:
    """What came of all deliveries; those that fail come again once the first are through."""

    gate: Gate
    clients: Callable[[], FlaskClient]
    statuses: Counter[int] = field(default_factory=Counter)
    lost_answers: int = 0
    memory_bytes: list[int] = field(default_factory=list)
    _again: list[Delivery] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def blow(self, coming: list[Delivery], threads: int) -> float:
        """Deliver until all is acknowledged; return the seconds that the first ones took."""
        with ThreadPoolExecutor(threads, initializer=self._begin) as pool:
            begun = time.perf_counter()
            for quarter in range(4):
                list(pool.map(self._deliver, coming[quarter::4]))
                self.memory_bytes.append(memory_bytes())
            seconds = time.perf_counter() - begun
            for _ in range(ROUNDS):
                again, self._again = self._again, []
                if not again:
                    break
                time.sleep(REDELIVERY_SECONDS)
                list(pool.map(self._deliver, again))
        return seconds

    @property
    def unacknowledged(self) -> int:
        """Return how many deliveries would still come again."""
        return len(self._again)

    def _begin(self) -> None:
        self.gate.thread.client = self.clients()

    def _deliver(self, one: Delivery) -> None:
        status = self._answered(self.gate.thread.client, one)
        with self._lock:
            self.statuses[status] += 1
            lost = status == 200 and self.gate.thread.calls_left > 0
            self.lost_answers += lost
            if lost or status != 200:
                self._again.append(Delivery(one.event))

    def _answered(self, client: FlaskClient, one: Delivery) -> int:
        self.gate.thread.calls_left, self.gate.thread.after = one.fails_at, one.after
        event = one.event
        body = {
            "bucket": event.bucket,
            "name": event.name,
            "generation": str(event.generation),
        }
        headers = {
            "ce-id": event.event_id,
            "ce-source": f"//storage.googleapis.com/projects/_/buckets/{event.bucket}",
            "ce-type": "google.cloud.storage.object.v1.finalized",
            "ce-specversion": "1.0",
        }
        return client.post("/", json=body, headers=headers).status_code


def memory_bytes() -> int:
    """Return how much memory this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def creates_per_second(client: Any, threads: int) -> float:
    """Return how many bare documents the same threads create in a second."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: create(client), range(BARE_CREATES)))
    return BARE_CREATES / (time.perf_counter() - begun)


def told(name: str, figure: object, kept: bool | None = None) -> bool:
    """Print a row; tell whether its promise was kept."""
    verdict = "" if kept is None else "ok" if kept else "BROKEN"
    print(f"  {name:44}{figure!s:>14}  {verdict}".rstrip())
    return kept is not False


def report(storm: Storm, ledger: Ledger, bundles: int, rate: float, bare: float) -> bool:
    """Print the table; tell whether every promise was kept."""
    made = storm.statuses.total()
    refused = storm.statuses[503]
    effects = storm.gate.sink.effects
    twice = sum(times > 1 for times in effects.values())
    unhandled = made - storm.statuses[200] - refused + ledger.outcomes["crashed"]
    strange = ledger.outcomes.total() - made
    first, last = storm.memory_bytes[0], storm.memory_bytes[-1]
    rows = [
        told("deliveries, those that came again included", made),
        told("  refused, or their answer lost", refused + storm.lost_answers),
        *(told(f"  outcome {name}", count) for name, count in sorted(ledger.outcomes.items())),
        told("bundles ingested", len(effects), len(effects) == bundles),
        told("bundles ingested twice", twice, not twice),
        told("events never acknowledged", storm.unacknowledged, not storm.unacknowledged),
        told("unhandled errors", unhandled, not unhandled),
        told("lines of the ledger less deliveries", strange, not strange),
        told("memory after a quarter, MB", first // 1_000_000),
        told("memory at the end, MB", last // 1_000_000, last < first * MEMORY_GROWTH),
        told("deliveries a second", f"{rate:.0f}"),
        told("bare creates a second", f"{bare:.0f}"),
        told("time of a delivery in bare creates", f"{bare / rate:.2f}"),
    ]
    return all(rows)


def main() -> int:
    """Let the storm blow; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bundles = round(options.events * (1 - DUPLICATES) / len(ALL_PARTS))
    try:
        with running_emulator() as address:
            return stormed(address, bundles, options)
    except GateError as error:
        print(error, file=sys.stderr)
        return 1


def stormed(address: str, bundles: int, options: argparse.Namespace) -> int:
    """Measure bare creates, let the storm blow and print what came of it."""
    client = connected(address)
    creates_per_second(client, options.threads)  # until the emulator has compiled itself
    bare = creates_per_second(client, options.threads)
    gate = Gate(client)
    events = uploaded(gate.source, bundles)
    coming = deliveries(events, options.events, random.Random(options.seed))
    ledger, stdout = Ledger(), sys.stdout
    with function(gate) as clients:
        storm = Storm(gate, clients)
        sys.stdout = ledger
        try:
            seconds = storm.blow(coming, options.threads)
        finally:
            sys.stdout = stdout
    told_of = f"{options.events} events of {bundles} bundles from {options.threads} threads"
    print(f"{told_of}, seed {options.seed}: {seconds:.0f} s")
    return 0 if report(storm, ledger, bundles, options.events / seconds, bare) else 1


if __name__ == "__main__":
    sys.exit(main())
