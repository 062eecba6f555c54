"""Dead letters on a Pub/Sub topic."""

from __future__ import annotations

import json

from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud import pubsub_v1

from gate import log
from gate.dead_letters import DeadLetter
from gate.errors import ConfigurationError, StoreBusyError

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
        try:
            self._publisher = publisher or pubsub_v1.PublisherClient()
        except auth.GoogleAuthError as error:
            raise ConfigurationError(str(error), where="Pub/Sub") from error

    def send(self, letter: DeadLetter) -> None:
        """See `DeadLetters.send`: returns once the topic has stored the message."""
        message = json.dumps(letter.body, ensure_ascii=False).encode()
        try:
            self._publisher.publish(
                self._topic, message, code=letter.code, dedupe_id=letter.dedupe_id
            ).result(timeout=SEND_SECONDS)
        except _REFUSED as error:
            raise ConfigurationError(
                f"the dead-letter topic refused a message ({error})",
                where=f"DEAD_LETTER_TOPIC={self._topic}",
                cure="create the topic, and grant the function's service account"
                " roles/pubsub.publisher on it",
            ) from error
        except _UNANSWERED as error:
            raise StoreBusyError(
                f"the dead-letter topic did not answer ({error})", where=self._topic
            ) from error
        log.write("dead letter", severity="ERROR", dedupe_id=letter.dedupe_id, letter=letter.body)
