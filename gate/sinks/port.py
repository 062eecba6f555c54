"""The port to whatever holds the ingested datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gate.identity import Revision

if TYPE_CHECKING:
    import pyarrow as pa


# The metadata key of the geometry field; see `Table`.
GEOMETRY_TYPE = b"geometry_type"


class Table(Protocol):
    """A layer as a sink sees it: a schema and its batches, read once.

    `schema` has one WKB column, `geometry`, last; the other fields carry their
    original name as field metadata `original_name`. The geometry field may carry
    `geometry_type`: the one type, in GeoParquet's words, that holds every row once
    lines and polygons are multi. `geo_crs` is PROJJSON, or `None` where the layer
    has no CRS.
    """

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of every batch."""
        ...

    @property
    def geo_crs(self) -> Mapping[str, Any] | None:
        """Return the CRS as PROJJSON, `None` if the layer states none."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order."""
        ...

    def rejects(self) -> Path | None:
        """Return the complete list of rejected rows, once the batches are exhausted.

        One JSON object a line with `row`, `reason` and `text`; `None` if there
        is nothing to list. The file lasts as long as the table.
        """
        ...


@dataclass(frozen=True, slots=True)
class Publication:
    """Which revision takes effect, and which call of which job says so.

    `layer` is the name of one layer of an archive, empty for a bundle that is
    one layer. `metadata` is what its user wrote about it (a `.shp.xml`); it is
    stored beside the report as it is, unless it is empty.
    """

    revision: Revision
    job_id: str
    fence: int
    layer: str = ""
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class Published:
    """The revision is what readers see.

    `already` is true if an earlier call (a lost answer, a zombie) had made it
    current; then nothing was changed. `rows` counts what the sink stored.
    """

    location: str
    rows: int
    already: bool = False


@dataclass(frozen=True, slots=True)
class Outdated:
    """The sink holds a newer revision; nothing was changed. `order` is that one's."""

    order: int


class Sink(Protocol):
    """One dataset per bundle, replaced atomically, never by an older revision.

    An archive has one dataset for each of its layers, each replaced by itself,
    and an index of them.

    Errors are those of `gate.errors`: `StorageBusyError` for what passes,
    `PermissionDeniedError` for 401 and 403, `DatasetTakenError` if another
    bundle holds the name.
    """

    def current(self, revision: Revision, layer: str = "") -> Published | Outdated | None:
        """Tell what the sink holds: this revision, a newer one, or neither.

        Cheap (one read): lets a redelivered job end without reading the bundle.
        """
        ...

    def publish(
        self,
        publication: Publication,
        table: Table,
        report: Callable[[], Mapping[str, Any]],
        still_owner: Callable[[], bool],
    ) -> Published | Outdated | None:
        """Store the table and make it current, all or nothing.

        `report` is called once, after the last batch, and stands beside the
        dataset, as does the table's list of rejected rows, if it has one; if it
        raises, nothing becomes visible and the error passes through, as it does
        for an error raised by the table.
        `still_owner` is asked after the upload and directly before the one
        atomic step; if it says no, nothing becomes visible and the answer is
        `None`. Readers see the old dataset or the new one, whole.
        """
        ...

    def publish_index(
        self,
        publication: Publication,
        index: Mapping[str, Any],
        still_owner: Callable[[], bool],
    ) -> str | Outdated | None:
        """Make `index` what readers see of an archive's layers, in one atomic step.

        Return where it stands. It replaces the index of an older revision and
        of an earlier attempt at this one; for a newer one the answer is
        `Outdated`. `still_owner` is asked directly before the step; if it says
        no, nothing changes and the answer is `None`.
        """
        ...
