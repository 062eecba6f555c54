"""The entry point, posted to through the real functions-framework application."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gate.environment import SettingsError
from gate.errors import ConfigurationError, StoreBusyError
from gate.events import FINALIZED_TYPE, PUBSUB_TYPE, ObjectFinalized
from gate.job import State
from gate.outcomes import Outcome
from gate.sweep import Counts
from tests.posting import MAIN, SOURCE, STATUS, binary, posted_to, resource, written
from tests.scenarios.gates import ENVIRONMENTS
from tests.world import BUCKET, PARTS, Answer, World, expected, raising, text


@pytest.fixture
def client(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """Return a client of the deployed application, whose gate is the world."""
    with posted_to(world, monkeypatch) as client:
        yield client


@pytest.fixture
def world() -> World:
    """Return a deployment with default settings and nothing in it."""
    return World()


def structured(client: FlaskClient, payload: object) -> TestResponse:
    """Post a CloudEvent in structured form."""
    envelope = {"specversion": "1.0", "id": "e1", "source": SOURCE, "type": FINALIZED_TYPE}
    return client.post(
        "/",
        data=json.dumps({**envelope, "data": payload}),
        headers={"Content-Type": "application/cloudevents+json"},
    )


def legacy(client: FlaskClient, payload: object) -> TestResponse:
    """Post the event as the first generation of functions got it."""
    context = {
        "eventId": "e1",
        "timestamp": "2026-03-01T12:00:00Z",
        "eventType": "google.storage.object.finalize",
        "resource": {
            "service": "storage.googleapis.com",
            "name": f"projects/_/buckets/{BUCKET}/objects/in/roads.shp",
            "type": "storage#object",
        },
    }
    return client.post("/", json={"context": context, "data": payload})


def wrapped(client: FlaskClient, event: ObjectFinalized) -> TestResponse:
    """Post the event as Eventarc sends a notification that came through a topic."""
    message = {
        "attributes": {
            "eventType": "OBJECT_FINALIZE",
            "bucketId": event.bucket,
            "objectId": event.name,
            "objectGeneration": str(event.generation),
        },
        "data": base64.b64encode(json.dumps(resource(event)).encode()).decode(),
        "messageId": "m1",
    }
    return binary(client, {"message": message, "subscription": "s"}, event_type=PUBSUB_TYPE)


def pushed(client: FlaskClient, event: ObjectFinalized) -> TestResponse:
    """Post the event as a push subscription does."""
    attributes = {
        "eventType": "OBJECT_FINALIZE",
        "bucketId": event.bucket,
        "objectId": event.name,
        "objectGeneration": str(event.generation),
    }
    message = {
        "attributes": attributes,
        "messageId": "m1",
        "publishTime": "2026-03-01T12:00:00Z",
        "data": base64.b64encode(json.dumps(resource(event)).encode()).decode(),
    }
    return client.post(
        "/", json={"message": message, "subscription": "projects/project/subscriptions/s"}
    )


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the last line of the log."""
    return written(capsys)[-1]


