"""What happens in one run: people upload, replace and delete; events come late, or twice.

A storm first, in which anything may fail. Then calm: nothing fails any more,
and every event is delivered again until it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from gate.errors import GateError
from gate.events import ObjectFinalized
from tests.simulation.deployment import Deployment, Instance
from tests.simulation.schedule import Schedule
from tests.world import ALL_PARTS, BUCKET, PARTS, Answer, Crash, bundle_of, text

# Two spellings of one bundle, and two bundles that share a folder or a stem.
BASES = ("in/roads", "in/rivers", "other/roads")
OTHER_SPELLING = "in/Roads"
PAUSES_SECONDS = (0.0, 0.2, 2.0, 20.0)
RESTS_SECONDS = (1.0, 20.0, 45.0, 400.0)
DELAYS_SECONDS = (0.0, 0.5, 5.0, 40.0, 200.0)
# Pub/Sub redelivers after 10 s at first and 600 s at most, and counts 600 s as a nack.
BACKOFF_SECONDS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0)
WHOLE_ROWS, TORN_ROWS = 3, 2
MOST_NACKS = 60
# What no new attempt helps: the files themselves are at fault.
BEYOND_HELP = ("torn_bundle", "mixed_spellings", "source_deleted")
REDRIVE_SECONDS = 1000.0
SWEEP_SECONDS = (5.0, 60.0, 120.0)
STORM_SECONDS = 1800.0
EVERY_MINUTE, EVERY_FIVE_MINUTES = (30, 60.0), (14, 300.0)


@dataclass(eq=False)
class Message:
    """An event on its way, and what became of its deliveries."""

    event: ObjectFinalized
    lost: bool = False
    acknowledged: bool = False
    collected: bool = False
    deliveries: int = 0
    nacks: int = 0


@dataclass
class Habits:
    """How the people and the platform of one run behave, drawn once."""

    random: Random
    uploads: int = field(init=False)
    duplicates: float = field(init=False)
    lost_acks: float = field(init=False)
    lost_events: float = field(init=False)
    days: int = field(init=False)
    swept_days: bool = field(init=False)
    torn: float = field(init=False)
    deletes: float = field(init=False)
    spellings: float = field(init=False)

    def __post_init__(self) -> None:
        self.uploads = self.random.randint(1, 4)
        self.duplicates = self.random.choice((0.0, 0.1, 0.5))
        self.lost_acks = self.random.choice((0.0, 0.0, 0.2))
        self.lost_events = self.random.choice((0.0, 0.0, 0.1, 0.5))
        self.days = self.random.choice((0, 0, 2, 9))
        self.swept_days = self.random.random() < 0.5
        self.torn = self.random.choice((0.0, 0.0, 0.0, 0.2))
        self.deletes = self.random.choice((0.0, 0.0, 0.0, 0.1))
        self.spellings = self.random.choice((0.0, 0.0, 0.0, 0.2))


@dataclass
class Story:
    """One run, told by the seed of its deployment."""

    deployment: Deployment
    check: Callable[[Story, bool], Iterable[str]]
    messages: list[Message] = field(default_factory=list)
    bases: tuple[str, ...] = field(init=False)
    habits: Habits = field(init=False)
    answered: int = 0
    _version: int = 0
    _sweeps: int = 0

    def __post_init__(self) -> None:
        self.random = self.deployment.stream("story")
        self.habits = Habits(self.random)
        self.bases = BASES[: self.random.randint(1, len(BASES))]

    @property
    def schedule(self) -> Schedule:
        """Return what the story is played on."""
        return self.deployment.schedule

    def play(self) -> list[str]:
        """Tell the whole story; return what `check` found wrong on the way.

        `check` is asked three times: once everything that anybody was told of
        should be in the sink, once the whole bucket has been gone through, and
        at the very end.
        """
        self._storm()
        faults = self._quiet(EVERY_MINUTE, heard_only=True)
        faults += self._quiet(EVERY_FIVE_MINUTES)
        if self.habits.days:
            self._days_pass()
            faults += self._quiet(EVERY_MINUTE, heard_only=True)
            faults += self._quiet(EVERY_FIVE_MINUTES)
        return faults

    def _storm(self) -> None:
        for base in self.bases:
            self.schedule.spawn(f"user {base}", lambda base=base: self._user(base))
        others = [
            self.schedule.spawn("scheduler", self._sweep_now_and_then),
            self.schedule.spawn("person", self._redrive_now_and_then),
        ]
        self.schedule.run(for_seconds=STORM_SECONDS)
        for one in others:
            one.killed = True
        self.deployment.weather.calm = True
        for message in self.messages:
            if not message.acknowledged and not message.lost:
                self._send(message, 0.0)
        self.schedule.run()

    def _quiet(self, sweeps: tuple[int, float], *, heard_only: bool = False) -> list[str]:
        """Redrive what died of the storm, let sweeps work, and look what has come of it."""
        times, pause_seconds = sweeps
        for _ in range(times):
            self._redrive()
            self._sweep()
            self.schedule.run(for_seconds=pause_seconds)
        self.schedule.run()
        return list(self.check(self, heard_only))

    def _days_pass(self) -> None:
        """Let days pass and what has expired vanish; then everybody uploads once more."""
        for _ in range(self.habits.days * 24 if self.habits.swept_days else 1):
            self.schedule.seconds += 3600 if self.habits.swept_days else self.habits.days * 86_400
            if self.habits.swept_days:
                self._sweep()
                self.schedule.run()
            self._expire()
        for base in self.bases:
            self.schedule.spawn(f"user {base}", lambda base=base: self._export(base))
        self.schedule.run()

    def _expire(self) -> None:
        """Delete every document whose time has come, as the time-to-live does."""
        database = self.deployment.database
        for collection in ("claims", "manifests", "jobs"):
            for key, document in list(database.all_of(collection).items()):
                if "expires_at" in document and document["expires_at"] <= self.schedule.now:
                    self.schedule.note(f"expires {collection}/{key[:6]}")
                    database.remove(collection, key)
                    if collection == "manifests":
                        self._forget(document["basename"])

    def _forget(self, basename: str) -> None:
        """Take the events of a bundle off the list of what a manifest must reflect."""
        for message in self.messages:
            if bundle_of(message.event.name).basename == basename:
                message.collected = True

    # --- the people ----------------------------------------------------------

    def _user(self, base: str) -> None:
        for _ in range(self.habits.uploads):
            spelt = base
            if base == BASES[0] and self._happens(self.habits.spellings):
                spelt = OTHER_SPELLING
            self._export(spelt)
            self.schedule.sleep(self.random.choice(RESTS_SECONDS) * self.random.random())

    def _export(self, base: str) -> None:
        parts = self.random.choice((PARTS, ALL_PARTS, ALL_PARTS, (".dbf",), (".prj",)))
        self._version += 1
        version = f"v{self._version}"
        pause = self.random.choice(PAUSES_SECONDS)
        for part in self.random.sample(parts, len(parts)):
            torn = part == ".dbf" and self._happens(self.habits.torn)
            self.upload(f"{base}{part}", text(part, version, TORN_ROWS if torn else WHOLE_ROWS))
            self.schedule.sleep(pause * self.random.random())
        if self._happens(self.habits.deletes):
            self.delete(f"{base}{self.random.choice(ALL_PARTS)}")

    def upload(self, name: str, payload: bytes) -> None:
        """Store an object and send its event."""
        facts = self.deployment.source.put(BUCKET, name, payload)
        self.schedule.note(f"uploads {name} @{facts.generation % 10_000}")
        event = ObjectFinalized(
            BUCKET, name, facts.generation, f"event-{facts.generation}", self.schedule.now
        )
        message = Message(event, lost=self.random.random() < self.habits.lost_events)
        self.messages.append(message)
        if message.lost:
            self.schedule.note("its event is lost")
            return
        self._send(message, self.random.choice(DELAYS_SECONDS))
        if self._happens(self.habits.duplicates):
            self._send(message, 900.0)

    def delete(self, name: str) -> None:
        """Delete an object, if it is there."""
        if (BUCKET, name) in self.deployment.source._live:
            self.schedule.note(f"deletes {name}")
            self.deployment.source.delete(BUCKET, name)

    # --- the platform --------------------------------------------------------

    def _send(self, message: Message, within_seconds: float) -> None:
        message.deliveries += 1
        event = message.event
        name = f"{event.name}@{event.generation % 10_000}/{message.deliveries}"
        in_seconds = self.random.random() * within_seconds
        self.schedule.spawn(name, lambda: self._deliver(message), in_seconds=in_seconds)

    def _deliver(self, message: Message) -> None:
        instance = self.random.choice(self.deployment.instances)
        try:
            answer = instance.deliver(message.event, self.schedule.now)
        except Crash:
            answer = Answer.NACK
        else:
            self.answered += 1
        self.schedule.note(answer.value)
        if answer is Answer.ACK and not self._happens(self.habits.lost_acks):
            message.acknowledged = True
        elif not message.acknowledged:
            message.nacks += 1
            if message.nacks > MOST_NACKS:
                raise AssertionError(f"never acknowledged: {message}")
            self._send(message, BACKOFF_SECONDS[min(message.nacks, len(BACKOFF_SECONDS)) - 1])

    def _sweep_now_and_then(self) -> None:
        while True:
            self.schedule.sleep(self.random.choice(SWEEP_SECONDS))
            self._sweep()

    def _redrive_now_and_then(self) -> None:
        while True:
            self.schedule.sleep(REDRIVE_SECONDS * self.random.random())
            self._redrive()

    def _redrive(self) -> None:
        """Let a person redrive every job that may be helped by that; some click twice."""
        for key, job in sorted(self.deployment.database.all_of("jobs").items()):
            if job["state"] == "dead" and job["history"][-1]["code"] not in BEYOND_HELP:
                for _ in range(1 + self._happens(self.habits.duplicates)):
                    self.schedule.spawn(f"redrive {key[:6]}", lambda key=key: self._redriven(key))

    def _redriven(self, key: str) -> None:
        instance = self.random.choice(self.deployment.instances)
        try:
            redriven = instance.redrive(key, actor="person", reason="the storm is over")
        except GateError as error:
            self.schedule.note(f"redrive failed: {error}")
        else:
            self.schedule.note(redriven.verdict.value)

    def _sweep(self) -> None:
        instance = self.random.choice(self.deployment.instances)
        self._sweeps += 1
        self.schedule.spawn(f"sweep {self._sweeps}", lambda: self._swept(instance))

    def _swept(self, instance: Instance) -> None:
        try:
            counts = instance.sweep()
        except GateError as error:
            self.schedule.note(f"sweep failed: {error}")
        else:
            self.schedule.note(str({name: n for name, n in counts.as_json().items() if n}))

    def _happens(self, rate: float) -> bool:
        return not self.deployment.weather.calm and self.random.random() < rate
