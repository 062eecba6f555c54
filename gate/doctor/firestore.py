"""Checks of the database: its mode, what expires, what is indexed.

Without a TTL policy finished documents stay for ever (Firestore, "Manage data
retention with TTL policies"). An index of a field that only grows holds a
collection to about 500 writes a second (Firestore, "Best practices"), and a field
that is asked for has to be indexed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gate.doctor.finding import Finding, failed, ok, warning
from gate.settings import Settings
from gate.store.documents import QUERIED, UNINDEXED

EXPIRY = "expires_at"
NATIVE = "FIRESTORE_NATIVE"
# A policy is in force once it has been put on all documents that there are.
IN_FORCE = "ACTIVE"


def collections(settings: Settings) -> dict[str, str]:
    """Return what the code calls a collection → what the deployment calls it."""
    return {
        "claims": settings.claim_collection,
        "manifests": settings.manifest_collection,
        "jobs": settings.job_collection,
    }


def database(name: str, described: Mapping[str, Any]) -> Finding:
    """Return whether the database is one that the gate can use."""
    where = f"database {name}"
    if described.get("type") == NATIVE:
        return ok("database", where, f"it is in Native mode, in {described.get('locationId')}")
    return failed(
        "database",
        where,
        f"it is of type {described.get('type') or 'unknown'}",
        "make one in Native mode, and deploy with FIRESTORE_DATABASE set to its name",
    )


def expiry(
    settings: Settings, listed: Sequence[Mapping[str, Any]], project: str
) -> Iterator[Finding]:
    """Yield whether finished documents of each collection expire.

    `listed` are the fields with a TTL policy, of all collections. `project` is that
    of the database.
    """
    states = {_field(each): each.get("ttlConfig", {}).get("state", IN_FORCE) for each in listed}
    for collection in collections(settings).values():
        where = f"collection {collection}"
        others = [field for group, field in states if group == collection and field != EXPIRY]
        state = states.get((collection, EXPIRY))
        if state == IN_FORCE:
            yield ok("ttl", where, f"finished documents expire by {EXPIRY}")
        elif others:
            yield failed(
                "ttl",
                where,
                f"its TTL policy is on {', '.join(others)}",
                f"remove it, and enable one on {EXPIRY}: Firestore takes one for a collection",
            )
        elif state:
            yield warning(
                "ttl", where, f"its TTL policy is not in force yet: {state}", "look again later"
            )
        else:
            yield failed(
                "ttl",
                where,
                "finished documents stay for ever",
                f"gcloud firestore fields ttls update {EXPIRY}"
                f" {_target(settings, collection, project)} --enable-ttl",
            )


def indexes(
    settings: Settings, listed: Sequence[Mapping[str, Any]], project: str
) -> Iterator[Finding]:
    """Yield whether each collection indexes what is asked for, and what costs most is not.

    `listed` are the fields whose indexes are not those that Firestore makes by itself.
    `project` is that of the database.
    """
    stated = {_field(each): each.get("indexConfig", {}).get("indexes", []) for each in listed}
    for name, collection in collections(settings).items():
        where = f"collection {collection}"
        target = _target(settings, collection, project)
        unasked = [field for field in QUERIED[name] if stated.get((collection, field)) == []]
        if unasked:
            yield failed(
                "indexes",
                where,
                f"{', '.join(unasked)} is not indexed, and the sweep asks for it",
                _updates(unasked, f"{target} --clear-exemption"),
            )
        indexed = [field for field in UNINDEXED[name] if stated.get((collection, field)) != []]
        if indexed:
            yield warning(
                "exemptions",
                where,
                f"indexed for nobody: {', '.join(indexed)}; that costs writes, and bounds them to"
                " about 500 a second",
                _updates(indexed, f"{target} --disable-indexes"),
            )
        elif not unasked:
            yield ok("indexes", where, "indexed is what is asked for, and no more than that")


def _target(settings: Settings, collection: str, project: str) -> str:
    """Return where a command is to change something, quoted for a shell: names have brackets."""
    database = f"--database={settings.firestore_database}"
    return shlex.join((f"--collection-group={collection}", database, f"--project={project}"))


def _updates(fields: Sequence[str], how: str) -> str:
    return " && ".join(f"gcloud firestore indexes fields update {field} {how}" for field in fields)


def _field(described: Mapping[str, Any]) -> tuple[str, str]:
    """Return collection and field of `projects/P/databases/D/collectionGroups/C/fields/F`."""
    parts = str(described.get("name", "")).split("/")
    return (parts[5], parts[7]) if len(parts) == 8 else ("", "")
