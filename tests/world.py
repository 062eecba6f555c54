"""A small world for scenarios: one deployment of the use cases, with nothing real in it.

    world = World()
    events = world.upload_bundle("in/roads", "first")
    world.deliver(events[0])            # → Answer.ACK, QUIET_NACK or NACK
    world.settle(*events)               # redelivered until all are acknowledged
    world.rows("in/roads")              # what readers of the sink see

Time stands still unless it is told to pass. Every call of a port goes through
`world.faults`, where it can be made to raise, to die or to meet another
delivery, before or after it takes effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from gate import dead_letters, events, poll, settings, wiring
from gate.calls import Call
from gate.capacity import WHOLE_BYTES
from gate.dead_letters import DeadLetter
from gate.errors import (
    EmptyComponentError,
    MissingCrsError,
    TornBundleError,
    TransientError,
)
from gate.events import IgnoredType, Malformed, ObjectFinalized
from gate.explain import Explain
from gate.gating import GateKind
from gate.handover import KIND, Handover
from gate.identity import Revision
from gate.ingest import Ending, Ingest
from gate.intake import Intake, Outcome, Receipt
from gate.job import Job, State
from gate.listing import Listing
from gate.look import Look
from gate.manifest import Decision, Dispatch, Manifest, Settling, decide
from gate.names import Bundle, Component, parse
from gate.overrides import NOTHING, Overrides
from gate.poll import Poll, poll_task
from gate.reconcile import Reconcile
from gate.redrive import Redrive
from gate.shapefile.archive import Archives
from gate.shapefile.port import NOWHERE_ELSE, OpenLayer, Remote
from gate.sinks.memory import Dataset, MemorySink
from gate.source.memory import MemorySource
from gate.store.documents import bundle_from, job_from, manifest_from
from gate.store.history import History
from gate.store.memory import MemoryStore
from gate.store.memory_history import MemoryHistory
from gate.store.port import Claim, Incomplete, StoredJob
from gate.sweep import Sweep
from gate.tasks.memory import MemoryTasks
from gate.tasks.port import Task
from gate.verify import Verify
from gate.work import JobWork, LookWork, Work, Worked

BUCKET = "uploads"
PARTS = (".shp", ".shx", ".dbf")
ALL_PARTS = (*PARTS, ".prj", ".cpg")
ROUNDS = 60
SCHEMA = pa.schema([("shape", pa.string()), ("record", pa.string()), ("crs", pa.string())])


class Crash(BaseException):
    """The process is killed here: nothing after this line runs."""


class Answer(Enum):
    """How a delivery is answered."""

    ACK = "ack"
    QUIET_NACK = "quiet nack"
    NACK = "nack"


class Clock:
    """The time of the whole world, which passes only when told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.passed_seconds = 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        self.passed_seconds += seconds


Action = Callable[[], object]


@dataclass
class Faults:
    """What happens around the calls of ports.

    `calls` lists them as they began: `store.record`, `store.read`, `sink.publish` … An action
    is planned for a call's number (from 0) or, once, for the next call of a
    name. It runs before the call takes effect, or after; `repeat` lets the
    call's answer get lost and its caller's client ask again. `watch` is called
    after every effect.
    """

    calls: list[str] = field(default_factory=list)
    watch: Action = lambda: None
    _planned: dict[tuple[str, int | str], Action] = field(default_factory=dict)

    def before(self, call: int | str, action: Action) -> None:
        """Run `action` before the call takes effect."""
        self._planned["before", call] = action

    def after(self, call: int | str, action: Action) -> None:
        """Run `action` once the call has taken effect, before its answer arrives."""
        self._planned["after", call] = action

    def repeat(self, call: int | str, meanwhile: Action = lambda: None) -> None:
        """Lose the answer of the call, and have it made again with the same arguments."""
        self._planned["repeat", call] = meanwhile

    def clear(self) -> None:
        """Forget everything that is planned."""
        self._planned.clear()

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """Make the call, with whatever is planned around it."""
        number = len(self.calls)
        self.calls.append(name)
        self._do("before", number, name)
        answer = call()
        if self._do("repeat", number, name):
            answer = call()
        self.watch()
        self._do("after", number, name)
        return answer

    def _do(self, moment: str, number: int, name: str) -> bool:
        # A process dies once: what is planned is done with before it is done.
        action = self._planned.pop((moment, number), None) or self._planned.pop(
            (moment, name), None
        )
        if action:
            action()
        return action is not None


