"""Measure how the Pub/Sub emulator redelivers what an endpoint refuses.

    python -m benchmarks.redelivery [--seconds S]

Each subscription gets four messages, each of which its endpoint refuses three
times. Every one of them should be accepted at the fourth delivery. Under a retry
policy the emulator forgets many of them for good, which is why the local stack
pushes without one: then what is refused comes again after a second, always.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from google.pubsub_v1 import SubscriberClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from google.pubsub_v1.types import PushConfig, RetryPolicy, Subscription

from gate.errors import GateError
from gate.local.processes import LOOPBACK, Child, answers, free_ports, stop_all
from gate.local.tools import find_tools
from gate.local.topics import ACK_DEADLINE_SECONDS, Message, Topics

PROJECT = "redelivery"
START_SECONDS = 60.0
MESSAGES = 4
REFUSALS = 3
# The least and the greatest pause in seconds; the last is that of a trigger in the cloud.
POLICIES = (None, (0, 1), (1, 1), (1, 60), (2, 600), (10, 600))
TIMES = 3


@dataclass
class Endpoint:
    """Refuses each message a few times; `deliveries` counts them by path and message."""

    deliveries: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def take(self, path: str, message: str) -> bool:
        """Count a delivery; tell whether the message is accepted."""
        counted = self.deliveries[path]
        counted[message] = counted.get(message, 0) + 1
        return counted[message] > REFUSALS

    def accepted(self, path: str) -> int:
        """Return how many messages were accepted."""
        return sum(count > REFUSALS for count in self.deliveries[path].values())


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[str]:
    """Serve the endpoint on loopback; yield its address."""

    class Requests(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            accepted = endpoint.take(self.path, body["message"]["messageId"])
            self.send_response(204 if accepted else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((LOOPBACK, 0), Requests) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{LOOPBACK}:{server.server_port}"
        server.shutdown()


@contextmanager
def running_emulator() -> Iterator[str]:
    """Start the Pub/Sub emulator; yield its address."""
    gcloud = find_tools().gcloud
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    with tempfile.TemporaryDirectory(prefix="gate-pubsub-") as folder:
        command = (gcloud, "beta", "emulators", "pubsub", "start")
        child = Child(
            "pubsub",
            (*command, f"--host-port={address}", f"--data-dir={folder}", f"--project={PROJECT}"),
            environment={
                **os.environ,
                "CLOUDSDK_CONFIG": str(Path(folder) / "gcloud"),
                "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            },
            log=Path(folder) / "pubsub.log",
        )
        try:
            child.wait_until(lambda: answers(f"http://{address}/"), seconds=START_SECONDS)
            yield address
        finally:
            stop_all([child])


def subscribe(
    address: str, name: str, topic: str, url: str, pauses: tuple[int, int] | None
) -> None:
    """Push a topic to `url`, with a retry policy of these pauses or with none."""
    subscription = Subscription(
        name=f"projects/{PROJECT}/subscriptions/{name}",
        topic=topic,
        push_config=PushConfig(push_endpoint=url),
        ack_deadline_seconds=ACK_DEADLINE_SECONDS,
    )
    if pauses:
        least, most = (Duration(seconds=each) for each in pauses)
        subscription.retry_policy = RetryPolicy(minimum_backoff=least, maximum_backoff=most)
    channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
    with closing(channel):
        transport = SubscriberGrpcTransport(channel=channel)
        SubscriberClient(transport=transport).create_subscription(subscription)


def measured(address: str, seconds: float) -> list[tuple[tuple[int, int] | None, list[int]]]:
    """Return, for each policy, how many messages each of its subscriptions delivered well."""
    endpoint, topics = Endpoint(), Topics(address, PROJECT)
    with serving(endpoint) as url, closing(topics):
        while not topics.create("probe"):
            time.sleep(0.2)
        for number, pauses in enumerate(POLICIES):
            for turn in range(TIMES):
                name = f"refused-{number}-{turn}"
                topics.create(name)
                subscribe(address, name, topics.topic(name), f"{url}/{number}-{turn}", pauses)
                for message in range(MESSAGES):
                    topics.publish(name, Message(str(message).encode(), {}))
        time.sleep(seconds)
        return [
            (pauses, [endpoint.accepted(f"/{number}-{turn}") for turn in range(TIMES)])
            for number, pauses in enumerate(POLICIES)
        ]


def main() -> int:
    """Print the table; 1 if the way the stack pushes loses anything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.redelivery", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long to wait")
    options = parser.parse_args()
    try:
        with running_emulator() as address:
            rows = measured(address, options.seconds)
    except GateError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"accepted of {MESSAGES} messages within {options.seconds:.0f} s, {TIMES} subscriptions")
    for pauses, accepted in rows:
        policy = f"retry policy {pauses[0]} to {pauses[1]} s" if pauses else "no retry policy"
        print(f"  {policy:26}{'  '.join(str(each) for each in accepted)}")
    return 0 if set(rows[0][1]) == {MESSAGES} else 1


if __name__ == "__main__":
    sys.exit(main())
