"""Checks of an environment, that of a function or of this process."""

from __future__ import annotations

from collections.abc import Mapping

from gate import settings
from gate.doctor.finding import Finding, failed, ok
from gate.environment import SettingsError
from gate.settings import Settings

EMULATORS = ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST")
# Needed where something is enqueued only.
TASKS_EMULATOR = "CLOUD_TASKS_EMULATOR_HOST"

# Variables by which one PROJ or GDAL is pointed at the files of another.
DISPLACED = ("PROJ_LIB", "PROJ_DATA", "GDAL_DATA")


def load(where: str, environment: Mapping[str, str]) -> tuple[Settings | None, list[Finding]]:
    """Return the settings, `None` if they cannot be used, and what is found about them."""
    try:
        loaded = settings.load(environment)
    except SettingsError as error:
        told = (problem.partition("; ") for problem in error.problems)
        return None, [failed("settings", where, what, todo or error.todo) for what, _, todo in told]
    return loaded, [ok("settings", where, f"its settings are sound, datasets go to {loaded.sink}")]


def addressed(where: str, environment: Mapping[str, str], *, deployed: bool) -> Finding:
    """Return whether an environment leads to the cloud or to emulators, and not to both."""
    found = [name for name in (*EMULATORS, TASKS_EMULATOR) if environment.get(name)]
    if not found:
        return ok("addressed", where, "its clients talk to the cloud")
    if deployed or not all(environment.get(name) for name in EMULATORS):
        return failed(
            "addressed",
            where,
            f"by {', '.join(found)} some of its clients talk to an emulator",
            "remove them from the environment"
            if deployed
            else f"set all of {', '.join(EMULATORS)}, or none",
        )
    return ok("addressed", where, "its clients talk to emulators")


def displaced(where: str, environment: Mapping[str, str]) -> Finding:
    """Return whether the environment points PROJ or GDAL away from their own files."""
    found = [name for name in DISPLACED if environment.get(name)]
    if not found:
        return ok("paths", where, "PROJ and GDAL find their own files")
    return failed(
        "paths",
        where,
        f"{', '.join(found)} point PROJ or GDAL at files of another installation",
        "remove them from the environment",
    )
