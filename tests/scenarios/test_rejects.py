"""Rows that are not loaded, all the way to the job, the report and the list beside it."""

from __future__ import annotations

import json

import pytest

from gate import wiring
from gate.job import State
from gate.policies import Policies, RowPolicy
from gate.store.documents import job_fields
from tests.archives import archive, files
from tests.shapefiles import Bundle, Field, column, cut, layer, null, point, points, without
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


@pytest.mark.parametrize("packed", [False, True])
def test_cells_that_became_null_are_counted_in_job_and_log(
    packed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 51: whoever looks at the job or its last log line alone sees what was altered."""
    bundle = column(Field("D", "D", 8), b"20201399", b"abcdefgh", None)
    if packed:
        world = World(open_layer=wiring.opener(REJECT))
        world.settle(world.upload("in/some.zip", archive(files("one", bundle))))
    else:
        world = ended(bundle)
    assert world.states == [State.DONE]
    counts = world.jobs[0].summary["values"]
    assert sum(counts.values()) == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (last,) = [line for line in lines if line["message"] == "ingestion ended"]
    assert last["values"] == counts


def test_an_error_names_the_object_that_exists() -> None:
    """Case 27: a bundle's name is folded, its objects' names are as they were uploaded."""
    world = World(open_layer=wiring.opener(REJECT))
    bundle = cut(points(3), ".shx", 110)
    names = {".shp": "CASE.SHP", ".shx": "Case.ShX", ".dbf": "case.dbf", ".prj": "CASE.prj"}
    world.settle(*(world.upload(f"in/{names[part]}", bundle[part]) for part in names))
    assert set(world.states) == {State.DEAD}
    said = [letter.body["message"] for letter in world.sent.sent]
    assert said
    assert all(message.startswith("in/Case.ShX: ") for message in said)


def test_an_error_in_an_archive_names_archive_and_file_as_they_are_spelled() -> None:
    """Case 27: so does an error of one layer of an archive, and one of the archive."""
    world = World(open_layer=wiring.opener(REJECT))
    torn = files("Sub/ROADS", cut(points(3), ".shx", 110))
    world.settle(world.upload("in/SOME.Zip", archive(torn)))
    lacking = files("Sub/ROADS", without(points(3), ".dbf"))
    world.settle(world.upload("in/Other.ZIP", archive(lacking)), world.upload("in/NO.zip", b"none"))
    said = [letter.body["message"] for letter in world.sent.sent]
    assert said[0].startswith("in/SOME.Zip/Sub/ROADS.shx: ")
    assert said[1].startswith("in/Other.ZIP/Sub/ROADS.dbf: ")
    assert said[2].startswith("in/NO.zip: ")