FORMS = {
    "binary": lambda client, event: binary(client, resource(event)),
    "structured": lambda client, event: structured(client, resource(event)),
    "legacy": lambda client, event: legacy(client, resource(event)),
    "wrapped": wrapped,
    "pushed": pushed,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_event_is_taken_in(client: FlaskClient, world: World, form: str) -> None:
    """Cases 45, 46: binary, structured, first-generation and Pub/Sub forms record the object."""
    event = world.upload("in/a b+c%20d.shp")
    response = FORMS[form](client, event)
    assert response.status_code == 200
    assert STATUS not in response.headers
    [claim] = world.store.claims.values()
    assert (claim["bucket"], claim["name"], claim["generation"]) == (
        event.bucket,
        event.name,
        event.generation,
    )


def test_a_bundle_posted_twice_is_ingested_once(client: FlaskClient, world: World) -> None:
    """Case 41: each event posted twice is acknowledged both times, and the layer is read once."""
    for event in world.upload_bundle("in/roads"):
        for _ in range(2):
            assert binary(client, resource(event)).status_code == 200
    assert world.reader.opened == ["in/roads"]
    assert world.rows("in/roads") == expected("first")


def test_a_settling_bundle_is_acknowledged(client: FlaskClient, world: World) -> None:
    """C8, H12: what settles is recorded, so its event is acknowledged and the sweep goes on."""
    world.settle(*world.upload_bundle("in/roads"))
    newer = world.upload("in/roads.dbf", text(".dbf", "second"))
    assert binary(client, resource(newer)).status_code == 200
    world.settle()
    assert world.rows("in/roads") == expected("first", records="second")


@pytest.mark.parametrize(("gate", "status"), [("verify", 503), ("poll", 200)])
def test_what_a_listing_finds_incomplete_comes_again_quietly(
    gate: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A13, issue 7: the `.shp` that waits is refused without a crash, or left to a task."""
    world = World(**ENVIRONMENTS[gate])
    event = world.upload("in/roads.shp")
    with posted_to(world, monkeypatch) as client:
        response = binary(client, resource(event))
    assert response.status_code == status
    assert STATUS not in response.headers
    assert world.documents == 0


def test_a_failed_attempt_is_a_quiet_nack(client: FlaskClient, world: World) -> None:
    """A13, G1: a job that is to be tried again sends its event back quietly, not as a crash."""
    world.source.damage = lambda payload: payload[:-1]
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    response = binary(client, resource(last))
    assert (response.status_code, STATUS in response.headers) == (503, False)
    assert world.states == [State.FAILED]


def test_a_busy_store_is_a_quiet_nack_with_its_reason_in_the_log(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A13, G4: contention sends the event back quietly, and one warning says why."""
    world.faults.before("store.record", raising(StoreBusyError("too much contention")))
    response = binary(client, resource(world.upload("in/roads.shp")))
    assert (response.status_code, STATUS in response.headers) == (503, False)
    line = last_line(capsys)
    assert (line["severity"], line["code"]) == ("WARNING", "store_busy")
    assert "too much contention" in line["detail"]


@pytest.mark.parametrize("fault", [ConfigurationError("no database"), KeyError("nobody foresaw")])
def test_anything_else_is_a_crash(client: FlaskClient, world: World, fault: Exception) -> None:
    """A13: a fault of the deployment, or an unforeseen one, is a 500 with the crash header."""
    world.faults.before("store.record", raising(fault))
    response = binary(client, resource(world.upload("in/roads.shp")))
    assert (response.status_code, response.headers[STATUS]) == (500, "crash")


BROKEN: dict[str, Any] = {
    "a list": [1],
    "text": "x",
    "null": None,
    "a number": 7,
    "no name": {"bucket": BUCKET, "generation": "1"},
    "no generation": {"bucket": BUCKET, "name": "in/roads.shp"},
    "words": {"bucket": BUCKET, "name": "in/roads.shp", "generation": "one"},
    "half a character": {"bucket": BUCKET, "name": "\ud800.shp", "generation": "1"},
    "a line break": {"bucket": BUCKET, "name": "a\nb.shp", "generation": "1"},
    "no JSON": b"{",
    "bytes": b"\xff\xfe\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_malformed_event_is_acknowledged_and_kept(
    client: FlaskClient, world: World, body: object
) -> None:
    """A10: whatever the body, the event is acknowledged, is one dead letter, and is no crash."""
    response = binary(client, body)
    assert (response.status_code, STATUS in response.headers) == (200, False)
    assert [letter.code for letter in world.sent.sent] == ["malformed_event"]
    assert not world.store.claims


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"9" * 5_000], ids=["nested too deep", "a number too long"]
)
def test_a_body_that_the_framework_cannot_read_never_reaches_us(
    client: FlaskClient, world: World, body: bytes
) -> None:
    """A10: JSON beyond what Python reads is a 500 of the framework; nothing is recorded of it."""
    assert binary(client, body).status_code == 500
    assert not world.sent.sent
    assert not world.store.claims


def test_a_letter_that_cannot_be_sent_keeps_its_event(client: FlaskClient, world: World) -> None:
    """A10: a malformed event is acknowledged only once its letter is stored."""
    world.faults.before("letters.send", raising(StoreBusyError("unavailable")))
    assert binary(client, {}).status_code == 503
    assert binary(client, {}).status_code == 200
    assert len(world.sent.sent) == 1


