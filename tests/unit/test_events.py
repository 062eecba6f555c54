"""Events: every form that is understood, and every way to be none of them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gate.events import (
    FINALIZED_TYPE,
    MAX_GENERATION,
    PUBSUB_TYPE,
    IgnoredType,
    Malformed,
    ObjectFinalized,
    parse,
)
from gate.identity import Pin, Revision
from gate.names import KNOWN_EXTENSIONS, Bundle

RESOURCE = {"bucket": "uploads", "name": "in/a b+c%20d#1.shp", "generation": "1700000000000001"}
FOUND = ObjectFinalized("uploads", "in/a b+c%20d#1.shp", 1700000000000001, "e1")
DIRECT = {"type": FINALIZED_TYPE, "id": "e1", "source": "//storage.googleapis.com/x"}
WRAPPED = {"type": PUBSUB_TYPE, "id": "e1"}
ATTRIBUTES = {
    "eventType": "OBJECT_FINALIZE",
    "bucketId": RESOURCE["bucket"],
    "objectId": RESOURCE["name"],
    "objectGeneration": RESOURCE["generation"],
}


def encoded(value: object) -> str:
    """Return a value as the data of a Pub/Sub message."""
    return base64.b64encode(json.dumps(value).encode()).decode()


def message(**changes: Any) -> dict[str, Any]:
    """Return the data of a message with Cloud Storage's attributes and resource."""
    made = {"attributes": ATTRIBUTES, "data": encoded(RESOURCE), "messageId": "m1"}
    return {"message": {**made, **changes}, "subscription": "projects/p/subscriptions/s"}


def reason(attributes: dict[str, Any], payload: object) -> str:
    """Return why an event is malformed; fails if it is not."""
    found = parse(attributes, payload)
    assert isinstance(found, Malformed), found
    assert found.reason
    return found.reason


def test_a_direct_event_is_understood() -> None:
    """Case 38: bucket, name as it is, generation as an integer, the event's id for the record."""
    assert parse(DIRECT, {**RESOURCE, "size": "12", "md5Hash": "x"}) == FOUND


@pytest.mark.parametrize(
    "generation",
    [1, "1", 1700000000000, "1700000000000001", MAX_GENERATION, str(MAX_GENERATION)],
)
def test_generations_are_integers_in_either_spelling(generation: object) -> None:
    """A4: 13 or 16 digits, text or number, up to the largest that sums still hold."""
    found = parse(DIRECT, {**RESOURCE, "generation": generation})
    assert isinstance(found, ObjectFinalized)
    assert found.generation == int(str(generation))


@pytest.mark.parametrize(
    "payload",
    [
        message(),
        message(data=None),
        message(data=""),
        {"message": {"attributes": ATTRIBUTES, "messageId": "m1"}},
        message(data=encoded({**RESOURCE, "generation": 1700000000000001})),
        message(data=encoded({"kind": "storage#object"})),
    ],
    ids=["both", "no data", "empty data", "attributes only", "number in data", "bare data"],
)
def test_a_notification_wrapped_by_pubsub_is_understood(payload: dict[str, Any]) -> None:
    """Case 38: attributes alone, or attributes and resource that agree, make the same event."""
    found = parse(WRAPPED, payload)
    assert found == ObjectFinalized(FOUND.bucket, FOUND.name, FOUND.generation, "m1")


def test_a_notification_says_itself_when_it_happened() -> None:
    """A8: a message that was published again long after tells its own time before the envelope."""
    envelope = {**WRAPPED, "time": "2026-03-05T12:00:00Z"}
    said = message(attributes={**ATTRIBUTES, "eventTime": "2026-03-01T12:00:00Z"})
    for payload, day in ((said, 1), (message(), 5)):
        found = parse(envelope, payload)
        assert isinstance(found, ObjectFinalized)
        assert found.occurred_at == datetime(2026, 3, day, 12, tzinfo=UTC)


def test_a_wrapped_event_without_a_message_id_keeps_the_events() -> None:
    """A4: the id is only for the record: the message's, else the CloudEvent's, else empty."""
    found = parse(WRAPPED, message(messageId=None))
    assert isinstance(found, ObjectFinalized)
    assert found.event_id == "e1"
    bare = parse({"type": FINALIZED_TYPE}, RESOURCE)
    assert isinstance(bare, ObjectFinalized)
    assert bare.event_id == ""


def test_age_is_not_looked_at() -> None:
    """A8: an event from long ago is the same event."""
    old = {**RESOURCE, "timeCreated": "1999-01-01T00:00:00Z", "updated": "1999-01-01T00:00:00Z"}
    found = parse({**DIRECT, "time": "1999-01-01T00:00:00Z"}, old)
    assert isinstance(found, ObjectFinalized)
    assert replace(found, occurred_at=None) == FOUND


