"""The names of what a Cloud Storage sink writes, and which of it may be removed.

Everything of one bundle lies directly in one folder:

    <prefix>/<basename>/latest.json                                   the pointer
    <prefix>/<basename>/<order>-<revision>-<fence>-<token>.parquet    a dataset, or .fgb …
    <prefix>/<basename>/<order>-<revision>-<fence>-<token>.report.json
    <prefix>/<basename>/<order>-<revision>-<fence>-<token>.shp.xml    its metadata
    <prefix>/<basename>/<order>-<revision>-<fence>-<token>.rejects.ndjson

Each layer of an archive has such a folder inside the archive's, which holds an
index of them:

    <prefix>/<basename>/index.json
    <prefix>/<basename>/<layer>/latest.json, …

The order stands first, zero-padded, so that names sort as revisions do. The
token belongs to one call: a name is written once and never again, whoever is
a zombie, so whatever a pointer leads to cannot change under a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gate.identity import Revision, bundle_id, digest
from gate.names import ARCHIVE_EXTENSIONS, Bundle

POINTER = "latest.json"
INDEX = "index.json"

# A generation has up to 19 digits, and a revision is a sum of a few dozen.
_ORDER_DIGITS = 22
_NAME = re.compile(
    r"(?P<order>\d{22})-(?P<revision>[0-9a-f]{32})-(?P<fence>\d+)-(?P<token>[0-9a-f]+)"
    r"(?P<kind>\.parquet|\.geojsonl|\.fgb|\.gpkg|\.report\.json|\.shp\.xml|\.rejects\.ndjson)"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Cloud Storage, object naming requirements: 1024 bytes of UTF-8.
_MAX_NAME_BYTES = 1024
_ROOM_BYTES = 128


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one call writes: the common stem of its objects, within the folder.

    `extension` is that of its dataset.
    """

    order: int
    revision_id: str
    fence: int
    token: str
    extension: str = ".parquet"

    @classmethod
    def of(cls, revision: Revision, fence: int, token: str, extension: str = ".parquet") -> Attempt:
        """Return the attempt of one call at `revision`; `token` is hex and its own."""
        return cls(revision.order, revision.id, fence, token, extension)

    @property
    def stem(self) -> str:
        """Return the name of the objects without their extension."""
        return f"{self.order:0{_ORDER_DIGITS}d}-{self.revision_id}-{self.fence}-{self.token}"

    @property
    def dataset(self) -> str:
        """Return the name of the dataset within the folder."""
        return f"{self.stem}{self.extension}"

    @property
    def report(self) -> str:
        """Return the name of the report within the folder."""
        return f"{self.stem}.report.json"

    @property
    def metadata(self) -> str:
        """Return the name of the metadata within the folder."""
        return f"{self.stem}.shp.xml"

    @property
    def rejects(self) -> str:
        """Return the name of the list of rejected rows within the folder."""
        return f"{self.stem}.rejects.ndjson"


def folder(output_prefix: str, bundle: Bundle, layer: str = "") -> str:
    """Return the folder of a bundle or of one layer of an archive, with its closing slash.

    It is always below `output_prefix`, and it is the basename as it is, with
    the name of the layer below it. Where that could not be a path (an empty or
    dotted segment, which some tools resolve and so leave the prefix; a control
    character, which Cloud Storage refuses; a name too long for what follows),
    or where a folder is called like an archive whose layers it could meet, the
    odd segments are spelt out, the name is cut, and an id is added, so that two
    of them still do not meet.
    """
    name = f"{bundle.basename}/{layer}" if layer else bundle.basename
    segments = name.split("/")
    room = _MAX_NAME_BYTES - _ROOM_BYTES - len(output_prefix.encode())
    odd = _like_an_archive(bundle) or any(_spelt(segment) != segment for segment in segments)
    if not odd and len(name.encode()) <= room:
        return f"{output_prefix}{name}/"
    plain = "/".join(map(_spelt, segments))
    identity = bundle_id(bundle)
    if layer:
        identity = digest(identity, layer)
    cut = plain.encode()[: room - len(identity) - 1].decode(errors="ignore")
    return f"{output_prefix}{cut}~{identity}/"


def _like_an_archive(bundle: Bundle) -> bool:
    """Tell whether something in the basename is called like an archive and is not this one."""
    segments = bundle.basename.split("/")
    others = segments[:-1] if bundle.archive else segments
    return any(segment.endswith(ARCHIVE_EXTENSIONS) for segment in others)


def _spelt(segment: str) -> str:
    """Return a segment that is safe in a path: itself, unless it is odd."""
    plain = _CONTROL.sub("_", segment)
    return plain if set(plain) - {"."} else f"_{plain}_"


def removable(names: Iterable[str], mine: Attempt, kept: Iterable[str]) -> list[str]:
    """Return the names, within the folder, that `mine` may remove once it is current.

    That is what lost to it: objects of a lesser order, and those of other
    attempts at its own revision up to its own fence. Spared are its own, the
    datasets in `kept` with their reports, anything newer, and any name that no
    sink wrote.
    """
    spared = {mine.stem, *(dataset.partition(".")[0] for dataset in kept)}
    return [name for name in names if _lost(name, mine, spared)]


def _lost(name: str, mine: Attempt, spared: set[str]) -> bool:
    match = _NAME.fullmatch(name)
    if match is None or name.removesuffix(match["kind"]) in spared:
        return False
    order = int(match["order"])
    same = order == mine.order and match["revision"] == mine.revision_id
    return order < mine.order or (same and int(match["fence"]) <= mine.fence)
