"""What a document becomes when something is merged into it: pure, and the same however often.

Each function returns the document changed, or `None` if nothing is left to
change. So whoever finds that another writer was first merges into what that
one has left, and whoever repeats another's half-done work adds what is missing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from gate.identity import Pin, bundle_id
from gate.job import Job
from gate.names import Bundle
from gate.store.documents import Document, bundle_fields, claim_status, manifest_from
from gate.store.port import Claim

Fields = dict[str, Any]


def claim_fields(claim: Claim, *, claimed_at: object, expires_at: datetime) -> Fields:
    """Return a claim that nobody has made before."""
    bundle = claim.component.bundle
    return {
        "bucket": bundle.bucket,
        "name": claim.component.name,
        "generation": claim.generation,
        "bundle": bundle_id(bundle),
        "event_id": claim.event_id,
        "token": claim.token,
        "claimed_at": claimed_at,
        "status": "recorded",
        "expires_at": expires_at,
    }


def joined(bundle: Bundle, document: Document, pins: tuple[Pin, ...]) -> Fields:
    """Return a manifest with objects merged into its registers."""
    merged = manifest_from(bundle, document).joined(pins)
    return {
        **document,
        **bundle_fields(bundle),
        "components": dict(merged.components),
        "newest": {extension: pin.generation for extension, pin in merged.current().items()},
        "seen": sorted({*document.get("seen", ()), *merged.seen}),
    }


def with_claim(
    document: Document, claim: Claim, *, created: bool, now: datetime, wake_at: datetime
) -> Fields | None:
    """Return a manifest with the component of a claim.

    Nothing if this very claim has been merged, or if it was made by an earlier
    call, unless it has outlived its manifest. `now` is the store's time.
    """
    held = document.get("components", {}).get(claim.component.name, 0)
    told = not created or document.get("latest_claim") == claim.id
    if told and held >= claim.generation:
        return None
    said = {"updated_at": now, "latest_claim": claim.id, "wake_at": wake_at}
    changed = {**joined(claim.component.bundle, document, (claim.pin,)), **said}
    changed.pop("expires_at", None)
    return changed


def with_job(
    document: Document, job: Job, found: tuple[Pin, ...], *, wake_at: datetime
) -> Fields | None:
    """Return a manifest with a job's revision dispatched and its objects known.

    While the job goes on, the manifest does not expire.
    """
    bundle = job.revision.bundle
    before = manifest_from(bundle, document)
    pins = (*found, *(pin for _, pin in job.revision.pins))
    after = replace(
        before.joined(pins).with_dispatched(job.revision.generations),
        fence=max(job.fence, before.fence),
    )
    if after == before:
        return None if job.ended else kept(document, wake_at=wake_at)
    said = {
        "dispatched": dict(after.dispatched),
        "dispatched_order": after.dispatched_order,
        "fence": after.fence,
    }
    changed = {**joined(bundle, document, pins), **said}
    return kept(changed, wake_at=wake_at) or changed


def with_fence(document: Document, job: Job, *, wake_at: datetime) -> Fields | None:
    """Return a manifest with at least the fence of a job, due and not expiring."""
    if document.get("fence", 0) >= job.fence:
        return kept(document, wake_at=wake_at)
    said = {"fence": job.fence, "wake_at": wake_at}
    changed = {**document, **bundle_fields(job.revision.bundle), **said}
    changed.pop("expires_at", None)
    return changed


def kept(document: Document, *, wake_at: datetime) -> Fields | None:
    """Return a manifest that does not expire and is looked at, at `wake_at` if at no other time."""
    if "wake_at" in document and "expires_at" not in document:
        return None
    changed = {"wake_at": wake_at, **document}
    changed.pop("expires_at", None)
    return changed


def with_note(document: Document, job: Job, *, expires_at: datetime, always: bool) -> Fields | None:
    """Return a claim that says where its job stands; unless `always`, if it did not know the job.

    A claim that has expired comes back with nothing but the note.
    """
    jobs = document.get("jobs", {})
    if job.id in jobs and not always:
        return None
    status = claim_status(job)
    said = {"status": status, "jobs": {**jobs, job.id: status}, "expires_at": expires_at}
    return {**document, **said}


def moment(document: Document, now: datetime) -> datetime:
    """Return the time of a read, not before what the store has dated in the document itself.

    Reads may be dated in whole seconds, and what they found was written before.
    """
    dated: list[datetime] = [
        document[field] for field in ("updated_at", "stalled_at") if field in document
    ]
    return max([now, *(each + datetime.resolution for each in dated)])
