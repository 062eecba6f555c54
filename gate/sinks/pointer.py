"""The pointer `latest.json`: which revision of a bundle readers see."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from gate.errors import ConfigurationError, DatasetTakenError
from gate.identity import Revision, bundle_id
from gate.sinks.port import Outdated, Published

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Superseded:
    """A dataset that is not current any more and still there, and since when."""

    dataset: str
    superseded_at: datetime

    def as_json(self) -> dict[str, str]:
        """Return it as it stands in a pointer."""
        return {"dataset": self.dataset, "superseded_at": self.superseded_at.isoformat()}

    @classmethod
    def parsed(cls, fields: dict[str, str]) -> Superseded:
        """Return what `as_json` spelt; raises `ValueError`, `KeyError` or `TypeError`."""
        at = datetime.fromisoformat(fields["superseded_at"])
        if at.tzinfo is None:
            raise ValueError("superseded_at has no zone")
        return cls(fields["dataset"], at)


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a pointer says.

    `dataset` and `report` are names within the pointer's own folder, as are
    `metadata`, empty if the layer came without, `rejects`, empty if no rejected
    row is listed, and those in `previous`, newest first; `location` is the
    dataset's URI. `layer` is empty unless the bundle is an archive. Times are
    RFC 3339.

    In JSON, `order` is a string of digits: it is a sum of generations, beyond
    2^53, and readers in JavaScript would round a number. Compare it as an
    integer. The other numbers are far below that.
    """

    bundle_id: str
    bucket: str
    basename: str
    layer: str
    revision_id: str
    order: int
    job_id: str
    fence: int
    location: str
    dataset: str
    report: str
    metadata: str
    rejects: str
    rows: int
    size_bytes: int
    crc32c: str
    published_at: str
    previous: tuple[Superseded, ...] = ()

    @property
    def standing(self) -> tuple[str, ...]:
        """Return the names of the superseded datasets that are still there."""
        return tuple(each.dataset for each in self.previous)

    def as_json(self) -> bytes:
        """Return the pointer as it is stored."""
        content = {
            "format_version": FORMAT_VERSION,
            **asdict(self),
            "order": str(self.order),
            "previous": [each.as_json() for each in self.previous],
        }
        return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n"

    def verdict(self, revision: Revision, layer: str = "") -> Published | Outdated | None:
        """Tell what this pointer means for a publication of `layer` at `revision`.

        `None`: it is older and may be replaced. Two revisions of one bundle
        never have the same order unless one was made up; the one that is
        published stays. Raises `DatasetTakenError` if the pointer is another
        bundle's or another layer's.
        """
        if (self.bundle_id, self.layer) != (bundle_id(revision.bundle), layer):
            holder = f"{self.basename}/{self.layer}" if self.layer else self.basename
            raise DatasetTakenError(
                f"gs://{self.bucket}/{holder} already publishes as {self.location}",
                where=f"{revision.bundle}/{layer}" if layer else str(revision.bundle),
            )
        if self.revision_id == revision.id:
            return Published(self.location, self.rows, already=True)
        return Outdated(self.order) if self.order >= revision.order else None


def parse(content: bytes, where: str) -> Pointer:
    """Return the pointer stored under `where`.

    Raises `ConfigurationError` if it is not one that this version understands:
    guessing could replace a newer dataset by an older one.
    """
    try:
        fields: dict[str, Any] = json.loads(content)
        if fields.pop("format_version") != FORMAT_VERSION:
            raise ValueError("format_version")
        known = {name: fields[name] for name in Pointer.__dataclass_fields__}
        previous = tuple(map(Superseded.parsed, known["previous"]))
        pointer = Pointer(**{**known, "order": int(known["order"]), "previous": previous})
        if not isinstance(pointer.bundle_id, str) or not isinstance(pointer.revision_id, str):
            raise TypeError("an id is no string")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"is no pointer of format {FORMAT_VERSION} ({type(error).__name__}: {error})",
            where=where,
            cure="move the object away if it is not the gate's, or give SINK another prefix",
        ) from error
    return pointer
