"""A process that cannot read shapefiles begins no job, and blames none."""

from __future__ import annotations

from dataclasses import replace

from gate.errors import ConfigurationError, StorageBusyError
from gate.intake import Outcome
from gate.job import State
from tests.world import Answer, World, raising


def unready() -> None:
    """Stand for a PROJ without its data."""
    raise ConfigurationError("PROJ finds no database of CRSs", where="PROJ_DATA", cure="unset it")


def test_a_process_that_is_not_ready_begins_no_job(world: World) -> None:
    """Case 61: events are recorded, the one that would dispatch is refused, no attempt is spent."""
    ready, world.intake = world.intake, replace(world.intake, ready=unready)
    *early, last = world.upload_bundle("in/roads")
    assert [world.deliver(event) for event in early] == [Answer.ACK] * len(early)
    for _ in range(10):
        assert world.deliver(last) is Answer.NACK
        world.clock.advance(600)
    assert not world.jobs
    assert not world.sent.sent
    world.intake = ready
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 1)]


def test_a_process_that_is_not_ready_takes_no_job_over(world: World) -> None:
    """Case 61: a job that has failed keeps its attempts until a process can run it."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    world.faults.before("source.stat", raising(StorageBusyError("503")))
    assert world.deliver(last) is Answer.QUIET_NACK
    ready, world.intake = world.intake, replace(world.intake, ready=unready)
    assert world.deliver(last) is Answer.QUIET_NACK
    assert world.outcomes[-1] is Outcome.IN_PROGRESS
    for _ in range(10):
        world.clock.advance(600)
        assert world.deliver(last) is Answer.NACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.FAILED, 1)]
    world.intake = ready
    assert world.deliver(last) is Answer.ACK
    assert [(job.state, job.attempts) for job in world.jobs] == [(State.DONE, 2)]


def test_nothing_is_proven_for_an_event_that_runs_no_job(world: World) -> None:
    """Issue 2, Speed: an event that waits, or whose job has ended, loads no library."""
    events = world.upload_bundle("in/roads")
    world.settle(*events)
    world.intake = replace(world.intake, ready=unready)
    assert [world.deliver(event) for event in events] == [Answer.ACK] * len(events)
    assert world.deliver(world.upload("in/rivers.shp")) is Answer.ACK
