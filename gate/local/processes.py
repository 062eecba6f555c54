"""Child processes that are waited for until they answer, and end without a trace.

Every child leads a session of its own and is ended as a process group, because
the launchers of the emulators (gcloud, shell scripts) do not pass a signal on
to the Java process they start. A Ctrl-C in the terminal therefore reaches only
this process, which decides in which order the others end.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from gate.errors import ConfigurationError

POLL_SECONDS = 0.05
LOOPBACK = "127.0.0.1"
_TAKEN = ("address already in use", "failed to bind", "connection in use")

# Loopback is never reached through a proxy, whatever the environment says.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ChildError(ConfigurationError):
    """A child process that ended, or never answered.

    `port_taken` is true if its log says that somebody else holds its port, so
    that another port may help.
    """

    def __init__(self, what: str, *, where: str, cure: str, port_taken: bool = False) -> None:
        super().__init__(what, where=where, cure=cure)
        self.port_taken = port_taken


class Child:
    """One child process, its log, and the group it leads.

    `grace_seconds` is how long it may take to end by itself before it is
    killed; what holds nothing worth saving needs none. Output is appended to
    `log`, so that a restart continues the same file.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        grace_seconds: float = 0.2,
    ) -> None:
        self.name = name
        self.log = log
        self.grace_seconds = grace_seconds
        self._killed = False
        with log.open("ab") as output:
            self._own_output_from = output.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of its group."""
        return self._process.pid

    def ended(self) -> ChildError | None:
        """Return what to say of a child that is no longer there, `None` while it is."""
        code = self._process.poll()
        if code is None:
            return None
        lines = reversed(self._output().splitlines())
        last = next((line.strip() for line in lines if line.strip()), "")
        ending = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return self._failure(f"{ending} ({last[:200]})" if last else ending)

    def without_port(self) -> ChildError | None:
        """Return what to say of a child that did not get its port, `None` if it may have.

        The Pub/Sub emulator does not end by itself then.
        """
        failure = self._failure("did not get its port")
        return failure if failure.port_taken else None

    def _failure(self, what: str) -> ChildError:
        output = self._output().lower()
        return ChildError(
            what,
            where=self.name,
            cure=f"read {self.log}",
            port_taken=any(sign in output for sign in _TAKEN),
        )

    def _output(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._own_output_from)
            return log.read().decode(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, if there still is one."""
        self._killed |= number == signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def gone(self) -> bool:
        """Tell whether no process of the group runs any more.

        A killed group is gone with its leader: what remains of the others are
        entries that wait for init to read them, which can take seconds.
        """
        leader_ended = self._process.poll() is not None
        if self._killed and leader_ended:
            return True
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return once `ready` says so; it is asked again and again.

        Raises `ChildError` if the child ends first or `seconds` pass.
        """
        deadline = time.monotonic() + seconds
        while True:
            # The order matters: an answer on the port of a child that has
            # ended is somebody else's.
            answered = ready()
            if failure := self.ended() or self.without_port():
                raise failure
            if answered:
                return
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer within {seconds:.0f} s")
            time.sleep(POLL_SECONDS)


def stop_all(children: Sequence[Child]) -> None:
    """End the process groups of all `children`, together, and wait until they are gone."""
    begun = time.monotonic()
    for child in children:
        child.signal(signal.SIGTERM)
    waiting = [child for child in children if not child.gone()]
    while waiting:
        time.sleep(POLL_SECONDS / 5)
        for child in waiting:
            if time.monotonic() - begun > child.grace_seconds:
                child.signal(signal.SIGKILL)
        waiting = [child for child in waiting if not child.gone()]


def free_ports(count: int) -> tuple[int, ...]:
    """Return `count` different loopback ports that nobody listened on just now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for held in sockets:
            held.bind((LOOPBACK, 0))
        return tuple(int(held.getsockname()[1]) for held in sockets)
    finally:
        for held in sockets:
            held.close()


def answers(url: str, *, status: int = 200) -> bool:
    """Tell whether a GET of `url` is answered with `status`."""
    try:
        with _direct.open(url, timeout=2) as answer:
            return int(answer.status) == status
    except urllib.error.HTTPError as error:
        return error.code == status
    except OSError:
        return False


def post(url: str, body: bytes, headers: Mapping[str, str], *, seconds: float = 60) -> int:
    """Post `body` and return the status of the answer, whatever it is.

    Raises `OSError` if there is none within `seconds`.
    """
    request = urllib.request.Request(  # noqa: S310 (the stack's own address)
        url, data=body, headers=dict(headers), method="POST"
    )
    try:
        with _direct.open(request, timeout=seconds) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@contextmanager
def stop_signals() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into one `KeyboardInterrupt`; those that follow are ignored.

    Main thread only.
    """
    interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
