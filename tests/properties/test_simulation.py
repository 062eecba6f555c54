"""The deterministic simulation, as many seeds as a test run can wait for.

`make simulate` plays ten thousand, and a single one in full.
"""

from __future__ import annotations

from itertools import chain

import pytest

from tests.simulation.bucket import Bucket
from tests.simulation.database import Database
from tests.simulation.deployment import OpenDatabase
from tests.simulation.run import run
from tests.simulation.teeth import GUARDS

SEEDS, TASK_SEEDS, GATE_SEEDS, GROUPS = 200, 100, 80, 4
BLOB_SEEDS, TOGETHER_SEEDS = 40, 20

# For each guard a seed that found, when it was written down, that the guard was missing.
KNOWN = {
    "max-register": 0,
    "sink-revision": 79,
    "wake-at": 548,
    "listing": 4,
    "reconciling": 17,
    "job-condition": 1,
    "task-name": 5,
    "blob-job-condition": 1,
    "blob-manifest-condition": 0,
    "blob-claim-merge": 1,
    "look-slot": 10,
}
# Should those have become other stories: more than were ever needed to find it.
ENOUGH_SEEDS = 2000


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_is_kept_whatever_happens(group: int) -> None:
    """A1-A8, C1-C9, D1, E1-E18, F1-F7, F13, G1-G11, H1-H12, I1: no seed breaks a promise."""
    broken = {}
    for seed in range(group, SEEDS, GROUPS):
        played = run(seed)
        if played.faults:
            broken[f"make simulate SEEDS=1 FROM={seed}"] = played.faults
    assert not broken


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_is_kept_by_tasks_too(group: int) -> None:
    """E1-E18, G1-G7, H1-H4, H11: also where jobs are given to tasks, and some are lost."""
    broken = {}
    for seed in range(group, TASK_SEEDS, GROUPS):
        played = run(seed, executor="tasks")
        if played.faults:
            broken[f"make simulate SEEDS=1 FROM={seed} EXECUTOR=tasks"] = played.faults
    assert not broken


@pytest.mark.parametrize("gate", ["verify", "poll"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_is_kept_by_the_other_gates(gate: str, group: int) -> None:
    """A1-A8, C1-C9, E1-E18, F1-F13, G1-G11, H1-H12: also where a listing tells what is whole."""
    broken = {}
    for seed in range(group, GATE_SEEDS, GROUPS):
        played = run(seed, gate=gate)
        if played.faults:
            broken[f"make simulate SEEDS=1 FROM={seed} GATE={gate}"] = played.faults
    assert not broken


def test_every_promise_is_kept_by_all_that_can_be_chosen_together() -> None:
    """The same over small objects, by looks, with jobs given to tasks.

    With 777045 among the seeds, where a look came between the two halves of a redrive.
    """
    broken = {}
    for seed in range(777_036, 777_036 + TOGETHER_SEEDS):
        played = run(seed, executor="tasks", gate="poll", open_database=Bucket)
        if played.faults:
            chosen = "EXECUTOR=tasks STATE=blobs GATE=poll"
            broken[f"make simulate SEEDS=1 FROM={seed} {chosen}"] = played.faults
    assert not broken


def test_every_promise_is_kept_without_a_database() -> None:
    """The same over small objects, where a process may die between any two of its writes."""
    broken = {}
    for seed in range(BLOB_SEEDS):
        played = run(seed, open_database=Bucket)
        if played.faults:
            broken[f"make simulate SEEDS=1 FROM={seed} STATE=blobs"] = played.faults
    assert not broken


@pytest.mark.parametrize("open_database", [Database, Bucket])
def test_the_same_seed_is_the_same_run(open_database: OpenDatabase) -> None:
    """A failing seed can be played again: two runs of it differ in nothing."""
    assert run(7, open_database=open_database) == run(7, open_database=open_database)


def test_runs_meet_what_they_are_made_for() -> None:
    """Among the first seeds all kinds of faults, expiries, redrives and sweeps are met."""
    told = "\n".join(line for seed in range(40) for line in run(seed).account)
    for event in (
        "KILLED before",
        "KILLED after",
        "refused after",
        "stalls 700 s",
        "cut off",
        "is to stop",
        "its event is lost",
        "expires manifests",
        "expires claims",
        "redriven",
        "'recorded'",
        "'jobs'",
        "'letters'",
    ):
        assert event in told, event


@pytest.mark.parametrize("guard", GUARDS)
def test_a_missing_guard_is_found(guard: str) -> None:
    """The simulation has teeth: without any one of the guards some seed breaks a promise."""
    opened: OpenDatabase = Bucket if guard.startswith("blob-") else Database
    seeds = chain([KNOWN[guard]], range(ENOUGH_SEEDS))
    assert any(run(seed, guard, opened).faults for seed in seeds)
