"""The Firestore emulator, and clients whose calls can be counted and broken."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore

from gate.local.processes import LOOPBACK, Child, answers, free_ports, stop_all
from gate.local.tools import find_tools

START_SECONDS = 60.0
PROJECT = "gate-emulator"


@contextmanager
def running_emulator() -> Iterator[str]:
    """Start the Firestore emulator through gcloud; yield its address, `host:port`.

    Listens on loopback only. Its whole process group has ended on return.
    Raises `ConfigurationError` if a tool is missing or the emulator does not
    start.
    """
    gcloud = find_tools().gcloud
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    with tempfile.TemporaryDirectory(prefix="gate-firestore-") as folder:
        child = Child(
            "firestore",
            (gcloud, "emulators", "firestore", "start", f"--host-port={address}"),
            environment={
                **os.environ,
                "CLOUDSDK_CORE_PROJECT": PROJECT,
                "CLOUDSDK_CONFIG": str(Path(folder) / "gcloud"),
                "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
                "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
                "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
            },
            log=Path(folder) / "firestore.log",
        )
        try:
            child.wait_until(lambda: answers(f"http://{address}/"), seconds=START_SECONDS)
            yield address
        finally:
            stop_all([child])


@dataclass(slots=True)
class Fault:
    """What the next `times` calls of one method meet instead of an answer.

    With `after`, the call takes effect first and only its answer is lost.
    """

    method: str
    error: Exception
    times: int
    after: bool
    then: Callable[[], object]


class Wire(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """The way of every call from the client to the emulator.

    `calls` names the methods that were called, in order; `requests` holds what
    each sent, `timeouts` its deadline in seconds. Errors are raised below the
    library's own repetitions.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.requests: list[Any] = []
        self.timeouts: list[float | None] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def fail(
        self,
        method: str,
        error: Exception,
        *,
        times: int = 1,
        after: bool = False,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """Let the next `times` calls of `method` raise `error`; run `then` before it does."""
        self._faults.append(Fault(method, error, times, after, then))

    def clear(self) -> None:
        """Forget what was called and what is still to fail."""
        self.calls.clear()
        self.requests.clear()
        self.timeouts.clear()
        self._faults.clear()

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """See `grpc.UnaryUnaryClientInterceptor`."""
        return self._passed(continuation, details, request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """See `grpc.UnaryStreamClientInterceptor`."""
        return self._passed(continuation, details, request)

    def _passed(self, continuation: Any, details: Any, request: Any) -> Any:
        method = str(details.method).rpartition("/")[2]
        fault = self._noted(method, request, details.timeout)
        if fault is None:
            return continuation(details, request)
        if fault.after:
            continuation(details, request).result()
        fault.then()
        raise fault.error

    def _noted(self, method: str, request: Any, timeout: float | None) -> Fault | None:
        with self._lock:
            self.calls.append(method)
            self.requests.append(request)
            self.timeouts.append(timeout)
            fault = next((one for one in self._faults if one.method == method and one.times), None)
            if fault is not None:
                fault.times -= 1
            return fault


class WiredClient(firestore.Client):
    """A client whose channel to the emulator leads through a wire."""

    def __init__(self, wire: Wire, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._wire = wire

    def _emulator_channel(self, transport: Any) -> Any:
        return grpc.intercept_channel(super()._emulator_channel(transport), self._wire)


def connected(address: str, wire: Wire | None = None) -> firestore.Client:
    """Return a client of the emulator at `address`, through `wire` if there is one."""
    told: dict[str, Any] = {"project": PROJECT, "credentials": AnonymousCredentials()}
    with patch.dict(os.environ, {"FIRESTORE_EMULATOR_HOST": address}):
        return WiredClient(wire, **told) if wire else firestore.Client(**told)
