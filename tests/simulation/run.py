"""One run from one seed: what was wrong with it, and its account."""

from __future__ import annotations

import io
import json
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field

from tests.simulation.database import Database, Document
from tests.simulation.deployment import Deployment, OpenDatabase
from tests.simulation.story import Story
from tests.simulation.teeth import OF_POLLS, OF_TASKS, without
from tests.simulation.verdict import Watch, faults_of

# In every other run a job has so few attempts that some end as dead letters.
ATTEMPTS = ("1000", "3")
# How long the other gates wait for a file that never comes.
PATIENCE = {"VERIFY_MAX_AGE_SECONDS": "1800", "POLL_MAX_ATTEMPTS": "4"}
# What is said when something happens that nobody foresaw.
CRASHES = ('"crashed"', "ingestion crashed", "layer crashed", "heartbeat failed")
KINDS = ("claims", "manifests", "jobs", "sweep")


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one seed; `faults` is empty if all promises were kept.

    `account` tells it line by line, `documents` is what the database holds in the end.
    """

    seed: int
    faults: tuple[str, ...]
    account: tuple[str, ...] = ()
    documents: Mapping[str, Mapping[str, Document]] = field(default_factory=dict)
    steps: int = 0


class Log(io.TextIOBase):
    """Where the log of a run goes: the ledger of deliveries is kept, and what must not be said."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.crashes: list[str] = []

    def write(self, line: str) -> int:
        """Take a line."""
        if '"message": "delivery"' in line:
            self.outcomes[json.loads(line)["decision"]] += 1
        if any(word in line for word in CRASHES):
            self.crashes.append(line)
        return len(line)

    def faults(self, answered: int) -> Iterator[str]:
        """Yield what is wrong with the ledger, given how many deliveries were answered."""
        if self.outcomes.total() != answered:
            yield f"{answered} deliveries were answered, the ledger has {self.outcomes}"
        yield from self.crashes


def run(
    seed: int,
    guard: str = "",
    open_database: OpenDatabase = Database,
    *,
    executor: str = "inline",
    gate: str = "manifest",
) -> Run:
    """Play the story of a seed, without one of the guards if one is named."""
    environment = {
        **PATIENCE,
        "GATE": "poll" if guard in OF_POLLS else gate,
        "MAX_ATTEMPTS": ATTEMPTS[seed % 2],
        "SOURCE_BUCKET": "uploads",
        "EXECUTOR": "tasks" if guard in OF_TASKS else executor,
        "TASK_QUEUE": "projects/p/locations/l/queues/q",
        "WORK_URL": "https://work.example",
        "TASK_SERVICE_ACCOUNT": "tasks@p.iam.gserviceaccount.com",
    }
    log = Log()
    with redirect_stdout(log), without(guard):
        deployment = Deployment(seed, environment, open_database)
        watch = deployment.database.watch = Watch(deployment)
        story = Story(deployment, faults_of)
        try:
            with deployment.running():
                faults = story.play()
            faults += [*watch.wrong, *log.faults(story.answered)]
        except Exception as error:  # noqa: BLE001  whatever it is, it is told with its seed
            faults = [*watch.wrong, "".join(traceback.format_exception(error))]
    account = tuple(
        f"{seconds:10.3f}  {task:28}  {text}" for seconds, task, text in deployment.schedule.lines
    )
    documents = {kind: deployment.database.all_of(kind) for kind in KINDS}
    found = tuple(dict.fromkeys(faults))
    return Run(seed, found, account, documents, deployment.schedule.steps)
