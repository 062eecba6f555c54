"""PostgreSQL with PostGIS for tests: one server, a schema for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gate.local import postgres
from gate.local.postgres import Server
from gate.local.processes import Child, free_ports, stop_all
from gate.local.stack import START_SECONDS


@contextmanager
def running_server() -> Iterator[Server]:
    """Start a server on a free loopback port; it has ended, with its files, on return.

    Raises `ConfigurationError` if its packages are missing, or it does not start.
    """
    server = postgres.prepare(free_ports(1)[0])
    with TemporaryDirectory(prefix="gate-postgres-log-") as folder:
        child = Child(
            "postgres",
            server.command,
            environment=os.environ,
            log=Path(folder) / "postgres.log",
            grace_seconds=postgres.GRACE_SECONDS,
        )
        try:
            child.wait_until(server.answers, seconds=START_SECONDS)
            yield server
        finally:
            stop_all([child])
            server.remove()
