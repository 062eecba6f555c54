"""Events posted to the real framework app, as platforms and emulators post them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gate.local.processes import post
from gate.local.stack import DEAD_LETTER_SUBSCRIPTION, SOURCE_BUCKET
from tests.e2e.conftest import World

FINALIZED = "google.cloud.storage.object.v1.finalized"
JSON = {"Content-Type": "application/json"}


def resource(world: World, name: str) -> dict[str, Any]:
    """Return the object resource of an event, as Cloud Storage writes it."""
    world.generations[name] = 1_760_000_000_000_001
    return {
        "bucket": SOURCE_BUCKET,
        "name": f"{world.folder}{name}",
        "generation": "1760000000000001",
        "metageneration": "1",
        "size": "100",
    }


def binary(world: World, name: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a CloudEvent in binary form."""
    headers = {
        "ce-specversion": "1.0",
        "ce-id": f"b-{name}",
        "ce-type": FINALIZED,
        "ce-source": f"//storage.googleapis.com/projects/_/buckets/{SOURCE_BUCKET}",
        "ce-subject": f"objects/{world.folder}{name}",
        "ce-time": "2026-01-01T00:00:00Z",
    }
    return headers, resource(world, name)


def structured(world: World, name: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a CloudEvent in structured form."""
    headers, content = binary(world, name)
    event = {header.removeprefix("ce-"): value for header, value in headers.items()}
    return {"Content-Type": "application/cloudevents+json"}, {**event, "data": content}


def legacy(world: World, name: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the body of a first-generation function."""
    content = resource(world, name)
    context = {
        "eventId": f"l-{name}",
        "timestamp": "2026-01-01T00:00:00Z",
        "eventType": "google.storage.object.finalize",
        "resource": {
            "service": "storage.googleapis.com",
            "name": f"projects/_/buckets/{SOURCE_BUCKET}/objects/{content['name']}",
            "type": "storage#object",
        },
    }
    return {}, {"context": context, "data": content}


def pushed(world: World, name: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the body of a Pub/Sub push that wraps a storage notification."""
    content = resource(world, name)
    message = {
        "attributes": {
            "eventType": "OBJECT_FINALIZE",
            "bucketId": content["bucket"],
            "objectId": content["name"],
            "objectGeneration": content["generation"],
            "payloadFormat": "JSON_API_V1",
        },
        "data": base64.b64encode(json.dumps(content).encode()).decode(),
        "messageId": f"p-{name}",
        "publishTime": "2026-01-01T00:00:00Z",
    }
    return {}, {"message": message, "subscription": "projects/p/subscriptions/s"}


@pytest.mark.parametrize("form", [binary, structured, legacy, pushed])
def test_each_form_of_an_event_is_handled_the_same(world: World, form: Any) -> None:
    """Cases 45, 46: every form that a platform sends is acknowledged and recorded."""
    name = "a b+c%20d.shp"
    headers, body = form(world, name)
    assert post(world.stack.function_url, json.dumps(body).encode(), {**JSON, **headers}) == 200
    assert world.of(name) == ["waiting"]
    assert list(world.manifest("a b+c%20d")["components"]) == [f"{world.folder}{name}"]


def test_an_object_without_event_headers_is_refused(world: World) -> None:
    """Case 47: a plain POST of an object is answered 400 and has no effect."""
    body = json.dumps(resource(world, "plain.shp")).encode()
    assert post(world.stack.function_url, body, JSON) == 400
    assert world.of("plain.shp") == []
    assert world.manifest("plain") == {}


def test_a_malformed_event_becomes_one_dead_letter(world: World) -> None:
    """A10: an event without a generation is acknowledged, and kept as a dead letter."""
    topics = world.stack.topics
    topics.pull(DEAD_LETTER_SUBSCRIPTION)
    headers, body = binary(world, "odd.shp")
    del body["generation"]
    assert post(world.stack.function_url, json.dumps(body).encode(), {**JSON, **headers}) == 200
    letters = topics.pull(DEAD_LETTER_SUBSCRIPTION)
    assert [one.attributes["code"] for one in letters] == ["malformed_event"]
    assert b"odd.shp" in letters[0].body
