"""The port to what the store remembers, for people who ask what happened.

It only reads, and no decision of the gate depends on it. Each question asks for
one field, whose index Firestore keeps by itself. What time-to-live has collected
is not remembered. Any method raises `StoreBusyError` and `ConfigurationError` as
those of `gate.store.port` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gate.errors import ConfigurationError
from gate.job import Job, State
from gate.names import Bundle
from gate.store.documents import Document, job_from


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """An object generation that was recorded, when, and by which event.

    The event id is empty where no event told of the object. `jobs` maps the id of
    each job that the event dispatched to where it stood when that was last noted.
    """

    id: str
    bucket: str
    name: str
    generation: int
    event_id: str
    claimed_at: datetime
    jobs: Mapping[str, str]


class History(Protocol):
    """Claims and jobs, as people ask for them."""

    def claim(self, claim_id: str) -> RecordedClaim | None:
        """Read a claim; `None` if there is none."""
        ...

    def claims_of(self, bundle: Bundle) -> tuple[RecordedClaim, ...]:
        """Return the claims of a bundle, in the order they were made."""
        ...

    def jobs_of(self, bundle: Bundle) -> tuple[Job, ...]:
        """Return the jobs of a bundle, the oldest revision first."""
        ...

    def jobs_in(self, states: Iterable[State]) -> Iterator[Job]:
        """Yield the jobs that stand in one of the states, in no order."""
        ...

    def count(self, state: State) -> int:
        """Return how many jobs stand in a state, without reading them."""
        ...


def claim_from(claim_id: str, document: Document) -> RecordedClaim | None:
    """Return the claim that a document holds.

    `None` for one that has expired and of which only a job's note came back.
    """
    if "name" not in document:
        return None
    return RecordedClaim(
        claim_id,
        document["bucket"],
        document["name"],
        document["generation"],
        document["event_id"],
        document["claimed_at"],
        document.get("jobs", {}),
    )


def remembered_job(job_id: str, document: Document) -> Job:
    """Return the job that a document holds.

    Raises `ConfigurationError` for one that holds none: nothing of the gate writes such.
    """
    try:
        return job_from(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"its document is that of no job ({type(error).__name__}: {error})",
            where=job_id,
            cure="mend the document, or remove it from JOB_COLLECTION",
        ) from error


def in_order(claims: Iterable[RecordedClaim | None]) -> tuple[RecordedClaim, ...]:
    """Return the claims in the order they were made; the id decides between equal times."""
    found = (claim for claim in claims if claim)
    return tuple(sorted(found, key=lambda claim: (claim.claimed_at, claim.id)))


def by_revision(jobs: Iterable[Job], bundle: Bundle) -> tuple[Job, ...]:
    """Return those of the jobs that are of the bundle, the oldest revision first.

    Asked for was the basename alone, which two buckets may have in common.
    """
    found = (job for job in jobs if job.revision.bundle == bundle)
    return tuple(sorted(found, key=lambda job: job.revision.order))
