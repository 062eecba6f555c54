"""The pulse beside the work, and how a process learns that it has to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker
from gunicorn.workers.sync import SyncWorker

from gate import log
from gate.heartbeat import heartbeat, shutting_down

PATIENCE_SECONDS = 10.0
FAST_SECONDS = 0.001


class Beats:
    """Counts pulses; `waited_for` waits until there were some."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.threads: list[threading.Thread] = []
        self.traces: list[str] = []
        self._fault = fault
        self._beaten = threading.Condition()

    def __call__(self) -> None:
        """Count a pulse, then raise the fault, if there is one."""
        with self._beaten:
            self.threads.append(threading.current_thread())
            self.traces.append(log.trace.get())
            self._beaten.notify_all()
        if self._fault:
            raise self._fault

    def waited_for(self, count: int) -> bool:
        """Tell whether there have been so many pulses, after waiting for them."""
        with self._beaten:
            return self._beaten.wait_for(lambda: len(self.threads) >= count, PATIENCE_SECONDS)


def test_it_beats_beside_the_work_until_the_work_is_left() -> None:
    """E16: pulses come from another thread, and none comes once the block has been left."""
    beats = Beats()
    with heartbeat(beats, pause_seconds=FAST_SECONDS):
        assert beats.waited_for(3)
    count = len(beats.threads)
    assert threading.current_thread() not in beats.threads
    assert not beats.threads[0].is_alive()
    assert len(beats.threads) == count


def test_a_work_that_fails_ends_its_heartbeat_too() -> None:
    """E16: what the work raises passes through, and leaves no thread behind."""
    beats = Beats()

    def work() -> None:
        with heartbeat(beats, pause_seconds=FAST_SECONDS):
            assert beats.waited_for(1)
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert not beats.threads[0].is_alive()


def test_a_pulse_that_fails_is_logged_and_not_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    """E9: an unforeseen fault of one pulse leaves its trace in the log, and the next one comes."""
    beats = Beats(ZeroDivisionError("odd"))
    with heartbeat(beats, pause_seconds=FAST_SECONDS):
        assert beats.waited_for(2)
    assert "ZeroDivisionError: odd" in capsys.readouterr().out


def test_a_pulse_logs_under_the_trace_of_its_request() -> None:
    """Case 61: what the heartbeat writes can be found beside the lines of the worker."""
    beats = Beats()
    token = log.trace.set("projects/p/traces/t")
    try:
        with heartbeat(beats, pause_seconds=FAST_SECONDS):
            assert beats.waited_for(1)
    finally:
        log.trace.reset(token)
    assert beats.traces[0] == "projects/p/traces/t"


@pytest.fixture
def _restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Application(BaseApplication):
    """An application of nothing, for its settings."""

    def load_config(self) -> None:
        """Leave every setting as it is."""


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("kind", [ThreadWorker, SyncWorker])
def test_a_worker_of_gunicorn_that_was_told_to_stop_is_recognised(
    kind: type[ThreadWorker] | type[SyncWorker],
) -> None:
    """E2: SIGTERM to the process that serves requests shows, in any thread and without a handler.

    Holds for both kinds of worker that functions-framework may run.
    """
    worker = kind(1, 1, [], None, 30, Application().cfg, SimpleNamespace())
    if isinstance(worker, ThreadWorker):
        worker.method_queue.init()
    signal.signal(signal.SIGTERM, worker.handle_exit)
    seen: list[bool] = []
    look = threading.Thread(target=lambda: seen.append(shutting_down()))
    look.start()
    look.join()
    signal.raise_signal(signal.SIGTERM)
    assert (seen, shutting_down()) == ([False], True)
    worker.tmp.close()


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN, lambda _number, _frame: None])
def test_without_gunicorn_nothing_shuts_down(handler: signal.Handlers) -> None:
    """E2: where something else handles SIGTERM, there is nobody to ask, and work goes on."""
    signal.signal(signal.SIGTERM, handler)
    assert not shutting_down()
