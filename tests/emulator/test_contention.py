"""Deliveries that arrive at once, on a database that locks."""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest

from gate.events import ObjectFinalized
from gate.intake import Intake, Outcome, Receipt
from tests.contract.stores import GENERATION, FirestoreBench
from tests.emulator.deliveries import finalized, intake_over
from tests.emulator.firestore import connected

FIVE = tuple(f"in/roads{extension}" for extension in (".shp", ".shx", ".dbf", ".prj", ".cpg"))
EIGHT = (*FIVE, "in/roads.qix", "in/roads.sbn", "in/roads.sbx")
THREADS = 20
FUNCTION_TIMEOUT_SECONDS = 60


@pytest.fixture
def bench(firestore_address: str) -> FirestoreBench:
    """Return a store that really pauses between its rounds."""
    bench = FirestoreBench(connected(firestore_address), jitter=random.Random(7).random())
    bench.while_paused = time.sleep
    return bench


def delivered(intake: Intake, events: list[ObjectFinalized]) -> list[tuple[Receipt, float]]:
    """Deliver the events at once; return each receipt with the seconds it took."""

    def deliver(event: ObjectFinalized) -> tuple[Receipt, float]:
        begun = time.monotonic()
        return intake(event), time.monotonic() - begun

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(deliver, events))


def test_twenty_identical_deliveries_of_a_waiting_event(bench: FirestoreBench) -> None:
    """Scenario A2, case 48: one is told to wait, nineteen are duplicates, and none fails."""
    receipts = delivered(intake_over(bench.store), [finalized(FIVE[0])] * 20)
    outcomes = Counter(receipt.outcome for receipt, _ in receipts)
    assert outcomes == {Outcome.WAITING: 1, Outcome.DUPLICATE: 19}


def test_twenty_identical_deliveries_of_a_completing_event(bench: FirestoreBench) -> None:
    """Scenario A2: one delivery gets the job, and the others find it taken."""
    intake = intake_over(bench.store)
    for name in FIVE[:2]:
        intake(finalized(name))
    receipts = delivered(intake, [finalized(FIVE[2])] * 20)
    outcomes = Counter(receipt.outcome for receipt, _ in receipts)
    assert outcomes[Outcome.DISPATCHED] == 1
    assert set(outcomes) <= {
        Outcome.DISPATCHED,
        Outcome.DUPLICATE,
        Outcome.INCLUDED,
        Outcome.IN_PROGRESS,
    }
    assert sum(receipt.work is not None for receipt, _ in receipts) == 1
    assert len(bench.jobs()) == 1


def test_a_hot_bundle_takes_every_event(bench: FirestoreBench) -> None:
    """Scenario F10: eight components, fifty deliveries of each: all land, and one job runs."""
    intake = intake_over(bench.store, dict.fromkeys(EIGHT, GENERATION))
    events = [finalized(name) for name in EIGHT for _ in range(50)]
    random.Random(10).shuffle(events)
    receipts = delivered(intake, events)
    assert len(receipts) == 400
    assert sum(receipt.work is not None for receipt, _ in receipts) == 1
    assert max(seconds for _, seconds in receipts) < FUNCTION_TIMEOUT_SECONDS
    (job,) = bench.jobs().values()
    assert len(job["pins"]) == 8
    claim = receipts[0][0].claim
    assert claim is not None
    manifest = bench.manifest_document(claim.component.bundle)
    assert manifest["components"] == dict.fromkeys(EIGHT, GENERATION)


@pytest.mark.parametrize("order", random.Random(5).sample(list(permutations(FIVE)), 8))
def test_any_order_of_arrival_gives_one_manifest_and_one_job(
    bench: FirestoreBench, order: tuple[str, ...]
) -> None:
    """Scenario C1: a sample of the 120 orders in which five components can arrive."""
    live = {name: GENERATION + place for place, name in enumerate(FIVE)}
    intake = intake_over(bench.store, live)
    receipts = [intake(finalized(name, live[name])) for name in order]
    assert sum(receipt.work is not None for receipt in receipts) == 1
    (job,) = bench.jobs().values()
    assert {pin["name"]: pin["generation"] for pin in job["pins"].values()} == live
    claim = receipts[0].claim
    assert claim is not None
    manifest = bench.manifest_document(claim.component.bundle)
    assert manifest["components"] == live
    assert sorted(manifest["seen"]) == [".cpg", ".dbf", ".prj", ".shp", ".shx"]
    assert manifest["dispatched"] == {name.removeprefix("in/roads"): live[name] for name in FIVE}
