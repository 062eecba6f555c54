"""Checks of the bucket that claims, manifests and jobs are kept in, with `STATE=blobs`.

Objects that may be removed carry a `Custom-Time`, and no others do. A rule by
`daysSinceCustomTime` removes them; one by age alone removes what is pending
(Cloud Storage, "Object Lifecycle Management").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gate.doctor.finding import Finding, failed, ok, warning
from gate.state import BlobAddress

EXPIRY = "daysSinceCustomTime"
# Below the prefix; see `gate.store.blobs`. Names in there are of 32 hex digits.
FOLDERS = ("claims", "manifests", "jobs")
_DIGITS = frozenset("0123456789abcdef")
# Conditions that only what has been replaced, or may be removed, can meet.
_SPARING = (EXPIRY, "customTimeBefore", "daysSinceNoncurrentTime", "noncurrentTimeBefore")
# Conditions that whatever is finished meets in the end.
_PATIENT = (EXPIRY, "age", "isLive", "matchesPrefix", "matchesStorageClass")


def expiry(address: BlobAddress, described: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield whether finished documents are removed, and no others."""
    where = f"bucket {address.bucket}"
    rules = (described.get("lifecycle_config") or {}).get("rule", ())
    conditions = [
        rule.get("condition", {})
        for rule in rules
        if rule.get("action", {}).get("type") == "Delete"
    ]
    places = {folder: f"{address.object_prefix}{folder}/" for folder in FOLDERS}
    reckless = [each for each in conditions if _removes_pending(each, tuple(places.values()))]
    kind = str(described.get("default_storage_class", ""))
    kept = [
        folder
        for folder, place in places.items()
        if not any(_removes_finished(each, place, kind) for each in conditions)
    ]
    if reckless:
        yield failed(
            "lifecycle",
            where,
            f"a rule removes what is pending too: {', '.join(sorted(reckless[0])) or 'anything'}",
            f"change its condition to {EXPIRY}, or keep the state in a bucket of its own",
        )
    elif kept:
        yield failed(
            "lifecycle",
            where,
            f"finished documents stay for ever: {', '.join(kept)}",
            f"add a rule that deletes by {EXPIRY} of 1, as in docs/choosing.md, with"
            f" gcloud storage buckets update gs://{address.bucket} --lifecycle-file=FILE",
        )
    else:
        yield ok("lifecycle", where, f"finished documents are removed by {EXPIRY}")


def replaced(address: BlobAddress, described: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield whether objects can be replaced, and whether that leaves something behind."""
    where = f"bucket {address.bucket}"
    update = f"gcloud storage buckets update gs://{address.bucket}"
    if described.get("retention_policy"):
        yield failed(
            "replaced",
            where,
            "its retention policy refuses every change of a document",
            "keep the state in a bucket without one",
        )
    seconds = int((described.get("soft_delete_policy") or {}).get("retentionDurationSeconds", 0))
    kept = [
        *(["versions, --no-versioning"] if described.get("versioning_enabled") else []),
        *([f"soft deletion for {seconds} s, --clear-soft-delete"] if seconds else []),
    ]
    for each in kept:
        what, _, flag = each.partition(", ")
        yield warning(
            "replaced",
            where,
            f"it keeps all that a write replaces, and that costs: {what}",
            f"{update} {flag}",
        )


def _removes_pending(condition: Mapping[str, Any], places: Sequence[str]) -> bool:
    """Tell whether a rule may delete a live object below one of the places, without its time.

    Any storage class counts, for another rule may have changed it.
    """
    spared = (
        any(key in condition for key in _SPARING)
        or condition.get("isLive") is False
        or int(condition.get("numNewerVersions", 0)) > 0
    )
    prefixes, suffixes = condition.get("matchesPrefix"), condition.get("matchesSuffix")
    met = not prefixes or any(
        place.startswith(each) or _names_some(each, place) for place in places for each in prefixes
    )
    ends = not suffixes or any(_DIGITS.issuperset(each.rpartition("/")[2]) for each in suffixes)
    return not spared and met and ends


def _names_some(prefix: str, place: str) -> bool:
    """Tell whether a longer prefix is that of some object in the place."""
    return prefix.startswith(place) and _DIGITS.issuperset(prefix.removeprefix(place))


def _removes_finished(condition: Mapping[str, Any], place: str, kind: str) -> bool:
    """Tell whether a rule deletes every object in a place that has its time, and had it for long.

    `kind` is the storage class of the bucket.
    """
    prefixes, classes = condition.get("matchesPrefix"), condition.get("matchesStorageClass")
    return (
        EXPIRY in condition
        and all(key in _PATIENT for key in condition)
        and condition.get("isLive") is not False
        and (not prefixes or any(place.startswith(each) for each in prefixes))
        and (not classes or kind in classes)
    )
