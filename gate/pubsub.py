"""Messages on Pub/Sub topics: dead letters, and notifications as Cloud Storage sends them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud import pubsub_v1

from gate import log
from gate.dead_letters import DeadLetter
from gate.errors import ConfigurationError, StoreBusyError
from gate.events import FINALIZED_NOTIFICATION
from gate.names import Component

SEND_SECONDS = 30.0

_REFUSED = (api.NotFound, api.PermissionDenied, api.Unauthenticated, api.InvalidArgument)
_UNANSWERED = (api.GoogleAPIError, auth.GoogleAuthError, TimeoutError)


class PubSubDeadLetters:
    """Publish each letter as one JSON message; `code` and `dedupe_id` are attributes.

    `topic` is `projects/P/topics/T`. The letter is logged too, so that an alert
    on the log needs no subscription. Without a `publisher` one is built with the
    credentials of the environment; `ConfigurationError` if there are none.
    """

    def __init__(self, topic: str, publisher: pubsub_v1.PublisherClient | None = None) -> None:
        self._topic = topic
        self._publisher = publisher or _connected()

    def send(self, letter: DeadLetter) -> None:
        """See `DeadLetters.send`: returns once the topic has stored the message."""
        message = json.dumps(letter.body, ensure_ascii=False).encode()
        with _translated(f"DEAD_LETTER_TOPIC={self._topic}", self._topic):
            self._publisher.publish(
                self._topic, message, code=letter.code, dedupe_id=letter.dedupe_id
            ).result(timeout=SEND_SECONDS)
        log.write("dead letter", severity="ERROR", dedupe_id=letter.dedupe_id, letter=letter.body)


class PubSubNotifications:
    """Publish objects to `topic` as the notifications of their bucket would.

    Without a `publisher` one is built as `PubSubDeadLetters` does.
    """

    def __init__(self, topic: str, publisher: pubsub_v1.PublisherClient | None = None) -> None:
        self._topic = topic
        self._publisher = publisher or _connected()

    def publish(self, found: Iterable[tuple[Component, int]]) -> None:
        """Publish one message for each object; returns once the topic has stored them all.

        Raises `StoreBusyError` where waiting helps, and `ConfigurationError`
        where the topic is missing or may not be used.
        """
        with _translated(self._topic, self._topic):
            sent = [
                self._publisher.publish(
                    self._topic,
                    b"",
                    eventType=FINALIZED_NOTIFICATION,
                    bucketId=component.bundle.bucket,
                    objectId=component.name,
                    objectGeneration=str(generation),
                    payloadFormat="NONE",
                )
                for component, generation in found
            ]
            for one in sent:
                one.result(timeout=SEND_SECONDS)


def _connected() -> pubsub_v1.PublisherClient:
    try:
        return pubsub_v1.PublisherClient()
    except auth.GoogleAuthError as error:
        raise ConfigurationError(str(error), where="Pub/Sub") from error


@contextmanager
def _translated(setting: str, topic: str) -> Iterator[None]:
    try:
        yield
    except _REFUSED as error:
        raise ConfigurationError(
            f"the topic refused a message ({error})",
            where=setting,
            cure="create the topic, and grant whoever publishes roles/pubsub.publisher on it",
        ) from error
    except _UNANSWERED as error:
        raise StoreBusyError(f"the topic did not answer ({error})", where=topic) from error
