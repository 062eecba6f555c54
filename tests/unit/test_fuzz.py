"""The fuzzed targets, over their seeds, over damage to them, and over what was ever found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS, joined, parted

FINDS = Path(__file__).parents[1] / "fuzz" / "finds"


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_no_finds(name: str) -> None:
    """What a fuzzer starts from is handled by its target, and there is something to start from."""
    seeds = SEEDS[name]()
    assert len(seeds) > 2
    for seed in seeds:
        TARGETS[name](seed)


def test_what_was_found_once_is_handled() -> None:
    """Each input that once broke a target ends in rows or in a coded error now."""
    for path in sorted(FINDS.glob("*/*")):
        TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None)
@given(draw=st.data())
def test_damaged_seeds_are_handled(name: str, draw: st.DataObject) -> None:
    """A few bytes of a seed replaced, or its end cut off: rows or a coded error, nothing else."""
    seed = bytearray(draw.draw(st.sampled_from(SEEDS[name]())))
    places = st.integers(0, max(len(seed) - 1, 0))
    for place in draw.draw(st.lists(places, max_size=6)):
        if seed:
            seed[place] = draw.draw(st.integers(0, 255))
    TARGETS[name](bytes(seed[: draw.draw(st.integers(0, len(seed)))]))


@given(st.lists(st.binary(max_size=300), min_size=3, max_size=3))
def test_an_input_holds_several_contents(contents: list[bytes]) -> None:
    """Contents that are joined come apart as they were, so that seeds mean what they say."""
    assert parted(joined(contents), 3) == contents


@given(st.binary(max_size=20))
def test_any_input_has_as_many_contents(data: bytes) -> None:
    """However short an input is, the target gets its three contents."""
    assert len(parted(data, 3)) == 3
