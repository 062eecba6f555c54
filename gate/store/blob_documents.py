"""Documents as the bytes of small objects, and what a listing shows of them.

Documents are JSON. Aware times are written in ISO 8601; they are known by the
names of their fields, which end in `_at`, and in the history of a job `at`. The
fields that are asked for stand in the labels of the object too, so that a
listing answers without a read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from gate.store.documents import QUERIED, Document


def encoded(document: Document) -> bytes:
    """Return a document as it is stored."""
    return json.dumps(document, default=datetime.isoformat, ensure_ascii=False).encode()


def decoded(payload: bytes, where: str) -> dict[str, Any]:
    """Return the document that an object holds.

    Raises `ValueError` for what is none: nothing of the gate writes such.
    """
    document = None
    with suppress(ValueError):
        document = json.loads(payload)
    if not isinstance(document, dict):
        what = "the object holds no document; mend it, or remove it from STATE_URI"
        raise ValueError(f"{where}: {what}")
    timed = _timed(document)
    history = timed.get("history")
    if isinstance(history, list):
        timed["history"] = [_timed(one) if isinstance(one, dict) else one for one in history]
    return timed


def labels_of(kind: str, document: Document) -> dict[str, str]:
    """Return what a listing shows of a document: the fields that are asked for."""
    asked = (field for field in QUERIED.get(kind, ()) if field in document)
    return {field: label(document[field]) for field in asked}


def label(value: object) -> str:
    """Return the value of a field as a listing shows it."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def time_of(label: str) -> datetime | None:
    """Return the time that a label says; `None` for what is no time."""
    with suppress(ValueError):
        stated = datetime.fromisoformat(label)
        return stated if stated.tzinfo else None
    return None


def _timed(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: time_of(value) or value
        if isinstance(value, str) and (key == "at" or key.endswith("_at"))
        else value
        for key, value in document.items()
    }