def raising(error: BaseException) -> Action:
    """Return an action that raises `error`."""

    def act() -> None:
        raise error

    return act


class Watched:
    """Any port object, each of whose calls goes through `faults`."""

    def __init__(self, label: str, port: Any, faults: Faults) -> None:
        self._label, self._port, self._faults = label, port, faults

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._port, name)

        def call(*positional: Any, **named: Any) -> Any:
            return self._faults.run(
                f"{self._label}.{name}", lambda: _whole(method(*positional, **named))
            )

        return call


def _whole(answer: Any) -> Any:
    return iter(list(answer)) if isinstance(answer, Iterator) else answer


class Store(Watched):
    """The store with the write and the read of `record` as two calls, as they are in Firestore."""

    def record(self, claim: Claim, required: tuple[str, ...] = ()) -> Any:
        """Record the claim, then read what the store holds by then if that is still open."""
        answer = self._faults.run("store.record", lambda: self._port.record(claim, required))
        if isinstance(answer, Incomplete):
            return answer
        return self._faults.run("store.read", lambda: self._port.record(claim))


class Queue(MemoryTasks):
    """The queue in memory, which remembers every task that it was asked to take."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__(clock)
        self.asked: list[Task] = []

    def enqueue(self, task: Task) -> bool:
        """See `Tasks.enqueue`."""
        self.asked.append(task)
        return super().enqueue(task)


class Letters:
    """Dead letters in a list."""

    def __init__(self) -> None:
        self.sent: list[DeadLetter] = []

    def send(self, letter: DeadLetter) -> None:
        """Keep the letter."""
        self.sent.append(letter)


@dataclass
class Reader:
    """Opens text files as layers, and counts how often.

    Row n joins line n of the `.shp` with line n of the `.dbf`, so that a
    mixture of two exports shows in the rows. `on_row` is called with the row's
    number before each one-row batch; `fault` is raised on opening. `told` are
    the overrides of each opening.
    """

    opened: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    on_row: Callable[[int], object] = lambda _number: None
    fault: Exception | None = None
    told: list[Overrides] = field(default_factory=list)
    demand: Callable[[Overrides], bool] | None = None

    @contextmanager
    def __call__(
        self,
        folder: Path,
        name: str,
        overrides: Overrides = NOTHING,
        remote: Mapping[str, Remote] = NOWHERE_ELSE,
    ) -> Iterator[_Layer]:
        """Open the layer in `folder`; with a `demand`, only if the overrides fulfil it."""
        self.opened.append(name)
        self.told.append(overrides)
        if self.demand and not self.demand(overrides):
            raise MissingCrsError("there is no .prj", where=name)
        self.folders.append(folder)
        if self.fault:
            raise self.fault
        shapes = (folder / "layer.shp").read_text().splitlines()
        records = (folder / "layer.dbf").read_text().splitlines()
        if not shapes or not (folder / "layer.shx").read_bytes():
            raise EmptyComponentError("a component is empty", where=name)
        if len(shapes) != len(records):
            raise TornBundleError(f"{len(shapes)} shapes, {len(records)} records", where=name)
        crs = folder / "layer.prj"
        yield _Layer(tuple(zip(shapes, records, strict=True)), crs, self)


@dataclass
class _Layer:
    pairs: tuple[tuple[str, str], ...]
    crs: Path
    reader: Reader
    schema: pa.Schema = SCHEMA
    geo_crs: Mapping[str, Any] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        crs = self.crs.read_text() if self.crs.exists() else None
        for number, (shape, record) in enumerate(self.pairs):
            self.reader.on_row(number)
            yield pa.RecordBatch.from_pylist(
                [{"shape": shape, "record": record, "crs": crs}], schema=SCHEMA
            )

    def rejects(self) -> None:
        return None

    def report(self) -> _Layer:
        return self

    def as_json(self) -> dict[str, Any]:
        rows = len(self.pairs)
        return {"rows": {"in_file": rows, "loaded": rows, "deleted": 0, "rejected": 0}}


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one delivery led to, as far as it got."""

    event: ObjectFinalized | IgnoredType | Malformed
    answer: Answer
    receipt: Receipt | None
    ending: Ending | None

    @property
    def outcome(self) -> Outcome | None:
        """Return the outcome of the intake; `None` if it raised."""
        return self.receipt.outcome if self.receipt else None


