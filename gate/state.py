"""Where claims, manifests and jobs are kept, as the environment states it."""

from __future__ import annotations

from dataclasses import dataclass

from gate.environment import Environment
from gate.sinks.address import SinkAddress, place_problems

STORES = ("firestore", "blobs")
_SCHEME = "gs://"
_EXAMPLE = "gs://bucket/prefix"


@dataclass(frozen=True, slots=True)
class BlobAddress:
    """A place for small objects; `prefix` holds no slash at either end and may be empty."""

    bucket: str
    prefix: str = ""

    @property
    def object_prefix(self) -> str:
        """Return what the name of every object kept here begins with."""
        return f"{self.prefix}/" if self.prefix else ""

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.object_prefix}"


def read(stated: Environment, source_bucket: str, sink: object) -> BlobAddress | None:
    """Return where small objects go; `None` for Firestore, or with a problem that is noted."""
    store = stated.checked("STATE", _store, STORES[0])
    uri = stated.text("STATE_URI")
    if store == STORES[0]:
        return None
    try:
        address = _address(uri)
    except ValueError as error:
        stated.problem("STATE_URI", str(error))
        return None
    if not stated.states("SOURCE_BUCKET"):
        stated.problem(
            "SOURCE_BUCKET",
            "must be set with STATE=blobs, so that what is kept cannot be taken for uploads; set"
            " it to the bucket whose events trigger the function",
        )
    elif address.bucket == source_bucket:
        stated.problem(
            "STATE_URI",
            f"{address} lies in SOURCE_BUCKET, so that each write there would trigger us; use a"
            " bucket of its own",
        )
    if isinstance(sink, SinkAddress) and sink.bucket == address.bucket:
        mine, its = address.object_prefix, sink.output_prefix
        if mine.startswith(its) or its.startswith(mine):
            stated.problem(
                "STATE_URI",
                f"{address} and the sink {sink} lie in each other's way; use a bucket of its own,"
                " or folders of which neither holds the other",
            )
    return address


def _store(text: str) -> str:
    if text not in STORES:
        raise ValueError(f"{text!r} is unknown; use {' or '.join(STORES)}")
    return text


def _address(uri: str) -> BlobAddress:
    if not uri.startswith(_SCHEME):
        raise ValueError(f"begins with no {_SCHEME}; with STATE=blobs, write it like {_EXAMPLE}")
    bucket, _, prefix = uri.removeprefix(_SCHEME).partition("/")
    prefix = prefix.removesuffix("/")
    problems = "; ".join(place_problems(bucket, prefix))
    if problems:
        raise ValueError(f"{problems}; write it like {_EXAMPLE}")
    return BlobAddress(bucket, prefix)
