"""Runs of items picked and put, and the memory that threads keep for a moment."""

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


@pytest.mark.parametrize("item_floats", [2, 3])
@pytest.mark.parametrize("stretch_items", [1, 130, 1 << 15])
@pytest.mark.parametrize("lengths", [[2, 3, 5], [gather.LONG_RUN, 2 * gather.LONG_RUN, 60]])
@pytest.mark.parametrize("backwards", [[False] * 3, [True] * 3, [True, False, True]])
def test_runs_are_put_where_and_how_they_are_told(
    monkeypatch: pytest.MonkeyPatch,
    item_floats: int,
    stretch_items: int,
    lengths: list[int],
    backwards: list[bool],
) -> None:
    """Each run lands at its offset, turned or not, however many are dealt with at a time."""
    monkeypatch.setattr(gather, "STRETCH_ITEMS", stretch_items)
    first = gather.starts_of(np.array(lengths))
    positions = np.arange(float(item_floats * first[-1])).reshape(-1, item_floats)
    items = positions.view(np.dtype((np.void, 8 * item_floats))).reshape(-1)
    content = np.full(items.nbytes + 5 * 3, 255, np.uint8)
    offsets = 5 + first[:-1] * items.itemsize + 5 * np.arange(3)
    gather.put_runs(content, offsets, first, items, np.array(backwards))
    pieces = []
    for index, back in enumerate(backwards):
        run = positions[first[index] : first[index + 1]]
        pieces += [b"\xff" * 5, (run[::-1] if back else run).tobytes()]
    assert content.tobytes() == b"".join(pieces)


def test_stretches_hold_all_runs_and_one_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are taken together up to the limit; a longer one is a stretch by itself."""
    monkeypatch.setattr(gather, "STRETCH_ITEMS", 10)
    first = gather.starts_of(np.array([4, 6, 1, 30, 2, 8]))
    assert list(gather.stretches(first)) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(gather.stretches(np.zeros(1, np.int64))) == []
