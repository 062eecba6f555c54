"""Posting events to the deployed application, with a world behind it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import functions_framework
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gate.events import FINALIZED_TYPE, ObjectFinalized
from tests.world import BUCKET, World

MAIN = Path(__file__).parents[1] / "main.py"
STATUS = "X-Google-Status"
SOURCE = f"//storage.googleapis.com/projects/_/buckets/{BUCKET}"


@contextmanager
def posted_to(
    world: World, monkeypatch: pytest.MonkeyPatch, target: str = "ingest", signature: str = ""
) -> Iterator[FlaskClient]:
    """Give a client of the deployed application, whose gate is the world."""
    monkeypatch.setenv("SINK", "gs://datasets/out")
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    app = functions_framework.create_app(target, str(MAIN), signature or None)
    monkeypatch.setattr(sys.modules["main"], "gate", world)
    yield app.test_client()
    sys.modules.pop("main", None)


def resource(event: ObjectFinalized) -> dict[str, Any]:
    """Return the object resource that Cloud Storage sends for an event."""
    return {
        "kind": "storage#object",
        "bucket": event.bucket,
        "name": event.name,
        "generation": str(event.generation),
        "contentType": "application/octet-stream",
    }


def binary(
    client: FlaskClient, body: object, *, event_type: str = FINALIZED_TYPE, **headers: str
) -> TestResponse:
    """Post a CloudEvent in binary form."""
    return client.post(
        "/",
        data=body if isinstance(body, bytes) else json.dumps(body),
        headers={
            "Content-Type": "application/json",
            "ce-id": "e1",
            "ce-source": SOURCE,
            "ce-type": event_type,
            "ce-specversion": "1.0",
            **headers,
        },
    )


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the lines of the log since the last call, decoded."""
    lines = capsys.readouterr().out.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
