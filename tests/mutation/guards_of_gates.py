"""The guards of the gates that list the bucket instead of recording each event."""

from __future__ import annotations

from tests.mutation.guard import NOTHING, guards_of

_listed = guards_of("listing", "scenarios/test_verify", "scenarios/test_sweep")

LISTING = (
    _listed(
        "a listing takes nothing from bundles beside",
        "if isinstance(component, Component) and component.bundle == bundle:",
        "if isinstance(component, Component):",
    ),
    _listed(
        "a listing has an end",
        "for pin in islice(listed, MOST_SIBLINGS):",
        "for pin in listed:",
    ),
    _listed(
        "what is missing may be there in another spelling",
        "            if missing_of(found, required):\n",
        "            if False:\n",
    ),
    _listed(
        "a whole bundle needs no wider listing",
        "            if missing_of(found, required):\n",
        "            if True:\n",
    ),
    _listed(
        "a bucket that may not be listed is the deployment's fault",
        "except PermissionDeniedError as error:",
        f"{NOTHING} as error:",
    ),
)

_verified = guards_of("verify", "scenarios/test_verify")

VERIFY = (
    _verified(
        "an archive has nothing to be listed beside it",
        "if component.bundle.archive:",
        "if False:",
    ),
    _verified(
        "the event of the .shp alone leads",
        "if component.extension != LEADING_EXTENSION:",
        "if False:",
    ),
    _verified(
        "a .shp that was taken back is not waited for",
        "if LEADING_EXTENSION in missing:",
        "if False:",
    ),
    _verified(
        "nobody waits for ever",
        "if occurred_at is None or self.clock() - occurred_at < self.max_age:",
        "if True:",
    ),
    _verified(
        "an event that does not say its time is not given up",
        "if occurred_at is None or self.clock() - occurred_at < self.max_age:",
        "if occurred_at and self.clock() - occurred_at < self.max_age:",
    ),
)
