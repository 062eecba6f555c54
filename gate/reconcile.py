"""Go through a bucket for objects that nobody was told of.

A bundle all of whose events were lost has no manifest, so nothing but a listing
of the whole bucket can find it. Objects are only recorded, as their events would
have been; what follows from that is the sweep's business. A pass goes from page
to page; its cursor is in the store, so that whoever comes next goes on from there,
and two at once do the same work twice and no harm.

A manifest with nothing pending expires some time after the last of its objects
has left the bucket: as long as they are there, each pass puts the expiry off.
Otherwise they would be taken for objects that nobody was told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from gate import log
from gate.errors import GateError
from gate.identity import digest
from gate.intake import Intake
from gate.names import Bundle, Component
from gate.source.port import Source
from gate.store.port import Agenda, Cursor, StoredCursor, StoredManifest

PAGE_OBJECTS = 500

Found = tuple[Component, int]


@dataclass(frozen=True, slots=True)
class Page:
    """What one page of the bucket held.

    `objects` counts all of them, `unknown` are the components that no manifest
    knows. `expiring` are manifests that would soon be collected although nothing
    of them is unknown. `last` is the last object name, empty where the bucket ends.
    """

    objects: int
    unknown: tuple[Found, ...]
    expiring: tuple[StoredManifest, ...]
    last: str


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Passes over the objects below `prefix` in `bucket`.

    `keep` is how long a manifest with nothing pending is kept.
    """

    store: Agenda
    source: Source
    intake: Intake
    bucket: str
    prefix: str
    keep: timedelta

    def due(self, every: timedelta) -> StoredCursor | None:
        """Return where to go on, at the beginning if the last pass began `every` ago.

        `None` if that pass has ended and the next is not due.
        """
        held = self.store.cursor(self._name("reconcile"))
        cursor = held.cursor
        if cursor and cursor.finished and held.now < cursor.begun_at + every:
            return None
        return held

    def asked(self) -> StoredCursor:
        """Return where a pass that a person asked for goes on, at the beginning if none is open."""
        return self.store.cursor(self._name("backfill"))

    def steps(
        self, held: StoredCursor, record: Callable[[tuple[Found, ...]], object] | None = None
    ) -> Iterator[Page]:
        """Go on from `held`, yielding each page once it is recorded and the cursor moved.

        What is unknown is handed to `record`; by default it is recorded as its
        events would be. Ends with the bucket, or where somebody else moves the
        cursor too.
        """
        cursor = held.cursor
        if cursor is None or cursor.finished:
            cursor = Cursor(held.now)
        while not cursor.finished:
            page = self._page(cursor.after)
            (record or self.note)(page.unknown)
            for stored in page.expiring:
                self.store.rest(stored, wake_at=None, finished=True)
            cursor = Cursor(cursor.begun_at, page.last, finished=not page.last)
            self.store.move_cursor(held, cursor)
            yield page
            held = self.store.cursor(held.name)
            if held.cursor != cursor:
                return

    def note(self, found: tuple[Found, ...]) -> None:
        """Record what was found, as its events would be."""
        for component, generation in found:
            self.intake.note(component, generation)

    def preview(self) -> Iterator[Page]:
        """Yield every page from the beginning, and write nothing."""
        page = self._page("")
        yield page
        while page.last:
            page = self._page(page.last)
            yield page

    def _page(self, after: str) -> Page:
        """Compare the next page of the bucket with the manifests."""
        pins = self.source.page(self.bucket, self.prefix, after, PAGE_OBJECTS)
        grouped: dict[Bundle, list[Found]] = {}
        for pin in pins:
            component = self.intake.parsed(self.bucket, pin.name)
            if isinstance(component, Component):
                grouped.setdefault(component.bundle, []).append((component, pin.generation))
        unknown: list[Found] = []
        expiring: list[StoredManifest] = []
        for bundle, stored in self._known(tuple(grouped)).items():
            lacking = _lacking(stored, grouped[bundle])
            unknown += lacking
            if stored and not lacking and self._expires_soon(stored):
                expiring.append(stored)
        last = pins[-1].name if len(pins) == PAGE_OBJECTS else ""
        return Page(len(pins), tuple(unknown), tuple(expiring), last)

    def _expires_soon(self, stored: StoredManifest) -> bool:
        return stored.expires_at is not None and stored.expires_at < stored.now + self.keep / 2

    def _known(self, bundles: tuple[Bundle, ...]) -> dict[Bundle, StoredManifest | None]:
        """Return the manifest of each bundle, `None` if there is none.

        A bundle whose document is no manifest is left out, and told of.
        """
        try:
            found = self.store.manifests_of(bundles)
        except GateError:
            raise
        except Exception as error:  # noqa: BLE001  whatever one document holds
            if len(bundles) == 1:
                log.crash("manifest skipped", error, bundle=str(bundles[0]))
                return {}
            half = len(bundles) // 2
            return {**self._known(bundles[:half]), **self._known(bundles[half:])}
        return {bundle: found.get(bundle) for bundle in bundles}

    def _name(self, kind: str) -> str:
        return f"{kind}-{digest(self.bucket, self.prefix)}"


def _lacking(stored: StoredManifest | None, found: list[Found]) -> list[Found]:
    """Return those of a bundle's objects that its manifest does not know."""
    recorded = stored.manifest.components if stored else {}
    return [one for one in found if one[1] > recorded.get(one[0].name, 0)]
