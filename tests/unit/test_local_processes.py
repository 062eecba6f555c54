"""Children of the local stack: waited for, told apart, and ended with all they started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gate.local.processes import Child, ChildError, free_ports, stop_all, stop_signals

Start = Callable[..., Child]

# Starts a child of its own, tells its pid, and ignores SIGTERM like its child does.
STUBBORN = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if pid := os.fork():
    print(f"grandchild {pid}", flush=True)
signal.pause()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a Python child from source text; it is ended with the test."""
    started: list[Child] = []

    def start(source: str, *, grace_seconds: float = 0.0) -> Child:
        command = (sys.executable, "-c", source)
        log = tmp_path / "child.log"
        child = Child("part", command, environment=os.environ, log=log, grace_seconds=grace_seconds)
        started.append(child)
        return child

    yield start
    stop_all(started)


def test_a_child_that_ends_is_told_with_its_last_words(start: Start) -> None:
    """Waiting for a child that ends raises its exit code, its last line and where its log is."""
    child = start("import sys; print('first'); print('no such database'); sys.exit(3)")
    with pytest.raises(ChildError) as raised:
        child.wait_until(lambda: False, seconds=20)
    assert str(raised.value) == (
        f"part: ended with exit code 3 (no such database); read {child.log}"
    )
    assert not raised.value.port_taken


def test_an_answer_of_somebody_else_is_not_believed(start: Start) -> None:
    """A child that has ended is not ready, even if its port answers."""
    child = start("")
    with pytest.raises(ChildError):
        child.wait_until(lambda: child.ended() is not None, seconds=20)


def test_a_child_without_its_port_is_told_apart(start: Start) -> None:
    """A child that lives on without its port, as one emulator does, is not waited for."""
    child = start("import signal; print('Address already in use', flush=True); signal.pause()")
    with pytest.raises(ChildError, match="part: did not get its port") as raised:
        child.wait_until(lambda: False, seconds=20)
    assert raised.value.port_taken


def test_the_words_of_an_earlier_child_do_not_count(start: Start) -> None:
    """Two children may share a log; what the first one said is not held against the second."""
    first = start("print('Address already in use')")
    with pytest.raises(ChildError):
        first.wait_until(lambda: False, seconds=20)
    second = start("import signal; print('here', flush=True); signal.pause()")
    second.wait_until(lambda: "here" in second.log.read_text(), seconds=20)
    assert second.ended() is None


def test_a_silent_child_is_given_up(start: Start) -> None:
    """A child that never answers is told after the time it was given."""
    child = start("import signal; signal.pause()")
    with pytest.raises(ChildError, match=r"part: did not answer within 0 s; read .*child\.log"):
        child.wait_until(lambda: False, seconds=0)


def test_grandchildren_end_too(start: Start) -> None:
    """A whole group that ignores SIGTERM is killed, the child's own children included."""
    child = start(STUBBORN)
    child.wait_until(lambda: "grandchild" in child.log.read_text(), seconds=20)
    grandchild = int(child.log.read_text().split()[1])
    stop_all([child])
    assert child.gone()
    assert _state(grandchild) in ("Z", "gone")
    ended = child.ended()
    assert ended is not None
    assert "was killed by signal 9" in str(ended)


def test_a_child_may_end_by_itself(start: Start) -> None:
    """Within its grace a child ends in its own way."""
    child = start(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "signal.pause()",
        grace_seconds=20,
    )
    child.wait_until(lambda: "ready" in child.log.read_text(), seconds=20)
    stop_all([child])
    assert "ended with exit code 7" in str(child.ended())


def _state(pid: int) -> str:
    """Return the state of a process; a killed one may wait for init to read its entry."""
    for _ in range(1_000_000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "gone"
        if state == "Z":
            return state
    return state


def test_free_ports_differ() -> None:
    """Ports asked for together are different ones."""
    assert len(set(free_ports(20))) == 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_the_next_is_ignored(number: int) -> None:
    """One `KeyboardInterrupt` comes of many signals, and the old handlers come back."""
    before = signal.getsignal(number)
    with stop_signals():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(number) is before
