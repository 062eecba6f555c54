"""Topics and subscriptions on the Pub/Sub emulator.

It connects to the address it is given, whatever the environment says, and so
takes the generated client, which can be handed a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import grpc  # type: ignore[import-untyped]
from google.api_core.exceptions import GoogleAPICallError
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from google.pubsub_v1.types import PubsubMessage, PushConfig, Subscription

ACK_DEADLINE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was published: its bytes and its attributes."""

    body: bytes
    attributes: Mapping[str, str]


class Events(Protocol):
    """What a user of the stack does with its events: see `Topics`, which does more."""

    def close(self) -> None:
        """Deliver nothing any more."""
        ...

    def collect(self, name: str, *, topic: str) -> None:
        """Keep what is published to `topic` from now on, until it is pulled."""
        ...

    def pull(self, name: str) -> tuple[Message, ...]:
        """Take what was collected under a name."""
        ...

    def publish(self, topic: str, message: Message) -> str:
        """Publish `message` and return the id it was given."""
        ...


class Topics:
    """Topics of one project on one emulator."""

    def __init__(self, address: str, project: str) -> None:
        # Loopback is not to be looked for behind the proxy of the environment.
        channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        self._publisher = PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        self._subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        self._project = project
        self._channel = channel

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def topic(self, name: str) -> str:
        """Return the full name of the topic `name`."""
        return f"projects/{self._project}/topics/{name}"

    def _subscription(self, name: str) -> str:
        return f"projects/{self._project}/subscriptions/{name}"

    def create(self, name: str) -> bool:
        """Create the topic; return whether the emulator did, so that it serves as a probe."""
        try:
            self._publisher.create_topic(name=self.topic(name), retry=None, timeout=5)
        except GoogleAPICallError:
            return False
        return True

    def push(self, name: str, *, topic: str, endpoint: str) -> None:
        """Subscribe `endpoint` to `topic`; what it refuses is sent again after a second.

        That is the emulator's own pause. A retry policy is not set, because under
        any of them the emulator forgets most of what was refused three times, for
        good (`python -m benchmarks.redelivery` shows it); without one it loses
        nothing.
        """
        self._subscriber.create_subscription(
            Subscription(
                name=self._subscription(name),
                topic=self.topic(topic),
                push_config=PushConfig(push_endpoint=endpoint),
                ack_deadline_seconds=ACK_DEADLINE_SECONDS,
            )
        )

    def collect(self, name: str, *, topic: str) -> None:
        """Keep what is published to `topic` from now on, until it is pulled."""
        self._subscriber.create_subscription(
            Subscription(name=self._subscription(name), topic=self.topic(topic))
        )

    def pull(self, name: str) -> tuple[Message, ...]:
        """Take what a collecting subscription holds now; empty if that is nothing."""
        subscription = self._subscription(name)
        taken: list[Message] = []
        while True:
            answer = self._subscriber.pull(
                subscription=subscription, max_messages=100, return_immediately=True
            )
            received = answer.received_messages
            if not received:
                return tuple(taken)
            taken += [Message(one.message.data, dict(one.message.attributes)) for one in received]
            self._subscriber.acknowledge(
                subscription=subscription, ack_ids=[one.ack_id for one in received]
            )

    def publish(self, topic: str, message: Message) -> str:
        """Publish `message` and return the id it was given."""
        answer = self._publisher.publish(
            topic=self.topic(topic),
            messages=[PubsubMessage(data=message.body, attributes=dict(message.attributes))],
        )
        return str(answer.message_ids[0])
