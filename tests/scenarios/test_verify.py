"""`GATE=verify`: the event of the `.shp` lists the bucket, and what waits is stored nowhere.

A1-A8, B6, C1-C9, H5, H6 and F13, as this gate meets them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gate import listing
from gate.errors import ConfigurationError, PermissionDeniedError, StorageBusyError, StoreBusyError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from gate.names import Component
from tests.scenarios.gates import ENVIRONMENTS
from tests.world import (
    ALL_PARTS,
    BUCKET,
    PARTS,
    Answer,
    Crash,
    World,
    expected,
    raising,
    text,
)

HOUR = 3600
MAX_AGE = 72_000


@pytest.fixture
def world() -> World:
    """Return a deployment with this gate, whose sweep has gone through an empty bucket."""
    world = World(**ENVIRONMENTS["verify"])
    world.swept()
    world.faults.calls.clear()
    return world


def passed(world: World) -> None:
    """Let an hour pass, then sweep until a pass over the bucket has led to all it could."""
    world.clock.advance(HOUR)
    for _ in range(3):
        world.swept()
        world.clock.advance(31)
    world.settle()


def test_the_shp_waits_for_the_rest_and_stores_nothing(world: World) -> None:
    """A13, C1: while something is missing the event is sent back quietly, by one listing or two."""
    shape = world.upload("in/roads.shp", text(".shp", "first"))
    assert world.deliver(shape) is Answer.QUIET_NACK
    assert world.outcomes == [Outcome.LACKING]
    assert world.deliveries[0].receipt
    assert world.deliveries[0].receipt.detail == "needs .shx .dbf"
    assert world.faults.calls == ["source.siblings"] * 2
    assert world.documents == 0


def test_other_files_are_left_to_the_shp(world: World) -> None:
    """C1: the event of any other component is acknowledged without a call."""
    for part in (".shx", ".dbf", ".prj", ".shp.xml"):
        assert world.deliver(world.upload(f"in/roads{part}")) is Answer.ACK
    assert set(world.outcomes) == {Outcome.IGNORED}
    assert world.faults.calls == []


@pytest.mark.parametrize("late", [".shx", ".dbf"])
def test_the_redelivery_finds_what_came_after(world: World, late: str) -> None:
    """C1: a bundle that becomes whole is dispatched by the next delivery, with its sidecars."""
    early = [part for part in (".shp", ".shx", ".dbf", ".prj") if part != late]
    shape = world.upload_bundle("in/roads", parts=tuple(early))[0]
    assert world.deliver(shape) is Answer.QUIET_NACK
    world.upload(f"in/roads{late}", text(late, "first"))
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes == [Outcome.LACKING, Outcome.DISPATCHED]
    assert world.rows("in/roads") == expected("first", crs="first")
    assert len(world.effects) == 1


def test_a_whole_bundle_costs_one_listing(world: World) -> None:
    """C1: the event that dispatches lists once, records, reads, dispatches, and is a duplicate."""
    [shape] = [one for one in world.upload_bundle("in/roads") if one.name.endswith(".shp")]
    world.deliver(shape)
    before = world.faults.calls.index("store.dispatch")
    assert world.faults.calls[:before] == ["source.siblings", "store.record", "store.read"]
    known = world.manifest("in/roads")
    assert known.dispatched.keys() == set(PARTS)
    assert set(known.components) == {f"in/roads{part}" for part in PARTS}
    world.faults.calls.clear()
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    assert world.faults.calls == ["source.siblings", "store.record", "store.read"]


def test_what_a_pass_has_recorded_costs_no_second_listing(world: World) -> None:
    """C1, H6: where a listing shows nothing new, it is not asked again for sidecars."""
    events = world.upload_bundle("in/roads")
    for event in events:
        component = world.intake.admitted(event)
        assert isinstance(component, Component)
        world.intake.note(component, event.generation)
    world.faults.calls.clear()
    world.deliver(next(event for event in events if event.name.endswith(".shp")))
    before = world.faults.calls.index("store.dispatch")
    assert world.faults.calls[:before].count("source.siblings") == 1


def test_an_event_of_an_older_generation_takes_what_is_live(world: World) -> None:
    """C2, C3: a late event of a replaced .shp dispatches the live objects, and theirs adds nothing.

    The set that is pinned is that of the listing.
    """
    older = world.upload("in/roads.shp", text(".shp", "older"))
    newer = world.upload_bundle("in/roads")[-1]
    assert world.deliver(older) is Answer.ACK
    assert world.outcomes == [Outcome.DISPATCHED]
    assert world.jobs[0].revision.generations[".shp"] == newer.generation
    assert world.deliver(newer) is Answer.ACK
    assert world.outcomes[-1] is Outcome.INCLUDED
    assert world.deliver(older) is Answer.ACK
    assert len(world.effects) == 1
    assert world.rows("in/roads") == expected("first")


def test_a_stale_event_of_a_dispatched_bundle_is_stale(world: World) -> None:
    """C2: an older generation that comes after the newer was dispatched changes nothing."""
    older = world.upload("in/roads.shp", text(".shp", "older"))
    world.settle(*world.upload_bundle("in/roads"))
    assert world.deliver(older) is Answer.ACK
    assert world.outcomes[-1] is Outcome.STALE
    assert len(world.jobs) == 1


def test_a_full_re_upload_is_dispatched_at_once(world: World) -> None:
    """C6: when the listing shows every required file newer, the event dispatches."""
    world.settle(*world.upload_bundle("in/roads"))
    world.clock.advance(HOUR)
    shape = world.upload_bundle("in/roads", "second")[-1]
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DISPATCHED
    assert world.rows("in/roads") == expected("second")


def test_a_re_upload_that_has_begun_rests_first(world: World) -> None:
    """C7: a new .shp beside the old .dbf is not dispatched; the sweep takes all new files."""
    world.settle(*world.upload_bundle("in/roads"))
    world.clock.advance(HOUR)
    shape = world.upload("in/roads.shp", text(".shp", "second"))
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes[-1] is Outcome.SETTLING
    for part in (".shx", ".dbf"):
        world.deliver(world.upload(f"in/roads{part}", text(part, "second")))
    world.settle()
    assert world.states == [State.DONE, State.DONE]
    assert world.rows("in/roads") == expected("second")
    first, second = (set(one.generations.values()) for one in world.effects)
    assert first.isdisjoint(second)


def test_what_the_listing_shows_of_a_torn_bundle_is_recorded(world: World) -> None:
    """C7: the .dbf that is newer too rests with the .shp, and is not looked for a second time."""
    world.settle(*world.upload_bundle("in/roads"))
    world.clock.advance(HOUR)
    table = world.upload("in/roads.dbf", text(".dbf", "second"))
    shape = world.upload("in/roads.shp", text(".shp", "second"))
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes[-1] is Outcome.SETTLING
    assert world.manifest("in/roads").components["in/roads.dbf"] == table.generation
    world.clock.advance(30)
    assert world.sweep().jobs == 1
    assert world.rows("in/roads") == expected("second")


def test_a_duplicate_while_a_bundle_settles_finds_its_newer_files(world: World) -> None:
    """C7: an event recorded before still records what the listing shows beside it."""
    first = world.upload_bundle("in/roads")
    world.settle(*first)
    world.clock.advance(HOUR)
    table = world.upload("in/roads.dbf", text(".dbf", "second"))
    assert world.deliver(first[-1]) is Answer.ACK
    assert world.outcomes[-1] is Outcome.SETTLING
    assert world.manifest("in/roads").components["in/roads.dbf"] == table.generation
    assert world.deliver(first[-1]) is Answer.ACK
    assert world.outcomes[-1] is Outcome.DUPLICATE
    world.settle()
    assert world.rows("in/roads") == expected("first", records="second")


def test_a_sidecar_soon_after_is_seen_by_the_look(world: World) -> None:
    """C9: what comes while the uploads rest is found by the sweep's look at the manifest."""
    world.deliver(world.upload_bundle("in/roads")[-1])
    world.deliver(world.upload("in/roads.prj", text(".prj", "first")))
    world.clock.advance(31)
    world.swept()
    world.settle()
    assert world.rows("in/roads") == expected("first", crs="first")


