"""Services that several folders of tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gate.local.postgres import Server


@pytest.fixture(scope="session")
def postgis_server() -> Iterator[Server]:
    """Run PostgreSQL with PostGIS; skip without it, or fail where services are demanded."""
    from gate.errors import ConfigurationError
    from tests.postgis import running_server

    with ExitStack() as running:
        try:
            server = running.enter_context(running_server())
        except ConfigurationError as error:
            if os.environ.get("GATE_REQUIRE_SERVICES") == "1":
                pytest.fail(str(error))
            pytest.skip(str(error))
        yield server


@pytest.fixture(scope="session")
def firestore_address() -> Iterator[str]:
    """Run the Firestore emulator; skip without it, or fail where services are demanded."""
    from gate.errors import ConfigurationError
    from tests.emulator.firestore import running_emulator

    with ExitStack() as running:
        try:
            address = running.enter_context(running_emulator())
        except ConfigurationError as error:
            if os.environ.get("GATE_REQUIRE_SERVICES") == "1":
                pytest.fail(str(error))
            pytest.skip(str(error))
        yield address
