"""The local stack comes up, answers, and leaves no process behind, however it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gate.local.processes import ChildError, answers
from gate.local.stack import SINK_BUCKET, SOURCE_BUCKET, Stack

ROOT = Path(__file__).parents[2]
UP = (sys.executable, "-m", "gate", "local", "up")
READY = "Ctrl-C stops everything."
SECONDS = 60.0


def family(pid: int) -> set[int]:
    """Return the running descendants of a process, by asking /proc."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(entry.parent.name)] = int(parent)
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def running(pids: set[int]) -> set[int]:
    """Return those of the processes that still run; waits a moment for the dying."""
    deadline = time.monotonic() + 5
    while left := {pid for pid in pids if _lives(pid)}:
        if time.monotonic() > deadline:
            return left
    return set()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def up(logs: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `python -m gate local up`, with its logs in a folder, and never leave it behind."""
    process = subprocess.Popen(
        (*UP, *options),
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(logs)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=SECONDS)


def read_until(process: subprocess.Popen[str], line: str) -> list[str]:
    """Return the lines of standard output up to the one that begins with `line`."""
    assert process.stdout is not None
    lines = []
    for text in process.stdout:
        lines.append(text.rstrip("\n"))
        if text.startswith(line):
            return lines
    pytest.fail(f"it ended before it said {line!r}: {process.communicate()}")


@pytest.mark.usefixtures("_tools")
class TestUp:
    """`python -m gate local up` as a person uses it."""

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_without_a_trace(self, number: int, tmp_path: Path) -> None:
        """Ctrl-C or SIGTERM ends `up` with exit code 0, no traceback and no process left."""
        with up(tmp_path) as process:
            said = read_until(process, READY)
            pids = family(process.pid)
            process.send_signal(number)
            out, err = process.communicate(timeout=SECONDS)
        assert len(pids) >= 7  # two launchers with a Java process each, storage, two functions
        assert (process.returncode, out, err) == (0, "stopped\n", "")
        assert running(pids) == set()
        exported = [line for line in said if line.startswith("  export ")]
        assert len(exported) == 7

    def test_a_signal_during_the_start_ends_it_too(self, tmp_path: Path) -> None:
        """Ctrl-C while the emulators start leaves nothing, and nothing starts later."""
        with up(tmp_path) as process:
            read_until(process, "starting")
            while not family(process.pid):
                pass
            pids = family(process.pid)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, out, err) == (0, "stopped\n", "")
        assert running(pids) == set()

    def test_a_child_that_dies_ends_all(self, tmp_path: Path) -> None:
        """When one part is killed, `up` says which in one line, ends the others, and fails."""
        with up(tmp_path) as process:
            read_until(process, READY)
            pids = family(process.pid)
            storage = next(pid for pid in pids if "fake-gcs-server" in _command(pid))
            os.kill(storage, signal.SIGKILL)
            _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 1
        assert err.startswith("storage: was killed by signal 9")
        assert err.count("\n") == 1
        assert running(pids) == set()


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


@pytest.mark.usefixtures("_tools")
def test_a_stack_in_python_answers_and_ends(tmp_path: Path) -> None:
    """`with Stack()` gives two buckets and a function; after it, no process is left."""
    before = family(os.getpid())
    with Stack(folder=tmp_path) as stack:
        started = family(os.getpid()) - before
        objects = f"http://{stack.addresses.storage}/storage/v1/b"
        assert answers(f"{objects}/{SOURCE_BUCKET}")
        assert answers(f"{objects}/{SINK_BUCKET}")
        assert set(stack.pids) == {"firestore", "pubsub", "storage", "function", "sweep"}
        assert stack.ended() is None
    assert started
    assert running(started) == set()
    assert not answers(f"{objects}/{SOURCE_BUCKET}")


@pytest.mark.usefixtures("_tools")
def test_a_function_that_cannot_start_stops_the_rest(tmp_path: Path) -> None:
    """If `main.py` fails to import, entering the stack says so and leaves no process."""
    broken = tmp_path / "main.py"
    broken.write_text("raise RuntimeError('no settings')\n")
    before = family(os.getpid())
    with pytest.raises(ChildError, match=r"(function|sweep): ended .*RuntimeError: no settings"):
        Stack(main=broken, folder=tmp_path).__enter__()
    assert running(family(os.getpid()) - before) == set()


@pytest.mark.usefixtures("_tools")
def test_a_port_that_is_taken_is_given_up(tmp_path: Path) -> None:
    """If somebody takes a port in between, all is started once more on other ports."""
    stack = Stack(folder=tmp_path)
    host, port = stack.addresses.pubsub.split(":")
    with socket.socket() as somebody:
        somebody.bind((host, int(port)))
        somebody.listen()
        with stack:
            assert stack.addresses.pubsub != f"{host}:{port}"
            assert answers(f"http://{stack.addresses.pubsub}/")