@pytest.mark.parametrize("part", [".prj", ".dbf"])
def test_a_late_sidecar_and_a_replaced_table_are_seen_by_the_pass(world: World, part: str) -> None:
    """C8, C9, H6: what this gate cannot see is taken in by the next pass over the bucket."""
    world.settle(*world.upload_bundle("in/roads"))
    passed(world)
    world.deliver(world.upload(f"in/roads{part}", text(part, "second")))
    assert world.outcomes[-1] is Outcome.IGNORED
    passed(world)
    crs, records = ("second", "") if part == ".prj" else (None, "second")
    assert world.rows("in/roads") == expected("first", crs=crs, records=records)
    assert world.states == [State.DONE, State.DONE]


def test_a_bundle_whose_shp_event_was_lost_is_found_by_the_pass(world: World) -> None:
    """F13, H6: without the one event that leads, the pass over the bucket loads the bundle."""
    world.upload_bundle("in/roads", parts=ALL_PARTS)
    passed(world)
    assert world.rows("in/roads") == expected("first", crs="first")


def test_every_spelling_of_a_stem_is_found(world: World) -> None:
    """B6, case 35: companions in another case are found by a wider listing."""
    shape = world.upload("in/Roads.SHP", text(".shp", "first"))
    world.upload("in/ROADS.DBF", text(".dbf", "first"))
    world.upload("in/roads.shx")
    world.upload("in/rivers.shx")
    world.upload("in/rOADS.prj", text(".prj", "first"))
    assert world.deliver(shape) is Answer.ACK
    assert world.rows("in/roads") == expected("first", crs="first")


