"""A store on the emulator whose every call can be seen and broken."""

from __future__ import annotations

import pytest

from tests.contract.stores import FirestoreBench
from tests.emulator.firestore import Wire, connected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder."""
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.emulator)


@pytest.fixture
def wire() -> Wire:
    """Return the way from the client to the emulator."""
    return Wire()


@pytest.fixture
def bench(firestore_address: str, wire: Wire) -> FirestoreBench:
    """Return a store whose calls go over `wire`, and its documents."""
    return FirestoreBench(connected(firestore_address, wire))
