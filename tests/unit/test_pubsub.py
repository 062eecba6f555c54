"""Messages on a topic: what Pub/Sub says, and what becomes of it."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from gate.dead_letters import DeadLetter
from gate.errors import ConfigurationError, GateError, StoreBusyError
from gate.events import PUBSUB_TYPE, ObjectFinalized, parse
from gate.names import Component
from gate.names import parse as parse_name
from gate.pubsub import SEND_SECONDS, PubSubDeadLetters, PubSubNotifications

TOPIC = "projects/p/topics/letters"
LETTER = DeadLetter("job-1", "corrupt", {"kind": "job", "name": "Zürich.shp"})


class Publisher:
    """A publisher whose messages end as `ending` says: stored, or refused by an error."""

    def __init__(self, ending: BaseException | None = None) -> None:
        self.ending = ending
        self.published: list[tuple[str, bytes, dict[str, str]]] = []
        self.patience: float | None = None

    def publish(self, topic: str, message: bytes, **attributes: str) -> Any:
        """Take a message, as `PublisherClient.publish` does: its end is a future's."""
        self.published.append((topic, message, attributes))
        future = Answer(self)
        if self.ending:
            future.set_exception(self.ending)
        else:
            future.set_result("1")
        return future


class Answer(Future[str]):
    """A future that notes for how long it was waited for."""

    def __init__(self, publisher: Publisher) -> None:
        super().__init__()
        self._publisher = publisher

    def result(self, timeout: float | None = None) -> str:
        """Return the id of the message, or raise."""
        self._publisher.patience = timeout
        return super().result(timeout)


def letters(publisher: Publisher) -> PubSubDeadLetters:
    """Return dead letters over a publisher."""
    fake: Any = publisher
    return PubSubDeadLetters(TOPIC, fake)


def test_a_letter_is_one_message_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """G2: the topic stores the letter, countable by its attributes, before the log tells of it."""
    publisher = Publisher()
    letters(publisher).send(LETTER)
    [(topic, message, attributes)] = publisher.published
    assert topic == TOPIC
    assert json.loads(message) == LETTER.body
    assert attributes == {"code": "corrupt", "dedupe_id": "job-1"}
    assert publisher.patience == SEND_SECONDS
    line = json.loads(capsys.readouterr().out)
    assert (line["severity"], line["letter"]) == ("ERROR", LETTER.body)


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (api.NotFound("no topic"), ConfigurationError),
        (api.PermissionDenied("no publisher"), ConfigurationError),
        (api.Unauthenticated("who"), ConfigurationError),
        (api.InvalidArgument("no name of a topic"), ConfigurationError),
        (api.ServiceUnavailable("later"), StoreBusyError),
        (api.DeadlineExceeded("slow"), StoreBusyError),
        (api.ResourceExhausted("quota"), StoreBusyError),
        (api.RetryError("gave up", None), StoreBusyError),
        (auth.TransportError("no metadata server"), StoreBusyError),
        (auth.RefreshError("later"), StoreBusyError),
        (TimeoutError(), StoreBusyError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.code,
)
def test_each_refusal_has_its_error(
    raised: Exception, error: type[GateError], capsys: pytest.CaptureFixture[str]
) -> None:
    """G2: a topic that cannot be used is the deployment's fault, one that is silent passes."""
    with pytest.raises(GateError) as caught:
        letters(Publisher(raised)).send(LETTER)
    assert type(caught.value) is error
    assert TOPIC in caught.value.where
    assert capsys.readouterr().out == ""


def test_what_nobody_foresaw_is_not_disguised() -> None:
    """G2: an error that is not Pub/Sub's keeps its kind."""
    with pytest.raises(KeyError):
        letters(Publisher(KeyError("x"))).send(LETTER)


def test_without_credentials_there_is_no_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: where the environment has no credentials, that is said of the deployment."""
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    with pytest.raises(ConfigurationError, match="Pub/Sub: "):
        PubSubDeadLetters(TOPIC)


def found(*names: str) -> list[tuple[Component, int]]:
    """Return components at a generation, as a pass over the bucket finds them."""
    components = [parse_name("uploads", name) for name in names]
    return [(component, 7) for component in components if isinstance(component, Component)]


def test_an_object_that_was_found_is_published_as_its_bucket_would() -> None:
    """H6: the message of a backfill is read as the notification of that object."""
    publisher = Publisher()
    fake: Any = publisher
    PubSubNotifications(TOPIC, fake).publish(found("in/a b%20é.shp", "in/roads.dbf"))
    read = [
        parse(
            {"type": PUBSUB_TYPE, "id": "e"},
            {"message": {"attributes": attributes, "data": "", "messageId": "m"}},
        )
        for _, _, attributes in publisher.published
    ]
    assert read == [
        ObjectFinalized("uploads", name, 7, "m") for name in ("in/a b%20é.shp", "in/roads.dbf")
    ]
    assert publisher.patience == SEND_SECONDS


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (api.NotFound("no topic"), ConfigurationError),
        (api.ServiceUnavailable("later"), StoreBusyError),
    ],
)
def test_a_notification_that_was_not_stored_is_told(
    raised: Exception, error: type[GateError]
) -> None:
    """H6: a backfill does not go on past what its topic has not stored."""
    fake: Any = Publisher(raised)
    with pytest.raises(error):
        PubSubNotifications(TOPIC, fake).publish(found("in/roads.dbf"))
