"""The deterministic simulation, as many seeds as a test run can wait for.

`make simulate` plays ten thousand, and a single one in full.
"""

from __future__ import annotations

import pytest

from tests.simulation.run import run
from tests.simulation.teeth import GUARDS

SEEDS, GROUPS = 200, 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_is_kept_whatever_happens(group: int) -> None:
    """A1-A7, C1-C9, E1-E18, F1-F7, H7: no seed breaks a promise of the protocol."""
    broken = {}
    for seed in range(group, SEEDS, GROUPS):
        played = run(seed)
        if played.faults:
            broken[f"make simulate SEEDS=1 FROM={seed}"] = played.faults
    assert not broken


def test_the_same_seed_is_the_same_run() -> None:
    """A failing seed can be played again: two runs of it differ in nothing."""
    assert run(7) == run(7)


def test_runs_meet_what_they_are_made_for() -> None:
    """Among the first seeds there are kills, refusals, stalls, cut networks and take-overs."""
    told = "\n".join(line for seed in range(40) for line in run(seed).account)
    for event in ("KILLED before", "KILLED after", "refused after", "stalls 700 s", "cut off"):
        assert event in told


# Measured: how many seeds it took to find that a guard was missing, times four.
ENOUGH_SEEDS = {"max-register": 20, "sink-revision": 500, "job-condition": 100}


@pytest.mark.parametrize("guard", GUARDS)
def test_a_missing_guard_is_found(guard: str) -> None:
    """The simulation has teeth: without any one of the guards some seed breaks a promise."""
    assert any(run(seed, guard).faults for seed in range(ENOUGH_SEEDS[guard]))
