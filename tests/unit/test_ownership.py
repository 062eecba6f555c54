"""A worker's hold on its job: when it is renewed, and what ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gate import job
from gate.errors import StoreBusyError
from gate.identity import Pin, Revision, job_id
from gate.names import Component, parse
from gate.ownership import Ownership, Stop, Stopped
from gate.store.port import Claim, Store, StoredJob
from tests.world import BUCKET, World

LEASE_SECONDS = 60


@pytest.fixture
def world() -> World:
    """Return a deployment with default settings and nothing in it."""
    return World()


def record(world: World, extension: str, generation: int) -> Claim:
    """Record one component of `in/roads`."""
    component = parse(BUCKET, f"in/roads{extension}")
    assert isinstance(component, Component)
    claim = Claim(component, generation, "event", f"token-of-{extension}-{generation}")
    world.store.record(claim)
    return claim


def dispatch(world: World, claim: Claim, generation: int) -> StoredJob:
    """Dispatch a revision of `in/roads` that is only its `.shp`."""
    pins = {".shp": Pin(claim.component.name, generation)}
    opened = job.opened(
        Revision.of(claim.component.bundle, pins),
        dispatched_by=claim.id,
        token=claim.token,
        now=world.clock.now,
        limits=world.settings.limits,
    )
    stored = world.store.dispatch(opened)
    assert stored
    return stored


@pytest.fixture
def own(world: World) -> Ownership:
    """Return the hold on a job that has just been dispatched."""
    stored = dispatch(world, record(world, ".shp", 1), 1)
    return owned(world, stored)


def owned(world: World, stored: StoredJob) -> Ownership:
    """Return a worker's hold on a stored job, with the world's clock."""
    return Ownership(
        world.store,
        stored,
        world.settings.limits,
        lambda: world.clock.passed_seconds,
        lambda: world.stopping,
    )


def take_over(world: World, own: Ownership) -> StoredJob:
    """Let another worker claim the job after its lease."""
    world.clock.advance(LEASE_SECONDS)
    stored = world.store.job(own.job.id)
    assert stored
    claimed = job.claim(stored.job, token="thief", now=stored.now, limits=world.settings.limits)
    assert isinstance(claimed, job.Claimed)
    taken = world.store.replace(stored, claimed.job)
    assert taken
    return taken


def test_a_beat_renews_after_a_third_of_the_lease(world: World, own: Ownership) -> None:
    """E2: a beat writes nothing until a third of the lease has passed, then renews it whole."""
    held = own.stored
    world.clock.advance(LEASE_SECONDS / 3)
    own.beat()
    assert own.stored is held
    world.clock.advance(0.001)
    own.beat()
    assert own.job.lease_expires_at == world.clock.now + timedelta(seconds=LEASE_SECONDS)
    renewed = own.stored
    own.beat()
    assert own.stored is renewed


def test_a_proof_renews_at_once(world: World, own: Ownership) -> None:
    """E9: a proof is a write, so that it holds against the very latest state of the store."""
    world.clock.advance(1)
    own.prove()
    stored = world.store.job(own.job.id)
    assert stored
    assert stored.job.lease_expires_at == world.clock.now + timedelta(seconds=LEASE_SECONDS)
    assert stored.version == own.stored.version


def test_steps_keep_the_lease_between_them(world: World, own: Ownership) -> None:
    """E10: whoever consumes the steps renews the lease by it, and gets every step in order."""

    def steps() -> Iterator[int]:
        for number in range(8):
            world.clock.advance(50)
            yield number

    assert list(own.over(steps())) == list(range(8))
    assert own.job.lease_expires_at > world.clock.now


def test_a_worker_that_was_replaced_is_told_at_every_write(world: World, own: Ownership) -> None:
    """E4, E5, E10: after a take-over neither a renewal nor an end is written."""
    taken = take_over(world, own)
    for write in (
        own.prove,
        own.beat,
        lambda: own.write(job.done(own.job, now=own.now, summary={})),
    ):
        with pytest.raises(Stopped) as caught:
            write()
        assert caught.value.stop is Stop.FENCED_OUT
    assert world.store.job(own.job.id) == taken


def test_a_job_that_is_gone_is_lost(world: World, own: Ownership) -> None:
    """E15: a job that was removed cannot be renewed or ended, and is not made again."""
    world.store.jobs.clear()
    for write in (own.prove, lambda: own.write(job.done(own.job, now=own.now, summary={}))):
        with pytest.raises(Stopped) as caught:
            write()
        assert caught.value.stop is Stop.VANISHED
    assert not world.store.jobs


def test_a_job_without_a_manifest_is_still_owned(world: World, own: Ownership) -> None:
    """E9: the manifest may be gone; then the time is the job's, and the lease is renewed by it."""
    world.store.manifests.clear()
    world.clock.advance(1)
    own.prove()
    assert own.job.lease_expires_at == world.clock.now + timedelta(seconds=LEASE_SECONDS)
    world.store.jobs.clear()
    with pytest.raises(Stopped):
        own.prove()


