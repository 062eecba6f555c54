"""`GATE=poll`: each upload has a task look at its bundle, and what waits is stored nowhere.

A1-A8, B6, C1-C9, H3-H6 as this gate meets them, over a queue with tombstones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gate.errors import QueueBusyError, StorageBusyError, StoreBusyError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from gate.poll import PollTask, poll_task
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


class Queued(World):
    """A deployment with this gate, whose tasks are called when they are due and not before."""

    defaults = ENVIRONMENTS["poll"]

    def _polled(self, event: ObjectFinalized) -> object:
        return self.poll(event)

    def passed(self, seconds: float) -> int:
        """Let time pass, then call every task that is due; return how many succeeded."""
        self.clock.advance(seconds)
        return self.queue.run(self.call)

    def worked(self) -> list[Outcome]:
        """Return the outcomes of all calls of tasks so far."""
        return [worked.receipt.outcome for worked in self.called if worked]


@pytest.fixture
def world() -> Queued:
    """Return a deployment in which no time has passed."""
    return Queued()


def delivered(world: World, *events: ObjectFinalized) -> None:
    """Deliver events, each of which is acknowledged."""
    for event in events:
        assert world.deliver(event) is Answer.ACK


def test_siblings_that_come_together_share_one_task(world: Queued) -> None:
    """C1: five events of one time make one task and one listing, and nothing is stored before."""
    delivered(world, *world.upload_bundle("in/roads", parts=ALL_PARTS))
    assert world.outcomes == [Outcome.SCHEDULED] * 5
    assert len(world.queue.waiting) == 1
    assert set(world.faults.calls) == {"tasks.enqueue"}
    assert world.documents == 0
    assert world.passed(59) == 0
    assert world.passed(1) == 1
    assert world.worked() == [Outcome.DISPATCHED]
    assert world.faults.calls.count("source.siblings") == 1
    assert world.rows("in/roads") == expected("first", crs="first")
    assert len(world.effects) == 1


def test_a_look_is_due_after_every_upload_that_shares_it(world: Queued) -> None:
    """C1: at whatever time of a slot an upload comes, its look is one to two delays later."""
    for second in range(0, 60, 7):
        world.clock.now = datetime(2026, 3, 1, 12, 0, second, 999_999, tzinfo=UTC)
        delivered(world, world.upload("in/roads.shp"))
        [due_at] = {task.due_at for task in world.queue.asked[-1:]}
        assert due_at
        assert timedelta(seconds=30) <= due_at - world.clock.now <= timedelta(seconds=60)


def test_each_spelling_that_is_whole_is_looked_at(world: Queued) -> None:
    """B6, C6: a newer export in another case, whole by itself, is in the listing of a task."""
    delivered(world, *world.upload_bundle("in/roads"), *world.upload_bundle("in/ROADS", "second"))
    assert len(world.queue.waiting) == 2
    world.passed(60)
    assert world.rows("in/roads") == expected("second")
    assert world.effects[-1].generations.keys() == set(PARTS)


def test_bundles_have_tasks_of_their_own(world: Queued) -> None:
    """C1, G9: uploads of one time share a task only within their bundle."""
    delivered(world, *(world.upload(f"in/{stem}.shp") for stem in ("roads", "rivers", "x/roads")))
    assert len(world.queue.waiting) == 3


def test_a_later_upload_is_never_blocked_by_a_tombstone(world: Queued) -> None:
    """H4: uploads again and again within the hour of a tombstone are each looked at."""
    for number in range(12):
        version = f"v{number}"
        delivered(world, *world.upload_bundle("in/roads", version))
        world.passed(61)
        assert world.rows("in/roads") == expected(version)
        world.clock.advance(240)
    assert len(world.effects) == 12


def test_an_upload_while_the_look_is_taken_has_a_look_of_its_own(world: Queued) -> None:
    """H4, C9: what is uploaded once the listing was made is in the listing of another task."""
    delivered(world, *world.upload_bundle("in/roads"))
    late: list[ObjectFinalized] = []

    def upload() -> None:
        if not late:
            late.append(world.upload("in/roads.prj", text(".prj", "first")))
            delivered(world, *late)

    world.faults.after("source.siblings", upload)
    world.passed(60)
    assert world.rows("in/roads") == expected("first")
    assert len(world.queue.waiting) == 1
    world.passed(60)
    world.settle()
    assert world.rows("in/roads") == expected("first", crs="first")


def test_an_event_that_comes_again_after_its_look_changes_nothing(world: Queued) -> None:
    """A1, A8, H4: a duplicate meets the task, or its tombstone; once that is gone, a look more."""
    events = world.upload_bundle("in/roads")
    delivered(world, *events)
    world.passed(60)
    delivered(world, *events)
    assert world.queue.waiting == ()
    world.clock.advance(2 * HOUR)
    delivered(world, *events)
    assert world.passed(0) == 1
    assert world.worked() == [Outcome.DISPATCHED, Outcome.DUPLICATE]
    assert len(world.jobs) == len(world.effects) == 1


def test_a_late_event_whose_task_is_gone_is_looked_at_at_once(world: Queued) -> None:
    """A8: an event that is delivered days after the upload need not wait for its slot."""
    events = world.upload_bundle("in/roads")
    world.clock.advance(3 * 86_400)
    delivered(world, *events)
    assert [task.due_at for task in world.queue.waiting] == [None]
    assert world.passed(0) == 1
    assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize("ahead", [None, timedelta(days=400)], ids=["no time", "a time to come"])
def test_an_event_that_does_not_say_when_has_a_task_of_its_own(
    world: Queued, ahead: timedelta | None
) -> None:
    """A4, H4: without a time to believe, each object generation is looked at by itself."""
    at = world.clock.now + ahead if ahead else None
    events = [replace(event, occurred_at=at) for event in world.upload_bundle("in/roads")]
    delivered(world, *events, *events)
    assert len(world.queue.waiting) == 3
    assert world.passed(29) == 0
    assert world.passed(1) == 3
    assert len(world.jobs) == len(world.effects) == 1


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_no_time_is_too_far_away(world: Queued, at: str) -> None:
    """A10: the ends of the calendar are times like any other."""
    event = replace(world.upload("in/roads.shp"), occurred_at=datetime.fromisoformat(at))
    delivered(world, event)
    assert len(world.queue.waiting) == 1


def test_looks_go_on_at_doubling_pauses(world: Queued) -> None:
    """H5, H4: each look that finds something missing has the next, under a name of its own."""
    delivered(world, world.upload("in/roads.shp"))
    pauses = []
    due_at = world.clock.now
    for _ in range(10):
        [task] = world.queue.waiting
        assert task.due_at
        pauses.append((task.due_at - due_at).total_seconds())
        due_at = task.due_at
        world.passed((due_at - world.clock.now).total_seconds())
    assert pauses == [60, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert len({task.name for task in world.queue.asked}) == 11
    assert set(world.worked()) == {Outcome.SCHEDULED}
    told = [worked.receipt.detail for worked in world.called if worked]
    assert told[0] == "needs .shx .dbf; look 2 by a task, due 2026-03-01T12:01:30+00:00"
    assert world.documents == 0


def test_what_comes_later_is_seen_by_its_own_look(world: Queued) -> None:
    """C1: the last file is not kept waiting by the long pauses that the first has led to."""
    delivered(world, *world.upload_bundle("in/roads", parts=(".shp", ".shx")))
    for _ in range(20):
        world.passed(300)
    delivered(world, world.upload("in/roads.dbf", text(".dbf", "first")))
    world.passed(60)
    assert world.rows("in/roads") == expected("first")
    for _ in range(20):
        world.passed(300)
    assert world.queue.waiting == ()
    assert len(world.jobs) == len(world.effects) == 1


def test_a_bundle_that_never_becomes_whole_is_a_dead_letter() -> None:
    """H5: after the last look a letter names what never came, and nothing is scheduled any more."""
    world = Queued(POLL_MAX_ATTEMPTS="3")
    delivered(world, *world.upload_bundle("in/roads", parts=(".shp", ".prj")))
    for _ in range(4):
        world.passed(60)
    assert world.worked() == [Outcome.SCHEDULED, Outcome.SCHEDULED, Outcome.INCOMPLETE]
    [letter] = world.sent.sent
    assert letter.code == "incomplete"
    assert letter.body["cause"] == (
        "gs://uploads/in/roads: .shx .dbf was never uploaded; .prj .shp is there"
    )
    assert world.queue.waiting == ()
    assert world.documents == 0


def test_a_letter_that_cannot_be_sent_is_tried_again() -> None:
    """G5, H3: the last task is done with once its letter is with its topic."""
    world = Queued(POLL_MAX_ATTEMPTS="1")
    delivered(world, world.upload("in/roads.shp"))
    world.faults.before("letters.send", raising(StoreBusyError("no answer")))
    assert world.passed(60) == 0
    assert world.passed(10) == 1
    assert len(world.sent.sent) == 1


def test_letters_of_one_bundle_count_once() -> None:
    """G5: two chains of looks that give one bundle up send letters of one id."""
    world = Queued(POLL_MAX_ATTEMPTS="2")
    for part in (".shp", ".shx"):
        delivered(world, world.upload(f"in/roads{part}"))
        world.clock.advance(31)
    for _ in range(5):
        world.passed(60)
    assert len(world.sent.sent) == 2
    assert len({letter.dedupe_id for letter in world.sent.sent}) == 1


def test_what_was_given_up_is_loaded_when_it_becomes_whole() -> None:
    """H5: the file that was missing comes after all, and has a look of its own."""
    world = Queued(POLL_MAX_ATTEMPTS="1")
    delivered(world, *world.upload_bundle("in/roads", parts=(".shp", ".shx")))
    world.passed(60)
    assert len(world.sent.sent) == 1
    delivered(world, world.upload("in/roads.dbf", text(".dbf", "first")))
    world.passed(60)
    assert world.rows("in/roads") == expected("first")


def test_a_bundle_that_was_taken_back_is_dropped_quietly(world: Queued) -> None:
    """H5: where nothing of the bundle is left, no look and no letter follows."""
    delivered(world, world.upload("in/roads.shp"))
    world.source.delete(BUCKET, "in/roads.shp")
    world.passed(60)
    assert world.worked() == [Outcome.WITHDRAWN]
    assert world.queue.waiting == ()
    assert world.sent.sent == []


def test_a_full_re_upload_is_dispatched_at_once(world: Queued) -> None:
    """C6: a look that finds every required file newer dispatches."""
    delivered(world, *world.upload_bundle("in/roads"))
    world.passed(HOUR)
    delivered(world, *world.upload_bundle("in/roads", "second"))
    world.passed(60)
    assert world.rows("in/roads") == expected("second")
    assert world.states == [State.DONE, State.DONE]


@pytest.mark.parametrize("part", [".dbf", ".prj", ".shp.xml"])
def test_one_newer_file_rests_before_it_is_taken(world: Queued, part: str) -> None:
    """C8, C9: a replaced table or a late sidecar settles, and the sweep takes it."""
    delivered(world, *world.upload_bundle("in/roads"))
    world.passed(HOUR)
    world.swept()
    delivered(world, world.upload(f"in/roads{part}", text(part, "second")))
    world.passed(60)
    assert world.worked()[-1] is Outcome.SETTLING
    world.clock.advance(29)
    assert world.sweep().jobs == 0
    world.clock.advance(1)
    assert world.sweep().jobs == 1
    crs = "second" if part == ".prj" else None
    records = "second" if part == ".dbf" else ""
    assert world.rows("in/roads") == expected("first", crs=crs, records=records)


def test_a_sidecar_in_another_spelling_is_not_lost(world: Queued) -> None:
    """B6, C9: a sidecar spelt otherwise, older than what was dispatched, is recorded and taken.

    The look for the bundle's own spelling is whole without it; its own look lists wider.
    """
    sidecar = world.upload("in/ROADS.PRJ", text(".prj", "first"))
    delivered(world, *world.upload_bundle("in/roads"))
    world.passed(60)
    assert world.rows("in/roads") == expected("first")
    delivered(world, replace(sidecar, occurred_at=world.clock.now))
    world.passed(60)
    assert world.worked()[-1] is Outcome.SETTLING
    world.clock.advance(31)
    world.swept()
    assert world.rows("in/roads") == expected("first", crs="first")


def test_an_archive_is_dispatched_by_its_event(world: Queued) -> None:
    """C1: an archive is whole as it is; nobody looks for it later."""
    world.deliver(world.upload("in/roads.zip"))
    assert world.outcomes == [Outcome.DISPATCHED]
    assert world.queue.asked == []


def test_a_queue_that_does_not_answer_brings_the_event_back(world: Queued) -> None:
    """D6: an event is acknowledged only once a task is in the queue."""
    event = world.upload("in/roads.shp")
    world.faults.before("tasks.enqueue", raising(QueueBusyError("503")))
    assert world.deliver(event) is Answer.QUIET_NACK
    assert world.deliver(event) is Answer.ACK
    assert len(world.queue.waiting) == 1


def test_a_lost_answer_of_the_queue_makes_no_second_task(world: Queued) -> None:
    """E12: an event whose task is there already, its own, is acknowledged like any other."""
    event = world.upload("in/roads.shp")
    world.faults.after("tasks.enqueue", raising(Crash()))
    assert world.deliver(event) is Answer.NACK
    assert world.deliver(event) is Answer.ACK
    assert len(world.queue.waiting) == 1


LOOKING = ("source.siblings", "store.record", "store.read", "store.dispatch")


@pytest.mark.parametrize("call", LOOKING)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_look_that_is_killed_is_finished_by_the_next_call(
    world: Queued, call: str, moment: str
) -> None:
    """A6, A7: killed at any of its calls, the task is called again until its job has ended."""
    delivered(world, *world.upload_bundle("in/roads"))
    getattr(world.faults, moment)(call, raising(Crash()))
    assert world.passed(60) == 0
    for _ in range(8):
        world.passed(11)
    assert world.queue.waiting == ()
    assert world.states == [State.DONE]
    assert len(world.effects) == 1


def test_a_task_comes_back_while_its_job_is_being_run(world: Queued) -> None:
    """E1, A7: called again while its job has a worker, the task fails, and succeeds when it ended.

    Its worker was killed; the task takes the job over when the lease has run out.
    """
    delivered(world, *world.upload_bundle("in/roads"))
    world.faults.after("store.dispatch", raising(Crash()))
    assert world.passed(60) == 0
    assert world.passed(10) == 0
    assert world.worked() == [Outcome.IN_PROGRESS]
    assert world.passed(60) == 1
    assert world.worked()[-1] is Outcome.RESUMED
    assert world.rows("in/roads") == expected("first")


def test_two_looks_at_once_make_one_job(world: Queued) -> None:
    """A2, C1: of two tasks that find a bundle whole at once, one dispatches it."""
    for part in PARTS:
        delivered(world, world.upload(f"in/roads{part}", text(part, "first")))
        world.clock.advance(31)
    first, second, _ = world.queue.waiting
    world.faults.before("store.dispatch", lambda: world.call(second.payload))
    assert world.call(first.payload)
    world.settle()
    assert len(world.jobs) == len(world.effects) == 1


def test_a_queue_that_was_purged_is_made_up_for_by_the_pass(world: Queued) -> None:
    """H3, H6: a bundle whose task was lost is found by the pass over the bucket."""
    delivered(world, *world.upload_bundle("in/roads"))
    for task in world.queue.waiting:
        world.queue.lose(task.name)
    world.clock.advance(HOUR)
    world.swept()
    world.settle()
    assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize("lost", range(3))
def test_any_event_but_one_may_be_lost(world: Queued, lost: int) -> None:
    """H5: the look of a sibling lists the object whose event never came."""
    for number, event in enumerate(world.upload_bundle("in/roads")):
        if number == lost:
            delivered(world, event)
    world.passed(60)
    assert world.rows("in/roads") == expected("first")


def test_a_listing_that_fails_is_tried_again(world: Queued) -> None:
    """D6: a bucket that does not answer has the task called again."""
    delivered(world, *world.upload_bundle("in/roads"))
    world.faults.before("source.siblings", raising(StorageBusyError("503")))
    assert world.passed(60) == 0
    assert world.passed(10) == 1
    assert world.rows("in/roads") == expected("first")


def test_a_foreign_event_is_ignored(world: Queued) -> None:
    """B7: what is no component of ours is ignored without a call, as by any gate."""
    world.deliver(world.upload("in/readme.txt"))
    assert world.outcomes == [Outcome.IGNORED]
    assert world.faults.calls == []


def test_a_task_of_what_is_no_component_any_more_is_done_with() -> None:
    """B8: a look that was scheduled before the settings changed finds nothing to do."""
    before, world = Queued(), Queued(SOURCE_PREFIX="in/")
    delivered(before, before.upload("out/roads.shp"))
    [task] = before.queue.waiting
    assert world.call(task.payload)
    assert world.worked() == [Outcome.IGNORED]


CHAIN = "0" * 32
CARRIED = {"kind": "poll", "bucket": BUCKET, "name": "in/a.shp", "chain": CHAIN, "attempt": 2}


def broken() -> Iterator[dict[str, object]]:
    """Yield payloads that are not those of a look."""
    for key in ("bucket", "name", "chain", "attempt"):
        yield {name: value for name, value in CARRIED.items() if name != key}
        yield {**CARRIED, key: None}
    yield {**CARRIED, "attempt": 0}
    yield {**CARRIED, "attempt": "2"}
    yield {**CARRIED, "chain": "a/b"}


def test_a_task_says_all_that_its_look_needs() -> None:
    """H4: what a task carries leads to the same look, named after its chain and attempt."""
    task = PollTask(BUCKET, "in/a.shp", CHAIN, 2).task(None)
    assert task.payload == CARRIED
    assert task.name == f"{CHAIN}-2"
    assert poll_task(task.payload) == PollTask(BUCKET, "in/a.shp", CHAIN, 2)


@pytest.mark.parametrize("payload", list(broken()), ids=str)
def test_a_task_that_is_none_is_a_dead_letter(world: Queued, payload: dict[str, object]) -> None:
    """A10: a look that cannot be read is kept as a letter, and its task is done with."""
    assert poll_task(payload) is None
    assert world.call(payload)  # type: ignore[arg-type]
    assert [letter.code for letter in world.sent.sent] == ["malformed_event"]


def test_a_look_gives_its_job_to_another_task_where_tasks_run_jobs() -> None:
    """Issue 7: with `EXECUTOR=tasks` a look dispatches, and another task runs the job."""
    world = Queued(EXECUTOR="tasks")
    delivered(world, *world.upload_bundle("in/roads"))
    assert world.passed(60) == 1
    assert world.worked() == [Outcome.QUEUED]
    assert not world.effects
    assert world.passed(0) == 1
    assert world.worked()[-1] is Outcome.RAN
    assert world.rows("in/roads") == expected("first")
    assert set(PARTS) == world.effects[0].generations.keys()
