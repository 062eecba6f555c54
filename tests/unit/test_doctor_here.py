"""The doctor's checks of the machine it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from gate.doctor import date, here
from gate.doctor.environment import EMULATORS, TASKS_EMULATOR, addressed
from gate.doctor.finding import Verdict
from gate.errors import ConfigurationError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def raising(error: Exception) -> object:
    """Return what raises an error when it is called."""

    def call() -> object:
        raise error

    return call


def test_libraries_that_work_are_named() -> None:
    """Case 61: what reads layers here is told with its version."""
    found = here.libraries(lambda: "Fiona 1.10.1")
    assert (found.verdict, found.what) == (Verdict.OK, "Fiona 1.10.1 reads and transforms")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ConfigurationError("no database", where="PROJ_DATA", cure="x"),
            "PROJ_DATA: no database; x",
        ),
        (
            ModuleNotFoundError("No module named 'fiona'"),
            "this machine: No module named 'fiona'; pip install -r requirements.txt",
        ),
    ],
)
def test_libraries_that_do_not_work_fail(error: Exception, said: str) -> None:
    """Case 61: what keeps layers from being read is a failure with its cure."""
    found = here.libraries(raising(error))  # type: ignore[arg-type]
    assert (found.verdict, str(found)) == (Verdict.FAILED, said)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, None), (29, None), (-29, None), (60, "its clock is 60 s fast"), (-90, "is 90 s slow")],
)
def test_a_clock_that_is_wrong_is_warned_of(seconds: int, said: str | None) -> None:
    """E11: a skew of more than half a minute is told, with its direction."""
    [found] = here.clock(lambda: (NOW, NOW + timedelta(seconds=seconds)))
    assert found.verdict is (Verdict.WARNING if said else Verdict.OK)
    assert (said or "right") in found.what


def test_a_clock_that_cannot_be_compared_is_unchecked() -> None:
    """E11: without an answer from a server, nothing is said of the clock."""
    error = ConfigurationError("no answer", where="https://x", cure="see to the network")
    [found] = here.clock(raising(error))  # type: ignore[arg-type]
    assert (found.verdict, str(found)) == (
        Verdict.UNCHECKED,
        "https://x: no answer; see to the network",
    )


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        ((), Verdict.OK),
        (EMULATORS, Verdict.OK),
        ((*EMULATORS, TASKS_EMULATOR), Verdict.OK),
        (EMULATORS[:1], Verdict.FAILED),
        ((TASKS_EMULATOR,), Verdict.FAILED),
    ],
)
def test_clients_talk_to_one_world(names: tuple[str, ...], verdict: Verdict) -> None:
    """Issue 6: all clients talk to the cloud or all to emulators; a mixture fails."""
    found = addressed("here", dict.fromkeys(names, "localhost:1"), deployed=False)
    assert found.verdict is verdict


@contextmanager
def server(status: int) -> Iterator[str]:
    """Run a server that knows the time, and answers with one status."""

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(status)
            self.send_header("Date", format_datetime(NOW, usegmt=True))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    running = HTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


@pytest.mark.parametrize("status", [200, 400])
def test_a_server_says_what_time_it_is(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """E11: the time is that of the answer, whatever the answer is."""
    with server(status) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        there, now = date.asked()
    assert there == NOW
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=1)


def test_a_server_that_is_not_there_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """E11: without a network there is an error in one line."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match=r"^http://127\.0\.0\.1:9: no answer"):
        date.asked()