def test_a_wider_listing_begins_with_what_no_spelling_changes(world: World) -> None:
    """B6: digits and signs before the first letter narrow the wider listing down."""
    asked: list[str] = []
    world.source.before = lambda operation, name: asked.append(f"{operation} {name}")
    assert world.deliver(world.upload("in/2024-Roads.shp")) is Answer.QUIET_NACK
    assert asked == ["siblings in/2024-Roads.", "siblings in/2024-"]


def test_a_listing_has_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """H11: of a folder of very many objects no more are looked at than the limit says."""
    monkeypatch.setattr(listing, "MOST_SIBLINGS", 3)
    for number in range(3):
        world.upload(f"in/a{number}.shp")
    shape = world.upload("in/b.shp")
    for part in (".shx", ".dbf"):
        world.upload(f"in/B{part}")
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes == [Outcome.WITHDRAWN]


def test_neighbours_complete_nothing(world: World) -> None:
    """B7: what merely begins like the bundle, or is a decoy, is not counted."""
    shape = world.upload("in/roads.shp")
    for name in ("in/roads.2.shx", "in/roads2.dbf", "in/._roads.shx", "in/x/roads.dbf"):
        world.upload(name)
    assert world.deliver(shape) is Answer.QUIET_NACK


def test_an_archive_is_dispatched_by_its_event(world: World) -> None:
    """C1: an archive is whole as it is, and is not listed."""
    world.deliver(world.upload("in/roads.zip"))
    assert world.outcomes == [Outcome.DISPATCHED]
    assert "source.siblings" not in world.faults.calls


def test_a_shp_that_was_taken_back_is_acknowledged(world: World) -> None:
    """H5: an event whose .shp is gone need not come again, and no letter is sent."""
    shape = world.upload("in/roads.shp")
    world.upload("in/roads.dbf")
    world.source.delete(BUCKET, "in/roads.shp")
    world.clock.advance(MAX_AGE)
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes == [Outcome.WITHDRAWN]
    assert world.sent.sent == []
    assert world.documents == 0


def test_a_bundle_that_never_becomes_whole_is_a_dead_letter(world: World) -> None:
    """H5: beyond the age the event is acknowledged, and the letter names what never came."""
    shape = world.upload("in/roads.shp")
    world.upload("in/roads.shx")
    world.clock.advance(MAX_AGE - 1)
    assert world.deliver(shape) is Answer.QUIET_NACK
    world.clock.advance(1)
    assert world.deliver(shape) is Answer.ACK
    assert world.outcomes[-1] is Outcome.INCOMPLETE
    [letter] = world.sent.sent
    assert letter.code == "incomplete"
    assert letter.body["cause"] == (
        "gs://uploads/in/roads: .dbf was never uploaded; .shp .shx is there"
    )
    assert letter.body["pins"][".shp"]["generation"] == str(shape.generation)
    assert world.documents == 0


def test_age_never_keeps_a_whole_bundle_out(world: World) -> None:
    """A8: however late the event, what is whole is dispatched."""
    shape = world.upload_bundle("in/roads")[-1]
    world.clock.advance(30 * 86_400)
    assert world.deliver(shape) is Answer.ACK
    assert world.rows("in/roads") == expected("first")
    assert world.sent.sent == []


