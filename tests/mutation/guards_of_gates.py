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

_polled = guards_of("poll", "scenarios/test_poll")

POLL = (
    _polled(
        "an archive has nothing to be looked for",
        "if component.bundle.archive:",
        "if False:",
    ),
    _polled(
        "a look lists the bucket after all uploads that share it",
        "due_seconds = (number + 2) * delay_seconds",
        "due_seconds = number * delay_seconds",
    ),
    _polled(
        "uploads of another time have a task of another name",
        'return f"slot {number} of {delay_seconds} s", due_at',
        'return "slot", due_at',
    ),
    _polled(
        "two spellings that are whole by themselves are listed each",
        "digest(bundle_id(component.bundle), component.sibling_start, slot)",
        "digest(bundle_id(component.bundle), slot)",
    ),
    _polled(
        "the next look has a name of its own",
        'return Task(f"{self.chain}-{self.attempt}", payload, due_at)',
        "return Task(self.chain, payload, due_at)",
    ),
    _polled(
        "a time to come is not believed",
        "if at is None or at - now > delay:",
        "if at is None:",
    ),
    _polled(
        "a look whose time has passed is taken at once",
        "due_at = None if past else datetime.fromtimestamp(due_seconds, UTC)",
        "due_at = datetime.fromtimestamp(due_seconds, UTC)",
    ),
    _polled(
        "what was taken back is not looked for",
        "if not found:",
        "if False:",
    ),
    _polled(
        "nobody looks for ever",
        "if task.attempt >= self.gating.most_looks:",
        "if False:",
    ),
    _polled(
        "what settings no longer count as a component is left alone",
        "if isinstance(component, Reason):",
        "if False:",
    ),
    _polled(
        "a task that is none is told from one that is",
        "} if is_id(chain) and attempt > 0:",
        "}:",
    ),
)
