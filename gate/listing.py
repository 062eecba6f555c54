"""The objects of a bundle as they lie in the bucket.

A listing of Cloud Storage is strongly consistent: what was uploaded before it is in
it. It can be asked for names that begin in one way only, so that another spelling of
the same stem takes a wider listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice, takewhile

from gate.errors import ConfigurationError, PermissionDeniedError
from gate.identity import Pin
from gate.names import Bundle, Component, Reason
from gate.source.port import Source

MOST_SIBLINGS = 10_000

# Characters that every spelling of a stem has in the same place: neither case nor
# normal forms change them.
_ONE_SPELLING = frozenset("0123456789_-. ")

Live = tuple[tuple[Component, Pin], ...]


def missing_of(found: Live, required: tuple[str, ...]) -> tuple[str, ...]:
    """Return the required extensions that no object of a bundle has."""
    there = {component.extension for component, _ in found}
    return tuple(extension for extension in required if extension not in there)


@dataclass(frozen=True, slots=True)
class Listing:
    """List the objects of bundles. `parsed` tells what an object is to this deployment.

    Of each way to begin no more than `MOST_SIBLINGS` objects are looked at.
    """

    source: Source
    parsed: Callable[[str, str], Component | Reason]

    def spelt(self, bundle: Bundle, starts: Iterable[str]) -> Live:
        """Return those objects of a bundle whose names begin, after its folder, in given ways."""
        found = []
        for start in starts:
            listed = self.source.siblings(bundle.bucket, bundle.folder, start)
            for pin in islice(listed, MOST_SIBLINGS):
                component = self.parsed(bundle.bucket, pin.name)
                if isinstance(component, Component) and component.bundle == bundle:
                    found.append((component, pin))
        return tuple(found)

    def whole(self, component: Component, required: tuple[str, ...]) -> Live:
        """Return the objects of a component's bundle, in any spelling if need be.

        Those that are spelt as the component is, if that is all that is required;
        otherwise those of every spelling. Raises what the source raises, but
        `ConfigurationError` where the bucket may not be listed.
        """
        bundle = component.bundle
        try:
            found = self.spelt(bundle, (component.sibling_start,))
            if missing_of(found, required):
                found = self.spelt(bundle, (_common_start(bundle.stem),))
        except PermissionDeniedError as error:
            raise ConfigurationError(
                error.what,
                where=error.where,
                cure="let the function's service account list the bucket",
            ) from error
        return found


def _common_start(stem: str) -> str:
    """Return how the names of all spellings of a stem begin."""
    return "".join(takewhile(_ONE_SPELLING.__contains__, stem))
