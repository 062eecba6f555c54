"""The index `index.json` of an archive: which layers it has, and what became of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gate.errors import ConfigurationError, DatasetTakenError
from gate.identity import Revision, bundle_id
from gate.sinks.port import Outdated, Publication

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Index:
    """What an index says of whose it is; `order` stands in JSON as a string, see the pointer."""

    bundle_id: str
    bucket: str
    basename: str
    revision_id: str
    order: int

    @classmethod
    def of(cls, publication: Publication) -> Index:
        """Return what the index of a publication says of it."""
        revision = publication.revision
        bundle = revision.bundle
        return cls(bundle_id(bundle), bundle.bucket, bundle.basename, revision.id, revision.order)

    def verdict(self, revision: Revision) -> Outdated | None:
        """Tell what this index means for another of `revision`; `None`: it may be replaced.

        Raises `DatasetTakenError` if it is another bundle's.
        """
        if self.bundle_id != bundle_id(revision.bundle):
            raise DatasetTakenError(
                f"gs://{self.bucket}/{self.basename} already has its index here",
                where=str(revision.bundle),
            )
        older = self.order < revision.order or self.revision_id == revision.id
        return None if older else Outdated(self.order)


def content_of(publication: Publication, index: Mapping[str, Any]) -> bytes:
    """Return an index as it is stored."""
    mine = Index.of(publication)
    content = {
        "format_version": FORMAT_VERSION,
        "bundle_id": mine.bundle_id,
        "bucket": mine.bucket,
        "basename": mine.basename,
        "revision_id": mine.revision_id,
        "order": str(mine.order),
        "job_id": publication.job_id,
        "fence": publication.fence,
        **index,
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode() + b"\n"


def parse(content: bytes, where: str) -> Index:
    """Return whose the index stored under `where` is.

    Raises `ConfigurationError` if it is not one that this version understands.
    """
    try:
        fields: dict[str, Any] = json.loads(content)
        if fields["format_version"] != FORMAT_VERSION:
            raise ValueError("format_version")
        known = {name: fields[name] for name in Index.__dataclass_fields__}
        if not isinstance(known["bundle_id"], str) or not isinstance(known["revision_id"], str):
            raise TypeError("an id is no string")
        return Index(**{**known, "order": int(known["order"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"is no index of format {FORMAT_VERSION} ({type(error).__name__}: {error})",
            where=where,
            cure="move the object away if it is not the gate's, or give SINK another prefix",
        ) from error
