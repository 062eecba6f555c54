"""The contract of `Store`, held by every store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gate import job
from gate.errors import CorruptError, MissingCrsError, StorageBusyError
from gate.identity import Pin
from gate.job import ENDED, State
from gate.manifest import PublishedRevision
from gate.store.port import Incomplete, Recorded, StoredJob
from tests.contract.stores import (
    BUCKET,
    GENERATION,
    LIMITS,
    RETENTION,
    StoreBench,
    claim_of,
    job_of,
    whole,
)

WHOLE = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")
REQUIRED = (".shp", ".shx", ".dbf")


# --- claims and manifests -----------------------------------------------------


def test_the_first_delivery_is_told_so_and_the_second_is_not(bench: StoreBench) -> None:
    """Scenario A1: of two deliveries of one generation exactly one is the first."""
    assert bench.record("in/roads.shp").first
    assert not bench.record("in/roads.shp").first


def test_a_duplicate_changes_no_document(bench: StoreBench) -> None:
    """Scenario A1: after a duplicate every document is as it was, to its time of writing."""
    bench.record("in/roads.shp")
    before = bench.written()
    bench.clock.forward(timedelta(hours=1))
    bench.record("in/roads.shp")
    assert bench.written() == before


def test_of_twenty_deliveries_at_once_one_is_first(bench: StoreBench) -> None:
    """Scenario A2: twenty concurrent deliveries leave one first and one manifest, none failed."""
    with ThreadPoolExecutor(20) as threads:
        recorded = list(threads.map(bench.record, ["in/roads.shp"] * 20))
    assert sum(one.first for one in recorded) == 1
    assert all(one.manifest.components == {"in/roads.shp": GENERATION} for one in recorded)


def test_a_record_reads_its_own_write(bench: StoreBench) -> None:
    """Design 4: what a record returns holds everything committed so far, its own included."""
    bench.record("in/roads.shp", 1)
    recorded = bench.record("in/roads.dbf", 2)
    assert recorded.manifest.components == {"in/roads.shp": 1, "in/roads.dbf": 2}
    assert recorded.manifest.updated_at is not None
    assert recorded.manifest.updated_at <= recorded.now


def test_a_claim_learns_by_its_own_commit_what_is_missing(bench: StoreBench) -> None:
    """Design 4: a waiting event is told which required files nobody has recorded, in order."""
    first = bench.store.record(claim_of("in/roads.shx", 5), REQUIRED)
    assert first == Incomplete((".shp", ".dbf"), 5)
    second = bench.store.record(claim_of("in/ROADS.SHP", 6), REQUIRED)
    assert second == Incomplete((".dbf",), 6)


def test_the_claim_that_completes_a_bundle_reads_it_whole(bench: StoreBench) -> None:
    """Design 4: completeness cannot be missed: whoever commits last reads everything."""
    bench.store.record(claim_of("in/roads.shx"), REQUIRED)
    bench.store.record(claim_of("in/roads.dbf"), REQUIRED)
    recorded = bench.store.record(claim_of("in/roads.shp"), REQUIRED)
    assert set(whole(recorded).manifest.seen) == set(REQUIRED)


def test_of_all_claims_of_a_bundle_at_once_one_reads_it_whole(bench: StoreBench) -> None:
    """Scenario C1: however the commits fall, exactly one of three is not told to wait."""
    claims = [claim_of(f"in/roads{each}") for each in REQUIRED]
    with ThreadPoolExecutor(len(claims)) as threads:
        answers = list(threads.map(lambda claim: bench.store.record(claim, REQUIRED), claims))
    assert sum(isinstance(each, Recorded) for each in answers) == 1


def test_a_late_claim_of_an_incomplete_bundle_is_told_of_the_newer(bench: StoreBench) -> None:
    """Scenario C2: a stale event is told the newer generation of its object, also while waiting."""
    bench.store.record(claim_of("in/roads.shp", 9), REQUIRED)
    late = bench.store.record(claim_of("in/roads.shp", 8), REQUIRED)
    assert late == Incomplete((".shx", ".dbf"), 9)


def test_a_sidecar_counts_once_it_is_required(bench: StoreBench) -> None:
    """Design 4: what was recorded before a deployment required it is not missing."""
    bench.store.record(claim_of("in/roads.prj"), REQUIRED)
    bench.store.record(claim_of("in/roads.shp"), REQUIRED)
    more = (*REQUIRED, ".prj")
    assert bench.store.record(claim_of("in/roads.shx"), more) == Incomplete((".dbf",), GENERATION)


def test_a_sidecar_found_by_listing_counts_as_recorded(bench: StoreBench) -> None:
    """Design 4: what a dispatch found in the bucket is not missing afterwards."""
    job = bench.due("in/roads.shp")
    bench.store.dispatch(job, (Pin("in/roads.prj", 3),))
    answer = bench.store.record(claim_of("in/roads.shx"), (".dbf", ".prj"))
    assert answer == Incomplete((".dbf",), GENERATION)


def test_a_duplicate_is_never_told_to_wait(bench: StoreBench) -> None:
    """Scenario A1: a claim that exists reads the manifest, since nothing was committed now."""
    claim = claim_of("in/roads.shp")
    bench.store.record(claim, REQUIRED)
    again = bench.store.record(claim_of("in/roads.shp"), REQUIRED)
    assert not whole(again).first


def test_only_the_last_claim_of_a_bundle_is_the_latest(bench: StoreBench) -> None:
    """Design 4: a delivery is told whether its claim is the one that was made last."""
    assert bench.record("in/roads.shp").latest
    assert bench.record("in/roads.dbf").latest
    assert bench.record("in/rivers.shp").latest
    assert not bench.record("in/roads.shp").latest
    assert bench.record("in/roads.dbf").latest


def test_of_many_claims_at_once_at_least_the_last_is_the_latest(bench: StoreBench) -> None:
    """Design 4: however claims overtake each other, somebody reads that nobody came after."""
    names = [f"in/roads{each}" for each in (".shp", ".shx", ".dbf", ".prj", ".cpg", ".qix")]
    with ThreadPoolExecutor(len(names)) as threads:
        recorded = list(threads.map(bench.record, names))
    latest = [one for one in recorded if one.latest]
    assert latest
    assert max(len(one.manifest.components) for one in latest) == len(names)


def test_an_older_generation_never_replaces_a_newer_one(bench: StoreBench) -> None:
    """Scenario C2: a late event for an older generation leaves the newer one standing."""
    bench.record("in/roads.shp", GENERATION + 1)
    stale = bench.record("in/roads.shp", GENERATION)
    assert stale.first
    assert stale.manifest.components == {"in/roads.shp": GENERATION + 1}


def test_generations_of_nineteen_digits_are_kept_exactly(bench: StoreBench) -> None:
    """Design 2: the greatest 64-bit generations differ by one and stay apart."""
    greatest = 2**63 - 1
    bench.record("in/roads.shp", greatest - 1)
    bench.record("in/roads.shp", greatest)
    late = bench.record("in/roads.shp", greatest - 2)
    assert late.manifest.components == {"in/roads.shp": greatest}


@pytest.mark.parametrize(
    "name",
    [
        "in/a b+c%20d#1.shp",
        "in/[x].v2.shp",
        "in/`tick`.shp",
        "__x__/__y__.shp",
        "in/\N{OPEN MAILBOX WITH RAISED FLAG}é.shp",
        "in/e\N{COMBINING ACUTE ACCENT}.shp",
        ".in/..x.shp",
        "in/a\\b'\"*~.shp",
        "n" * 1020 + ".shp",
    ],
)
def test_any_object_name_is_a_key_of_the_manifest(bench: StoreBench, name: str) -> None:
    """Scenario B5: names with path, quoting and reserved signs come back as they went in."""
    bench.record(name, 1)
    recorded = bench.record(name, 2)
    assert recorded.manifest.components == {name: 2}
    found = bench.store.manifest(recorded.manifest.bundle)
    assert found is not None
    assert found.manifest.components == {name: 2}


def test_twins_that_differ_in_normalisation_stay_two_claims(bench: StoreBench) -> None:
    """Scenario B5: the NFC and the NFD spelling of a name are two objects of one bundle."""
    composed, decomposed = "in/\N{LATIN SMALL LETTER E WITH ACUTE}.shp", "in/e\u0301.shp"
    assert bench.record(composed).first
    twin = bench.record(decomposed)
    assert twin.first
    assert set(twin.manifest.components) == {composed, decomposed}


def test_an_archive_and_a_layer_of_one_stem_have_two_manifests(bench: StoreBench) -> None:
    """Design 9: an archive is a bundle by itself, whatever else has its stem."""
    bench.record("in/roads.shp")
    archive = bench.record("in/roads.zip")
    assert archive.manifest.components == {"in/roads.zip": GENERATION}
    assert archive.manifest.bundle.archive == ".zip"


def test_the_documents_say_what_was_claimed(bench: StoreBench) -> None:
    """Design 3: claim and manifest carry the fields that people and the sweep look for."""
    claim = claim_of("in/Roads.SHP")
    recorded = bench.store.record(claim)
    claimed = bench.claim_document(claim)
    assert isinstance(claimed.pop("claimed_at"), datetime)
    bundle = claimed.pop("bundle")
    assert claimed == {
        "bucket": BUCKET,
        "name": "in/Roads.SHP",
        "generation": GENERATION,
        "event_id": "event-1",
        "token": claim.token,
        "status": "recorded",
        "expires_at": bench.clock() + RETENTION.claims,
    }
    assert bench.document("manifests", bundle) is not None
    manifest = bench.manifest_document(recorded.manifest.bundle)
    assert manifest["basename"] == "in/roads"
    assert manifest["seen"] == [".shp"]
    assert manifest["wake_at"] == bench.clock() + RETENTION.settle


def test_a_claim_that_outlives_its_manifest_is_merged_again(bench: StoreBench) -> None:
    """Design 3: no decision depends on a time-to-live, so a duplicate restores what expired."""
    claim = claim_of("in/roads.shp")
    bench.record("in/roads.shp")
    bench.remove("manifests", bench.claim_document(claim)["bundle"])
    bench.clock.forward(timedelta(days=2))
    again = bench.record("in/roads.shp")
    assert not again.first
    assert again.manifest.components == {"in/roads.shp": GENERATION}
    manifest = bench.manifest_document(again.manifest.bundle)
    assert manifest["wake_at"] == bench.clock() + RETENTION.settle
    assert "expires_at" not in manifest


def test_an_expired_claim_can_be_made_again(bench: StoreBench) -> None:
    """Design 4: the event of an expired claim merges again and leaves the manifest as it is."""
    claim = claim_of("in/roads.shp")
    before = bench.store.record(claim).manifest
    bench.remove("claims", claim.id)
    again = bench.record("in/roads.shp")
    assert again.first
    assert again.manifest.components == before.components


def test_two_consumers_do_not_see_each_other(bench: StoreBench) -> None:
    """Scenario A5: stores with different collections each take the same event once."""
    other = bench.beside()
    assert bench.record("in/roads.shp").first
    assert other.record("in/roads.shp").first
    assert not other.record("in/roads.shp").first
    mine = bench.dispatched("in/roads.shx")
    assert other.store.job(mine.job.id) is None


# --- dispatch -----------------------------------------------------------------


def test_a_dispatch_creates_the_job_and_marks_the_revision(bench: StoreBench) -> None:
    """Design 4: job and mark are written together, and the next read of the bundle shows both."""
    due = bench.due(*WHOLE)
    stored = bench.store.dispatch(due)
    assert stored is not None
    assert stored.job == due
    found = bench.store.job(due.id)
    assert found is not None
    assert (found.job, found.version) == (due, stored.version)
    manifest = bench.store.manifest(due.revision.bundle)
    assert manifest is not None
    assert manifest.manifest.dispatched == due.revision.generations


def test_a_revision_is_dispatched_once(bench: StoreBench) -> None:
    """Design 4: a second event that dispatches the same revision gets and changes nothing."""
    due = bench.due(*WHOLE)
    bench.store.dispatch(due)
    before = bench.written()
    assert bench.store.dispatch(replace(due, token="another")) is None
    assert bench.written() == before


def test_of_twenty_dispatches_at_once_one_wins(bench: StoreBench) -> None:
    """Scenario A2: twenty workers that dispatch one revision at once make one job."""
    due = bench.due(*WHOLE)
    rivals = [replace(due, token=f"rival-{number}") for number in range(20)]
    with ThreadPoolExecutor(20) as threads:
        won = [stored for stored in threads.map(bench.store.dispatch, rivals) if stored]
    assert len(won) == 1
    found = bench.store.job(due.id)
    assert found is not None
    assert found.job == won[0].job


def test_the_same_dispatch_sent_again_is_still_its_own(bench: StoreBench) -> None:
    """Scenario E12: a dispatch whose answer was lost is recognised by its token."""
    due = bench.due(*WHOLE)
    first = bench.store.dispatch(due)
    again = bench.store.dispatch(due)
    assert first is not None
    assert again is not None
    assert again.job == due
    assert (again.job.fence, again.job.attempts) == (1, 1)
    assert again.version == first.version


def test_siblings_found_in_the_bucket_are_merged(bench: StoreBench) -> None:
    """Design 4: a sidecar whose event is on its way is in the manifest after the dispatch."""
    claim = claim_of("in/roads.shp")
    recorded = bench.store.record(claim)
    found = (Pin("in/roads.prj", 7), Pin("in/roads.shp", 1))
    known = replace(recorded, manifest=recorded.manifest.joined(found))
    bench.store.dispatch(job_of(claim, known), found)
    later = bench.record("in/roads.prj", 7)
    assert later.first
    assert later.manifest.components == {"in/roads.shp": GENERATION, "in/roads.prj": 7}
    assert later.manifest.dispatched == {".shp": GENERATION, ".prj": 7}
    document = bench.manifest_document(recorded.manifest.bundle)
    assert sorted(document["seen"]) == [".prj", ".shp"]


def test_a_dispatch_of_an_older_revision_moves_no_mark_back(bench: StoreBench) -> None:
    """Scenario C2: marks are max-registers too, so that a late dispatch regresses nothing."""
    old = bench.due(*WHOLE)
    bench.dispatched(*WHOLE, generation=GENERATION + 5)
    bench.store.dispatch(old)
    stored = bench.store.manifest(old.revision.bundle)
    assert stored is not None
    assert set(stored.manifest.dispatched.values()) == {GENERATION + 5}


def test_a_dispatch_leaves_the_wake_time(bench: StoreBench) -> None:
    """Design 4: a dispatch must not forget an event that committed in between."""
    due = bench.due(*WHOLE)
    wake_at = bench.manifest_document(due.revision.bundle)["wake_at"]
    bench.clock.forward(timedelta(seconds=10))
    bench.store.dispatch(due)
    assert bench.manifest_document(due.revision.bundle)["wake_at"] == wake_at


def test_a_claim_names_the_jobs_it_dispatched_until_they_end(bench: StoreBench) -> None:
    """Scenario A7, G5: a duplicate learns which job is unended, or still owes its letter."""
    stored = bench.dispatched(*WHOLE)
    assert bench.record(WHOLE[-1]).unended == (stored.job.id,)
    assert bench.record(WHOLE[0]).unended == ()
    failed = job.failed(stored.job, StorageBusyError("lost"), now=stored.now, limits=LIMITS)
    moved = bench.store.replace(stored, failed)
    assert moved is not None
    assert bench.record(WHOLE[-1]).unended == (stored.job.id,)
    taken = _taken(failed, moved.now)
    running = bench.store.replace(moved, taken)
    assert running is not None
    dead = job.dead(taken, CorruptError("cut"), now=running.now)
    buried = bench.store.replace(running, dead)
    assert buried is not None
    assert bench.record(WHOLE[-1]).unended == (stored.job.id,)
    assert bench.store.replace(buried, job.notified(dead)) is not None
    assert bench.record(WHOLE[-1]).unended == ()


def _taken(failed: job.Job, now: datetime) -> job.Job:
    claimed = job.claim(failed, token="taker", now=now + timedelta(hours=1), limits=LIMITS)
    assert isinstance(claimed, job.Claimed)
    return claimed.job


def test_a_claim_keeps_sight_of_a_held_job(bench: StoreBench) -> None:
    """Case 20: a held job waits for a fact, so its event still leads to it; a revived one too."""
    stored = bench.dispatched(*WHOLE)
    held = job.held(stored.job, MissingCrsError("no .prj"), now=stored.now, summary={"a": {}})
    aside = bench.store.replace(stored, held)
    assert aside is not None
    assert bench.record(WHOLE[-1]).unended == (stored.job.id,)
    taken = job.revive(held, token="taker", now=aside.now, limits=LIMITS).job
    revived = bench.store.replace(aside, taken)
    assert revived is not None
    assert bench.record(WHOLE[-1]).unended == (stored.job.id,)
    bench.store.replace(revived, job.done(taken, now=revived.now, summary={}))
    assert bench.record(WHOLE[-1]).unended == ()


def test_one_claim_may_have_dispatched_two_jobs(bench: StoreBench) -> None:
    """Design 4: an event that settles into a second revision keeps sight of both jobs."""
    first = bench.dispatched(*WHOLE)
    claim = replace(claim_of(WHOLE[-1]), token=first.job.token)
    bench.record("in/roads.prj")
    second = job_of(claim, bench.store.record(claim))
    assert bench.store.dispatch(second) is not None
    assert bench.record(WHOLE[-1]).unended == tuple(sorted((first.job.id, second.id)))


def test_an_unknown_job_is_none(bench: StoreBench) -> None:
    """Store.job: a revision that was never dispatched has no job."""
    assert bench.store.job("0" * 32) is None


# --- moves of a job -----------------------------------------------------------


def test_every_field_of_a_job_comes_back_equal(bench: StoreBench) -> None:
    """Scenario E13, case 52: what is read equals what was written, times in a list included."""
    stored = bench.dispatched(*WHOLE, "in/roads.shp.xml")
    at = datetime(2024, 11, 7, 12, 0, 0, 123_456, tzinfo=UTC)
    failed = job.failed(stored.job, StorageBusyError("lost ☂"), now=at, limits=LIMITS)
    full = replace(
        job.dead(_taken(failed, at), CorruptError("cut", where="roads.shp"), now=at),
        fence=2,
        attempts=3,
        next_attempt_at=at,
        summary={
            "rows": {"in_file": 2**40, "loaded": 0},
            "a.b `c`/d": [1.5, "x", None, True, {"é": []}],
            "crs": "",
        },
    )
    bench.store.replace(stored, full)
    found = bench.store.job(full.id)
    assert found is not None
    assert found.job == full


def test_a_move_lands_on_the_state_it_was_decided_from(bench: StoreBench) -> None:
    """Scenario E1: of two workers that take over one job from the same read, one wins."""
    stored = bench.dispatched(*WHOLE)
    later = stored.now + LIMITS.lease * 2
    rivals = []
    for token in ("rival-1", "rival-2"):
        claimed = job.claim(stored.job, token=token, now=later, limits=LIMITS)
        assert isinstance(claimed, job.Claimed)
        rivals.append(claimed.job)
    won = bench.store.replace(stored, rivals[0])
    assert won is not None
    assert won.job.fence == 2
    assert won.version != stored.version
    assert bench.store.replace(stored, rivals[1]) is None
    found = bench.store.job(stored.job.id)
    assert found is not None
    assert (found.job, found.version) == (rivals[0], won.version)


def test_a_worker_that_was_overtaken_cannot_end_the_job(bench: StoreBench) -> None:
    """Scenario E4: the end that a stalled worker writes is refused, and its claim says nothing."""
    stored = bench.dispatched(*WHOLE)
    taken = job.claim(stored.job, token="thief", now=stored.now + LIMITS.lease * 2, limits=LIMITS)
    assert isinstance(taken, job.Claimed)
    bench.store.replace(stored, taken.job)
    before = bench.written()
    assert bench.store.replace(stored, job.done(stored.job, now=stored.now, summary={})) is None
    assert bench.written() == before


def test_a_write_follows_on_the_version_of_the_one_before(bench: StoreBench) -> None:
    """Store.replace: what a move returns is what the next move is decided from."""
    stored = bench.dispatched(*WHOLE)
    for _ in range(3):
        renewed = job.renewed(stored.job, now=stored.now + timedelta(seconds=1), limits=LIMITS)
        moved = bench.store.replace(stored, renewed)
        assert moved is not None
        stored = moved
    found = bench.store.job(stored.job.id)
    assert found is not None
    assert found.version == stored.version


def test_a_move_that_had_landed_is_accepted_again(bench: StoreBench) -> None:
    """Scenario E13: the same end, sent again on the old version, is a success."""
    stored = bench.dispatched(*WHOLE)
    done = job.done(stored.job, now=stored.now, summary={"loaded": 3})
    first = bench.store.replace(stored, done)
    again = bench.store.replace(stored, done)
    assert first is not None
    assert again is not None
    assert (again.job, again.version) == (done, first.version)


def test_a_job_that_vanished_is_not_made_again(bench: StoreBench) -> None:
    """Scenario E15: a worker whose job was removed is refused, and nothing is written."""
    stored = bench.dispatched(*WHOLE)
    bench.remove("jobs", stored.job.id)
    assert bench.store.replace(stored, job.done(stored.job, now=stored.now, summary={})) is None
    assert bench.document("jobs", stored.job.id) is None


def test_the_manifest_keeps_the_greatest_fence(bench: StoreBench) -> None:
    """Scenario E15: a dispatch and each take-over raise it, a move without a new fence does not."""
    stored = bench.dispatched(*WHOLE)
    assert _fence(bench, stored) == 1
    later = stored.now + LIMITS.lease * 2
    taken = job.claim(stored.job, token="taker", now=later, limits=LIMITS)
    assert isinstance(taken, job.Claimed)
    held = bench.store.replace(stored, taken.job)
    assert held is not None
    assert _fence(bench, stored) == 2
    bench.store.replace(held, replace(taken.job, lease_expires_at=later))
    assert _fence(bench, stored) == 2


def test_a_claim_keeps_its_manifest_from_expiring(bench: StoreBench) -> None:
    """Design 3, H7: a finished bundle whose job is taken up again has something pending."""
    stored = bench.dispatched(*WHOLE)
    bundle_document = bench.claim_document(claim_of(WHOLE[0]))["bundle"]
    _publish(bench, stored.job, finished=True)
    later = stored.now + LIMITS.lease * 2
    taken = job.claim(stored.job, token="taker", now=later, limits=LIMITS)
    assert isinstance(taken, job.Claimed)
    bench.store.replace(stored, taken.job)
    document = bench.document("manifests", bundle_document)
    assert document is not None
    assert "expires_at" not in document
    assert document["wake_at"] is not None


def test_a_job_that_is_made_again_leaves_the_greater_fence(bench: StoreBench) -> None:
    """Scenario E15: the fence of a manifest is a max-register, whatever a later job brings."""
    stored = bench.dispatched(*WHOLE)
    bench.remove("jobs", stored.job.id)
    bench.store.dispatch(replace(stored.job, fence=5))
    bench.remove("jobs", stored.job.id)
    bench.store.dispatch(stored.job)
    assert _fence(bench, stored) == 5


def test_a_written_job_tells_the_time_of_its_commit(bench: StoreBench) -> None:
    """Scenario E11: what a write returns is dated by the store, not by what the job says."""
    claim = claim_of(WHOLE[0])
    opened = job_of(claim, bench.store.record(claim))
    long_ago = replace(opened, created_at=opened.created_at - LIMITS.lease)
    stored = bench.store.dispatch(long_ago)
    assert stored is not None
    assert stored.now >= opened.created_at
    moved = bench.store.replace(replace(stored, now=long_ago.created_at), opened)
    assert moved is not None
    assert moved.now >= stored.now


def _fence(bench: StoreBench, stored: StoredJob) -> int:
    found = bench.store.manifest(stored.job.revision.bundle)
    assert found is not None
    return found.manifest.fence


@pytest.mark.parametrize("state", sorted(ENDED, key=lambda state: state.value))
def test_the_claim_learns_how_its_job_ended(bench: StoreBench, state: State) -> None:
    """Design 3, G5: the dispatching event's claim has the job's end once the letter is sent."""
    stored = bench.dispatched(*WHOLE)
    ended = _ended(stored.job, state, stored.now)
    moved = bench.store.replace(stored, ended)
    if not ended.notified:
        claimed = bench.document("claims", stored.job.dispatched_by)
        assert claimed is not None
        assert claimed["status"] == "dispatched"
        assert moved is not None
        bench.store.replace(moved, job.notified(ended))
    claimed = bench.document("claims", stored.job.dispatched_by)
    assert claimed is not None
    assert claimed["status"] == state.value
    assert claimed["jobs"] == {stored.job.id: state.value}


@pytest.mark.parametrize("expired", [False, True])
def test_a_claim_is_kept_as_long_as_its_job_goes_on(bench: StoreBench, expired: bool) -> None:
    """Design 3: each end of a job counts its claim's expiry anew, even if the claim was gone."""
    stored = bench.dispatched(*WHOLE)
    bench.clock.forward(timedelta(days=6))
    if expired:
        bench.remove("claims", stored.job.dispatched_by)
    bench.store.replace(stored, job.done(stored.job, now=stored.now, summary={}))
    claimed = bench.document("claims", stored.job.dispatched_by)
    assert claimed is not None
    assert claimed["expires_at"] == bench.clock() + RETENTION.claims
    again = bench.record(WHOLE[-1])
    assert not again.first
    assert again.unended == ()


