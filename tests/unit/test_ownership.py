"""A worker's hold on its job: when it is renewed, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from gate import job
from gate.identity import Pin, Revision, job_id
from gate.names import Component, parse
from gate.ownership import Ownership, Stop, Stopped
from gate.store.port import Claim, StoredJob
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
    return Ownership(world.store, stored, world.settings.limits, lambda: world.clock.passed_seconds)


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
        for number in range(10):
            world.clock.advance(50)
            yield number

    assert list(own.over(steps())) == list(range(10))
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
        assert caught.value.stop is Stop.FENCED_OUT
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
    own.prove()
    assert own.now == world.clock.now


def test_a_skewed_clock_of_the_worker_decides_nothing(world: World) -> None:
    """E11: a worker whose clock starts anywhere renews from the store's time all the same."""
    stored = dispatch(world, record(world, ".shp", 1), 1)
    skewed = Ownership(
        world.store, stored, world.settings.limits, lambda: 1e9 + world.clock.passed_seconds
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