@pytest.mark.parametrize(
    ("hours", "late"), [(0, False), (24, False), (24.1, True), (720, True), (-1, False)]
)
def test_an_event_is_late_after_a_day(hours: float, late: bool) -> None:
    """A8: later than the redeliveries of a day an event counts as late; its time tells."""
    found = parse({**DIRECT, "time": "2026-03-01T12:00:00.123456789Z"}, RESOURCE)
    assert isinstance(found, ObjectFinalized)
    occurred_at = datetime(2026, 3, 1, 12, microsecond=123_456, tzinfo=UTC)
    assert found.occurred_at == occurred_at
    assert found.late(occurred_at + timedelta(hours=hours)) is late


@pytest.mark.parametrize(
    "time", [None, "", "yesterday", "2026-03-01T12:00:00", 7, [], "\ud800", "9" * 5000]
)
def test_a_time_that_cannot_be_read_is_no_time(time: object) -> None:
    """A8: whatever stands where the time should, the event is taken in, and never late."""
    found = parse({**DIRECT, "time": time}, RESOURCE)
    assert found == FOUND
    assert isinstance(found, ObjectFinalized)
    assert not found.late(datetime(2999, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_no_time_is_too_far_away(time: str) -> None:
    """A8: times at either end of the calendar, in any zone, can be compared."""
    found = parse({**DIRECT, "time": time}, RESOURCE)
    assert isinstance(found, ObjectFinalized)
    assert found.late(datetime(2026, 3, 1, tzinfo=UTC)) is time.startswith("0001")


@pytest.mark.parametrize(
    "event_type",
    [
        "google.cloud.storage.object.v1.deleted",
        "google.cloud.storage.object.v1.archived",
        "google.cloud.storage.object.v1.metadataUpdated",
        "google.storage.object.finalize",
        "com.example.something",
        "",
    ],
)
@pytest.mark.parametrize("payload", [RESOURCE, None, b"\x00"])
def test_other_types_are_ignored_unread(event_type: str, payload: object) -> None:
    """A11: an event of any other type is ignored, whatever it carries."""
    assert parse({"type": event_type}, payload) == IgnoredType(event_type)


def test_an_event_without_a_type_is_ignored() -> None:
    """A11: a type that is missing is no type of ours."""
    assert parse({}, RESOURCE) == IgnoredType("")


@pytest.mark.parametrize("change", ["OBJECT_DELETE", "OBJECT_ARCHIVE", "OBJECT_METADATA_UPDATE"])
def test_other_notifications_are_ignored(change: str) -> None:
    """A11: a wrapped notification of another change is ignored."""
    found = parse(WRAPPED, message(attributes={**ATTRIBUTES, "eventType": change}))
    assert found == IgnoredType(change)


@pytest.mark.parametrize("attributes", [DIRECT, WRAPPED], ids=["direct", "wrapped"])
@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"\xff\xfe", "bytes"),
        (b"{}", "bytes"),
        ("text", "str"),
        (None, "NoneType"),
        ([RESOURCE], "list"),
        (7, "int"),
        (True, "bool"),
    ],
)
def test_what_is_no_object_is_malformed(
    attributes: dict[str, Any], payload: object, kind: str
) -> None:
    """A10: a body that is no JSON object is malformed, and its type and beginning are told."""
    found = parse(attributes, payload)
    assert isinstance(found, Malformed)
    assert found.reason == f"data is no JSON object but {kind}"
    assert found.raw == repr(payload)
    assert found.event_id == "e1"


@pytest.mark.parametrize("key", ["bucket", "name"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "is missing"),
        ("", "is missing"),
        (7, "is missing"),
        (["x"], "is missing"),
        (b"x", "is missing"),
        ("a\nb", "holds a line break"),
        ("a\rb", "holds a line break"),
        ("\n", "holds a line break"),
        ("a\ud800b", "is not Unicode text"),
        ("\udfff", "is not Unicode text"),
    ],
)
def test_a_name_must_be_one_that_can_exist(key: str, value: object, why: str) -> None:
    """A10: a missing bucket or name, a line break in it, or half a character, is malformed."""
    assert reason(DIRECT, {**RESOURCE, key: value}) == f"{key} {why}"


@pytest.mark.parametrize("key", ["bucket", "name", "generation"])
def test_a_missing_field_is_malformed(key: str) -> None:
    """A10: each of the three fields has to be there."""
    assert key in reason(DIRECT, {field: RESOURCE[field] for field in RESOURCE if field != key})


def test_a_name_longer_than_any_object_has_is_malformed() -> None:
    """A10, B5: 1024 bytes is the longest name there is; a longer one could not be stored."""
    longest = "\u00fc" * 510 + ".shp"
    assert len(longest.encode()) == 1024
    assert isinstance(parse(DIRECT, {**RESOURCE, "name": longest}), ObjectFinalized)
    assert "1024 bytes" in reason(DIRECT, {**RESOURCE, "name": f"x{longest}"})


