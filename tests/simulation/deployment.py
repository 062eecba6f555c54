"""One deployment: the real use cases over one of the real stores, with nothing else real.

Several instances run it, each with a clock of its own that may be wrong by ten
minutes. Firestore (or the bucket of small objects), the source, the sink and the
topic of dead letters are in memory; every call to them is a point where others
may run and faults may strike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from gate import ingest, ledger, poll, settings, wiring
from gate.calls import Call
from gate.errors import TransientError
from gate.events import ObjectFinalized
from gate.gating import GateKind
from gate.handover import KIND, Handover
from gate.identity import Revision
from gate.ingest import Ending, Ingest
from gate.intake import Intake, Receipt
from gate.listing import Listing
from gate.look import Look
from gate.ownership import Ownership
from gate.poll import Poll
from gate.reconcile import Reconcile
from gate.redrive import Redrive
from gate.shapefile.archive import Archives
from gate.sinks.memory import Dataset, MemorySink
from gate.source.memory import MemorySource
from gate.store.blobs_agenda import BlobAgenda
from gate.store.firestore import Collections
from gate.store.firestore_agenda import FirestoreAgenda
from gate.store.port import Agenda, StoredJob
from gate.sweep import Sweep
from gate.tasks.port import Task
from gate.verify import Verify
from gate.work import JobWork, LookWork, Work
from tests.simulation.bucket import Bucket
from tests.simulation.database import Database
from tests.simulation.queue import Queue
from tests.simulation.schedule import WAIT_SECONDS, Lock, Schedule
from tests.simulation.weather import Weather
from tests.world import BUCKET, Answer, Letters, Reader

COLLECTIONS = Collections("claims", "manifests", "jobs", "sweep")
# What keeps the documents of a run, under its clock.
OpenDatabase = Callable[[Callable[[], datetime]], Database | Bucket]
# Longer than the real one, for the sake of speed; a lease lasts sixty.
PULSE_SECONDS = 15.0
SKEWS_SECONDS = (0.0, 0.0, -600.0, 600.0)


class Around:
    """A port whose every call goes through the weather."""

    def __init__(self, name: str, port: Any, weather: Weather) -> None:
        self._name, self._port, self._weather = name, port, weather

    def __getattr__(self, method: str) -> Any:
        called = getattr(self._port, method)

        def call(*positional: Any, **named: Any) -> Any:
            def made() -> Any:
                answer = called(*positional, **named)
                return iter(list(answer)) if isinstance(answer, Iterator) else answer

            return self._weather.around(f"{self._name}.{method}", made)

        return call


class Sink(MemorySink):
    """The sink in memory, which remembers every revision that took effect, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: list[Revision] = []

    def _swap(self, name: str, dataset: Dataset, expected: Dataset | None) -> bool:
        swapped = super()._swap(name, dataset, expected)
        if swapped:
            self.effects.append(dataset.publication.revision)
        return swapped


@dataclass
class Instance:
    """One process of the function, with its own idea of the time."""

    entrance: Callable[[ObjectFinalized], Receipt]
    run: Callable[[StoredJob], Ending | None]
    work: Work
    sweep: Sweep
    redrive: Redrive

    def deliver(self, event: ObjectFinalized, now: datetime) -> Answer:
        """Deliver an event as `main.ingest` does, and tell how it was answered."""
        receipt = None
        try:
            receipt = self.entrance(event)
            ending = self.run(receipt.work) if receipt.work else None
        except Exception as error:  # noqa: BLE001  whatever it is, the event comes back
            ledger.failed(event, receipt, error, now=now)
            return Answer.QUIET_NACK if isinstance(error, TransientError) else Answer.NACK
        ledger.answered(event, receipt, ending, now=now)
        again = receipt.redeliver or (ending is not None and ending.redeliver)
        return Answer.QUIET_NACK if again else Answer.ACK

    def call(self, task: Task, now: datetime) -> bool:
        """Make the call of a task as `main.work` does, and tell whether it succeeded."""
        call = Call(task.name, task.payload, "")
        try:
            worked = self.work(call)
        except Exception as error:  # noqa: BLE001  whatever it is, the task is called again
            ledger.failed(call, None, error, now=now)
            return False
        ledger.answered(call, worked.receipt, worked.ending, now=now)
        return not worked.again