# --- expiry -------------------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
def test_only_a_finished_job_expires(bench: StoreBench, state: State) -> None:
    """Scenario H7: the expiry stands on done, partial, dead and superseded jobs, as a timestamp."""
    stored = bench.dispatched(*WHOLE)
    assert "expires_at" not in bench.job_document(stored.job.id)
    bench.store.replace(stored, _ended(stored.job, state, stored.now))
    document = bench.job_document(stored.job.id)
    if state in {State.DONE, State.PARTIAL, State.DEAD, State.SUPERSEDED}:
        assert document["expires_at"] == bench.clock() + RETENTION.claims
    else:
        assert "expires_at" not in document


def test_a_published_manifest_expires_when_nothing_is_pending(bench: StoreBench) -> None:
    """Scenario H7: the note of what is current sets the expiry only where it is said to."""
    stored = bench.dispatched(*WHOLE)
    bundle = stored.job.revision.bundle
    assert "expires_at" not in bench.manifest_document(bundle)
    _publish(bench, stored.job, finished=False)
    assert "expires_at" not in bench.manifest_document(bundle)
    _publish(bench, stored.job, finished=True)
    expires_at = bench.manifest_document(bundle)["expires_at"]
    assert expires_at == bench.clock() + RETENTION.manifests


def test_a_new_component_takes_the_expiry_away(bench: StoreBench) -> None:
    """Scenario H7: a manifest with something pending does not expire, whatever it did before."""
    stored = bench.dispatched(*WHOLE)
    _publish(bench, stored.job, finished=True)
    recorded = bench.record("in/roads.prj")
    assert "expires_at" not in bench.manifest_document(stored.job.revision.bundle)
    assert recorded.manifest.published is not None


