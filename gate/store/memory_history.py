"""What the store in memory remembers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import starmap

from gate.identity import bundle_id
from gate.job import Job, State
from gate.names import Bundle
from gate.store.history import (
    RecordedClaim,
    by_revision,
    claim_from,
    in_order,
    remembered_job,
)
from gate.store.memory import MemoryStore


class MemoryHistory:
    """The `gate.store.history.History` over a `MemoryStore`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def claim(self, claim_id: str) -> RecordedClaim | None:
        """See `History.claim`."""
        document = self._store.claims.get(claim_id)
        return claim_from(claim_id, document) if document else None

    def claims_of(self, bundle: Bundle) -> tuple[RecordedClaim, ...]:
        """See `History.claims_of`."""
        wanted = bundle_id(bundle)
        found = self._store.claims.items()
        return in_order(claim_from(key, one) for key, one in found if one.get("bundle") == wanted)

    def jobs_of(self, bundle: Bundle) -> tuple[Job, ...]:
        """See `History.jobs_of`."""
        basename = bundle.basename
        found = (one for one in self._store.jobs.items() if one[1]["basename"] == basename)
        return by_revision(starmap(remembered_job, found), bundle)

    def jobs_in(self, states: Iterable[State]) -> Iterator[Job]:
        """See `History.jobs_in`."""
        wanted = {state.value for state in states}
        found = [one for one in self._store.jobs.items() if one[1]["state"] in wanted]
        return starmap(remembered_job, found)

    def count(self, state: State) -> int:
        """See `History.count`."""
        return sum(one["state"] == state.value for one in self._store.jobs.values())
