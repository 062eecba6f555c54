"""The list of guards that `make mutate` takes away says what stands in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.guard import Guard
from tests.mutation.guards import GUARDS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.module}: {guard.why}")
def test_a_listed_guard_stands_in_its_file_once(guard: Guard) -> None:
    """What is to be taken away is there once, would leave code behind, and has its tests."""
    text = (ROOT / guard.path).read_text(encoding="utf-8")
    assert text.count(guard.text) == 1
    compile(text.replace(guard.text, guard.instead), guard.path, "exec")
    assert guard.text != guard.instead
    assert all((ROOT / path).is_file() for path in guard.test_paths)


def test_no_guard_is_listed_twice() -> None:
    """Each guard is another change, for another reason."""
    assert len({(guard.path, guard.text, guard.instead) for guard in GUARDS}) == len(GUARDS)
    assert len({(guard.path, guard.why) for guard in GUARDS}) == len(GUARDS)