def test_a_dispatch_takes_the_expiry_away(bench: StoreBench) -> None:
    """Scenario H7: a manifest whose job is on its way does not expire."""
    stored = bench.dispatched(*WHOLE)
    newer = bench.due("in/roads.prj")
    _publish(bench, stored.job, finished=True)
    bench.store.dispatch(newer)
    assert "expires_at" not in bench.manifest_document(newer.revision.bundle)


def test_a_duplicate_leaves_the_expiry(bench: StoreBench) -> None:
    """Scenario A1: redelivery of an old event does not keep a finished bundle for ever."""
    stored = bench.dispatched(*WHOLE)
    _publish(bench, stored.job, finished=True)
    bench.record(WHOLE[0])
    assert "expires_at" in bench.manifest_document(stored.job.revision.bundle)


# --- what is current ----------------------------------------------------------


def test_the_manifest_tells_what_is_published(bench: StoreBench) -> None:
    """Design 3: revision, order and location come back as they were noted."""
    stored = bench.dispatched(*WHOLE)
    note = _publish(bench, stored.job, finished=False)
    found = bench.store.manifest(stored.job.revision.bundle)
    assert found is not None
    assert found.manifest.published == note
    assert found.manifest.dispatched == stored.job.revision.generations


def test_a_note_on_a_manifest_that_moved_is_refused(bench: StoreBench) -> None:
    """Design 4: an event that committed after the read keeps its manifest from being finished."""
    stored = bench.dispatched(*WHOLE)
    held = bench.store.manifest(stored.job.revision.bundle)
    assert held is not None
    bench.record("in/roads.prj")
    note = PublishedRevision(stored.job.id, stored.job.revision.order, "gs://sink/x")
    assert not bench.store.note_published(held, note, finished=True)
    found = bench.store.manifest(stored.job.revision.bundle)
    assert found is not None
    assert found.manifest.published is None
    assert "expires_at" not in bench.manifest_document(stored.job.revision.bundle)


