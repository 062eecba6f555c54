"""Manifests and jobs as documents: plain maps, the same for every store.

Generations and orders are integers; times are aware datetimes. What a document
lacks reads as never written, so that documents of an older version stay
readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gate.identity import Pin, Revision
from gate.job import HistoryEntry, Job, State
from gate.manifest import Manifest, PublishedRevision
from gate.names import Bundle

Document = Mapping[str, Any]

DISPATCHED = "dispatched"

DUE_AT = "due_at"
WAKE_AT = "wake_at"

# What the sweep and people ask for, each field by queries of its own: the index
# that Firestore keeps of every field by itself is all that they need.
QUERIED: Mapping[str, tuple[str, ...]] = {
    "claims": ("bundle",),
    "manifests": (WAKE_AT,),
    "jobs": ("basename", DUE_AT, "state"),
}

# Fields that nobody asks for and that would cost most to index: times, which
# only grow and so fall all into one place of the index, and maps, which have an
# entry for each key.
UNINDEXED: Mapping[str, tuple[str, ...]] = {
    "claims": ("claimed_at", "expires_at", "jobs"),
    "manifests": (
        "components",
        "dispatched",
        "dispatched_order",
        "expires_at",
        "newest",
        "published",
        "seen",
        "stalled_at",
        "updated_at",
    ),
    "jobs": (
        "created_at",
        "ended_at",
        "expires_at",
        "history",
        "lease_expires_at",
        "next_attempt_at",
        "order",
        "pins",
        "summary",
    ),
}


def due_time(stated: object) -> datetime:
    """Return when a document says that it is due; what is no time was due long ago."""
    return stated if isinstance(stated, datetime) else datetime.min.replace(tzinfo=UTC)


def bundle_fields(bundle: Bundle) -> dict[str, Any]:
    """Return what names a bundle, the same in every collection."""
    fields = {"bucket": bundle.bucket, "basename": bundle.basename}
    return {**fields, "archive": bundle.archive} if bundle.archive else fields


def bundle_from(document: Document) -> Bundle:
    """Return the bundle that a document names."""
    basename, archive = document["basename"], document.get("archive", "")
    cut = basename.rfind("/") + 1
    return Bundle(document["bucket"], basename[:cut], basename[cut:].removesuffix(archive), archive)


def claim_status(job: Job) -> str:
    """Return what the claim of the event that dispatched `job` says of it.

    A job whose dead letter is still to be sent has not ended for its event.
    """
    return job.state.value if job.ended and job.notified else DISPATCHED


def unended_jobs(claim: Document) -> tuple[str, ...]:
    """Return the ids of the jobs that a claim's event dispatched and that may yet go on.

    A held job is one of them: what it waits for may have come.
    """
    jobs = claim.get("jobs", {})
    open_ended = (DISPATCHED, State.HELD.value)
    return tuple(sorted(job for job, status in jobs.items() if status in open_ended))


def published_fields(published: PublishedRevision) -> dict[str, Any]:
    """Return a manifest's note of what is current in the sink."""
    return {
        "revision": published.revision_id,
        "order": published.order,
        "location": published.location,
    }


def manifest_from(bundle: Bundle, document: Document) -> Manifest:
    """Return the manifest of `bundle` as the document holds it."""
    published = document.get("published")
    return Manifest(
        bundle=bundle,
        components=dict(document.get("components", {})),
        dispatched=dict(document.get("dispatched", {})),
        dispatched_order=document.get("dispatched_order", 0),
        updated_at=document.get("updated_at"),
        wake_at=document.get("wake_at"),
        published=published
        and PublishedRevision(published["revision"], published["order"], published["location"]),
        stalled_at=document.get("stalled_at"),
        fence=document.get("fence", 0),
    )


def job_fields(job: Job) -> dict[str, Any]:
    """Return a job as a document, without its expiry; `due_at` stands on what is due only."""
    return {
        **bundle_fields(job.revision.bundle),
        "pins": {
            extension: {"name": pin.name, "generation": pin.generation}
            for extension, pin in job.revision.pins
        },
        "order": job.revision.order,
        "state": job.state.value,
        "fence": job.fence,
        "attempts": job.attempts,
        "token": job.token,
        "dispatched_by": job.dispatched_by,
        "created_at": job.created_at,
        "lease_expires_at": job.lease_expires_at,
        "next_attempt_at": job.next_attempt_at,
        "ended_at": job.ended_at,
        "summary": dict(job.summary),
        "history": [
            {
                "at": entry.at,
                "fence": entry.fence,
                "attempt": entry.attempt,
                "code": entry.code,
                "message": entry.message,
                "cure": entry.cure,
            }
            for entry in job.history
        ],
        "notified": job.notified,
        **({"due_at": job.due_at} if job.due_at else {}),
    }


def job_from(document: Document) -> Job:
    """Return the job that a document holds."""
    pins = {
        extension: Pin(pin["name"], pin["generation"])
        for extension, pin in document["pins"].items()
    }
    return Job(
        revision=Revision.of(bundle_from(document), pins),
        state=State(document["state"]),
        fence=document["fence"],
        attempts=document["attempts"],
        token=document["token"],
        dispatched_by=document["dispatched_by"],
        created_at=document["created_at"],
        lease_expires_at=document["lease_expires_at"],
        next_attempt_at=document.get("next_attempt_at"),
        ended_at=document.get("ended_at"),
        summary=dict(document.get("summary", {})),
        history=tuple(
            HistoryEntry(
                entry["at"],
                entry["fence"],
                entry["attempt"],
                entry["code"],
                entry["message"],
                entry.get("cure", ""),
            )
            for entry in document.get("history", ())
        ),
        notified=document.get("notified", True),
    )
