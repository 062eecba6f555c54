"""The order of the checks: what is read, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gate import settings
from gate.doctor import trigger
from gate.doctor.finding import Finding, failed, ok, unchecked
from gate.doctor.function import Function, Trigger, parse
from gate.errors import GateError

Ask = Callable[..., Any]


def examine(function: Function, ask: Ask) -> Iterator[Finding]:
    """Yield what is found about a deployed function.

    `ask` takes the words of a gcloud command and returns its answer, or raises
    `ConfigurationError`; what cannot be asked is found to be unchecked.
    """
    yield from trigger.function_checks(function)
    yield from configuration(function)
    if function.trigger and function.trigger.bucket:
        yield trigger.source(function, function.trigger)
        yield _location(function, function.trigger, ask)


def configuration(function: Function) -> Iterator[Finding]:
    """Yield each problem of the settings as deployed, with its trigger taken into account."""
    environment = dict(function.environment)
    if function.trigger and not environment.get("SOURCE_BUCKET"):
        environment["SOURCE_BUCKET"] = function.trigger.bucket
    try:
        loaded = settings.load(environment)
    except settings.SettingsError as error:
        for problem in error.problems:
            stated, _, todo = problem.partition("; ")
            yield failed("settings", function.where, stated, todo or error.todo)
    else:
        yield ok(
            "settings", function.where, f"its settings are sound, datasets go to {loaded.sink}"
        )


def _location(function: Function, found: Trigger, ask: Ask) -> Finding:
    try:
        bucket = ask("storage", "buckets", "describe", f"gs://{found.bucket}")
    except GateError as error:
        return unchecked("trigger_location", error.where, error.what, error.todo)
    return trigger.location(function, found, bucket["location"])


def fetched(ask: Ask, name: str, region: str, project: str) -> Function:
    """Return a deployed function by its name; raises as `ask` does."""
    projects = (f"--project={project}",) if project else ()
    return parse(ask("functions", "describe", name, "--gen2", f"--region={region}", *projects))
