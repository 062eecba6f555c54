"""Events as Cloud Storage fires them, delivered to an intake over any store."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from gate import settings
from gate.events import ObjectFinalized
from gate.identity import Pin
from gate.intake import Intake
from gate.names import Component
from gate.store.port import Store
from tests.contract.stores import BUCKET, GENERATION

SETTINGS = settings.load({"SINK": "gs://datasets/layers"})


def intake_over(
    store: Store, live: Mapping[str, int] | None = None, *, lease: timedelta | None = None
) -> Intake:
    """Return an intake that finds `live` (name → generation) in the bucket."""
    chosen = SETTINGS
    if lease is not None:
        chosen = replace(chosen, limits=replace(chosen.limits, lease=lease))

    def siblings(component: Component) -> Iterable[Pin]:
        return (Pin(name, generation) for name, generation in (live or {}).items())

    return Intake(store, chosen, siblings, lambda: uuid.uuid4().hex)


def finalized(name: str, generation: int = GENERATION) -> ObjectFinalized:
    """Return the event of a new generation of an object."""
    return ObjectFinalized(BUCKET, name, generation, uuid.uuid4().hex)