@pytest.mark.parametrize("change", ["deleted", "archived", "metadataUpdated"])
def test_other_types_are_acknowledged_without_a_call(
    client: FlaskClient, world: World, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A11: an event of another type is acknowledged and logged, and no port is called."""
    event_type = f"google.cloud.storage.object.v1.{change}"
    response = binary(client, resource(world.upload("in/roads.shp")), event_type=event_type)
    assert response.status_code == 200
    assert world.faults.calls == []
    line = last_line(capsys)
    assert (line["decision"], line["detail"]) == ("ignored", f"ignored_type {event_type}")


def test_a_post_that_is_no_event_has_no_effect(client: FlaskClient, world: World) -> None:
    """Case 47: an object's JSON without event headers is refused with 400, and nothing happens."""
    response = client.post("/", json=resource(world.upload("in/roads.shp")))
    assert response.status_code == 400
    assert world.faults.calls == []
    assert not world.sent.sent


def test_every_delivery_leaves_one_line_with_its_trace(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """G11: the line of a delivery says what was decided on what, in the trace of the request."""
    event = world.upload("in/roads.shp")
    binary(client, resource(event), **{"X-Cloud-Trace-Context": "abc123/1;o=1"})
    assert last_line(capsys) == {
        "severity": "INFO",
        "message": "delivery",
        "decision": "waiting",
        "detail": "needs .shx .dbf",
        "event": "e1",
        "name": "in/roads.shp",
        "generation": str(event.generation),
        "bundle": "gs://uploads/in/roads",
        "logging.googleapis.com/trace": "projects/project/traces/abc123",
    }


def test_a_trace_does_not_outlive_its_request(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """G11: a request without a trace logs none, also right after one that had it."""
    event = world.upload("in/roads.shp")
    binary(client, resource(event), **{"X-Cloud-Trace-Context": "abc123/1"})
    binary(client, resource(event))
    assert "logging.googleapis.com/trace" not in last_line(capsys)


def test_the_line_of_a_dispatch_names_the_job(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """E2: the delivery that got a job to run says which, under which fence and attempt."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)
    capsys.readouterr()
    binary(client, resource(last))
    [line] = [line for line in written(capsys) if line["message"] == "delivery"]
    ran = [line[field] for field in ("decision", "job", "fence", "attempt", "state")]
    assert ran == ["dispatched", world.jobs[0].id, 1, 1, "done"]


def test_the_world_answers_as_the_entry_point_does(client: FlaskClient) -> None:
    """A13: deliveries in the scenarios' world and posts to the application are answered alike."""
    answers = {200: Answer.ACK, 503: Answer.QUIET_NACK, 500: Answer.NACK}
    told, posted = World(), World()
    sys.modules["main"].gate = posted  # type: ignore[attr-defined]
    both = (told, posted)

    def compare(name: str, payload: bytes = b"-", fault: Exception | None = None) -> None:
        event, _ = [world.upload(name, payload) for world in both]
        if fault:
            for world in both:
                world.faults.before("store.record", raising(fault))
        response = binary(client, resource(event))
        assert answers[response.status_code] is told.deliver(event)

    for part in PARTS:
        compare(f"in/roads{part}", text(part, "first"))
    compare("in/roads.prj")
    compare("in/roads.txt")
    compare("in/roads.cpg", fault=StoreBusyError("x"))
    compare("in/roads.cpg", fault=ConfigurationError("x"))
    for world in both:
        world.source.damage = lambda payload: payload + b"!"
    for part in PARTS:
        compare(f"in/rivers{part}", text(part, "first"))
    assert told.store.jobs.keys() == posted.store.jobs.keys()
    assert told.outcomes.count(Outcome.DISPATCHED) == 2


@pytest.fixture
def sweeper(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """Return a client of the deployed sweep, whose gate is the world."""
    with posted_to(world, monkeypatch, "sweep", "http") as client:
        yield client


def test_a_sweep_answers_with_what_it_did(sweeper: FlaskClient, world: World) -> None:
    """Design 7.4: a POST sweeps once, and its answer is the counts."""
    world.redeliver(*world.upload_bundle("in/roads")[:-1])
    world.clock.advance(30)
    response = sweeper.post("/")
    assert response.status_code == 200
    assert response.json == {**Counts().as_json(), "manifests": 1, "recorded": 1, "jobs": 1}
    assert world.rows("in/roads") == expected("first")


@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_a_sweep_is_posted_for(sweeper: FlaskClient, world: World, method: str) -> None:
    """A13: whoever merely looks at the address starts nothing."""
    response = getattr(sweeper, method)("/")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert world.faults.calls == []


@pytest.mark.parametrize(
    ("fault", "status", "crash"),
    [
        (StoreBusyError("unavailable"), 503, None),
        (ConfigurationError("no database"), 500, "crash"),
        (KeyError("nobody foresaw"), 500, "crash"),
    ],
)
def test_a_sweep_that_failed_is_seen_by_its_scheduler(
    sweeper: FlaskClient, world: World, fault: Exception, status: int, crash: str | None
) -> None:
    """F13: a sweep that cannot ask what is due is answered with 503, or 500 if it will not pass."""
    world.faults.before("store.due_jobs", raising(fault))
    response = sweeper.post("/")
    assert (response.status_code, response.headers.get(STATUS)) == (status, crash)


def test_a_deployment_with_wrong_settings_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 64: importing the entry point with a broken environment fails and names the problem."""
    monkeypatch.setenv("SINK", "")
    spec = importlib.util.spec_from_file_location("main_without_sink", MAIN)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.raises(SettingsError, match="SINK: is not set"):
        spec.loader.exec_module(module)
