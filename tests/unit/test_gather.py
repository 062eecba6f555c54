"""Memory that threads keep for what they need for a moment."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gate import gather
from gate.gather import SCRATCH_LIMIT_BYTES, Floats, Scratch


def test_scratch_is_the_same_memory_again() -> None:
    """Asking for as much or less again costs no fresh memory."""
    scratch = Scratch()
    first = scratch.floats(100)
    assert np.shares_memory(first, scratch.floats(100))
    assert np.shares_memory(first, scratch.floats(7))
    assert [len(scratch.floats(count)) for count in (7, 100, 1000)] == [7, 100, 1000]


def test_scratch_belongs_to_a_thread() -> None:
    """Two threads never write into the same scratch."""
    scratch = Scratch()
    found: list[Floats] = []
    thread = threading.Thread(target=lambda: found.append(scratch.floats(9)))
    thread.start()
    thread.join()
    assert not np.shares_memory(found[0], scratch.floats(9))


def test_scratch_does_not_keep_much() -> None:
    """Memory for one enormous record is let go of."""
    scratch = Scratch()
    small, large = scratch.floats(9), scratch.floats(SCRATCH_LIMIT_BYTES // 8 + 1)
    assert not np.shares_memory(large, scratch.floats(9))
    assert np.shares_memory(small, scratch.floats(9))


@pytest.mark.parametrize("length", [2, gather.LONG_RUN])
@pytest.mark.parametrize("scratch", [None, Scratch()])
def test_runs_are_picked_whatever_their_length(length: int, scratch: Scratch | None) -> None:
    """Runs that begin anywhere follow each other in what is picked, in scratch or not."""
    values = np.arange(4.0 * length)
    content = np.concatenate([np.zeros(3, np.uint8), values.view(np.uint8)])
    first = gather.starts_of(np.array([length, length]))
    offsets = 3 + 8 * np.array([2 * length, 0])
    picked = gather.picked_runs(content, offsets, first, 8, scratch).view("<f8")
    expected = np.concatenate([values[2 * length : 3 * length], values[:length]])
    assert picked.tolist() == expected.tolist()
