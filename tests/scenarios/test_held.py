"""Scenarios of held jobs: a fact from a person, said in the metadata of an object."""

from __future__ import annotations

from typing import Any

import pytest

from gate import wiring
from gate.errors import StorageBusyError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from gate.overrides import Overrides
from gate.policies import MissingCrs, Policies
from gate.sinks.memory import key
from tests.archives import archive, files
from tests.shapefiles import points, without
from tests.world import PARTS, Answer, Crash, World, expected, raising


def held_world(world: World, **metadata: str) -> ObjectFinalized:
    """Upload a bundle whose CRS nobody stated, see it held, and return its last event."""
    world.reader.demand = lambda overrides: bool(overrides.crs)
    *early, last = world.upload_bundle("in/roads")
    if metadata:
        world.describe("in/roads.shx", **metadata)
    for event in early:
        world.deliver(event)
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.HELD]
    return last


def test_an_override_revives_a_held_job(world: World) -> None:
    """Case 20: a fact set on any component, and the event again: the job is done, once."""
    last = held_world(world)
    world.describe("in/roads.shp", crs="EPSG:25832")
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.RESUMED
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 2, 1)]
    assert world.reader.told[-1] == Overrides(crs="EPSG:25832")
    assert world.rows("in/roads") == expected("first")
    assert len(world.sent.sent) == 1
    calls = len(world.faults.calls)
    assert world.deliver(last) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    assert world.faults.calls[calls:] == ["store.record", "store.read"]


def test_without_anything_new_a_job_stays_held(world: World) -> None:
    """Case 20: the event again and nothing new: nothing is downloaded, and no second letter."""
    last = held_world(world, crs="", owner="survey")
    world.describe("in/roads.dbf", owner="somebody else")
    before = world.jobs[0]
    calls = len(world.faults.calls)
    assert world.deliver(last) is Answer.ACK
    assert "source.fetch" not in world.faults.calls[calls:]
    after = world.jobs[0]
    assert (after.state, after.fence) == (State.HELD, before.fence + 1)
    assert after.history == before.history
    assert after.summary == {"overrides": {}}
    assert len(world.sent.sent) == 1
    assert len(world.reader.opened) == 1


def test_an_override_that_does_not_help_is_told_once(world: World) -> None:
    """Case 20: a new fact that is no cure holds the job again, with a letter of its own."""
    last = held_world(world)
    world.describe("in/roads.shp", encoding="cp1252")
    for _ in range(2):
        assert world.deliver(last) is Answer.ACK
    assert world.states == [State.HELD]
    assert world.jobs[0].summary == {"overrides": {"in/roads.shp": {"encoding": "cp1252"}}}
    assert [letter.dedupe_id[-2:] for letter in world.sent.sent] == ["-1", "-2"]
    assert len(world.reader.opened) == 2


def test_a_newer_upload_with_metadata_is_a_revision_of_its_own(world: World) -> None:
    """Case 20: the other way out: upload again with the fact, and the held job stays as it is."""
    held_world(world)
    said = {"crs": "EPSG:1111"}
    events = [world.upload(f"in/roads{part}", b"-\n-\n-", said) for part in PARTS]
    world.settle(*events)
    assert world.states == [State.HELD, State.DONE]


def test_an_event_of_another_component_leaves_a_held_job_alone(world: World) -> None:
    """Case 20: the event that dispatched the job looks again, the others need not."""
    world.reader.demand = lambda overrides: False
    first, *rest = world.upload_bundle("in/roads")
    world.settle(first, *rest)
    calls = len(world.faults.calls)
    assert world.deliver(first) is Answer.ACK
    assert world.faults.calls[calls:] == ["store.record", "store.read"]


def test_a_newer_revision_goes_before_a_held_one(world: World) -> None:
    """Case 20: a held job that is looked at again after a newer dispatch is superseded."""
    last = held_world(world)
    world.reader.demand = None
    world.settle(*world.upload_bundle("in/roads", "second"))
    world.describe("in/roads.shp", crs="EPSG:25832")
    world.settle(last)
    assert world.states == [State.SUPERSEDED, State.DONE]
    assert world.rows("in/roads") == expected("second")


