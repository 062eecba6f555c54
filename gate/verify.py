"""The gate that looks instead of remembering: `GATE=verify`.

    the event of a .shp      list the bucket
      all required is there    record, decide and dispatch, as `gate.intake` does
      something is missing     refused: the platform sends the event again, at longer
                               and longer pauses, and each time the bucket is listed
      for too long             a dead letter that names what never came
    any other event          acknowledged: what it tells of will be in a listing, or
                             is found by the sweep

Nothing is stored of a bundle before it is whole. From then on it is a bundle like any
other: its manifest says what was dispatched, so that a bundle which was replaced in part
rests before it is taken, and the sweep finds what comes without a `.shp`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gate import dead_letters
from gate.dead_letters import DeadLetters
from gate.events import ObjectFinalized
from gate.intake import Intake, Receipt
from gate.listing import Listing, Live, missing_of
from gate.manifest import Manifest
from gate.names import Component
from gate.outcomes import Outcome

LEADING_EXTENSION = ".shp"


@dataclass(frozen=True, slots=True)
class Verify:
    """Take in events by listing.

    `clock` tells the time of this process; all that it decides is when a bundle
    that lacks something is given up, `max_age` after the upload of its `.shp`.
    """

    intake: Intake
    listing: Listing
    letters: DeadLetters
    required: tuple[str, ...]
    max_age: timedelta
    clock: Callable[[], datetime]

    def __call__(self, event: ObjectFinalized) -> Receipt:
        """Take in one event.

        Raises what `Intake` raises, what the listing raises, and, where a letter
        cannot be sent, what the dead letters raise: the event comes back.
        """
        component = self.intake.admitted(event)
        if isinstance(component, Receipt):
            return component
        if component.bundle.archive:
            return self.intake.record(component, event.generation, event.event_id)
        if component.extension != LEADING_EXTENSION:
            return Receipt(Outcome.IGNORED, "left to the event of the .shp, and to the sweep")
        found = self.listing.whole(component, self.required)
        missing = missing_of(found, self.required)
        if not missing:
            live = tuple(pin for _, pin in found)
            return self.intake.record(component, event.generation, event.event_id, live)
        if LEADING_EXTENSION in missing:
            return Receipt(Outcome.WITHDRAWN, "there is no .shp any more")
        return self._lacking(event, component, found, missing)

    def _lacking(
        self,
        event: ObjectFinalized,
        component: Component,
        found: Live,
        missing: tuple[str, ...],
    ) -> Receipt:
        """Let the event come again, or give its bundle up.

        An event that does not say when its object was uploaded comes until the
        platform leaves off; the sweep gives such a bundle up.
        """
        needs = f"needs {' '.join(missing)}"
        occurred_at = event.occurred_at
        if occurred_at is None or self.clock() - occurred_at < self.max_age:
            return Receipt(Outcome.LACKING, needs)
        known = Manifest(component.bundle).joined(pin for _, pin in found)
        self.letters.send(dead_letters.of_incomplete(known, missing))
        return Receipt(Outcome.INCOMPLETE, needs)