def test_a_newer_revision_stops_the_worker(world: World, own: Ownership) -> None:
    """E10, C5: once a newer revision is dispatched, the worker is told to give way."""
    dispatch(world, record(world, ".shp", 2), 2)
    held = own.stored
    with pytest.raises(Stopped) as caught:
        own.prove()
    assert caught.value.stop is Stop.SUPERSEDED
    assert own.stored is held


def test_a_newer_component_alone_does_not(world: World, own: Ownership) -> None:
    """C5: a component that has arrived and is not dispatched leaves the running job alone."""
    record(world, ".shp", 2)
    own.prove()


def test_time_goes_on_between_two_words_of_the_store(world: World, own: Ownership) -> None:
    """E11: between two answers of the store a worker counts from the last one's time."""
    start = own.now
    world.clock.advance(7)
    assert own.now == start + timedelta(seconds=7)
    world.clock.now += timedelta(minutes=10)
    own.prove()
    assert own.now == world.clock.now


def test_a_skewed_clock_of_the_worker_decides_nothing(world: World) -> None:
    """E11: a worker whose clock starts anywhere renews from the store's time all the same."""
    stored = dispatch(world, record(world, ".shp", 1), 1)
    skewed = Ownership(
        world.store,
        stored,
        world.settings.limits,
        lambda: 1e9 + world.clock.passed_seconds,
        lambda: False,
    )
    world.clock.advance(30)
    skewed.beat()
    assert skewed.job.lease_expires_at == world.clock.now + timedelta(seconds=LEASE_SECONDS)


def test_a_renewal_that_landed_unheard_is_recognised(world: World, own: Ownership) -> None:
    """E13: a refusal by one's own earlier renewal is no take-over: the next write lands."""
    landed = job.renewed(own.job, now=world.clock.now + timedelta(seconds=1), limits=own.limits)
    assert world.store.replace(own.stored, landed)
    own.write(job.done(own.job, now=own.now, summary={"rows": 3}))
    stored = world.store.job(own.job.id)
    assert stored
    assert (stored.job.state, stored.job.summary) == (job.State.DONE, {"rows": 3})


def test_an_end_that_landed_unheard_is_not_undone(world: World, own: Ownership) -> None:
    """E13: a worker whose end has landed cannot write another state over it."""
    done = job.done(own.job, now=own.now, summary={})
    assert world.store.replace(own.stored, done)
    later = replace(own.job, lease_expires_at=world.clock.now + timedelta(days=1))
    with pytest.raises(Stopped):
        own.write(later)
    stored = world.store.job(own.job.id)
    assert stored
    assert stored.job == done


def test_the_end_of_a_job_is_told_to_its_claim(world: World, own: Ownership) -> None:
    """A7: once the job has ended, the claim of the event that dispatched it says so."""
    claim = world.store.claims[job_id(BUCKET, "in/roads.shp", 1)]
    assert claim["status"] == "dispatched"
    own.write(job.done(own.job, now=own.now, summary={}))
    assert claim["status"] == "done"


# --- the heartbeat beside the worker ------------------------------------------


def test_a_pulse_keeps_the_lease_during_one_long_call(world: World, own: Ownership) -> None:
    """E16: a call that takes minutes and lets the heartbeat run loses no job."""
    for _ in range(300):
        world.clock.advance(1)
        own.pulse()
        assert own.job.lease_expires_at > world.clock.now
    own.beat()


def test_a_lease_outlives_a_call_that_stops_the_heartbeat(world: World, own: Ownership) -> None:
    """E16: a call that holds the interpreter for almost two thirds of a lease loses no job."""
    world.clock.advance(LEASE_SECONDS / 3)
    own.pulse()
    world.clock.advance(LEASE_SECONDS * 2 / 3 - 0.001)
    stored = world.store.job(own.job.id)
    assert stored
    claimed = job.claim(stored.job, token="thief", now=stored.now, limits=world.settings.limits)
    assert isinstance(claimed, job.Busy)
    own.beat()
    assert own.job.lease_expires_at == world.clock.now + timedelta(seconds=LEASE_SECONDS)