@dataclass
class Deployment:
    """Everything of one run. `open_database` makes the database that has this clock."""

    seed: int
    environment: Mapping[str, str] = field(default_factory=dict)
    open_database: OpenDatabase = Database
    database: Database | Bucket = field(init=False)
    schedule: Schedule = field(init=False)
    weather: Weather = field(init=False)
    source: MemorySource = field(default_factory=MemorySource)
    sink: Sink = field(default_factory=Sink)
    letters: Letters = field(default_factory=Letters)
    reader: Reader = field(default_factory=Reader)
    instances: list[Instance] = field(default_factory=list)
    queue: Queue = field(init=False)

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.stream("schedule"))
        self.weather = Weather(self.schedule, self.stream("weather"))
        self.database = self.open_database(lambda: self.schedule.now)
        self.database.around = self.weather.around
        self.sink.on = lambda step: self.weather.moment(f"sink.{step}", "before")
        self.reader.on_row = lambda number: self.weather.moment(f"reader.row {number}", "before")
        self.settings = settings.load({"SINK": "gs://datasets/out", **self.environment})
        self._tokens = count(1)
        chance = self.stream("queue")
        self.queue = Queue(
            self.schedule,
            self.weather,
            chance,
            lambda task: chance.choice(self.instances).call(task, self.schedule.now),
        )
        clocks = self.stream("clocks")
        self.instances = [self._instance(clocks.choice(SKEWS_SECONDS)) for _ in range(3)]

    def stream(self, purpose: str) -> Random:
        """Return random numbers that depend on the seed and the purpose alone."""
        return Random(f"{self.seed} {purpose}")

    def _token(self) -> str:
        return f"token-{next(self._tokens)}"

    @contextmanager
    def _heartbeat(self, pulse: Callable[[], object]) -> Iterator[None]:
        """Call `pulse` now and then in a task beside, which dies with the one that works."""
        worker = self.schedule.task
        assert worker is not None
        beating, under_way = True, False

        def beat() -> None:
            nonlocal under_way
            while beating:
                self.schedule.sleep(PULSE_SECONDS)
                under_way = True
                try:
                    if beating:
                        pulse()
                finally:
                    under_way = False

        self.schedule.spawn(f"{worker.name} beat", beat, part_of=worker.process)
        try:
            yield
        finally:
            beating = False
            while under_way and not worker.process.killed:
                self.schedule.sleep(WAIT_SECONDS)

    def _shutting_down(self) -> bool:
        task = self.schedule.task
        return task is not None and task.process.stopping

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let tasks wait for each other where threads would, while the context lasts."""

        def owned(*facts: Any) -> Ownership:
            own = Ownership(*facts)
            lock: Any = Lock(self.schedule)
            own._lock = lock
            return own

        ingest.Ownership = owned  # type: ignore[assignment, misc]
        try:
            yield
        finally:
            ingest.Ownership = Ownership  # type: ignore[misc]

    def _store(self, skew: timedelta) -> Agenda:
        retention = self.settings.retention

        def clock() -> datetime:
            return self.schedule.now + skew

        pauses: Any = {"sleep": self.schedule.sleep, "jitter": lambda: 0.5}
        if isinstance(self.database, Bucket):
            return BlobAgenda(self.database, retention, clock, **pauses)
        return FirestoreAgenda(self.database, COLLECTIONS, retention, clock, **pauses)

    def _instance(self, skew_seconds: float) -> Instance:
        skew = timedelta(seconds=skew_seconds)
        store = self._store(skew)
        source: Any = Around("source", self.source, self.weather)
        sink: Any = Around("sink", self.sink, self.weather)
        letters: Any = Around("letters", self.letters, self.weather)
        intake = Intake(
            store,
            self.settings,
            lambda component: source.siblings(
                component.bundle.bucket, component.bundle.folder, component.sibling_start
            ),
            self._token,
        )
        worker = Ingest(
            store=store,
            source=source,
            sink=sink,
            open_layer=self.reader,
            unpack=Archives(self.settings.max_entries, self.settings.max_unpacked_bytes),
            letters=letters,
            settings=self.settings,
            capacity=wiring.capacity(self.settings, 1 << 30),
            product="simulation",
            new_token=self._token,
            monotonic=lambda: self.schedule.seconds,
            heartbeat=self._heartbeat,
            shutting_down=self._shutting_down,
        )
        reconcile = Reconcile(store, source, intake, BUCKET, "", self.settings.retention.manifests)
        handover = Handover(self.queue) if self.settings.tasks.hands_over else None
        run: Callable[[StoredJob], Ending | None] = handover or worker
        run_job = JobWork(store, self.settings, worker, self._token, lambda: None)
        sweep = Sweep(
            store=store,
            look=Look(store, source, intake, run, letters, self.settings),
            run=run,
            reconcile=reconcile if self.settings.source_bucket else None,
            settings=self.settings,
            new_token=self._token,
            monotonic=lambda: self.schedule.seconds,
            handover=handover,
        )
        nobody_asks: Any = None
        redrive = Redrive(store, nobody_asks, source, self.settings, self._token)
        gate, required = self.settings.gate, self.settings.required
        listing = Listing(source, intake.parsed)

        def clock() -> datetime:
            return self.schedule.now + skew

        polled = Poll(intake, listing, letters, self.queue, required, gate, clock)
        entrances: dict[GateKind, Callable[[ObjectFinalized], Receipt]] = {
            GateKind.MANIFEST: intake,
            GateKind.VERIFY: Verify(intake, listing, letters, required, gate.max_age, clock),
            GateKind.POLL: polled,
        }
        work = Work({KIND: run_job, poll.KIND: LookWork(polled, run)}, letters)
        return Instance(entrances[gate.kind], run, work, sweep, redrive)
