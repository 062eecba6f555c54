"""What is known of a bundle, and the one decision that follows from it.

A manifest is a join of max-registers: for every object name the greatest
generation ever seen, for every extension the greatest generation ever
dispatched. Joining is commutative, associative and idempotent, so any order
and any number of deliveries give the same manifest, and an event for an older
generation changes nothing. That is why events need no read before they write.

What follows from a manifest, once per extension the newest object is taken:

    a required extension is missing                    Waiting
    nothing was dispatched yet                         Dispatch, at once
    no greater order than what was dispatched          Dispatched
    every required component is newer                  Dispatch, at once
    none is: two revisions were dispatched, and        Dispatch of both joined,
      neither held all of the other's sidecars           at once
    some component is newer: a late sidecar, one       Settling, until the
      file replaced, a re-upload that has just begun     uploads have rested;
                                                         then Dispatch
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gate.errors import MixedSpellingsError
from gate.identity import Pin, Revision
from gate.names import Bundle, extension_of


@dataclass(frozen=True, slots=True)
class PublishedRevision:
    """The revision that a finished job made current, and where it stands."""

    revision_id: str
    order: int
    location: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything recorded of one bundle.

    `components` maps object name → generation, `dispatched` maps extension →
    generation. `dispatched_order` is the greatest order of any dispatched
    revision: the join of two revisions that were dispatched is a third one that
    was not, and only the order tells. `updated_at` is the store's own time of
    the last claim that touched the manifest, `None` if there was none.
    `wake_at` is when the sweep has to look at it again, and `stalled_at` when it
    last told a person that something is missing. `fence` is the greatest fence of
    any job of the bundle.
    """

    bundle: Bundle
    components: Mapping[str, int] = field(default_factory=dict)
    dispatched: Mapping[str, int] = field(default_factory=dict)
    dispatched_order: int = 0
    updated_at: datetime | None = None
    wake_at: datetime | None = None
    published: PublishedRevision | None = None
    stalled_at: datetime | None = None
    fence: int = 0

    @property
    def stalled(self) -> bool:
        """Tell whether a person was told of what is missing since the last claim."""
        return self.stalled_at is not None and (
            self.updated_at is None or self.stalled_at > self.updated_at
        )

    @property
    def seen(self) -> tuple[str, ...]:
        """Return the extensions recorded so far, sorted."""
        return tuple(sorted(self.current()))

    def current(self) -> dict[str, Pin]:
        """Return the newest object of each extension.

        Two spellings of one component (`roads.shp`, `ROADS.SHP`) compete by
        generation; the name breaks a tie, so that the answer never depends on
        order.
        """
        newest: dict[str, Pin] = {}
        for name, generation in self.components.items():
            extension = extension_of(name)
            best = newest.get(extension)
            if best is None or (generation, name) > (best.generation, best.name):
                newest[extension] = Pin(name, generation)
        return newest

    def mixes(self, revision: Revision, required: tuple[str, ...]) -> bool:
        """Tell whether a revision takes required files of two spellings that should not meet.

        `Roads.shp` beside `ROADS.DBF` is one bundle. But where one spelling is
        whole by itself, and newer files of another lie beside it, there are two
        bundles, or a re-upload that has just begun.
        """
        pins = revision.pins
        taken = {_spelling(pin.name, ext) for ext, pin in pins if ext in required}
        if len(taken) < 2:
            return False
        found: dict[str, set[str]] = {}
        for name in self.components:
            extension = extension_of(name)
            found.setdefault(_spelling(name, extension), set()).add(extension)
        return any(extensions.issuperset(required) for extensions in found.values())

    def demand_one_spelling(self, revision: Revision, required: tuple[str, ...]) -> None:
        """Raise `MixedSpellingsError` for a revision that mixes spellings: see `mixes`."""
        if self.mixes(revision, required):
            raise MixedSpellingsError(
                "its files are spelt in ways of which one is whole by itself: "
                + ", ".join(pin.name for _, pin in revision.pins),
                where=str(revision.bundle),
            )

    def joined(self, pins: Iterable[Pin]) -> Manifest:
        """Return the manifest with `pins` merged in: the greater generation wins."""
        components = dict(self.components)
        for pin in pins:
            components[pin.name] = max(pin.generation, components.get(pin.name, 0))
        return replace(self, components=components)

    def with_dispatched(self, generations: Mapping[str, int]) -> Manifest:
        """Return the manifest with a dispatched revision merged in."""
        dispatched = dict(self.dispatched)
        for extension, generation in generations.items():
            dispatched[extension] = max(generation, dispatched.get(extension, 0))
        order = max(sum(generations.values()), self.dispatched_order)
        return replace(self, dispatched=dispatched, dispatched_order=order)


def _spelling(name: str, extension: str) -> str:
    """Return an object name without its extension, in its own case; normal forms are one."""
    return unicodedata.normalize("NFC", name)[: -len(extension)]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Required extensions have not been seen."""

    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """This revision is whole, newer than anything dispatched, and due now."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class Dispatched:
    """This revision is the newest, and it has been dispatched."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class Settling:
    """This newer revision may still be half uploaded; it is due at `until`."""

    revision: Revision
    until: datetime


Decision = Waiting | Dispatch | Dispatched | Settling


def decide(
    manifest: Manifest, now: datetime, *, required: tuple[str, ...], settle: timedelta
) -> Decision:
    """Tell what a manifest calls for at `now`, the store's own time.

    `required` lists the extensions a shapefile must have; an archive is
    complete by itself.
    """
    bundle = manifest.bundle
    if bundle.archive:
        required = (bundle.archive,)
    current = manifest.current()
    missing = tuple(extension for extension in required if extension not in current)
    if missing:
        return Waiting(missing)
    revision = Revision.of(bundle, current)
    if not manifest.dispatched:
        return Dispatch(revision)
    if revision.order <= manifest.dispatched_order:
        return Dispatched(revision)
    newer = {
        extension
        for extension, pin in current.items()
        if pin.generation > manifest.dispatched.get(extension, 0)
    }
    until = (manifest.updated_at or now) + settle
    if not newer or newer.issuperset(required) or now >= until:
        return Dispatch(revision)
    return Settling(revision, until)
