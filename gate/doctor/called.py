"""Checks of a function that is called over HTTP, beside the one that takes events."""

from __future__ import annotations

from gate.doctor.finding import Finding, failed, ok
from gate.doctor.function import Function


def over_http(check: str, found: Function) -> Finding:
    """Return whether it is called, and not triggered."""
    if found.trigger:
        todo = "deploy it with --trigger-http instead"
        return failed(check, found.where, "events trigger it", todo)
    return ok(check, found.where, "it is called over HTTP")


def same_settings(
    check: str, found: Function, ingest: Function, apart_from: tuple[str, ...] = ()
) -> Finding:
    """Return whether it has the settings of the function that takes events."""
    names = (found.environment.keys() | ingest.environment.keys()).difference(apart_from)
    differing = sorted(
        name for name in names if found.environment.get(name) != ingest.environment.get(name)
    )
    if differing:
        return failed(
            check,
            found.where,
            f"its settings differ from those of {ingest.name}: {', '.join(differing)}",
            "deploy both with the same environment",
        )
    return ok(check, found.where, f"its settings are those of {ingest.name}")
