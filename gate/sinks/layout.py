"""The names of what a Cloud Storage sink writes, and which of it may be removed.

Everything of one bundle lies directly in one folder:

    <prefix>/<basename>/latest.json                                   the pointer
    <prefix>/<basename>/<order>-<revision>-<fence>-<token>.parquet    a dataset
    <prefix>/<basename>/<order>-<revision>-<fence>-<token>.report.json

The order stands first, zero-padded, so that names sort as revisions do. The
token belongs to one call: a name is written once and never again, whoever is
a zombie, so whatever a pointer leads to cannot change under a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gate.identity import Revision, bundle_id
from gate.names import Bundle

POINTER = "latest.json"

# A generation has up to 19 digits, and a revision is a sum of a few dozen.
_ORDER_DIGITS = 22
_NAME = re.compile(
    r"(?P<order>\d{22})-(?P<revision>[0-9a-f]{32})-(?P<fence>\d+)-(?P<token>[0-9a-f]+)"
    r"(?P<kind>\.parquet|\.report\.json)"
)
# Cloud Storage, object naming requirements: 1024 bytes of UTF-8.
_MAX_NAME_BYTES = 1024
_ROOM_BYTES = 128


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one call writes: the common stem of its two objects, within the folder."""

    order: int
    revision_id: str
    fence: int
    token: str

    @classmethod
    def of(cls, revision: Revision, fence: int, token: str) -> Attempt:
        """Return the attempt of one call at `revision`; `token` is hex and its own."""
        return cls(revision.order, revision.id, fence, token)

    @property
    def stem(self) -> str:
        """Return the name of both objects without their extension."""
        return f"{self.order:0{_ORDER_DIGITS}d}-{self.revision_id}-{self.fence}-{self.token}"

    @property
    def dataset(self) -> str:
        """Return the name of the dataset within the folder."""
        return f"{self.stem}.parquet"

    @property
    def report(self) -> str:
        """Return the name of the report within the folder."""
        return f"{self.stem}.report.json"


def folder(output_prefix: str, bundle: Bundle) -> str:
    """Return the folder of a bundle, with its closing slash: always below `output_prefix`.

    It is the basename as it is. Where that could not be a path (an empty or
    dotted segment, which some tools resolve and so leave the prefix; a name too
    long for what follows), the odd segments are spelt out, the name is cut, and
    the bundle's id is added, so that two bundles still do not meet.
    """
    segments = bundle.basename.split("/")
    room = _MAX_NAME_BYTES - _ROOM_BYTES - len(output_prefix.encode())
    odd = any(set(segment) <= {"."} for segment in segments)
    if not odd and len(bundle.basename.encode()) <= room:
        return f"{output_prefix}{bundle.basename}/"
    plain = "/".join(segment if set(segment) - {"."} else f"_{segment}_" for segment in segments)
    identity = bundle_id(bundle)
    cut = plain.encode()[: room - len(identity) - 1].decode(errors="ignore")
    return f"{output_prefix}{cut}~{identity}/"


def removable(names: Iterable[str], mine: Attempt, kept: Iterable[str]) -> list[str]:
    """Return the names, within the folder, that `mine` may remove once it is current.

    That is what lost to it: objects of a lesser order, and those of other
    attempts at its own revision up to its own fence. Spared are its own, the
    datasets in `kept` with their reports, anything newer, and any name that no
    sink wrote.
    """
    spared = {mine.stem, *(dataset.removesuffix(".parquet") for dataset in kept)}
    return [name for name in names if _lost(name, mine, spared)]


def _lost(name: str, mine: Attempt, spared: set[str]) -> bool:
    match = _NAME.fullmatch(name)
    if match is None or name.removesuffix(match["kind"]) in spared:
        return False
    order = int(match["order"])
    same = order == mine.order and match["revision"] == mine.revision_id
    return order < mine.order or (same and int(match["fence"]) <= mine.fence)
