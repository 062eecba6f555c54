"""The guards of the store on small objects, each to be taken away: see `tests.simulation.teeth`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gate.store import blobs, merging
from gate.store.objects import ABSENT
from tests.simulation.bucket import Bucket

Replaced = tuple[Any, str, Any]


def _unconditional(kind: str) -> Replaced:
    """Let a write replace an object of this kind whatever its generation is by then."""

    def written(bucket: Bucket, name: str, payload: bytes, expected: int, *about: Any) -> Any:
        if expected != ABSENT and name.startswith(kind):
            expected = bucket._read(name).generation
        return write(bucket, name, payload, expected, *about)

    write = Bucket._write
    return Bucket, "_write", written


def _trusted_claims() -> Replaced:
    """Let a claim that exists stand for a component that its manifest knows."""

    def merged(document: Any, claim: Any, *, created: bool, **times: Any) -> Any:
        return with_claim(document, claim, created=True, **times) if created else None

    with_claim = merging.with_claim
    return blobs, "with_claim", merged


GUARDS: dict[str, Callable[[], Replaced]] = {
    "blob-job-condition": lambda: _unconditional("jobs/"),
    "blob-manifest-condition": lambda: _unconditional("manifests/"),
    "blob-claim-merge": _trusted_claims,
}
