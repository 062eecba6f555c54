"""Workers whose clocks are wrong by ten minutes, under the clock of Firestore."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gate.intake import Outcome
from tests.contract.stores import FirestoreBench
from tests.emulator.deliveries import finalized, intake_over

SHP, SHX, DBF = "in/roads.shp", "in/roads.shx", "in/roads.dbf"
SKEWS = [timedelta(minutes=-10), timedelta(minutes=10)]


@pytest.mark.parametrize("holder", SKEWS)
@pytest.mark.parametrize("taker", SKEWS)
@pytest.mark.parametrize(
    ("lease", "outcome"),
    [(timedelta(minutes=5), Outcome.IN_PROGRESS), (timedelta(0), Outcome.RESUMED)],
)
def test_a_skewed_clock_neither_steals_a_lease_nor_keeps_one(
    bench: FirestoreBench, holder: timedelta, taker: timedelta, lease: timedelta, outcome: Outcome
) -> None:
    """E11: a lease lives, and ends, by the time at which Firestore reads the job."""
    last = finalized(SHP)
    bench.clock.forward(holder)
    for event in (finalized(SHX), finalized(DBF), last):
        receipt = intake_over(bench.store, lease=lease)(event)
    assert receipt.outcome is Outcome.DISPATCHED
    bench.clock.forward(taker - holder)
    assert intake_over(bench.store)(last).outcome is outcome