def test_an_object_that_was_replaced_meanwhile_supersedes_a_held_job(world: World) -> None:
    """Case 42: a pinned generation that has gone is noticed before the metadata is compared."""
    last = held_world(world)
    newer = world.upload("in/roads.dbf", b"-\n-\n-")
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.SUPERSEDED]
    assert world.manifest("in/roads").components["in/roads.dbf"] == newer.generation


def test_a_worker_that_dies_while_it_looks_again_is_replaced(world: World) -> None:
    """E5: a crash between the revival and its end leaves a job that its event finishes."""
    last = held_world(world)
    world.faults.before("source.stat", raising(Crash()))
    assert world.deliver(last) is Answer.NACK
    assert world.states == [State.RUNNING]
    assert world.deliver(last) is Answer.QUIET_NACK
    world.clock.advance(61)
    world.describe("in/roads.shp", crs="EPSG:25832")
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.fence, job.attempts) for job in world.jobs] == [(State.DONE, 3, 2)]


def test_a_revived_job_has_all_its_attempts(world: World) -> None:
    """Case 20: faults that pass are tried as often after a revival as before."""
    last = held_world(world)
    world.describe("in/roads.shp", crs="EPSG:25832")
    for attempt in range(1, 5):
        world.faults.before("source.fetch", raising(StorageBusyError("503")))
        assert world.deliver(last) is Answer.QUIET_NACK
        assert (world.jobs[0].state, world.jobs[0].attempts) == (State.FAILED, attempt)
        world.clock.advance(600)
    assert world.deliver(last) is Answer.ACK
    assert world.states == [State.DONE]


def test_a_letter_that_was_not_sent_is_sent_when_the_job_is_looked_at(world: World) -> None:
    """Case 20, G5: a held job's letter that could not be sent is sent by the sweep."""
    world.reader.demand = lambda overrides: bool(overrides.crs)
    world.faults.before("letters.send", raising(StorageBusyError("503")))
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    assert world.deliver(last) is Answer.ACK
    assert not world.jobs[0].notified
    world.settle()
    assert world.jobs[0].notified
    assert world.states == [State.HELD]
    assert [letter.code for letter in world.sent.sent] == ["missing_crs"]


def test_a_contradiction_between_components_holds_the_job(world: World) -> None:
    """Case 3: two components that contradict each other are both named, and can be corrected."""
    *early, last = world.upload_bundle("in/roads")
    world.describe("in/roads.shp", encoding="cp1252")
    world.describe("in/roads.dbf", encoding="utf-8")
    world.settle(*early, last)
    assert world.states == [State.HELD]
    (letter,) = world.sent.sent
    assert letter.code == "conflicting_overrides"
    assert "in/roads.shp" in letter.body["message"]
    assert "in/roads.dbf" in letter.body["message"]
    assert not world.reader.opened
    world.describe("in/roads.shp", encoding="UTF-8")
    world.describe("in/roads.dbf")
    world.settle(last)
    assert world.states == [State.DONE]
    assert world.reader.told == [Overrides(encoding="UTF-8")]


def upload(
    world: World, base: str, bundle: dict[str, bytes], **metadata: str
) -> list[ObjectFinalized]:
    """Upload a bundle made in code; the metadata stands on its .shp."""
    return [
        world.upload(f"{base}{extension}", content, metadata if extension == ".shp" else None)
        for extension, content in bundle.items()
    ]


HOLD = Policies(missing_crs=MissingCrs.HOLD)


def reported(world: World, base: str) -> dict[str, Any]:
    """Return the report beside a dataset."""
    return dict(world.sink.datasets[base].report)


