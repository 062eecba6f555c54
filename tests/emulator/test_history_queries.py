"""What people's questions ask of Firestore's indexes."""

from __future__ import annotations

from typing import Any

from gate.job import State
from gate.names import Bundle
from gate.store.documents import QUERIED
from gate.store.firestore_history import FirestoreHistory
from tests.contract.stores import BUCKET, FirestoreBench
from tests.emulator.firestore import Wire, connected


def asked(request: Any) -> tuple[str, str]:
    """Return the kind of document that a query is about, and the one field that it asks for."""
    counted = getattr(request, "structured_aggregation_query", None)
    query = counted.structured_query if counted else request.structured_query
    kind = query.from_[0].collection_id.rpartition("-")[2]
    assert query.where._pb.WhichOneof("filter_type") == "field_filter"
    assert not query.order_by
    return kind, query.where.field_filter.field.field_path


def test_each_question_asks_for_one_field_that_has_an_index(
    firestore_address: str, wire: Wire
) -> None:
    """F12: no question needs an index of its own, and every field asked for is listed as such."""
    client = connected(firestore_address, wire)
    history = FirestoreHistory(client, FirestoreBench(client)._collections)
    bundle = Bundle(BUCKET, "in/", "roads")
    history.claims_of(bundle)
    history.jobs_of(bundle)
    list(history.jobs_in((State.DEAD, State.HELD)))
    history.count(State.DEAD)
    found = {asked(request) for request in wire.requests}
    assert found == {("claims", "bundle"), ("jobs", "basename"), ("jobs", "state")}
    assert all(field in QUERIED[kind] for kind, field in found)