def test_the_letter_of_the_sweep_is_the_same(world: World) -> None:
    """G5, H5: event and sweep give a bundle up by letters of one id, so it counts once."""
    shape = world.upload("in/roads.shp")
    world.upload("in/roads.shx")
    world.clock.advance(HOUR)
    for _ in range(30):
        world.swept()
        world.clock.advance(HOUR)
    world.deliver(shape)
    world.deliver(shape)
    assert len(world.sent.sent) == 3
    assert len({letter.dedupe_id for letter in world.sent.sent}) == 1
    assert {letter.code for letter in world.sent.sent} == {"incomplete"}


def test_what_was_given_up_is_loaded_when_it_becomes_whole(world: World) -> None:
    """H6: the missing file comes after the letter: the pass over the bucket loads the bundle."""
    shape, _ = world.upload_bundle("in/roads", parts=(".shp", ".shx"))
    world.clock.advance(MAX_AGE)
    world.deliver(shape)
    world.deliver(world.upload("in/roads.dbf", text(".dbf", "first")))
    passed(world)
    assert world.rows("in/roads") == expected("first")


def test_a_letter_that_cannot_be_sent_brings_the_event_back(world: World) -> None:
    """G5: the event is acknowledged only once the letter is with its topic."""
    shape = world.upload("in/roads.shp")
    world.clock.advance(MAX_AGE)
    world.faults.before("letters.send", raising(StoreBusyError("no answer")))
    assert world.deliver(shape) is Answer.QUIET_NACK
    assert world.deliver(shape) is Answer.ACK
    assert len(world.sent.sent) == 1


def test_an_event_without_a_time_is_left_to_the_sweep(world: World) -> None:
    """H5: who does not say when the upload was is sent back as long as it comes."""
    shape = replace(world.upload("in/roads.shp"), occurred_at=None)
    world.clock.advance(10 * MAX_AGE)
    assert world.deliver(shape) is Answer.QUIET_NACK
    assert world.sent.sent == []


def test_a_listing_that_passes_by_itself_is_tried_again(world: World) -> None:
    """D6: a bucket that does not answer is a quiet nack, one that may not be listed is told."""
    shape = world.upload_bundle("in/roads")[-1]
    world.faults.before("source.siblings", raising(StorageBusyError("503")))
    assert world.deliver(shape) is Answer.QUIET_NACK
    world.faults.before("source.siblings", raising(PermissionDeniedError("403", where="gs://u")))
    with pytest.raises(ConfigurationError, match="account list the bucket"):
        world.entrance(shape)
    assert world.deliver(shape) is Answer.ACK
    assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize("call", ["source.siblings", "store.record", "store.dispatch"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_is_finished_by_the_redelivery(world: World, call: str, moment: str) -> None:
    """A6, A7: killed at any call of the gate, the same event dispatches once it comes again."""
    shape = world.upload_bundle("in/roads")[-1]
    getattr(world.faults, moment)(call, raising(Crash()))
    assert world.deliver(shape) is Answer.NACK
    world.redeliver(shape)
    assert world.rows("in/roads") == expected("first")
    assert len(world.effects) == len(world.jobs) == 1


def test_two_events_at_once_make_one_job(world: World) -> None:
    """A2, C1: an event that meets its duplicate, or an older one, at its dispatch makes one job."""
    older = world.upload("in/roads.shp", text(".shp", "older"))
    shape = world.upload_bundle("in/roads")[-1]

    def meanwhile() -> None:
        for event in (shape, older):
            world.deliver(event)

    world.faults.before("store.dispatch", meanwhile)
    assert world.deliver(shape) is Answer.ACK
    world.settle(shape, older)
    assert len(world.jobs) == len(world.effects) == 1


def test_a_foreign_event_is_ignored(world: World) -> None:
    """B7: what is no component of ours is ignored without a call, as by any gate."""
    world.deliver(world.upload("in/readme.txt"))
    world.deliver(ObjectFinalized("another", "in/roads.shp", 7, "event"))
    assert world.outcomes == [Outcome.IGNORED] * 2
    assert world.faults.calls == []


def test_nothing_is_told_of_a_bundle_that_waits(world: World) -> None:
    """Issue 7: a bundle of which nothing is stored has no story."""
    world.deliver(world.upload("in/roads.shp"))
    assert world.explain.story("gs://uploads/in/roads.shp") is None