def test_case_20_a_layer_without_a_prj_is_held_until_its_crs_is_stated() -> None:
    """Case 20: held with what to do; with crs=EPSG:n both squares of the case load."""
    for where in ((10, 50), (500000, 5500000)):
        world = World(open_layer=wiring.opener(HOLD))
        bundle = without(points(2), ".prj")
        events = upload(world, "in/roads", bundle)
        world.settle(*events)
        assert world.states == [State.HELD], where
        (letter,) = world.sent.sent
        assert letter.code == "missing_crs"
        assert "crs=EPSG:NUMBER" in letter.body["message"]
        world.describe("in/roads.shp", crs="EPSG:25832")
        world.settle(*events)
        assert world.states == [State.DONE]
        report = reported(world, "in/roads")
        assert (report["crs"]["name"], report["crs"]["source"]) == ("EPSG:25832", "override")
        assert report["overrides"] == {"crs": "EPSG:25832"}
        assert report["pins"][".shp"]["metadata"] == {"crs": "EPSG:25832"}


def test_case_3_overrides_are_recorded_with_the_report() -> None:
    """Case 3: the encoding and the layer's name come from the metadata, and the report says so."""
    world = World(open_layer=wiring.opener())
    world.settle(*upload(world, "in/roads", points(2), encoding="cp1252", layer="Straßen"))
    report = reported(world, "in/roads")
    assert report["layer"] == "Straßen"
    assert report["encoding"] == {"name": "cp1252", "source": "override"}
    assert report["overrides"] == {"encoding": "cp1252", "layer": "Straßen"}


@pytest.mark.parametrize(
    ("key", "value"), [("encoding", "klingon"), ("crs", "EPSG:999999"), ("crs", "wgs84")]
)
def test_case_3_an_unknown_override_is_held_with_its_cure(key: str, value: str) -> None:
    """Case 3: a fact that does not exist holds the job; the correction revives it."""
    world = World(open_layer=wiring.opener())
    events = upload(world, "in/roads", points(2), **{key: value})
    world.settle(*events)
    assert world.states == [State.HELD]
    (letter,) = world.sent.sent
    assert letter.code == "unknown_override"
    assert value in letter.body["message"]
    world.describe("in/roads.shp")
    world.settle(*events)
    assert world.states == [State.DONE]


def test_case_33_one_layer_of_an_archive_is_chosen_by_metadata() -> None:
    """Case 33: with layer=b only that layer is loaded, by whatever part of its name is enough."""
    for wanted in ("data/b", "B", "b"):
        world = World(open_layer=wiring.opener())
        content = archive(files("data/a", points(1)), files("data/B", points(2)))
        world.settle(world.upload("in/x.zip", content, {"layer": wanted}))
        assert world.states == [State.DONE]
        assert list(world.sink.datasets) == [key("in/x.zip", "data/b")]
        assert world.jobs[0].summary["layers"] == {"found": 1, "done": 1, "failed": 0}


@pytest.mark.parametrize(("wanted", "what"), [("c", "no layer"), ("a", "2 layers")])
def test_case_33_a_choice_that_is_none_names_the_layers(wanted: str, what: str) -> None:
    """Case 33: a layer that is not there, or that two have the name of, holds the archive."""
    world = World(open_layer=wiring.opener())
    content = archive(files("x/a", points(1)), files("y/a", points(2)))
    event = world.upload("in/x.zip", content, {"layer": wanted})
    world.settle(event)
    assert world.states == [State.HELD]
    (letter,) = world.sent.sent
    assert letter.code == "unknown_override"
    assert f"{what} of x/a, y/a" in letter.body["message"]
    world.describe("in/x.zip", layer="y/a")
    world.settle(event)
    assert world.states == [State.DONE]
    assert world.sink.datasets[key("in/x.zip", "y/a")].rows == 2


def test_case_20_an_archive_without_any_crs_is_held_and_revived() -> None:
    """Case 20: the layers of a held archive are all read again with the stated CRS."""
    world = World(open_layer=wiring.opener(HOLD))
    bundle = without(points(2), ".prj")
    event = world.upload("in/x.zip", archive(files("a", bundle), files("b", bundle)))
    world.settle(event, event)
    assert world.states == [State.HELD]
    assert len(world.sent.sent) == 1
    world.describe("in/x.zip", crs="EPSG:25832")
    world.settle(event)
    assert world.states == [State.DONE]
    assert {each.report["crs"]["source"] for each in world.sink.datasets.values()} == {"override"}
