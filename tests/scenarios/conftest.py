"""The world of a scenario: one fresh deployment for each test."""

from __future__ import annotations

import pytest

from tests.world import World


@pytest.fixture
def world() -> World:
    """Return a deployment with default settings and nothing in it."""
    return World()
