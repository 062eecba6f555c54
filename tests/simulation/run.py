"""One run from one seed: what was wrong with it, and its account."""

from __future__ import annotations

import io
import traceback
from contextlib import redirect_stdout
from dataclasses import dataclass

from tests.simulation.database import Database
from tests.simulation.deployment import Deployment, OpenDatabase
from tests.simulation.story import Story
from tests.simulation.teeth import without
from tests.simulation.verdict import Watch, faults_of

# Kills and stalls use attempts up; how a job is buried is told elsewhere.
ENVIRONMENT = {"MAX_ATTEMPTS": "1000"}


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one seed; `faults` is empty if all promises were kept."""

    seed: int
    faults: tuple[str, ...]
    account: tuple[str, ...]
    steps: int


def run(seed: int, guard: str = "", open_database: OpenDatabase = Database) -> Run:
    """Play the story of a seed, without one of the guards if one is named."""
    with redirect_stdout(io.StringIO()), without(guard):
        deployment = Deployment(seed, ENVIRONMENT, open_database)
        watch = deployment.database.watch = Watch(deployment)
        story = Story(deployment)
        try:
            story.play()
            faults = [*watch.wrong, *faults_of(story)]
        except Exception as error:  # noqa: BLE001  whatever it is, it is told with its seed
            faults = [*watch.wrong, "".join(traceback.format_exception(error))]
    account = tuple(
        f"{seconds:10.3f}  {task:28}  {text}" for seconds, task, text in deployment.schedule.lines
    )
    return Run(seed, tuple(faults), account, deployment.schedule.steps)
