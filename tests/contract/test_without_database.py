"""A deployment that keeps its state in a bucket: wired as it is deployed, against a real server."""

from __future__ import annotations

import pytest
from google.cloud import storage

from gate import settings, wiring
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.wiring import Gate
from tests.contract.stores import GENERATION

SHX = ObjectFinalized("uploads", "in/roads.shx", GENERATION, "event-1")


@pytest.fixture
def gate(
    storage_url: str, client: storage.Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Gate:
    """Return a deployment without Firestore, which must not be connected to."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage_url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    monkeypatch.setattr(wiring, "connect", None)
    return Gate(
        settings.load(
            {
                "SINK": f"gs://{bucket}/layers",
                "SOURCE_BUCKET": "uploads",
                "STATE": "blobs",
                "STATE_URI": f"gs://{bucket}/state",
                "RECONCILE_EVERY_SECONDS": "315360000",
            }
        )
    )


def test_events_are_taken_in_and_remembered(gate: Gate, client: storage.Client) -> None:
    """A1: a waiting event, its duplicate and what people see of them are in the bucket."""
    assert gate.intake(SHX).outcome is Outcome.WAITING
    assert gate.intake(SHX).outcome is Outcome.DUPLICATE
    story = gate.explain.story("gs://uploads/in/roads.shp")
    assert story
    assert [claim.name for claim in story.claims] == ["in/roads.shx"]
    bucket = gate.settings.state
    assert bucket
    kinds = {blob.name.split("/")[1] for blob in client.list_blobs(bucket.bucket, prefix="state/")}
    assert kinds == {"claims", "manifests"}
    assert gate.project == "acme"


def test_a_sweep_finds_nothing_to_do(gate: Gate, client: storage.Client) -> None:
    """Design 7: with nothing due and the source at hand a sweep ends with nothing done."""
    if not client.bucket("uploads").exists():
        client.create_bucket("uploads")
    assert set(gate.sweep().as_json().values()) == {0}
