"""The catalogue of a report's reasons, compared with the code that gives them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.reasons import LOSSES, NOTICES, REJECTS, VALUES, Reason, cure

GATE = Path(__file__).parents[2] / "gate"
CATALOGUE = (*REJECTS, *VALUES, *NOTICES, *LOSSES)

# Which argument of a call is a code.
CALLS = {"notice": 0, "Notice": 0, "reject": 0, "_count": 2, "lose": 0}


def literals(node: ast.expr) -> Iterator[str]:
    """Yield the texts that an argument may be, as far as they are written out."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def given() -> set[str]:
    """Return every code that is written out where something is noted."""
    found = set()
    for path in GATE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in CALLS and len(node.args) > CALLS[name]:
                argument = node.args[CALLS[name]]
                if not isinstance(argument, ast.JoinedStr):
                    found |= set(literals(argument))
    return found


def test_every_code_that_is_given_is_explained() -> None:
    """Case 51: whatever a report says has its meaning and its cure in the catalogue."""
    codes = {reason.code for reason in CATALOGUE}
    assert {"missing_crs", "not_repaired", "not_a_date"} <= given()
    assert given() <= codes


@pytest.mark.parametrize("reason", CATALOGUE, ids=lambda reason: reason.code)
def test_every_explanation_is_of_something(reason: Reason) -> None:
    """Case 51: each code of the catalogue is one that the code can give."""
    sources = [path for path in GATE.rglob("*.py") if path.name != "reasons.py"]
    written = f'"{reason.code}"'
    stem, _, last = reason.code.partition("_")
    spliced = f'f"{stem}_{{source.value}}"'
    assert any(
        written in text or (spliced in text and f'"{last}"' in text)
        for text in (path.read_text() for path in sources)
    )


def test_codes_are_unique_and_their_cures_are_instructions() -> None:
    """Case 51: one code, one meaning; meanings are sentences, cures are not."""
    assert len({reason.code for reason in CATALOGUE}) == len(CATALOGUE)
    for reason in CATALOGUE:
        assert re.fullmatch(r"[a-z0-9_]+", reason.code)
        assert reason.meaning.endswith("."), reason
        assert reason.cure, reason
        assert not reason.cure.endswith("."), reason


def test_a_cure_is_found_by_its_code() -> None:
    """Case 51: what a person is told to do is what the catalogue says."""
    assert cure("overflow") == "widen the field and export again"
    assert cure("no_such_code") == ""