def test_a_longer_lease_is_renewed_at_the_same_part_of_it(world: World, own: Ownership) -> None:
    """E16: the lease of a second attempt, twice as long, is renewed when two thirds are left."""
    second = owned(world, take_over(world, own))
    world.clock.advance(LEASE_SECONDS * 2 / 3 + 0.001)
    second.beat()
    assert second.job.lease_expires_at == world.clock.now + timedelta(seconds=2 * LEASE_SECONDS)


def test_what_a_pulse_learns_stops_the_worker(world: World, own: Ownership) -> None:
    """E10: a pulse that meets a take-over or a newer revision ends the work at its next beat."""
    dispatch(world, record(world, ".shp", 2), 2)
    world.clock.advance(LEASE_SECONDS / 2)
    own.pulse()
    calls = list(world.store.jobs.items())
    for look in (own.beat, own.prove):
        with pytest.raises(Stopped) as caught:
            look()
        assert caught.value.stop is Stop.SUPERSEDED
    assert list(world.store.jobs.items()) == calls
    own.write(job.superseded(own.job, now=own.now, why="a newer revision"))


def test_a_pulse_that_meets_a_take_over_ends_every_write(world: World, own: Ownership) -> None:
    """E4, E10: once the heartbeat was fenced out, the worker asks the store no more."""
    taken = take_over(world, own)
    own.pulse()
    world.store.jobs.clear()
    with pytest.raises(Stopped) as caught:
        own.write(job.done(own.job, now=own.now, summary={}))
    assert caught.value.stop is Stop.FENCED_OUT
    assert taken.job.token == "thief"


def test_a_pulse_after_the_end_writes_nothing(world: World, own: Ownership) -> None:
    """E13: a heartbeat that comes after the last word of the worker leaves the job as it is."""
    own.write(job.done(own.job, now=own.now, summary={}))
    ended = own.stored
    world.clock.advance(LEASE_SECONDS)
    own.pulse()
    world.stopping = True
    own.pulse()
    assert world.store.job(own.job.id) == replace(ended, now=world.clock.now)


class Slow:
    """A store whose `replace` lets `meanwhile` happen before it answers, once."""

    def __init__(self, store: Store, meanwhile: Callable[[], object]) -> None:
        self._store, self._meanwhile = store, [meanwhile]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def replace(self, held: StoredJob, moved: job.Job) -> StoredJob | None:
        """Write, and answer late."""
        stored = self._store.replace(held, moved)
        if self._meanwhile:
            self._meanwhile.pop()()
        return stored


def test_a_write_waits_for_a_pulse_and_follows_on_it(world: World, own: Ownership) -> None:
    """E13: an end that meets a renewal of its own heartbeat is written after it, not refused."""
    end = threading.Thread(
        target=lambda: own.write(job.done(own.job, now=own.now, summary={"rows": 3}))
    )
    own.store = Slow(world.store, lambda: (end.start(), end.join(0.05)))
    world.clock.advance(LEASE_SECONDS / 2)
    own.pulse()
    end.join()
    assert own.job.state is job.State.DONE
    stored = world.store.job(own.job.id)
    assert stored
    assert (stored.job.state, stored.job.summary) == (job.State.DONE, {"rows": 3})


def test_a_pulse_does_not_wait_for_a_write(world: World, own: Ownership) -> None:
    """E9: while one thread waits for the store, the other goes on with its work."""
    paused: list[Ownership] = []

    def meanwhile() -> None:
        own.pulse()
        own.beat()
        paused.append(own)

    own.store = Slow(world.store, meanwhile)
    world.clock.advance(LEASE_SECONDS / 2)
    own.prove()
    assert paused


# --- a store that cannot be reached --------------------------------------------


class Lost:
    """A store that cannot be reached; `asked` counts how often it was tried."""

    def __init__(self) -> None:
        self.asked = 0

    def __getattr__(self, _name: str) -> Any:
        def refuse(*_arguments: object) -> None:
            self.asked += 1
            raise StoreBusyError("unavailable")

        return refuse


def test_a_store_out_of_reach_stops_the_work_at_the_end_of_the_lease(
    world: World, own: Ownership
) -> None:
    """E9: the worker goes on while its lease lasts, and no longer; no proof is given meanwhile."""
    own.store = Lost()
    for _ in range(LEASE_SECONDS - 1):
        world.clock.advance(1)
        own.beat()
    with pytest.raises(StoreBusyError):
        own.prove()
    world.clock.advance(1)
    with pytest.raises(StoreBusyError):
        own.beat()


