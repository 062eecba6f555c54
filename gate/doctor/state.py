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
# Conditions that only what has been replaced, or may be removed, can meet.
_HARMLESS = (
    EXPIRY,
    "customTimeBefore",
    "daysSinceNoncurrentTime",
    "noncurrentTimeBefore",
    "numNewerVersions",
)


def expiry(address: BlobAddress, described: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield whether finished documents are removed, and no others."""
    where = f"bucket {address.bucket}"
    rules = (described.get("lifecycle_config") or {}).get("rule", ())
    conditions = [
        rule.get("condition", {})
        for rule in rules
        if rule.get("action", {}).get("type") == "Delete"
        and _meets(address.object_prefix, rule.get("condition", {}).get("matchesPrefix", ()))
    ]
    reckless = [each for each in conditions if not any(key in each for key in _HARMLESS)]
    if reckless:
        yield failed(
            "lifecycle",
            where,
            f"a rule removes what is pending too: {', '.join(sorted(reckless[0])) or 'anything'}",
            f"change its condition to {EXPIRY}, or keep the state in a bucket of its own",
        )
    elif any(EXPIRY in each for each in conditions):
        yield ok("lifecycle", where, f"finished documents are removed by {EXPIRY}")
    else:
        yield failed(
            "lifecycle",
            where,
            "finished documents stay for ever, and each sweep lists them",
            f"add a rule that deletes by {EXPIRY} of 1, with gcloud storage buckets update"
            f" gs://{address.bucket} --lifecycle-file=FILE",
        )


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


def _meets(prefix: str, prefixes: Sequence[str]) -> bool:
    """Tell whether a rule for some prefixes has to do with what lies below `prefix`."""
    return not prefixes or any(
        prefix.startswith(each) or each.startswith(prefix) for each in prefixes
    )