class World:
    """One deployment over memory: bucket, store, sink, reader, dead letters.

    Keyword arguments are environment variables, beside those of `defaults`. With a
    `prompt_queue`, tasks that are due are called after each delivery and each sweep.
    """

    project = "project"
    defaults: ClassVar[Mapping[str, str]] = {}
    prompt_queue: ClassVar[bool] = False

    def __init__(
        self,
        *,
        open_layer: OpenLayer | None = None,
        memory_bytes: int = 1 << 30,
        whole_bytes: int = WHOLE_BYTES,
        **environment: str,
    ) -> None:
        self.clock = Clock()
        self.faults = Faults()
        self.settings = settings.load({"SINK": "gs://datasets/out", **self.defaults, **environment})
        self.store, history, store = self.stores()
        self.source = MemorySource()
        self.sink = MemorySink()
        self.sink.on = self._sink_step
        self.sent = Letters()
        self.reader = Reader()
        self.stopping = False
        self.deliveries: list[Delivery] = []
        self.effects: list[Revision] = []
        self._seen: dict[str, Dataset] = {}
        self._numbers = count(1)
        source: Any = Watched("source", self.source, self.faults)
        sink: Any = Watched("sink", self.sink, self.faults)
        self.letters: Any = Watched("letters", self.sent, self.faults)
        self.intake = Intake(
            store,
            self.settings,
            lambda component: source.siblings(
                component.bundle.bucket, component.bundle.folder, component.sibling_start
            ),
            lambda: f"token-{next(self._numbers)}",
        )
        self.verify = Verify(
            self.intake,
            Listing(source, self.intake.parsed),
            self.letters,
            self.settings.required,
            self.settings.gate.max_age,
            lambda: self.clock.now,
        )
        self.ingest = Ingest(
            store=store,
            source=source,
            sink=sink,
            open_layer=open_layer or self.reader,
            unpack=Archives(self.settings.max_entries, self.settings.max_unpacked_bytes),
            letters=self.letters,
            settings=self.settings,
            capacity=replace(wiring.capacity(self.settings, memory_bytes), whole_bytes=whole_bytes),
            product="test",
            new_token=lambda: f"token-{next(self._numbers)}",
            monotonic=lambda: self.clock.passed_seconds,
            heartbeat=lambda _pulse: nullcontext(),
            shutting_down=lambda: self.stopping,
        )
        self.queue = Queue(lambda: self.clock.now)
        tasks: Any = Watched("tasks", self.queue, self.faults)
        self.handover = Handover(tasks) if self.settings.tasks.hands_over else None
        self.called: list[Worked | None] = []
        run_job = JobWork(
            store,
            self.settings,
            lambda work: self.ingest(work),  # noqa: PLW0108  a test may replace it
            lambda: f"token-{next(self._numbers)}",
            lambda: self.faults.run("ready", lambda: None),
        )
        self.poll = Poll(
            self.intake,
            Listing(source, self.intake.parsed),
            self.letters,
            tasks,
            self.settings.required,
            self.settings.gate,
            lambda: self.clock.now,
        )
        look = LookWork(self.poll, self.run)
        self.work = Work({KIND: run_job, poll.KIND: look}, self.letters)
        self.redrive = Redrive(
            store, history, source, self.settings, lambda: f"token-{next(self._numbers)}"
        )
        self.explain = Explain(store, history, self.settings)
        self.reconcile = Reconcile(
            store,
            source,
            self.intake,
            BUCKET,
            self.settings.source_prefix,
            self.settings.retention.manifests,
        )
        self.sweep = Sweep(
            store=store,
            look=Look(store, source, self.intake, self.run, self.letters, self.settings),
            run=self.run,
            reconcile=self.reconcile if self.settings.source_bucket else None,
            settings=self.settings,
            new_token=lambda: f"token-{next(self._numbers)}",
            monotonic=lambda: self.clock.passed_seconds,
            handover=self.handover,
        )

    @property
    def entrance(self) -> Callable[[ObjectFinalized], Receipt]:
        """Return what an event is given to, as the settings say."""
        match self.settings.gate.kind:
            case GateKind.VERIFY:
                return self.verify
            case GateKind.POLL:
                return self._polled
            case _:
                return self.intake

    def _polled(self, event: ObjectFinalized) -> Receipt:
        """Take in an event by a task. That of a `.shp` is called at once, ahead of its time.

        So that event leads, as it does elsewhere. Its task may have been called
        before, as any may be, and it stays in the queue if the call fails.
        """
        receipt = self.poll(event)
        if receipt.outcome is Outcome.SCHEDULED and event.name.lower().endswith(".shp"):
            asked = self.queue.asked[-1]
            task = poll_task(asked.payload)
            assert task
            receipt = self.poll.look(task)
            if not receipt.redeliver and asked in self.queue.waiting:
                self.queue.lose(asked.name)
        return receipt

    def upload(
        self, name: str, payload: bytes = b"-", metadata: Mapping[str, str] | None = None
    ) -> ObjectFinalized:
        """Store an object under a new, greater generation and return its event."""
        facts = self.source.put(BUCKET, name, payload, metadata)
        number = next(self._numbers)
        return ObjectFinalized(
            BUCKET, name, facts.generation, f"event-{number}", occurred_at=self.clock.now
        )

    def describe(self, name: str, **metadata: str) -> None:
        """Set the metadata of an object as it lies there: no new generation, no event."""
        self.source.describe(BUCKET, name, metadata)

    def upload_bundle(
        self, base: str, version: str = "first", *, rows: int = 3, parts: tuple[str, ...] = PARTS
    ) -> list[ObjectFinalized]:
        """Upload the components of one export, in the order of `parts`.

        Where the event of the `.shp` leads, it comes last of those that are returned,
        unless an order was asked for: it is the one that completes the bundle.
        """
        found = [self.upload(f"{base}{part}", text(part, version, rows)) for part in parts]
        if parts is PARTS and self.settings.gate.kind is not GateKind.MANIFEST:
            found = [*found[1:], found[0]]
        return found

    def deliver(self, event: ObjectFinalized | IgnoredType | Malformed) -> Answer:
        """Deliver an event as `main.ingest` does, and tell how it was answered."""
        receipt = ending = None
        try:
            receipt = self._received(event)
            ending = self.run(receipt.work) if receipt.work else None
        except AssertionError:
            raise
        except TransientError:
            answer = Answer.QUIET_NACK
        except (Exception, Crash):  # noqa: BLE001  whatever it is, the event comes back
            answer = Answer.NACK
        else:
            again = receipt.redeliver or (ending is not None and ending.redeliver)
            answer = Answer.QUIET_NACK if again else Answer.ACK
        self.deliveries.append(Delivery(event, answer, receipt, ending))
        self._prompt()
        return answer

    def post(self, attributes: Mapping[str, object], payload: object) -> Answer:
        """Deliver what a CloudEvent says, whatever that is."""
        return self.deliver(events.parse(attributes, payload))

    def _received(self, event: ObjectFinalized | IgnoredType | Malformed) -> Receipt:
        match event:
            case ObjectFinalized():
                return self.entrance(event)
            case IgnoredType(event_type):
                return Receipt(Outcome.IGNORED, event_type)
            case Malformed(reason):
                self.letters.send(dead_letters.of_event(event))
                return Receipt(Outcome.MALFORMED, reason)

    def run(self, work: StoredJob) -> Ending | None:
        """Run a job that falls to an event, or give it to a task."""
        return self.handover(work) if self.handover else self.ingest(work)

    def call(self, payload: Mapping[str, str | int], task: str = "a-task") -> bool:
        """Call `work` as the queue does, and tell whether it succeeded."""
        worked = None
        try:
            worked = self.work(Call(task, payload, str(payload)))
        except AssertionError:
            raise
        except (Exception, Crash):  # noqa: BLE001  whatever it is, the task is called again
            return False
        finally:
            self.called.append(worked)
        return not worked.again

    def settle(self, *pending: ObjectFinalized, pause_seconds: float = 31) -> None:
        """Deliver the events until all are acknowledged, then sweep until all is done.

        Time passes between. What still lacks a file counts as done; and so does a look
        that is to come, if none of the events is that of a `.shp`: tasks may be late.
        """
        self.redeliver(*pending, pause_seconds=pause_seconds)
        leading = not pending or any(event.name.lower().endswith(".shp") for event in pending)
        for _ in range(ROUNDS):
            if not (self.unsettled or (leading and self.looks)):
                return
            self.clock.advance(pause_seconds)
            self.swept()
            self.queue.run(self.call)
        raise AssertionError(f"never settled: {self.unsettled}")

    def redeliver(self, *pending: ObjectFinalized, pause_seconds: float = 31) -> None:
        """Deliver the events in rounds, time passing between, until all are acknowledged."""
        for _ in range(ROUNDS):
            pending = tuple(event for event in pending if self.deliver(event) is not Answer.ACK)
            self.queue.run(self.call)
            if not pending:
                return
            self.clock.advance(pause_seconds)
        raise AssertionError(f"never acknowledged: {pending}")

    def swept(self) -> Answer:
        """Sweep as `main.sweep` does, and tell how the scheduler was answered."""
        try:
            self.sweep()
        except AssertionError:
            raise
        except TransientError:
            return Answer.QUIET_NACK
        except (Exception, Crash):  # noqa: BLE001  whatever it is, another sweep follows
            return Answer.NACK
        self._prompt()
        return Answer.ACK

    def _prompt(self) -> None:
        if self.prompt_queue:
            self.queue.run(self.call)

    def stores(self) -> tuple[Any, History, Any]:
        """Return the store, what it remembers, and the store as the use cases call it."""
        store = MemoryStore(self.settings.retention, lambda: self.clock.now)
        return store, MemoryHistory(store), Store("store", store, self.faults)

    @property
    def unsettled(self) -> list[str]:
        """Return the ids of the jobs and manifests that somebody has to go on with."""
        jobs = [job.id for job in self.jobs if job.due_at]
        manifests = [
            key
            for key, document in self.store.manifests.items()
            if isinstance(self._decision(document), Dispatch | Settling)
        ]
        return jobs + manifests

    @property
    def looks(self) -> list[Task]:
        """Return the tasks that are to look at a bundle for the first time after an upload."""
        looks = [task for task in self.queue.waiting if task.payload["kind"] == poll.KIND]
        return [task for task in looks if task.payload["attempt"] == 1]

    def _decision(self, document: Mapping[str, Any]) -> Decision:
        return decide(
            manifest_from(bundle_from(document), document),
            self.clock.now,
            required=self.settings.required,
            settle=self.settings.retention.settle,
        )

    def _sink_step(self, step: str) -> None:
        """Keep every dataset that became current, in order."""
        if step == "answer":
            for basename, dataset in self.sink.datasets.items():
                if self._seen.get(basename) is not dataset:
                    self._seen[basename] = dataset
                    self.effects.append(dataset.publication.revision)

    @property
    def documents(self) -> int:
        """Return how many documents there are, of all kinds."""
        return len(self.store.claims) + len(self.store.manifests) + len(self.store.jobs)

    @property
    def outcomes(self) -> list[Outcome | None]:
        """Return the outcomes of all deliveries so far, in the order they ended."""
        return [delivery.outcome for delivery in self.deliveries]

    @property
    def answers(self) -> list[Answer]:
        """Return the answers of all deliveries so far, in the order they ended."""
        return [delivery.answer for delivery in self.deliveries]

    @property
    def jobs(self) -> list[Job]:
        """Return every job, oldest revision first."""
        found = (job_from(document) for document in self.store.jobs.values())
        return sorted(found, key=lambda job: job.revision.order)

    @property
    def states(self) -> list[State]:
        """Return the state of every job, oldest revision first."""
        return [job.state for job in self.jobs]

    def manifest(self, base: str) -> Manifest:
        """Return the manifest of a bundle named as by `upload_bundle`."""
        bundle = bundle_of(f"{base}.shp")
        stored = self.store.manifest(bundle)
        return stored.manifest if stored else manifest_from(bundle, {})

    def rows(self, base: str) -> list[tuple[str, str, str | None]]:
        """Return what readers of the sink see of a bundle: (shape, record, crs)."""
        dataset = self.sink.datasets.get(bundle_of(f"{base}.shp").basename)
        batches = dataset.batches if dataset else ()
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def bundle_of(name: str) -> Bundle:
    """Return the bundle that an object belongs to."""
    component = parse(BUCKET, name)
    assert isinstance(component, Component)
    return component.bundle


def text(part: str, version: str, rows: int = 3) -> bytes:
    """Return the content of one component of an export."""
    if part not in PARTS:
        return f"{part} {version}".encode()
    return "\n".join(f"{part} {version} {number}" for number in range(rows)).encode()


def expected(
    version: str, *, rows: int = 3, crs: str | None = None, records: str = ""
) -> list[tuple[str, str, str | None]]:
    """Return the rows of one export, or of one whose `.dbf` is that of `records`."""
    wkt = f".prj {crs}" if crs else None
    return [
        (f".shp {version} {number}", f".dbf {records or version} {number}", wkt)
        for number in range(rows)
    ]
