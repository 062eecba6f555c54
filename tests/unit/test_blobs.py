"""The store on small objects: what holds after a crash between any two of its writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gate import job
from gate.errors import ConfigurationError, CorruptError, StoreBusyError
from gate.identity import bundle_id
from gate.job import Job, State
from gate.store.blob_documents import decoded, encoded, labels_of, time_of
from gate.store.blobs import PAUSE_MOST_SECONDS, PAUSE_SECONDS, ROUNDS
from gate.store.blobs_history import BlobHistory
from gate.store.merging import moment
from gate.store.objects import Wrote
from gate.store.port import StoredJob
from tests.contract.stores import (
    GENERATION,
    LIMITS,
    BlobBench,
    claim_of,
    job_of,
    whole,
)
from tests.simulation.bucket import Stored
from tests.world import Crash

WHOLE = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")
REQUIRED = (".shp", ".shx", ".dbf")
SECOND = timedelta(seconds=1)  # what reads are rounded down by


@pytest.fixture
def bench() -> BlobBench:
    """Return a store over a bucket in memory."""
    return BlobBench()


def is_write(name: str) -> bool:
    """Tell whether a call changes an object."""
    return not name.startswith(("objects.read", "objects.list"))


def dying(bench: BlobBench, work: Callable[[], object]) -> Iterator[str]:
    """Do work that dies around each of its writes in turn, from the same state each time.

    Yields where it died; whatever comes of it is to be looked at before going on.
    """
    before = dict(bench.bucket.stored)
    number = 0
    while True:
        for when in ("before", "after"):
            bench.bucket.stored.clear()
            bench.bucket.stored.update(before)
            calls = []

            def around(
                name: str,
                call: Callable[[], Any],
                when: str = when,
                number: int = number,
                calls: list[str] = calls,
            ) -> Any:
                last = is_write(name) and len(calls) == number
                calls += [name] if is_write(name) else []
                if last and when == "before":
                    raise Crash
                answer = call()
                if last:
                    raise Crash
                return answer

            bench.bucket.around = around
            try:
                work()
            except Crash:
                pass
            else:
                return
            finally:
                bench.bucket.around = lambda _, call: call()
            yield f"{when} {calls[-1]}"
        number += 1


# --- record -------------------------------------------------------------------


def test_a_record_that_dies_anywhere_is_made_up_for_by_redelivery(bench: BlobBench) -> None:
    """E10: the event comes again and its component is known, whichever write came last."""
    claim = claim_of("in/roads.shp")
    places = []
    for place in dying(bench, lambda: bench.store.record(claim, REQUIRED)):
        places.append(place.split("/")[0])
        again = whole(bench.store.record(replace(claim, token="again")))
        assert again.manifest.components == {"in/roads.shp": GENERATION}
        assert again.first is (place == f"before objects.create claims/{claim.id[:6]}")
        assert "wake_at" in bench.manifest_document(again.manifest.bundle)
        assert set(bench.bucket.all_of("claims")) == {claim.id}
    assert places == [
        f"{when} objects.create {kind}"
        for kind in ("claims", "manifests")
        for when in ("before", "after")
    ]


def test_what_is_in_a_manifest_is_looked_at(bench: BlobBench) -> None:
    """Design 4: a component and the time of the next look are one write."""
    for _ in dying(bench, lambda: bench.record("in/roads.shp")):
        for manifest in bench.bucket.all_of("manifests").values():
            assert manifest["wake_at"] == bench.clock() + timedelta(seconds=30)


def test_a_claim_whose_answer_was_lost_is_ones_own(bench: BlobBench) -> None:
    """E12: the claim is refused, holds the token of this call, and is the first."""
    claim = claim_of("in/roads.shp")
    bench.bucket.around = losing("create claims")
    assert whole(bench.store.record(claim)).first


def test_a_merge_whose_answer_was_lost_is_not_made_twice(bench: BlobBench) -> None:
    """E12: the manifest is read again, and holds what was to be written."""
    claim = claim_of("in/roads.shp")
    lost = losing("create manifests")
    calls = []

    def around(name: str, call: Callable[[], Any]) -> Any:
        calls.append(name.partition("/")[0])
        return lost(name, call)

    bench.bucket.around = around
    assert whole(bench.store.record(claim)).latest
    assert calls.count("objects.create manifests") == 1
    assert "objects.swap manifests" not in calls
    assert bench.pauses == [PAUSE_SECONDS]


def losing(fragment: str) -> Callable[[str, Callable[[], Any]], Any]:
    """Let the answer of a write get lost, and its repetition meet the condition."""

    def around(name: str, call: Callable[[], Any]) -> Any:
        answer = call()
        return None if fragment in name else answer

    return around


def test_a_claim_that_was_refused_and_is_gone_is_busy(bench: BlobBench) -> None:
    """E10: who was refused and finds nothing lets the event come again."""
    bench.bucket.around = lambda name, call: None if "create claims" in name else call()
    with pytest.raises(StoreBusyError, match="the claim was refused and is not there"):
        bench.record("in/roads.shp")


def test_a_late_merge_counts_as_of_its_own_time(bench: BlobBench) -> None:
    """C4: a call that stalls between its two writes does not make its uploads look at rest."""
    bench.record("in/roads.dbf")

    def around(name: str, call: Callable[[], Any]) -> Any:
        answer = call()
        if "create claims" in name:
            bench.clock.forward(timedelta(minutes=10))
        return answer

    bench.bucket.around = around
    recorded = bench.record("in/roads.shp")
    assert recorded.manifest.updated_at
    assert recorded.now - recorded.manifest.updated_at < timedelta(seconds=1)


# --- dispatch -----------------------------------------------------------------


def test_a_dispatch_that_dies_anywhere_is_found_again(bench: BlobBench) -> None:
    """E10: whoever sees the revision due tries again; there is one job, marked and noted."""
    due = bench.due(*WHOLE)
    places = []
    for place in dying(bench, lambda: bench.store.dispatch(due)):
        places.append(place.split("/")[0])
        jobs = bench.bucket.all_of("jobs")
        assert all("due_at" in bench.bucket.stored[f"jobs/{key}"].labels for key in jobs)
        again = bench.store.dispatch(replace(due, token="another"))
        assert (again is None) is (due.id in jobs)
        assert set(bench.bucket.all_of("jobs")) == {due.id}
        known = bench.store.manifest(due.revision.bundle)
        assert known
        assert known.manifest.dispatched == due.revision.generations
        assert bench.record(WHOLE[-1]).unended == (due.id,)
    assert places == [
        f"{when} objects.{kind}"
        for kind in ("create jobs", "swap manifests", "swap claims")
        for when in ("before", "after")
    ]


def test_a_job_without_its_marks_is_due_when_its_lease_ends(bench: BlobBench) -> None:
    """G2: should nobody try again, the sweep takes the job over, and marks its revision."""
    due = bench.due(*WHOLE)
    for place in dying(bench, lambda: bench.store.dispatch(due)):
        if not place.startswith("after objects.create jobs"):
            continue
        bench.clock.forward(LIMITS.lease + SECOND)
        (found,) = bench.store.due_jobs(10)
        stored = bench.store.job(found.id)
        assert stored
        taken = take_over(stored)
        assert bench.store.replace(stored, taken)
        known = bench.store.manifest(due.revision.bundle)
        assert known
        assert known.manifest.fence == taken.fence == 2


def test_the_marks_of_a_job_that_has_ended_are_set_too(bench: BlobBench) -> None:
    """E10: a manifest that forgot a revision learns it, and may expire as it could before."""
    stored = bench.dispatched(*WHOLE)
    ended = bench.store.replace(stored, job.done(stored.job, now=stored.now, summary={}))
    assert ended
    bundle = stored.job.revision.bundle
    bench.remove("manifests", bundle_id(bundle))
    bench.remove("claims", stored.job.dispatched_by)
    assert bench.store.dispatch(replace(stored.job, token="another")) is None
    known = bench.store.manifest(bundle)
    assert known
    assert known.manifest.dispatched == stored.job.revision.generations
    assert bench.document("claims", stored.job.dispatched_by)["jobs"] == {stored.job.id: "done"}  # type: ignore[index]
    assert bench.store.rest(known, wake_at=None, finished=True)
    before = bench.written()
    assert bench.store.dispatch(replace(stored.job, token="another")) is None
    assert bench.written() == before


def test_a_running_job_keeps_its_manifest(bench: BlobBench) -> None:
    """H7: a manifest that was put to rest beside a job that goes on is woken by the next try."""
    stored = bench.dispatched(*WHOLE)
    held = bench.store.manifest(stored.job.revision.bundle)
    assert held
    assert bench.store.rest(held, wake_at=None, finished=True)
    assert bench.store.dispatch(replace(stored.job, token="another")) is None
    document = bench.manifest_document(stored.job.revision.bundle)
    assert "wake_at" in document
    assert "expires_at" not in document


def test_a_job_that_was_refused_and_is_gone_is_busy(bench: BlobBench) -> None:
    """E10: who was refused and finds no job lets the event come again."""
    due = bench.due(*WHOLE)
    bench.bucket.around = lambda name, call: None if "create jobs" in name else call()
    with pytest.raises(StoreBusyError, match="the job was refused and is not there"):
        bench.store.dispatch(due)


# --- moves of a job -------------------------------------------------------------


def take_over(stored: StoredJob) -> Job:
    """Return the job as a worker takes it over once its lease has ended."""
    later = stored.now + LIMITS.lease + SECOND
    claimed = job.claim(stored.job, token="taker", now=later, limits=LIMITS)
    assert isinstance(claimed, job.Claimed)
    return claimed.job


def test_no_job_ever_has_a_greater_fence_than_its_manifest(bench: BlobBench) -> None:
    """E15: wherever a take-over dies, a job made again begins above every fence there was."""
    stored = bench.dispatched(*WHOLE)
    bundle = stored.job.revision.bundle
    for _ in dying(bench, lambda: bench.store.replace(stored, take_over(stored))):
        fence = bench.job_document(stored.job.id)["fence"]
        assert bench.manifest_document(bundle)["fence"] >= fence
        assert bench.store.due_jobs(1) == ()
        bench.clock.forward(LIMITS.lease * 4)
        assert [one.id for one in bench.store.due_jobs(1)] == [stored.job.id]
        bench.clock.forward(-LIMITS.lease * 4)


def test_a_rest_in_the_middle_of_a_take_over_does_not_last(bench: BlobBench) -> None:
    """H7: the manifest is kept before the job is written, and once more after it."""
    stored = bench.dispatched(*WHOLE)
    bundle = stored.job.revision.bundle

    def around(name: str, call: Callable[[], Any]) -> Any:
        if "swap jobs" in name:
            bench.bucket.around = lambda _, call: call()
            held = bench.store.manifest(bundle)
            assert held
            assert bench.store.rest(held, wake_at=None, finished=True)
        return call()

    bench.bucket.around = around
    assert bench.store.replace(stored, take_over(stored))
    document = bench.manifest_document(bundle)
    assert "wake_at" in document
    assert "expires_at" not in document


def test_an_end_that_dies_before_its_claim_knows_is_found_out(bench: BlobBench) -> None:
    """E10: the claim still leads to the job, and the job says that it has ended."""
    stored = bench.dispatched(*WHOLE)
    done = job.done(stored.job, now=stored.now, summary={})
    for place in dying(bench, lambda: bench.store.replace(stored, done)):
        recorded = bench.record(WHOLE[-1])
        found = bench.store.job(stored.job.id)
        assert found
        if place.startswith("before objects.swap jobs"):
            assert found.job == stored.job
        else:
            assert found.job == done
        if recorded.unended == ():
            assert place.startswith("after objects.swap claims")


def test_a_job_whose_letter_is_due_carries_its_expiry_when_put_off(bench: BlobBench) -> None:
    """H11, H7: to put a document off changes when it is due and nothing else."""
    stored = bench.dispatched(*WHOLE)
    past = datetime(2026, 1, 1, tzinfo=UTC)
    assert bench.store.replace(stored, job.dead(stored.job, CorruptError("cut"), now=past))
    name = f"jobs/{stored.job.id}"
    before = bench.bucket.stored[name]
    (due,) = bench.store.due_jobs(1)
    bench.store.postpone(due, due.now + timedelta(hours=1))
    after = bench.bucket.stored[name]
    assert (after.payload, after.expires_at) == (before.payload, before.expires_at)
    assert after.expires_at == bench.clock() + timedelta(days=7)
    assert {**after.labels, "due_at": ""} == {**before.labels, "due_at": ""}
    assert bench.store.due_jobs(1) == ()


def test_a_rest_whose_answer_was_lost_is_found_out(bench: BlobBench) -> None:
    """E12: the manifest is read again, and says what was to be written."""
    recorded = bench.record("in/roads.shp")
    held = bench.store.manifest(recorded.manifest.bundle)
    assert held
    bench.bucket.around = losing("swap manifests")
    assert bench.store.rest(held, wake_at=None, stalled=True)


# --- contention -----------------------------------------------------------------


def test_who_always_comes_second_gives_up_after_bounded_pauses(bench: BlobBench) -> None:
    """F9: others may come first only so often; then the event comes again later."""

    def around(name: str, call: Callable[[], Any]) -> Any:
        return None if "manifests" in name and is_write(name) else call()

    bench.bucket.around = around
    with pytest.raises(StoreBusyError, match="others wrote it first 12 times"):
        bench.record("in/roads.shp")
    assert len(bench.pauses) == ROUNDS
    assert bench.pauses[0] == PAUSE_SECONDS
    assert max(bench.pauses) == PAUSE_MOST_SECONDS


def test_who_comes_second_merges_into_what_the_first_has_left(bench: BlobBench) -> None:
    """C1: a component that is recorded in the middle of a merge is kept by it."""
    done = []

    def around(name: str, call: Callable[[], Any]) -> Any:
        if "create manifests" in name and not done:
            done.append(name)
            bench.record("in/roads.dbf")
        return call()

    bench.bucket.around = around
    recorded = bench.store.record(claim_of("in/roads.shp"), REQUIRED)
    assert getattr(recorded, "missing", ()) == (".shx",)
    known = bench.store.manifest(job_bundle())
    assert known
    assert known.manifest.seen == (".dbf", ".shp")


def job_bundle() -> Any:
    """Return the bundle of the tests."""
    return claim_of("in/roads.shp").component.bundle


# --- documents --------------------------------------------------------------------


def test_an_object_that_is_no_document_is_named(bench: BlobBench) -> None:
    """G9: what somebody wrote by hand is told with what to do, and can be put off."""
    for payload in (b"\xff\x00", b"[1]"):
        bench.bucket.stored["jobs/poison"] = Stored(payload, 7, {"due_at": "never"}, None)
        with pytest.raises(ValueError, match=r"^jobs/poison: the object holds no document"):
            bench.store.job("poison")
        (due,) = bench.store.due_jobs(1)
        bench.store.postpone(due, due.now + timedelta(hours=1))
        assert bench.store.due_jobs(1) == ()


def test_a_manifest_that_is_no_document_is_no_fault_of_the_deployment(bench: BlobBench) -> None:
    """G9, H6: whoever reads many manifests can leave one out, as with any other store."""
    bench.bucket.stored[f"manifests/{bundle_id(job_bundle())}"] = Stored(b"{", 7, {}, None)
    with pytest.raises(ValueError, match=r"the object holds no document; mend it"):
        bench.store.manifests_of([job_bundle()])
    history = BlobHistory(bench.bucket)
    bench.bucket.stored["jobs/poison"] = Stored(b"{", 7, {"state": "dead"}, None)
    with pytest.raises(ConfigurationError, match=r"^jobs/poison: the object holds no document"):
        list(history.jobs_in([State.DEAD]))


def test_only_fields_that_are_named_as_times_are_read_as_times() -> None:
    """E13: a text that looks like a time is one where the field says so, and stays a text else."""
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    text = at.isoformat()
    document = {"due_at": at, "name": text, "summary": {"x_at": text}, "history": [{"at": at}, 3]}
    assert decoded(encoded(document), "x") == document
    assert decoded(encoded({"due_at": "soon"}), "x") == {"due_at": "soon"}
    assert time_of("2026-03-01T12:00:00") is None


def test_labels_are_the_fields_that_are_asked_for() -> None:
    """Design 7: what a listing shows is what other stores index."""
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    shown = labels_of("jobs", {"state": State.DEAD.value, "due_at": at, "pins": {}})
    assert shown == {"state": "dead", "due_at": at.isoformat()}
    assert labels_of("sweep", {"after": "x"}) == {}


def test_a_read_is_not_before_what_it_found() -> None:
    """Store.record: whole seconds do not put a read before the write that it has seen."""
    at = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    assert moment({"updated_at": at}, at.replace(microsecond=0)) > at
    assert moment({}, at) == at


def test_a_claim_that_vanishes_while_history_reads_is_left_out(bench: BlobBench) -> None:
    """H7: what expires between the listing and the read is not remembered."""
    claim = claim_of("in/roads.shp")
    bench.store.record(claim)

    def around(name: str, call: Callable[[], Any]) -> Any:
        if "read claims" in name:
            bench.remove("claims", claim.id)
        return call()

    bench.bucket.around = around
    assert bench.history.claims_of(claim.component.bundle) == ()


def test_a_write_tells_its_generation(bench: BlobBench) -> None:
    """Objects.write: what a write returns is what the next one expects."""
    wrote = bench.bucket.write("sweep/x", b"{}", 0, labels={}, expires_at=None)
    assert isinstance(wrote, Wrote)
    assert bench.bucket.read("sweep/x").generation == wrote.generation
    assert bench.bucket.write("sweep/x", b"{}", 0, labels={}, expires_at=None) is None


def test_a_dispatch_takes_what_was_found_into_the_manifest(bench: BlobBench) -> None:
    """Design 4: the job's own objects are known from then on, even of a manifest that was lost."""
    claim = claim_of("in/roads.shp")
    opened = job_of(claim, whole(bench.store.record(claim)))
    bench.remove("manifests", bundle_id(opened.revision.bundle))
    assert bench.store.dispatch(opened)
    known = bench.store.manifest(opened.revision.bundle)
    assert known
    assert known.manifest.components == {"in/roads.shp": GENERATION}
    assert known.manifest.wake_at
