"""How long the commands of a person wait for a Firestore that does not answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.api_core.retry import Retry

from gate.errors import StoreBusyError
from gate.job import State
from gate.local.processes import LOOPBACK, free_ports
from gate.names import Bundle
from gate.store import firestore_history
from gate.store.firestore import Collections, connect
from gate.store.firestore_history import ANSWER_SECONDS, PATIENCE, FirestoreHistory

QUESTIONS: list[Callable[[FirestoreHistory], object]] = [
    lambda history: history.claim("0" * 32),
    lambda history: history.claims_of(Bundle("uploads", "in/", "roads")),
    lambda history: history.jobs_of(Bundle("uploads", "in/", "roads")),
    lambda history: list(history.jobs_in((State.DEAD,))),
    lambda history: history.count(State.DEAD),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_outlasts_the_patience_of_a_person(
    monkeypatch: pytest.MonkeyPatch, question: Callable[[FirestoreHistory], object]
) -> None:
    """F13: every question gives up within its bound; the client alone goes on for minutes."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"{LOOPBACK}:{free_ports(1)[0]}")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "nowhere")
    short = Retry(initial=0.01, maximum=0.02, timeout=0.1)
    monkeypatch.setattr(firestore_history, "PATIENCE", short)
    history = FirestoreHistory(connect("(default)"), Collections("claims", "manifests", "jobs"))
    with pytest.raises(StoreBusyError, match=r"Timeout of 0\.1s exceeded"):
        question(history)


def test_a_person_waits_for_half_a_minute_at_most() -> None:
    """F13: a command that cannot be answered says so while somebody still looks."""
    assert PATIENCE.timeout == ANSWER_SECONDS == 30
