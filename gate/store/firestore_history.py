"""What Firestore remembers, for people who ask.

Nobody waits for these answers but a person at a terminal, so the client's own
repetitions are left on, within a bound of their own: by itself the client goes
on for five minutes, for which a person would take the command to hang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.api_core.retry import Retry
from google.cloud import firestore
from google.cloud.firestore import FieldFilter

from gate.identity import bundle_id
from gate.job import Job, State
from gate.names import Bundle
from gate.store.firestore import Collections, translated
from gate.store.history import (
    RecordedClaim,
    by_revision,
    claim_from,
    in_order,
    remembered_job,
)

ANSWER_SECONDS = 30.0
# The default predicate: unavailable, internal error, too many requests.
PATIENCE = Retry(timeout=ANSWER_SECONDS)


class FirestoreHistory:
    """The `gate.store.history.History` over Firestore."""

    def __init__(self, client: firestore.Client, collections: Collections) -> None:
        self._claims = client.collection(collections.claims)
        self._jobs = client.collection(collections.jobs)

    def claim(self, claim_id: str) -> RecordedClaim | None:
        """See `History.claim`."""
        with translated():
            found = self._claims.document(claim_id).get(retry=PATIENCE, timeout=ANSWER_SECONDS)
        document = found.to_dict()
        return claim_from(claim_id, document) if document else None

    def claims_of(self, bundle: Bundle) -> tuple[RecordedClaim, ...]:
        """See `History.claims_of`."""
        wanted = FieldFilter("bundle", "==", bundle_id(bundle))
        found = _found(self._claims.where(filter=wanted))
        return in_order(claim_from(one.id, one.to_dict() or {}) for one in found)

    def jobs_of(self, bundle: Bundle) -> tuple[Job, ...]:
        """See `History.jobs_of`."""
        wanted = FieldFilter("basename", "==", bundle.basename)
        found = _found(self._jobs.where(filter=wanted))
        return by_revision((_job(one) for one in found), bundle)

    def jobs_in(self, states: Iterable[State]) -> Iterator[Job]:
        """See `History.jobs_in`."""
        wanted = FieldFilter("state", "in", sorted(state.value for state in states))
        for one in _found(self._jobs.where(filter=wanted)):
            yield _job(one)

    def count(self, state: State) -> int:
        """See `History.count`."""
        wanted = FieldFilter("state", "==", state.value)
        # The client's own annotations of an aggregation contradict each other.
        query: Any = self._jobs.where(filter=wanted).count()
        with translated():
            [[counted]] = query.get(retry=PATIENCE, timeout=ANSWER_SECONDS)
        return int(counted.value)


def _job(found: Any) -> Job:
    return remembered_job(found.id, found.to_dict() or {})


def _found(query: firestore.Query) -> Iterator[Any]:
    with translated():
        yield from query.stream(retry=PATIENCE, timeout=ANSWER_SECONDS)
