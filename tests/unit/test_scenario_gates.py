"""The lists of scenarios that are not played by every gate say what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios import gates

FOLDER = Path(gates.__file__).parent
LISTS = {
    name: [test for tests in value.values() for test in tests]
    for name, value in vars(gates).items()
    if name.endswith(("_ONLY", "_BY_POLL", "_BY_TASKS")) and isinstance(value, dict)
}

pytestmark = pytest.mark.project


@pytest.mark.parametrize("name", LISTS)
def test_a_scenario_that_is_excepted_is_one(name: str) -> None:
    """Each test that is left to some gates stands in one of the modules, and in a list once."""
    texts = [(FOLDER / f"{module}.py").read_text() for module in gates.MODULES]
    for test in LISTS[name]:
        assert sum(f"def {test}(" in text for text in texts) == 1, test
    assert len(set(LISTS[name])) == len(LISTS[name]) > 0