def test_a_store_out_of_reach_is_not_asked_at_every_batch(world: World, own: Ownership) -> None:
    """E9: after a failed renewal there is a pause, so that the work does not stand still."""
    lost = own.store = Lost()
    world.clock.advance(LEASE_SECONDS / 2)
    for _ in range(100):
        own.beat()
    assert lost.asked == 1
    world.clock.advance(LEASE_SECONDS / 12)
    own.beat()
    assert lost.asked == 2


def test_a_store_that_is_back_in_time_is_forgiven(world: World, own: Ownership) -> None:
    """E9: one renewal that succeeds makes good for those that failed."""
    store, own.store = own.store, Lost()
    world.clock.advance(LEASE_SECONDS / 2)
    own.beat()
    own.store = store
    world.clock.advance(LEASE_SECONDS / 4)
    own.beat()
    world.clock.advance(LEASE_SECONDS / 3)
    own.beat()
    assert own.job.lease_expires_at > world.clock.now
    own.store = Slow(store, own.beat)
    world.clock.advance(LEASE_SECONDS)
    own.prove()


# --- the time of the function, and its shutdown --------------------------------


def test_the_work_stops_before_the_function_does(world: World, own: Ownership) -> None:
    """E17: nine tenths into the time of the function, work ends, and so do its renewals."""
    seconds = 540 * 0.9
    world.clock.advance(seconds - 1)
    own.beat()
    lease = own.job.lease_expires_at
    world.clock.advance(1)
    with pytest.raises(Stopped) as caught:
        own.beat()
    assert caught.value.stop is Stop.OUT_OF_TIME
    world.clock.advance(LEASE_SECONDS)
    own.pulse()
    assert own.job.lease_expires_at == lease


def test_a_worker_that_is_late_may_still_prove_and_end(world: World, own: Ownership) -> None:
    """E6: what only remains to be published when the time is up is published."""
    world.clock.advance(600)
    own.prove()
    own.write(job.done(own.job, now=own.now, summary={}))


def test_a_shutdown_gives_the_job_back_from_the_heartbeat(world: World, own: Ownership) -> None:
    """E2: told to stop during a long call, a process frees its job at once, attempt not counted."""
    world.stopping = True
    own.pulse()
    stored = world.store.job(own.job.id)
    assert stored
    taken = job.claim(stored.job, token="next", now=stored.now, limits=world.settings.limits)
    assert isinstance(taken, job.Claimed)
    assert (taken.job.fence, taken.job.attempts) == (2, 1)
    assert stored.job.history[-1].code == "shutdown"


def test_after_a_shutdown_the_worker_writes_nothing(world: World, own: Ownership) -> None:
    """E10: a job that was given back is not renewed, proven, ended or failed any more."""
    world.stopping = True
    own.pulse()
    world.clock.advance(1)
    own.pulse()
    given = world.store.job(own.job.id)
    for attempt in (
        own.beat,
        own.prove,
        lambda: own.write(job.done(own.job, now=own.now, summary={})),
        lambda: own.write(job.failed(own.job, StoreBusyError("x"), now=own.now, limits=own.limits)),
    ):
        with pytest.raises(Stopped) as caught:
            attempt()
        assert caught.value.stop is Stop.SHUTDOWN
    assert world.store.job(own.job.id) == given


def test_a_shutdown_that_cannot_be_written_stops_the_worker_too(
    world: World, own: Ownership
) -> None:
    """E9: without the store the job is left to its lease, and the worker leaves off too."""
    own.store = Lost()
    world.stopping = True
    with pytest.raises(Stopped) as caught:
        own.beat()
    assert caught.value.stop is Stop.SHUTDOWN
    assert world.jobs[0].state is job.State.RUNNING


def test_a_shutdown_after_a_take_over_gives_nothing_back(world: World, own: Ownership) -> None:
    """E5: a process that was replaced and is stopped leaves the new holder's job alone."""
    taken = take_over(world, own)
    world.stopping = True
    own.pulse()
    assert world.store.job(own.job.id) == taken
    with pytest.raises(Stopped) as caught:
        own.beat()
    assert caught.value.stop is Stop.FENCED_OUT


def test_a_lease_that_is_old_when_it_is_written_is_renewed_at_once(world: World) -> None:
    """E11: a lease counts from what the store said, not from when its holder came to begin."""
    stored = dispatch(world, record(world, ".shp", 1), 1)
    world.clock.advance(LEASE_SECONDS / 2)
    late = owned(world, replace(stored, now=world.clock.now))
    late.beat()
    assert late.job.lease_expires_at == world.clock.now + timedelta(seconds=LEASE_SECONDS)
