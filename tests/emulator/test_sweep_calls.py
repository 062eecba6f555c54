"""What a sweep costs in calls to Firestore, and which indexes it leans on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.api_core import exceptions as api
from google.cloud import firestore

from gate import job
from gate.errors import ConfigurationError, MissingIndexError, StoreBusyError
from gate.job import State
from gate.names import Bundle
from gate.store.documents import QUERIED, UNINDEXED
from gate.store.firestore import ROUNDS
from gate.store.firestore_history import FirestoreHistory
from gate.store.port import Cursor
from tests.contract.stores import FirestoreBench
from tests.emulator.firestore import Wire, connected

WHOLE = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")
PAST = datetime(2026, 1, 1, tzinfo=UTC)
QUERY, READ, WRITE = "RunQuery", "BatchGetDocuments", "Commit"


def test_a_sweep_with_nothing_to_do_costs_two_queries(bench: FirestoreBench, wire: Wire) -> None:
    """Design 7: to know that nothing is due takes one query for jobs and one for manifests."""
    bench.record("in/roads.shp")
    wire.clear()
    assert bench.store.due_jobs(5) == bench.store.due_manifests(5) == ()
    assert wire.calls == [QUERY, QUERY]


def test_taking_over_a_job_costs_two_calls(bench: FirestoreBench, wire: Wire) -> None:
    """Design 7.1: a due job is read afresh, so that its lease counts from now, then written."""
    stored = bench.dispatched(*WHOLE)
    assert bench.store.replace(stored, replace(stored.job, lease_expires_at=PAST))
    (due,) = bench.store.due_jobs(5)
    wire.clear()
    held = bench.store.job(due.id)
    assert held
    assert bench.store.replace(held, job.renewed(held.job, now=held.now, limits=LIMITS))
    assert wire.calls == [READ, WRITE]


LIMITS = job.Limits(
    lease=PAST - PAST.replace(year=2025), max_attempts=3, retry=PAST - PAST.replace(year=2025)
)


def test_many_manifests_cost_one_call(bench: FirestoreBench, wire: Wire) -> None:
    """H6: a page of the bucket is compared with one read, however many bundles it holds."""
    bundles = [bench.record(f"in/roads{number}.shp").manifest.bundle for number in range(30)]
    wire.clear()
    assert len(bench.store.manifests_of(bundles)) == 30
    assert bench.store.manifests_of(()) == {}
    assert wire.calls == [READ]


def test_every_call_of_the_sweep_has_a_deadline(bench: FirestoreBench, wire: Wire) -> None:
    """Issue 5: a sweep is not held up by a call that nobody answers."""
    asked(bench)
    assert all(timeout is not None and timeout <= 10 for timeout in wire.timeouts)


@pytest.mark.parametrize("ask", ["due_jobs", "due_manifests"])
def test_a_query_that_fails_in_passing_is_repeated(
    bench: FirestoreBench, wire: Wire, ask: str
) -> None:
    """F1: contention and lost connections are met with a few rounds, then told as busy."""
    wire.fail(QUERY, api.ServiceUnavailable("away"))
    assert getattr(bench.store, ask)(5) == ()
    wire.clear()
    wire.fail(QUERY, api.ServiceUnavailable("away"), times=ROUNDS)
    with pytest.raises(StoreBusyError):
        getattr(bench.store, ask)(5)
    assert wire.calls == [QUERY] * ROUNDS


@pytest.mark.parametrize(("ask", "field"), [("due_jobs", "due_at"), ("due_manifests", "wake_at")])
def test_a_missing_index_is_named(bench: FirestoreBench, wire: Wire, ask: str, field: str) -> None:
    """F12: a field that somebody exempted from indexing fails every sweep, and says which it is."""
    wire.fail(QUERY, api.FailedPrecondition("The query requires an index."))
    with pytest.raises(MissingIndexError, match=rf"\.{field}: Firestore keeps no index"):
        getattr(bench.store, ask)(5)
    assert wire.calls == [QUERY]
    assert bench.pauses == []


def test_a_refusal_of_another_kind_is_no_missing_index(bench: FirestoreBench, wire: Wire) -> None:
    """F12: a database of the wrong kind is told as before."""
    wire.fail(QUERY, api.FailedPrecondition("Datastore mode"))
    with pytest.raises(ConfigurationError, match="Native mode") as caught:
        bench.store.due_jobs(5)
    assert not isinstance(caught.value, MissingIndexError)


def asked(bench: FirestoreBench) -> None:
    """Make every kind of query and read that the sweep and people make."""
    recorded = bench.record("in/roads.shp")
    bench.store.due_jobs(5)
    bench.store.due_manifests(5)
    bench.store.manifests_of([recorded.manifest.bundle])
    held = bench.store.cursor("reconcile")
    bench.store.move_cursor(held, Cursor(held.now))


def fields_of(request: Any) -> Iterator[str]:
    """Yield the fields that a query filters or orders by."""
    query = getattr(request, "structured_query", None)
    if query is None:
        query = request.structured_aggregation_query.structured_query
    yield from (order.field.field_path for order in query.order_by)
    if query.where.field_filter.field.field_path:
        yield query.where.field_filter.field.field_path
    yield from (each.field_filter.field.field_path for each in query.where.composite_filter.filters)


def test_queries_and_the_list_of_indexes_are_the_same(
    firestore_address: str, bench: FirestoreBench, wire: Wire
) -> None:
    """F12: each query asks for one field, and all of them are those that the list names."""
    asked(bench)
    client: firestore.Client = connected(firestore_address, wire)
    history = FirestoreHistory(client, bench._collections)
    bundle = Bundle("uploads", "in/", "roads")
    history.claims_of(bundle)
    history.jobs_of(bundle)
    list(history.jobs_in([State.DEAD]))
    history.count(State.DEAD)
    found: dict[str, set[str]] = {kind: set() for kind in QUERIED}
    for call, request in zip(wire.calls, wire.requests, strict=True):
        if call not in (QUERY, "RunAggregationQuery"):
            continue
        query = getattr(request, "structured_query", None)
        if not query:
            query = request.structured_aggregation_query.structured_query
        collection = getattr(query, "from_", None) or query.from_
        kind = collection[0].collection_id.rpartition("-")[2]
        fields = list(fields_of(request))
        assert len(fields) == 1, fields
        found[kind].update(fields)
    assert found == {kind: set(fields) for kind, fields in QUERIED.items()}


def test_no_field_that_is_asked_for_is_exempt() -> None:
    """F12: what the sweep asks for must keep its index, whatever else is exempted."""
    assert QUERIED.keys() == UNINDEXED.keys()
    for kind, fields in QUERIED.items():
        assert not set(fields) & set(UNINDEXED[kind])


def test_every_exemption_is_of_a_field_that_is_written(bench: FirestoreBench) -> None:
    """F12: the list of exemptions names fields that documents have, and no others."""
    stored = bench.dispatched(*WHOLE)
    failed = job.done(stored.job, now=stored.now, summary={"loaded": 1})
    assert bench.store.replace(stored, failed)
    held = bench.store.manifest(stored.job.revision.bundle)
    assert held
    assert bench.store.rest(held, wake_at=PAST, stalled=True, finished=True)
    documents = {
        "claims": bench.document("claims", stored.job.dispatched_by),
        "manifests": bench.manifest_document(stored.job.revision.bundle),
        "jobs": bench.job_document(stored.job.id),
    }
    later = {"published"}
    for kind, fields in UNINDEXED.items():
        assert set(fields) - later <= (documents[kind] or {}).keys(), kind


def test_a_rest_whose_answer_was_lost_is_ones_own(bench: FirestoreBench, wire: Wire) -> None:
    """E13, H5: the second answer to a write that landed does not hide that it did."""
    held = bench.store.manifest(bench.record("in/roads.shp").manifest.bundle)
    assert held
    wire.clear()
    wire.fail(WRITE, api.ServiceUnavailable("away"), after=True)
    assert bench.store.rest(held, wake_at=PAST, stalled=True)
    assert wire.calls == [WRITE, WRITE, READ]
    other = replace(held, now=held.now.replace(year=2020))
    assert not bench.store.rest(other, wake_at=PAST, stalled=True)
