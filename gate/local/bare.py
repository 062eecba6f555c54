"""The local stack on a machine without the emulators: state in a bucket, events by hand.

    upload ──► fake-gcs-server
    uploader ── event, until it is acknowledged ──► functions-framework
                                                    main.py, `ingest`
                                                    │
               fake-gcs-server, STATE=blobs ◄───────┤
                                                    │
    every second: the sweep ──────────────────────► functions-framework
                                                    main.py, `sweep`

Only Pub/Sub and Firestore are missing, and with them Java and gcloud. There are
no dead letters but in the log.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from gate.identity import Pin
from gate.local.processes import post
from gate.local.stack import SOURCE_BUCKET, Stack
from gate.local.tools import Tools, bare_tools
from gate.local.topics import Message

STATE_BUCKET = "state"
# As the Pub/Sub emulator pauses before it sends again what was refused.
PAUSE_SECONDS = 1.0
FINALIZED = "google.cloud.storage.object.v1.finalized"


class Posts:
    """Events that are posted to the function itself, each until it is acknowledged.

    What a subscription of `gate.local.topics.Topics` would collect is collected
    here; there is one topic, whatever it is called.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._collected: dict[str, list[Message]] = {}
        self._numbers = itertools.count(1)
        self._closed = threading.Event()

    def close(self) -> None:
        """Send nothing again any more."""
        self._closed.set()

    def collect(self, name: str, *, topic: str) -> None:  # noqa: ARG002  there is but one
        """Keep what is published from now on, until it is pulled."""
        self._collected[name] = []

    def pull(self, name: str) -> tuple[Message, ...]:
        """Take what was collected so far."""
        taken = tuple(self._collected[name])
        del self._collected[name][: len(taken)]
        return taken

    def publish(self, topic: str, message: Message) -> str:  # noqa: ARG002
        """Send `message` and return the id it was given."""
        event_id = str(next(self._numbers))
        for collected in self._collected.values():
            collected.append(message)
        headers = {**message.attributes, "ce-id": event_id}
        threading.Thread(target=self._deliver, args=(message.body, headers), daemon=True).start()
        return event_id

    def _deliver(self, body: bytes, headers: Mapping[str, str]) -> None:
        while not self._closed.is_set():
            with suppress(OSError):
                if post(self._url, body, headers) == 200:
                    return
            self._closed.wait(PAUSE_SECONDS)


def finalized(bucket: str, pin: Pin) -> Message:
    """Return the event of an object as Eventarc sends it, but for its id."""
    stated = {"bucket": bucket, "name": pin.name, "generation": str(pin.generation)}
    return Message(
        json.dumps(stated).encode(),
        {
            "Content-Type": "application/json",
            "ce-specversion": "1.0",
            "ce-type": FINALIZED,
            "ce-source": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        },
    )


class BareStack(Stack):
    """A running stack without emulators; see `Stack`."""

    @property
    def environment(self) -> dict[str, str]:
        """Return what clients and the function need to be told to use this stack."""
        told = super().environment
        for emulated in ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "DEAD_LETTER_TOPIC"):
            del told[emulated]
        return {**told, "STATE": "blobs", "STATE_URI": f"gs://{STATE_BUCKET}"}

    def uploaded(self, pin: Pin) -> None:
        """Send the event of an upload, which this bucket does not send by itself."""
        self.topics.publish(SOURCE_BUCKET, finalized(SOURCE_BUCKET, pin))

    def _find_tools(self) -> Tools:
        return bare_tools()

    def _parts(self, tools: Tools) -> tuple[Callable[[], None], ...]:
        return (
            lambda: self._start_bare(tools),
            lambda: self._start_function(self._settings),
            lambda: self._start_sweep(self._settings),
        )

    def _start_bare(self, tools: Tools) -> None:
        self._topics = Posts(self.function_url)
        self._start_storage(tools)
