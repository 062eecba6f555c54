"""The world of a scenario: one fresh deployment for each test, behind each gate."""

from __future__ import annotations

import pytest

from tests.scenarios.gates import ENVIRONMENTS, MANIFEST_ONLY, MODULES
from tests.world import World


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a scenario by every gate that it is about."""
    module = metafunc.module.__name__.rpartition(".")[2]
    excepted = {test for tests in MANIFEST_ONLY.values() for test in tests}
    if module in MODULES and metafunc.function.__name__ not in excepted:
        metafunc.parametrize("gate", ENVIRONMENTS, indirect=True)


@pytest.fixture(autouse=True)
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let every world of the test have this gate: the manifest, unless it is for others too."""
    chosen: str = getattr(request, "param", "manifest")
    monkeypatch.setattr(World, "defaults", ENVIRONMENTS[chosen])
    return chosen


@pytest.fixture
def world(gate: str) -> World:
    """Return a deployment with default settings and nothing in it."""
    return World()
