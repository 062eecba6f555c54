"""What a CloudEvent says: an object was finalized, or it is none of our business.

An event may come straight from Cloud Storage, or as the same notification
wrapped by Pub/Sub (a bucket routed through a topic). It may also be anything
else that somebody posts at the function's address: everything here is checked,
nothing is trusted, and no input raises.

Formats: CloudEvents type `google.cloud.storage.object.v1.finalized`, whose data
is the object resource; `google.cloud.pubsub.topic.v1.messagePublished`, whose
message carries Cloud Storage's notification attributes (`eventType`,
`bucketId`, `objectId`, `objectGeneration`, `eventTime`) and, if so configured, the object
resource as its data.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gate.names import KNOWN_EXTENSIONS

FINALIZED_TYPE = "google.cloud.storage.object.v1.finalized"
PUBSUB_TYPE = "google.cloud.pubsub.topic.v1.messagePublished"
FINALIZED_NOTIFICATION = "OBJECT_FINALIZE"
RAW_CHARACTERS = 500
ID_CHARACTERS = 200

# Eventarc and Pub/Sub push redeliver an event for a day; an older one was sent
# again by somebody.
REDELIVERED_FOR = timedelta(hours=24)

# Cloud Storage, object naming requirements; a store has no room for more.
NAME_BYTES = 1024

# The order of a revision is the sum of its generations, one for each extension,
# and a store keeps it as a signed 64-bit integer. Real generations count
# microseconds: they stay below this for more than ten thousand years.
MAX_GENERATION = (2**63 - 1) // len(KNOWN_EXTENSIONS)


@dataclass(frozen=True, slots=True)
class ObjectFinalized:
    """A new generation of an object exists. `name` is as it came, never unquoted.

    `occurred_at` is when that happened, `None` if the event does not say so.
    It decides only how long a gate that stores nothing waits for the rest of a bundle.
    """

    bucket: str
    name: str
    generation: int
    event_id: str
    occurred_at: datetime | None = None

    def late(self, now: datetime) -> bool:
        """Tell whether the event is older than any that is redelivered by itself."""
        return self.occurred_at is not None and now - self.occurred_at > REDELIVERED_FOR


@dataclass(frozen=True, slots=True)
class IgnoredType:
    """An event of a type that never concerns us."""

    event_type: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """An event that should concern us and cannot be read. `raw` is its beginning."""

    reason: str
    raw: str
    event_id: str


class _Unreadable(Exception):  # noqa: N818  a signal inside this module
    """Why an event cannot be read; never leaves this module."""


def parse(
    attributes: Mapping[str, object], payload: object
) -> ObjectFinalized | IgnoredType | Malformed:
    """Tell what an event says.

    `attributes` are the CloudEvent's context attributes, `payload` its data as
    the framework decoded it: a mapping, or bytes, text, a list or `None` where
    the body was not what it claimed to be.
    """
    event_type = _identifier(attributes.get("type"))
    event_id = _identifier(attributes.get("id"))
    occurred_at = _time(attributes.get("time"))
    try:
        if event_type == FINALIZED_TYPE:
            return _finalized(_mapping(payload, "data"), event_id, occurred_at)
        if event_type == PUBSUB_TYPE:
            return _notification(_mapping(payload, "data"), event_id, occurred_at)
    except _Unreadable as unreadable:
        return Malformed(str(unreadable), _printed(payload)[:RAW_CHARACTERS], event_id)
    return IgnoredType(event_type)


def _notification(
    payload: Mapping[str, object], event_id: str, published_at: datetime | None
) -> ObjectFinalized | IgnoredType:
    message = _mapping(payload.get("message"), "message")
    attributes = _mapping(message.get("attributes") or {}, "message.attributes")
    event_type = attributes.get("eventType")
    if event_type != FINALIZED_NOTIFICATION:
        if isinstance(event_type, str) and event_type.startswith("OBJECT_"):
            return IgnoredType(event_type)
        raise _Unreadable("the message is no Cloud Storage notification: eventType is missing")
    said = {
        "bucket": attributes.get("bucketId"),
        "name": attributes.get("objectId"),
        "generation": attributes.get("objectGeneration"),
    }
    body = message.get("data")
    resource = _resource(body) if body else {}
    event_id = _identifier(message.get("messageId")) or event_id
    merged = {key: resource.get(key, value) for key, value in said.items()}
    for key, value in said.items():
        if value is not None and _spelled(merged[key]) != _spelled(value):
            raise _Unreadable(f"the message's attributes and data differ in {key}")
    return _finalized(merged, event_id, _time(attributes.get("eventTime")) or published_at)


def _resource(body: object) -> Mapping[str, object]:
    try:
        return _mapping(json.loads(base64.b64decode(str(body), validate=True)), "message.data")
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _Unreadable(f"message.data is not base64 of a JSON object ({error})") from error


def _finalized(
    resource: Mapping[str, object], event_id: str, occurred_at: datetime | None
) -> ObjectFinalized:
    return ObjectFinalized(
        bucket=_text(resource, "bucket"),
        name=_text(resource, "name"),
        generation=_generation(resource.get("generation")),
        event_id=event_id,
        occurred_at=occurred_at,
    )


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _Unreadable(f"{what} is no JSON object but {type(value).__name__}")
    return value


def _text(resource: Mapping[str, object], key: str) -> str:
    value = resource.get(key)
    if not isinstance(value, str) or not value:
        raise _Unreadable(f"{key} is missing")
    # Cloud Storage forbids line breaks in names, and ids join names with them;
    # lone surrogates have no UTF-8 form, and so no such object exists.
    if "\n" in value or "\r" in value:
        raise _Unreadable(f"{key} holds a line break")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _Unreadable(f"{key} is not Unicode text")
    if len(value.encode()) > NAME_BYTES:
        raise _Unreadable(f"{key} is longer than {NAME_BYTES} bytes")
    return value


def _generation(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Unreadable(f"generation is no positive integer: {_printed(value)[:40]}")
    if not 0 < value <= MAX_GENERATION:
        raise _Unreadable(f"generation is out of range: {_printed(value)[:40]}")
    return value


def _time(value: object) -> datetime | None:
    """Return a time as RFC 3339 writes it, `None` for anything else."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found and found.tzinfo else None


def _identifier(value: object) -> str:
    """Return an id or type for the record: bounded, and storable whatever was sent."""
    return _spelled(value or "")[:ID_CHARACTERS].encode("utf-8", "replace").decode()


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else _printed(value)


def _printed(value: object) -> str:
    """Return a value as Python writes it, and only its kind if it is too deep or too long."""
    try:
        return repr(value)
    except (RecursionError, ValueError):
        return f"{type(value).__name__} too large to print"
