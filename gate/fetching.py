"""The objects of a revision, each the one pinned: brought to a local folder, or read in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gate.capacity import Capacity
from gate.errors import SourceDeletedError
from gate.identity import Pin, Revision
from gate.names import ARCHIVE_EXTENSIONS, Component
from gate.overrides import relevant
from gate.shapefile.port import METADATA_EXTENSION, METADATA_LIMIT_BYTES, READ_EXTENSIONS
from gate.source.port import ObjectFacts, Source
from gate.source.ranges import Ranges

# Other sidecars (spatial indexes) are pinned as part of the revision, but their
# bytes would change nothing in the dataset.
FETCHED_EXTENSIONS = (*READ_EXTENSIONS, METADATA_EXTENSION, *ARCHIVE_EXTENSIONS)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The files of a revision: those that were downloaded are proven.

    Those in `remote`, by extension, were not; they are proven as they are read.
    To be closed. `absent` are optional sidecars that were deleted, `oversize` is metadata that
    was left where it is because nothing real is that large.
    """

    facts: Mapping[str, ObjectFacts]
    absent: tuple[Pin, ...] = ()
    oversize: ObjectFacts | None = None
    remote: Mapping[str, Ranges] = field(default_factory=dict)

    def close(self) -> None:
        """Read no more of what is remote; closing twice is harmless."""
        for component in self.remote.values():
            component.close()

    @property
    def said(self) -> dict[str, dict[str, str]]:
        """Return what the metadata of its objects says of how to read them, by object name."""
        return relevant({fact.name: fact.metadata for fact in self.facts.values()})


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A component whose pinned generation was replaced by `generation`."""

    component: Component
    generation: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch revisions from a source, within the capacity of a deployment.

    `required` are the extensions without which there is no layer. Without a
    capacity everything is downloaded, whatever its size.
    """

    source: Source
    required: tuple[str, ...]
    capacity: Capacity | None = None

    def __call__(
        self, revision: Revision, folder: Path, beat: Callable[[], object]
    ) -> Fetched | Overwritten:
        """Download to `layer<extension>` in `folder`, or tell what has replaced a pinned object.

        What the capacity leaves in place is not downloaded. `beat` is called before
        each object. Raises `SourceDeletedError` for a deleted component without which
        there is no layer; a deleted sidecar is left out, for the bundle is readable
        without it and would otherwise never be ingested again. Raises
        `TooLargeError`, and what the source raises.
        """
        found = self.look(revision)
        if isinstance(found, Overwritten):
            return found
        bucket, left = revision.bundle.bucket, self._left(revision, found)
        for extension, fact in found.facts.items():
            if extension in left:
                continue
            beat()
            path = folder / f"layer{extension}"
            if self.source.fetch(bucket, fact, path) is not None:
                # Whatever vanished between the two calls is looked at afresh.
                return self(revision, folder, beat)
        remote = {known: Ranges(self.source, bucket, found.facts[known]) for known in left}
        return replace(found, remote=remote)

    def _left(self, revision: Revision, found: Fetched) -> tuple[str, ...]:
        """Return the extensions of what is not downloaded. Raises `TooLargeError`."""
        if self.capacity is None:
            return ()
        sizes = {extension: fact.size_bytes for extension, fact in found.facts.items()}
        return self.capacity.left_in_place(sizes, str(revision.bundle))

    def look(self, revision: Revision) -> Fetched | Overwritten:
        """Return what there is to download, or what has replaced a pinned object.

        Raises `SourceDeletedError`, and what the source raises.
        """
        facts: dict[str, ObjectFacts] = {}
        absent: list[Pin] = []
        for extension, pin in revision.pins:
            if extension not in FETCHED_EXTENSIONS:
                continue
            found = self.source.stat(revision.bundle.bucket, pin)
            if isinstance(found, ObjectFacts):
                facts[extension] = found
            elif found.live and found.live.generation > pin.generation:
                component = Component(revision.bundle, pin.name, extension)
                return Overwritten(component, found.live.generation)
            elif extension in (*self.required, revision.bundle.archive):
                raise SourceDeletedError(
                    f"generation {pin.generation} was deleted before it was read",
                    where=f"gs://{revision.bundle.bucket}/{pin.name}",
                )
            else:
                absent.append(pin)
        metadata = facts.get(METADATA_EXTENSION)
        if metadata is None or metadata.size_bytes <= METADATA_LIMIT_BYTES:
            return Fetched(facts, tuple(absent))
        del facts[METADATA_EXTENSION]
        return Fetched(facts, tuple(absent), metadata)
