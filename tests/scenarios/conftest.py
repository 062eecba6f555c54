"""The world of a scenario: one fresh deployment for each test, behind each gate."""

from __future__ import annotations

import pytest

from tests.scenarios.gates import ENVIRONMENTS, MODULES, gates_of
from tests.world import World


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a scenario by every gate that it is about."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if module in MODULES:
        metafunc.parametrize("gate", gates_of(metafunc.function.__name__), indirect=True)


@pytest.fixture(autouse=True)
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let every world of the test have this gate: the manifest, unless it is for others too."""
    chosen: str = getattr(request, "param", "manifest")
    monkeypatch.setattr(World, "defaults", ENVIRONMENTS[chosen])
    monkeypatch.setattr(World, "prompt_queue", chosen == "tasks")
    return chosen


@pytest.fixture
def world(gate: str) -> World:
    """Return a deployment with default settings and nothing in it."""
    return World()
