"""What a bucket remembers, for people who ask.

Each question lists the folder it is about, a thousand documents with each
request, and reads those whose labels fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gate.errors import ConfigurationError
from gate.identity import bundle_id
from gate.job import Job, State
from gate.names import Bundle
from gate.store.blob_documents import decoded
from gate.store.history import (
    RecordedClaim,
    by_revision,
    claim_from,
    in_order,
    remembered_job,
)
from gate.store.objects import Objects

Labels = Mapping[str, str]


class BlobHistory:
    """The `gate.store.history.History` over the objects of a `BlobStore`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def claim(self, claim_id: str) -> RecordedClaim | None:
        """See `History.claim`."""
        document = self._read(f"claims/{claim_id}")
        return claim_from(claim_id, document) if document else None

    def claims_of(self, bundle: Bundle) -> tuple[RecordedClaim, ...]:
        """See `History.claims_of`."""
        wanted = bundle_id(bundle)
        found = self._found("claims", lambda labels: labels.get("bundle") == wanted)
        return in_order(claim_from(key, document) for key, document in found)

    def jobs_of(self, bundle: Bundle) -> tuple[Job, ...]:
        """See `History.jobs_of`."""
        wanted = bundle.basename
        found = self._found("jobs", lambda labels: labels.get("basename") == wanted)
        return by_revision((remembered_job(key, document) for key, document in found), bundle)

    def jobs_in(self, states: Iterable[State]) -> Iterator[Job]:
        """See `History.jobs_in`."""
        wanted = {state.value for state in states}
        for key, document in self._found("jobs", lambda labels: labels.get("state") in wanted):
            yield remembered_job(key, document)

    def count(self, state: State) -> int:
        """See `History.count`."""
        listed, _ = self._objects.listed("jobs")
        return sum(one.labels.get("state") == state.value for one in listed)

    def _found(
        self, folder: str, fits: Callable[[Labels], bool]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        listed, _ = self._objects.listed(folder)
        for one in listed:
            document = fits(one.labels) and self._read(f"{folder}/{one.name}")
            if document:
                yield one.name, document

    def _read(self, name: str) -> dict[str, Any] | None:
        payload = self._objects.read(name).payload
        try:
            return None if payload is None else decoded(payload, name)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