def test_a_note_on_a_manifest_that_vanished_is_refused(bench: StoreBench) -> None:
    """Scenario E15: a note does not bring an expired manifest back."""
    stored = bench.dispatched(*WHOLE)
    held = bench.store.manifest(stored.job.revision.bundle)
    assert held is not None
    bench.remove("manifests", bench.claim_document(claim_of(WHOLE[0]))["bundle"])
    note = PublishedRevision(stored.job.id, stored.job.revision.order, "gs://sink/x")
    assert not bench.store.note_published(held, note, finished=True)
    assert bench.store.manifest(stored.job.revision.bundle) is None


def _publish(bench: StoreBench, done: job.Job, *, finished: bool) -> PublishedRevision:
    held = bench.store.manifest(done.revision.bundle)
    assert held is not None
    note = PublishedRevision(done.id, done.revision.order, "gs://sink/roads.parquet")
    assert bench.store.note_published(held, note, finished=finished)
    return note


def _ended(running: job.Job, state: State, now: datetime) -> job.Job:
    match state:
        case State.DONE:
            return job.done(running, now=now, summary={"loaded": 1})
        case State.PARTIAL:
            return job.partial(running, CorruptError("some"), now=now, summary={"loaded": 1})
        case State.DEAD:
            return job.dead(running, CorruptError("cut"), now=now)
        case State.SUPERSEDED:
            return job.superseded(running, now=now, why="newer")
        case State.HELD:
            return job.held(running, StorageBusyError("stands for any"), now=now)
        case State.FAILED:
            return job.failed(running, StorageBusyError("lost"), now=now, limits=LIMITS)
        case State.RUNNING:
            return job.renewed(running, now=now, limits=LIMITS)
        case State.QUEUED:
            return replace(running, state=state, attempts=0)