@pytest.mark.parametrize(
    "generation",
    [
        None,
        "",
        "one",
        "1.0",
        1.0,
        "-1",
        -1,
        0,
        "0",
        " 1",
        "1_000",
        "+1",
        "0x1",
        True,
        False,
        [1],
        {"value": 1},
        "\u0661",
        "\u00b2",
        "1" * 20,
        "1" * 5000,
        "1".zfill(20),
        10**19,
        2**63,
        str(2**63),
        MAX_GENERATION + 1,
        str(MAX_GENERATION + 1),
        b"1",
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_generation_must_be_a_positive_integer_of_bounded_size(generation: object) -> None:
    """A10: words, signs, floats, truths, foreign digits or too many of them are malformed."""
    assert "generation" in reason(DIRECT, {**RESOURCE, "generation": generation})
    assert "generation" in reason(WRAPPED, message(data=encoded_generation(generation)))


def test_the_order_of_any_revision_fits_a_store() -> None:
    """A10: every extension at the largest generation makes an order of 63 bits."""
    pins = {extension: Pin("x", MAX_GENERATION) for extension in KNOWN_EXTENSIONS}
    assert Revision.of(Bundle("uploads", "", "x"), pins).order < 2**63
    assert MAX_GENERATION > 10_000 * 366 * 86_400 * 10**6


def encoded_generation(generation: object) -> str:
    """Return a resource with this generation as a message's data, text where JSON has no form."""
    return base64.b64encode(
        json.dumps({**RESOURCE, "generation": generation}, default=str).encode()
    ).decode()


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({}, "message is no JSON object"),
        ({"message": None}, "message is no JSON object"),
        ({"message": []}, "message is no JSON object"),
        ({"message": "x"}, "message is no JSON object"),
        (message(attributes=[]), "eventType is missing"),
        (message(attributes=["x"]), "message.attributes is no JSON object"),
        (message(attributes="x"), "message.attributes is no JSON object"),
        (message(attributes=None), "eventType is missing"),
        (message(attributes={}), "eventType is missing"),
        (message(attributes={"eventType": 7}), "eventType is missing"),
        (message(attributes={"eventType": "something"}), "eventType is missing"),
        (message(attributes={"eventType": "OBJECT_FINALIZE"}, data=None), "bucket is missing"),
        (message(data="%%%"), "not base64"),
        (message(data="\u00fc"), "not base64"),
        (message(data={"a": 1}), "not base64"),
        (message(data=7), "not base64"),
        (message(data=base64.b64encode(b"\xff\xfe").decode()), "not base64 of a JSON"),
        (message(data=base64.b64encode(b"not json").decode()), "not base64 of a JSON"),
        (message(data=base64.b64encode(b"[" * 100_000).decode()), "not base64 of a JSON"),
        (message(data=base64.b64encode(b"9" * 10_000).decode()), "not base64 of a JSON"),
        (message(data=encoded([RESOURCE])), "message.data is no JSON object"),
        (message(data=encoded({**RESOURCE, "bucket": "other"})), "differ in bucket"),
        (message(data=encoded({**RESOURCE, "name": "other"})), "differ in name"),
        (message(data=encoded({**RESOURCE, "generation": "5"})), "differ in generation"),
        (message(data=encoded({**RESOURCE, "generation": None})), "differ in generation"),
        (message(attributes={**ATTRIBUTES, "objectId": "a\nb"}, data=None), "line break"),
    ],
)
def test_a_broken_notification_is_malformed(payload: object, why: str) -> None:
    """A10: whatever is wrong with a wrapped notification is told, and never raised."""
    assert why in reason(WRAPPED, payload)


def nested(depth: int) -> list[Any]:
    """Return lists inside lists."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("depth", [100, 900, 5_000, 100_000])
@pytest.mark.parametrize("attributes", [DIRECT, WRAPPED], ids=["direct", "wrapped"])
def test_a_payload_too_deep_to_print_is_malformed(attributes: dict[str, Any], depth: int) -> None:
    """A10: nesting that cannot even be printed is malformed, and never raised."""
    reason(attributes, nested(depth))
    reason(attributes, {"message": nested(depth)})
    reason(
        attributes, {**RESOURCE, "generation": nested(depth), "message": {"data": nested(depth)}}
    )


def test_a_number_too_long_to_print_is_malformed() -> None:
    """A10: an integer beyond what Python prints is malformed, and never raised."""
    reason(DIRECT, {**RESOURCE, "generation": 10**5000})
    reason(DIRECT, {**RESOURCE, "name": None, "size": 10**5000})


def test_the_record_of_a_malformed_event_is_bounded() -> None:
    """A10: of a large body only the beginning is kept, and of a long id too."""
    found = parse({"type": FINALIZED_TYPE, "id": "i" * 10_000}, "x" * 1_000_000)
    assert isinstance(found, Malformed)
    assert found.raw == repr("x" * 1_000_000)[:500]
    assert len(found.event_id) == 200


@pytest.mark.parametrize(
    "identifier",
    ["a\ud800b", 7, ["x"], nested(5_000), 10**5000],
    ids=["surrogate", "number", "list", "deep", "long"],
)
def test_an_odd_id_is_stored_as_text(identifier: object) -> None:
    """A10: whatever was sent as an id, the record holds text that has a UTF-8 form."""
    found = parse({**DIRECT, "id": identifier}, RESOURCE)
    assert not isinstance(found, IgnoredType)
    found.event_id.encode()
    wrapped = parse(WRAPPED, message(messageId=identifier))
    assert not isinstance(wrapped, IgnoredType)
    wrapped.event_id.encode()
