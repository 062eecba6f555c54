"""Rows that are not loaded, all the way to the job, the report and the list beside it."""

from __future__ import annotations

import json

from gate import wiring
from gate.job import State
from gate.policies import Policies, RowPolicy
from gate.store.documents import job_fields
from tests.shapefiles import Bundle, layer, null, point
from tests.world import World

REJECT = Policies(null_geometry=RowPolicy.REJECT)


def ended(bundle: Bundle, policies: Policies = REJECT) -> World:
    """Return a world in which the bundle has been ingested, well or badly."""
    world = World(open_layer=wiring.opener(policies))
    world.settle(*(world.upload(f"in/roads{part}", content) for part, content in bundle.items()))
    return world


def test_case_51_fifty_thousand_rejects_make_no_large_job() -> None:
    """Case 51: the job stays far below 1 MiB, the report has examples, the list every row."""
    world = ended(layer([point(1, 1), *[null()] * 50_000]))
    assert world.states == [State.DONE]
    dataset = world.sink.datasets["in/roads"]
    assert [line["row"] for line in dataset.rejects] == list(range(2, 50_002))
    assert dataset.rejects[0] == {"row": 2, "reason": "null_geometry", "text": "Null"}
    (problem,) = dataset.report["rejects"]
    assert (problem["count"], len(problem["examples"])) == (50_000, 20)
    assert len(json.dumps(job_fields(world.jobs[0]), default=str)) < 10_000
    assert world.jobs[0].summary["rows"]["rejected"] == 50_000


def test_case_59_a_layer_of_rejected_rows_is_dead() -> None:
    """Case 59: five rows and all rejected: dead with its reason, and nothing is published."""
    world = ended(layer([null()] * 5, kind=1))
    assert world.states == [State.DEAD]
    assert not world.sink.datasets
    (letter,) = world.sent.sent
    assert letter.code == "rows_rejected"
    assert "all 5 rows were rejected: null_geometry" in letter.body["message"]
