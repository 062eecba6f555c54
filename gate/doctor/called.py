"""Checks of a function that is called over HTTP, beside the one that takes events."""

from __future__ import annotations

from collections.abc import Mapping

from gate.doctor.finding import Finding, failed, ok
from gate.doctor.function import Function
from gate.errors import ConfigurationError


def names(function: Function, stated: Mapping[str, str]) -> dict[str, str]:
    """Return role → name of the functions beside the one that takes events.

    One that is not stated, but empty, is named like the other, with its role for `ingest`.
    """
    return {role: name or function.name.replace("ingest", role) for role, name in stated.items()}


def named(role: str, known: Mapping[str, str], function: Function) -> str:
    """Return the name of the function with a role.

    Raises `ConfigurationError` where that is one with another role too, as it is
    where nothing is stated and the name of the other function gives none.
    """
    name = known[role]
    if [function.name, *known.values()].count(name) > 1:
        raise ConfigurationError(
            f"it has another role than `{role}`, and no other name is known",
            where=f"function {name}",
            cure=f"name the function with --{role}",
        )
    return name


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
