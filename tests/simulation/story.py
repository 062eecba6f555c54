"""What happens in one run: people upload, replace and delete; events come late, or twice.

A storm first, in which anything may fail. Then calm: nothing fails any more,
and every event is delivered again until it is acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from gate.events import ObjectFinalized
from tests.simulation.deployment import Deployment
from tests.simulation.schedule import Schedule
from tests.world import ALL_PARTS, BUCKET, PARTS, Answer, Crash, text

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


@dataclass(eq=False)
class Message:
    """An event on its way, and what became of its deliveries."""

    event: ObjectFinalized
    acknowledged: bool = False
    deliveries: int = 0
    nacks: int = 0


@dataclass
class Habits:
    """How the people and the platform of one run behave, drawn once."""

    random: Random
    uploads: int = field(init=False)
    duplicates: float = field(init=False)
    lost_acks: float = field(init=False)
    torn: float = field(init=False)
    deletes: float = field(init=False)
    spellings: float = field(init=False)

    def __post_init__(self) -> None:
        self.uploads = self.random.randint(1, 4)
        self.duplicates = self.random.choice((0.0, 0.1, 0.5))
        self.lost_acks = self.random.choice((0.0, 0.0, 0.2))
        self.torn = self.random.choice((0.0, 0.0, 0.0, 0.2))
        self.deletes = self.random.choice((0.0, 0.0, 0.0, 0.1))
        self.spellings = self.random.choice((0.0, 0.0, 0.0, 0.2))


@dataclass
class Story:
    """One run, told by the seed of its deployment."""

    deployment: Deployment
    messages: list[Message] = field(default_factory=list)
    bases: tuple[str, ...] = field(init=False)
    habits: Habits = field(init=False)
    _version: int = 0

    def __post_init__(self) -> None:
        self.random = self.deployment.stream("story")
        self.habits = Habits(self.random)
        self.bases = BASES[: self.random.randint(1, len(BASES))]

    @property
    def schedule(self) -> Schedule:
        """Return what the story is played on."""
        return self.deployment.schedule

    def play(self) -> None:
        """Tell the whole story."""
        for base in self.bases:
            self.schedule.spawn(f"user {base}", lambda base=base: self._user(base))
        self.schedule.run(for_seconds=3000)
        self.deployment.weather.calm = True
        for message in self.messages:
            message.acknowledged = False
            self._send(message, 0.0)
        self.schedule.run()

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
        event = ObjectFinalized(BUCKET, name, facts.generation, f"event-{facts.generation}")
        message = Message(event)
        self.messages.append(message)
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
            answer = instance.deliver(message.event)
        except Crash:
            answer = Answer.NACK
        self.schedule.note(answer.value)
        if answer is Answer.ACK and not self._happens(self.habits.lost_acks):
            message.acknowledged = True
        elif not message.acknowledged:
            message.nacks += 1
            if message.nacks > MOST_NACKS:
                raise AssertionError(f"never acknowledged: {message}")
            self._send(message, BACKOFF_SECONDS[min(message.nacks, len(BACKOFF_SECONDS)) - 1])

    def _happens(self, rate: float) -> bool:
        return not self.deployment.weather.calm and self.random.random() < rate
