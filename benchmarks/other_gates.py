"""Measure what a bundle costs behind each gate, on the Firestore emulator.

    python -m benchmarks.other_gates [--bundles N]

Bundles of five files, whole in the bucket before their first event comes, the `.shp` last.
Bucket and queue are in memory and take no time: they are counted, and Firestore is timed.
Gates take turns, so that the machine's mood is the same for all: read the ratios.
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from benchmarks.gate import FIVE, SETTINGS, collections
from gate.errors import GateError
from gate.events import ObjectFinalized
from gate.identity import Pin
from gate.intake import Intake, Receipt
from gate.listing import Listing
from gate.names import Component
from gate.outcomes import Outcome
from gate.poll import Poll, poll_task
from gate.source.memory import MemorySource
from gate.store.firestore import FirestoreStore
from gate.tasks.memory import MemoryTasks
from gate.verify import Verify
from tests.emulator.firestore import Wire, connected, running_emulator
from tests.world import Letters

BUCKET = "uploads"
WARM_UP = 20


def now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


@dataclass
class Counted(MemorySource):
    """A bucket in memory that counts its listings."""

    listings: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def siblings(self, bucket: str, folder: str, start: str) -> Iterator[Pin]:
        """See `Source.siblings`."""
        self.listings += 1
        return super().siblings(bucket, folder, start)


@dataclass
class Bench:
    """One gate, and what its bundles cost: seconds each, and calls of each kind in all."""

    name: str
    take: Callable[[Iterable[ObjectFinalized]], list[Receipt]]
    source: Counted
    wire: Wire
    tasks: MemoryTasks
    enqueued: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tasks.before = self.enqueued.append

    def bundle(self) -> None:
        """Upload a bundle, deliver its events, and measure that."""
        stem = f"in/{uuid.uuid4().hex}"
        at = now()
        events = []
        for extension in FIVE:
            facts = self.source.put(BUCKET, f"{stem}{extension}", b"")
            events.append(ObjectFinalized(BUCKET, facts.name, facts.generation, "1", at))
        begun = time.perf_counter()
        receipts = self.take(events)
        self.seconds.append(time.perf_counter() - begun)
        assert [one.outcome for one in receipts].count(Outcome.DISPATCHED) == 1

    def clear(self) -> None:
        """Forget what was measured so far."""
        self.wire.clear()
        self.enqueued.clear()
        self.seconds.clear()
        self.source.listings = 0


def benches(address: str) -> tuple[Bench, ...]:
    """Return each gate over a bucket, a queue and collections of its own."""

    def made(name: str) -> Bench:
        wire, source, tasks = Wire(), Counted(), MemoryTasks(now)
        store = FirestoreStore(connected(address, wire), collections(), SETTINGS.retention, now)

        def siblings(component: Component) -> Iterator[Pin]:
            bundle = component.bundle
            return source.siblings(bundle.bucket, bundle.folder, component.sibling_start)

        intake = Intake(store, SETTINGS, siblings, lambda: uuid.uuid4().hex)
        listing, letters, gate = Listing(source, intake.parsed), Letters(), SETTINGS.gate
        required = SETTINGS.required
        verify = Verify(intake, listing, letters, required, gate.max_age, now)
        poll = Poll(intake, listing, letters, tasks, required, gate, now)

        def looked(events: Iterable[ObjectFinalized]) -> list[Receipt]:
            """Deliver the events, and take the looks that they lead to, ahead of their time."""
            receipts = [poll(event) for event in events]
            for task in tasks.waiting:
                carried = poll_task(task.payload)
                assert carried
                receipts.append(poll.look(carried))
                tasks.lose(task.name)
            return receipts

        takes: dict[str, Callable[[Iterable[ObjectFinalized]], list[Receipt]]] = {
            "manifest": lambda events: [intake(event) for event in events],
            "verify": lambda events: [verify(event) for event in events],
            "poll": looked,
        }
        return Bench(name, takes[name], source, wire, tasks)

    return tuple(made(name) for name in ("manifest", "verify", "poll"))


def main() -> int:
    """Run the benchmark; 1 if the emulator is not there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.other_gates", description=__doc__)
    parser.add_argument("--bundles", type=int, default=200)
    options = parser.parse_args()
    try:
        with running_emulator() as address:
            gates = benches(address)
            for number in range(WARM_UP + options.bundles):
                if number == WARM_UP:
                    for one in gates:
                        one.clear()
                for one in gates:
                    one.bundle()
    except GateError as error:
        print(error, file=sys.stderr)
        return 1
    base = median(gates[0].seconds)
    print(f"{options.bundles} bundles of {len(FIVE)} files behind each gate, in turns")
    print(f"  {'':10}{'ms a bundle':>12}{'ratio':>8}{'Firestore':>11}{'listings':>10}{'queue':>7}")
    for one in gates:
        middle = median(one.seconds)
        calls = (len(one.wire.calls), one.source.listings, len(one.enqueued))
        each = [count / options.bundles for count in calls]
        print(
            f"  {one.name:10}{middle * 1000:12.2f}{middle / base:8.2f}"
            f"{each[0]:11.1f}{each[1]:10.1f}{each[2]:7.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
