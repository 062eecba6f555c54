"""Which gate decides that a bundle is whole, and how patient it is.

    manifest   each event records its component; whoever completes the bundle dispatches
    verify     the event of the `.shp` lists the bucket, and comes again until the rest is there
    poll       each event enqueues a task that lists the bucket, and the next task if need be

All of them end in the same job for the same revision.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from gate.environment import Environment

# Eventarc and Pub/Sub push deliver an event again for 24 hours, with pauses of up
# to ten minutes (Eventarc, "Retry events"). The letter of a bundle that never
# became whole is sent by one of these deliveries: an hour is left for it.
MOST_VERIFY_SECONDS = 86_400 - 3_600

MOST_POLL_SECONDS = 3_600
MOST_POLLS = 1_000


class GateKind(Enum):
    """The gates, by the name that `GATE` has for them."""

    MANIFEST = "manifest"
    VERIFY = "verify"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class Gating:
    """The gate of a deployment.

    `verify` gives a bundle up that is not whole `max_age` after the upload of its
    `.shp`. `poll` looks `delay` after an upload at the earliest, then at doubling
    pauses, `most_looks` times in all.
    """

    kind: GateKind
    max_age: timedelta
    delay: timedelta
    most_looks: int

    def pause_after(self, looks: int) -> timedelta:
        """Return the pause after so many looks in vain: doubling, up to an hour."""
        most = timedelta(seconds=MOST_POLL_SECONDS)
        return min(self.delay * (1 << min(looks - 1, 16)), most)


def load(stated: Environment) -> Gating:
    """Return the gate that the environment states; what is wrong is kept with it."""
    kind = stated.checked("GATE", _kind, GateKind.MANIFEST)
    if kind is GateKind.VERIFY and not stated.states("SOURCE_BUCKET"):
        stated.problem(
            "SOURCE_BUCKET",
            "is not set, and with GATE=verify nothing but the pass over it sees a sidecar that"
            " comes late, or one file replaced; set it to the bucket that triggers us",
        )
    return Gating(
        kind=kind,
        max_age=timedelta(seconds=stated.whole("VERIFY_MAX_AGE_SECONDS", 1, MOST_VERIFY_SECONDS)),
        delay=timedelta(seconds=stated.whole("POLL_DELAY_SECONDS", 1, MOST_POLL_SECONDS)),
        most_looks=stated.whole("POLL_MAX_ATTEMPTS", 1, MOST_POLLS),
    )


def _kind(text: str) -> GateKind:
    try:
        return GateKind(text)
    except ValueError:
        known = ", ".join(kind.value for kind in GateKind)
        raise ValueError(f"{text!r} is no gate; use one of {known}") from None
