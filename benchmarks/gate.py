"""Measure what an event costs on the Firestore emulator, against bare creates.

    python -m benchmarks.gate [--quick] [--threads N] [--state blobs]

With `--state blobs` the same is measured on a storage server instead: see
`benchmarks.blobs`. The emulator is started here and ends with the benchmark. What is compared is
measured in turns within one run, because the machine's mood changes: read the
ratios, not the milliseconds.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from google.api_core import exceptions as api
from google.cloud import firestore

from benchmarks.variants import BegunStore, ReadThenWrite
from gate import settings
from gate.errors import GateError
from gate.events import ObjectFinalized
from gate.identity import Pin
from gate.intake import Intake, Outcome
from gate.names import Component, parse
from gate.store.firestore import Collections, FirestoreStore
from tests.emulator.firestore import Wire, connected, running_emulator

ROOT = Path(__file__).parents[1]
SETTINGS = settings.load({"SINK": "gs://datasets/layers"})
BUCKET = "uploads"
GENERATION = 1_731_000_000_000_001
FIVE = (".dbf", ".shx", ".prj", ".cpg", ".shp")

LATENCY_GOAL = STORM_GOAL = 3.0
COLD_START_GOAL = 1.15
CALL_GOALS = {"ignored": 0, "waiting": 3, "duplicate": 3, "dispatching": 5}

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    latency_events: int
    storm_bundles: int
    storm_rounds: int
    variant_bundles: int
    variant_seconds: float
    cold_starts: int


FULL = Size(600, 50, 9, 8, 120.0, 11)
QUICK = Size(150, 50, 3, 3, 30.0, 5)


@dataclass(frozen=True, slots=True)
class Storm:
    """How one storm of events went."""

    seconds: float
    failures: int
    dispatches: int


# --- the parts ----------------------------------------------------------------


def collections() -> Collections:
    """Return collections that nobody has used."""
    prefix = f"bench-{next(_numbers)}"
    return Collections(f"{prefix}-claims", f"{prefix}-manifests", f"{prefix}-jobs")


def five(component: Component) -> Iterable[Pin]:
    """Return the five components of a bundle, as a listing of the bucket would."""
    return (Pin(f"{component.bundle.basename}{each}", GENERATION) for each in FIVE)


def intake(client: firestore.Client, store: type[FirestoreStore] = FirestoreStore) -> Intake:
    """Return an intake over a store with collections of its own."""
    over = store(client, collections(), SETTINGS.retention, lambda: datetime.now(UTC))
    return Intake(over, SETTINGS, five, lambda: uuid.uuid4().hex)


def event(stem: str, extension: str) -> ObjectFinalized:
    """Return the event of one component."""
    return ObjectFinalized(BUCKET, f"{stem}{extension}", GENERATION, "1")


def create(client: firestore.Client) -> None:
    """Create one claim document, bare."""
    key = uuid.uuid4().hex
    document = {
        "bucket": BUCKET,
        "name": f"in/{key}.shp",
        "generation": GENERATION,
        "bundle": key,
        "event_id": "1",
        "token": key,
        "claimed_at": firestore.SERVER_TIMESTAMP,
        "status": "recorded",
        "expires_at": datetime.now(UTC) + SETTINGS.retention.claims,
    }
    client.collection("bare").document(key).create(document)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that `work` took."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


# --- calls --------------------------------------------------------------------


def calls(address: str) -> list[bool]:
    """Print the calls of each kind of event; tell which are within the goal."""
    wire = Wire()
    take = intake(connected(address, wire))
    for extension in (".shx", ".dbf"):
        take(event("in/whole", extension))
    kinds = {
        "ignored": event("in/notes", ".txt"),
        "waiting": event("in/roads", ".shp"),
        "duplicate": event("in/roads", ".shp"),
        "dispatching": event("in/whole", ".shp"),
    }
    print("calls to Firestore, by kind of event")
    kept = []
    for kind, taken in kinds.items():
        wire.clear()
        take(taken)
        kept.append(verdict(f"  {kind}", len(wire.calls), CALL_GOALS[kind], " ".join(wire.calls)))
    return kept


# --- latency ------------------------------------------------------------------


def latency(address: str, size: Size) -> list[bool]:
    """Print the median latency of a waiting event against that of a bare create."""
    client = connected(address)
    take = intake(client)
    bare, waiting = [], []
    for number in range(size.latency_events + 50):
        bare.append(timed(lambda: create(client)))
        one = event(f"in/layer-{number}", ".shp")
        waiting.append(timed(lambda one=one: take(one)))  # type: ignore[misc]
    bare_ms, waiting_ms = (median(each[50:]) * 1000 for each in (bare, waiting))
    print(f"\nmedian latency, {size.latency_events} events in turns with bare creates")
    print(f"  bare create {bare_ms:16.2f} ms")
    print(f"  waiting event {waiting_ms:14.2f} ms")
    return [verdict("  ratio", waiting_ms / bare_ms, LATENCY_GOAL)]


# --- storm --------------------------------------------------------------------


def storm(
    take: Callable[[str, str], bool], bundles: int, workers: int, *, limit_seconds: float = 3600
) -> Storm:
    """Deliver the six events of each bundle (one is a duplicate) from many threads at once.

    `take` gets a stem and an extension and tells whether it dispatched. What
    has not begun when the limit passes counts as failed.
    """
    stems = [f"in/{uuid.uuid4().hex}" for _ in range(bundles)]
    events = [(stem, extension) for stem in stems for extension in (*FIVE, FIVE[0])]
    begun = time.perf_counter()

    def deliver(one: tuple[str, str]) -> bool | None:
        if time.perf_counter() - begun > limit_seconds:
            return None
        try:
            return take(*one)
        except (GateError, ValueError, api.GoogleAPIError):
            return None

    with ThreadPoolExecutor(workers) as threads:
        results = list(threads.map(deliver, events))
    seconds = time.perf_counter() - begun
    return Storm(seconds, results.count(None), results.count(True))


def through(taker: Intake) -> Callable[[str, str], bool]:
    """Return what delivers an event to an intake and tells whether it dispatched."""
    return lambda stem, extension: taker(event(stem, extension)).outcome is Outcome.DISPATCHED


def read_then_write(client: firestore.Client) -> Callable[[str, str], bool]:
    """Return what delivers an event to the obvious protocol."""
    taker = ReadThenWrite(
        client,
        collections(),
        SETTINGS.required,
        lambda component: {pin.name: pin.generation for pin in five(component)},
    )

    def take(stem: str, extension: str) -> bool:
        component = parse(BUCKET, f"{stem}{extension}")
        assert isinstance(component, Component)
        return taker(component, GENERATION)

    return take


def storms(address: str, size: Size, workers: int) -> list[bool]:
    """Print how storms of concurrent events go, in turns with bare creates."""
    client = connected(address)
    bundles = size.storm_bundles
    count = bundles * (len(FIVE) + 1)

    def creates() -> None:
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(lambda _: create(client), range(count)))

    for _ in range(3):  # until the emulator, a Java program, has compiled itself
        creates()
        storm(through(intake(client)), bundles, workers)
    bare: list[float] = []
    gate: list[Storm] = []
    begun: list[Storm] = []
    for _ in range(size.storm_rounds):
        bare.append(timed(creates))
        gate.append(storm(through(intake(client)), bundles, workers))
        begun.append(storm(through(intake(client, BegunStore)), bundles, workers))
    few = size.variant_bundles
    share = few / bundles
    obvious = storm(read_then_write(client), few, workers, limit_seconds=size.variant_seconds)
    print(f"\n{bundles} bundles × {len(FIVE) + 1} events from {workers} threads", end=", ")
    print(f"median of {size.storm_rounds} rounds")
    print(f"  {'':26}{'seconds':>10}{'ratio':>8}{'failed':>8}{'dispatched':>12}")
    print(f"  {f'{count} bare creates':26}{median(bare):10.2f}")
    ratio = summary("the gate", gate, bare, bundles)
    summary("transaction begun first", begun, bare, bundles)
    summary("read, then write *", [obvious], [median(bare) * share], few)
    print(
        f"  * {few} bundles, at most {size.variant_seconds:.0f} s, against {count * share:.0f}"
        f" creates; {obvious.seconds / share:.0f} s for all at this pace"
    )
    exact = all(one.dispatches == bundles and not one.failures for one in gate)
    print(f"  {'none failed, each dispatched once':44}{'ok' if exact else 'MISSED'}")
    return [exact, verdict("  ratio", ratio, STORM_GOAL)]


def summary(name: str, rounds: Sequence[Storm], bare: Sequence[float], bundles: int) -> float:
    """Print one row about several rounds of one protocol; return its ratio to the creates."""
    ratio = median(one.seconds / base for one, base in zip(rounds, bare, strict=True))
    seconds = median(one.seconds for one in rounds)
    failures = max(one.failures for one in rounds)
    dispatches = "/".join(str(each) for each in sorted({one.dispatches for one in rounds}))
    told = f"{dispatches} of {bundles}"
    print(f"  {name:26}{seconds:10.2f}{ratio:8.2f}{failures:8}{told:>12}")
    return ratio


# --- cold start ---------------------------------------------------------------

BARE_IMPORTS = "import functions_framework\nfrom google.cloud import firestore"
TIMED = """
import time
begun = time.process_time()
{imports}
print(time.process_time() - begun)
"""


def cold_starts(size: Size) -> list[bool]:
    """Print how long importing main takes against the two libraries it stands on.

    Each import is one of a fresh interpreter; all share compiled bytecode that
    the first, unmeasured ones wrote, as a deployed function finds it. The time
    is the processor's: an import waits for nothing but other processes.
    """
    with tempfile.TemporaryDirectory(prefix="gate-bytecode-") as folder:
        imported(BARE_IMPORTS, folder)
        imported("import main", folder)
        bare, whole = [], []
        for _ in range(size.cold_starts):
            bare.append(imported(BARE_IMPORTS, folder))
            whole.append(imported("import main", folder))
    bare_ms, whole_ms = median(bare) * 1000, median(whole) * 1000
    print(f"\ncold start, median of {size.cold_starts} fresh interpreters")
    print(f"  functions_framework, firestore {bare_ms:8.0f} ms")
    print(f"  main {whole_ms:34.0f} ms")
    return [verdict("  ratio", whole_ms / bare_ms, COLD_START_GOAL)]


def imported(imports: str, bytecode: str) -> float:
    """Return the processor seconds that `imports` take in a fresh interpreter."""
    environment: dict[str, Any] = {
        **os.environ,
        "SINK": "gs://datasets/layers",
        "PYTHONPYCACHEPREFIX": bytecode,
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    answer = subprocess.run(
        [sys.executable, "-c", TIMED.format(imports=imports)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout)


def verdict(name: str, measured: float, goal: float, detail: str = "") -> bool:
    """Print a figure beside its goal and tell whether it is reached."""
    kept = measured <= goal
    figure = f"{measured:.2f}" if isinstance(measured, float) else str(measured)
    print(f"{name:32}{figure:>6}  goal {goal:g}  {'ok' if kept else 'MISSED':8}{detail}".rstrip())
    return kept


def main() -> int:
    """Run the benchmark; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer events, in half a minute")
    parser.add_argument(
        "--threads", type=int, default=6, help="events at once; 6 are those of one bundle"
    )
    parser.add_argument(
        "--state", choices=["firestore", "blobs"], default="firestore", help="what is measured"
    )
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    try:
        if options.state == "blobs":
            from benchmarks import blobs

            return 0 if all(blobs.measure(size, options.threads)) else 1
        with running_emulator() as address:
            kept = [
                *calls(address),
                *latency(address, size),
                *storms(address, size, options.threads),
            ]
    except GateError as error:
        print(error, file=sys.stderr)
        return 1
    kept += cold_starts(size)
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
