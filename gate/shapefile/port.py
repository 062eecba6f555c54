"""The port to what reads shapefiles: open one layer, or unpack the layers of an archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from gate.errors import BundleError
from gate.overrides import NOTHING, Overrides
from gate.sinks.port import Table

if TYPE_CHECKING:
    from gate.gather import Bytes

# What reading needs; spatial indexes are pinned as part of the revision, but
# their bytes would change nothing in the dataset.
READ_EXTENSIONS = (".shp", ".shx", ".dbf", ".prj", ".cpg", ".cst")

# What users write about a layer; it is stored beside the report as it is.
METADATA_EXTENSION = ".shp.xml"
METADATA_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Notice:
    """Something odd that cost no row: a stable code, a sentence, how often."""

    code: str
    what: str
    count: int


class LayerReport(Protocol):
    """What was read of a layer, and what was not."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        ...


class Layer(Table, Protocol):
    """A table that can account for its rows after the last batch."""

    def report(self) -> LayerReport:
        """Return the report; raises `LostRowsError` if the rows do not add up."""
        ...


class Content(Protocol):
    """The bytes of a component, fetched from wherever they lie when they are looked at.

    A slice is an array; looking at the same bytes again may fetch them again.
    """

    @property
    def size(self) -> int:
        """Return how many bytes there are."""
        ...

    def __getitem__(self, part: slice, /) -> Bytes:
        """Return these bytes."""
        ...


class Remote(Content, Protocol):
    """A component that stays where it was uploaded to, and is read in parts.

    What is read is proven against the checksum of the whole no later than in
    `prove`, and whatever is read after that is proven at once. A slice raises
    `ChecksumError`, `SourceChangedError` once the object is no longer there, and
    what else a source raises.
    """

    def prove(self) -> None:
        """Read what has not been read, and prove the whole; raises what a slice does."""
        ...


NOWHERE_ELSE: Mapping[str, Remote] = MappingProxyType({})


class OpenLayer(Protocol):
    """Whatever opens the layer in a folder of files named `layer.<ext>`."""

    def __call__(
        self,
        folder: Path,
        name: str,
        overrides: Overrides = NOTHING,
        remote: Mapping[str, Remote] = NOWHERE_ELSE,
    ) -> AbstractContextManager[Layer]:
        """Open the layer; messages call it `name`, and `overrides` beat what the files say.

        The components in `remote`, by extension, do not lie in the folder.
        """
        ...


@dataclass(frozen=True, slots=True)
class ArchivedLayer:
    """One layer of an archive, unpacked.

    `name` is its path inside the archive, with the stem folded: distinct in the
    archive, and the same whatever else is packed beside it. `spelled` is the
    path as it was packed. `folder` holds `layer<extension>` for each of
    `extensions`. A layer with a `fault` cannot be read, and its folder may be
    incomplete or missing.
    """

    name: str
    spelled: str
    folder: Path
    extensions: tuple[str, ...]
    notices: tuple[Notice, ...] = ()
    fault: BundleError | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """The layers of an archive, ordered by name, at least one; and what was odd about it."""

    layers: tuple[ArchivedLayer, ...]
    notices: tuple[Notice, ...]


class Unpack(Protocol):
    """Whatever unpacks archives, within the limits that it was given."""

    def __call__(
        self, archive: Path, folder: Path, name: str, step: Callable[[], object]
    ) -> Contents:
        """Unpack `archive` below `folder` and return what there is to read.

        `name` is what messages call the archive; `step` is called every few
        megabytes. Nothing is written outside `folder`. Raises a `BundleError`
        for an archive of which nothing can be used, and whatever `step` raises;
        a fault of one layer stands in that layer.
        """
        ...
