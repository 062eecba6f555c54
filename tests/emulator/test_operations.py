"""The commands for a deployment, against the Firestore that its settings name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gate import cli, job, wiring
from gate.errors import PermissionDeniedError
from gate.job import State
from gate.source.memory import MemorySource
from gate.store.firestore import Collections, FirestoreStore
from tests.contract.stores import BUCKET, LIMITS, RETENTION, claim_of, job_of, whole
from tests.emulator.firestore import connected

NAMES = ("in/roads.shp", "in/roads.shx", "in/roads.dbf")


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> MemorySource:
    """Return the bucket of the deployment."""
    source = MemorySource()
    monkeypatch.setattr(wiring.Gate, "_source", source)
    return source


@pytest.fixture
def store(firestore_address: str, monkeypatch: pytest.MonkeyPatch) -> FirestoreStore:
    """Return the store of a deployment of the test's own, which the environment names."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_address)
    monkeypatch.setattr(wiring, "connect", lambda _database: connected(firestore_address))
    for kind in ("claim", "manifest", "job"):
        monkeypatch.setenv(f"{kind.upper()}_COLLECTION", f"operations-{kind}s")
    collections = Collections("operations-claims", "operations-manifests", "operations-jobs")
    return FirestoreStore(
        connected(firestore_address), collections, RETENTION, lambda: datetime.now(UTC)
    )


def buried(store: FirestoreStore, source: MemorySource) -> str:
    """Upload, record and dispatch a bundle, and end its job for want of a permission."""
    for name in NAMES:
        claim = claim_of(name, source.put(BUCKET, name, b"-").generation)
        recorded = whole(store.record(claim))
    stored = store.dispatch(job_of(claim, recorded))
    assert stored
    dead = job.dead(stored.job, PermissionDeniedError("403"), now=stored.now)
    assert store.replace(stored, dead)
    return stored.job.id


def test_a_dead_letter_from_its_list_to_new_attempts(
    store: FirestoreStore, source: MemorySource, capsys: pytest.CaptureFixture[str]
) -> None:
    """D6, G7: listed, explained, redriven by its code, and then due, all through the commands."""

    def told(*arguments: str) -> Any:
        assert cli.main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    buried_id = buried(store, source)
    [letter] = told("dead-letters")["dead_letters"]
    assert (letter["job"], letter["code"], letter["notified"]) == (buried_id, "permission", False)
    story = told("explain", f"gs://{BUCKET}/in/roads.dbf")
    assert [step["kind"] for step in story["steps"]].count("event") == 3
    assert story["steps"][-1]["how"].startswith("dead; letter still to be sent")
    [claim] = [one for one in story["claims"] if one["jobs"]]
    assert told("explain", claim["claim"])["bundle"] == story["bundle"]
    assert told("status")["jobs"]["dead"] == 1
    [redriven] = told("redrive", "--all-with", "permission", "--reason", "granted")["redriven"]
    assert (redriven["job"], redriven["verdict"]) == (buried_id, "redriven")
    status = told("status", buried_id)
    assert status["jobs"][0]["state"] == "failed"
    assert told("status")["active"][0]["job"] == buried_id
    stored = store.job(buried_id)
    assert stored
    assert (stored.job.state, stored.job.attempts, stored.job.fence) == (State.FAILED, 0, 2)
    claimed = job.claim(stored.job, token="sweep", now=stored.now, limits=LIMITS)
    assert isinstance(claimed, job.Claimed)
