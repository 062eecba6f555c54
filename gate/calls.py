"""One call of a task, as the queue makes it: an HTTP request with a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

NAME_HEADER = "X-CloudTasks-TaskName"


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the task's name, empty if it has none, and its payload.

    `payload` is empty if the body is no JSON object; `raw` is the whole body.
    """

    task: str
    payload: Mapping[str, object]
    raw: str


def parse(task: str, body: bytes) -> Call:
    """Return what the request of a task says, whatever its body is."""
    text = body.decode("utf-8", "replace")
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        payload = None
    stated = payload if isinstance(payload, dict) else {}
    return Call(task, stated, text)
