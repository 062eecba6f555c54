"""Runs of items picked and put, and the memory that threads keep for a moment."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gate import gather
from gate.gather import SCRATCH_LIMIT_BYTES, Bytes, Floats, Integers, Scratch


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


VALUES = np.arange(24.0)
CONTENT = np.concatenate([np.zeros(3, np.uint8), VALUES.view(np.uint8), np.zeros(2, np.uint8)])


@pytest.mark.parametrize(
    "runs",
    [
        [(0, 3), (4, 6), (20, 24)],
        [(0, 4), (4, 8), (8, 24)],
        [(20, 24), (0, 3), (4, 6)],
        [(4, 9), (4, 9), (0, 6)],
        [(5, 5), (7, 9), (9, 9)],
        [(0, 24)],
        [(3, 3)],
        [],
    ],
    ids=["apart", "adjoining", "out of order", "sharing", "empty", "all", "one empty", "none"],
)
def test_runs_are_picked_wherever_they_begin(
    monkeypatch: pytest.MonkeyPatch, runs: list[tuple[int, int]]
) -> None:
    """Runs follow each other in what is picked, in the order in which they are asked for.

    Arrow is shown no column whose values would end before they begin.
    """
    taken = gather._taken

    def watched(content: Bytes, bounds: Integers, wanted: Integers) -> tuple[Bytes, Integers]:
        assert (np.diff(bounds) >= 0).all()
        return taken(content, bounds, wanted)

    monkeypatch.setattr(gather, "_taken", watched)
    starts = np.array([start for start, _ in runs], np.int64)
    first = gather.starts_of(np.array([stop - start for start, stop in runs], np.int64))
    picked = gather.picked_runs(CONTENT, 3 + 8 * starts, first, 8).view("<f8")
    assert picked.tolist() == [float(value) for run in runs for value in range(*run)]


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [([-8, 3], [1, 1]), ([3, len(CONTENT) - 7], [1, 1]), ([3, 11], [25, 1]), ([11, 3], [1, -1])],
    ids=["before", "after", "too long", "negative"],
)
def test_runs_beyond_the_bytes_are_refused(offsets: list[int], lengths: list[int]) -> None:
    """Nothing outside the bytes is read, whatever an offset or a length says."""
    first = gather.starts_of(np.array(lengths, np.int64))
    with pytest.raises(IndexError, match="beyond"):
        gather.picked_runs(CONTENT, np.array(offsets, np.int64), first, 8)


@pytest.mark.parametrize("item_floats", [2, 3])
@pytest.mark.parametrize("order", [None, [2, 0, 1]])
@pytest.mark.parametrize("backwards", [None, [False] * 3, [True] * 3, [True, False, True]])
def test_heads_and_runs_take_turns(
    item_floats: int, order: list[int] | None, backwards: list[bool] | None
) -> None:
    """Each head is followed by its run, turned or not, and each end is where its run ends."""
    first = np.array([0, 2, 7, 8])
    positions = np.arange(float(item_floats * first[-1])).reshape(-1, item_floats)
    items = positions.view(np.dtype((np.void, 8 * item_floats))).reshape(-1)
    heads = np.frombuffer(b"abbccc", np.uint8)
    content, ends = gather.interleaved(
        heads,
        np.array([1, 3, 6]),
        items,
        first,
        None if order is None else np.array(order),
        None if backwards is None else np.array(backwards),
    )
    expected, expected_ends = b"", []
    for head, run in zip((b"a", b"bb", b"ccc"), order or range(3), strict=True):
        part = positions[first[run] : first[run + 1]]
        turned = backwards is not None and backwards[run]
        expected += head + (part[::-1] if turned else part).tobytes()
        expected_ends.append(len(expected))
    assert content.tobytes() == expected
    assert ends.tolist() == expected_ends


def test_nothing_takes_turns_with_nothing() -> None:
    """No heads and no runs make no bytes."""
    nothing = np.empty(0, np.int64)
    items = np.empty(0, np.dtype((np.void, 16)))
    content, ends = gather.interleaved(
        np.empty(0, np.uint8), nothing, items, np.zeros(1, np.int64), backwards=nothing > 0
    )
    assert content.size == ends.size == 0


def test_room_can_be_written_to() -> None:
    """Fresh bytes are as many as were asked for, and may be none."""
    for size in (0, 1, 5 << 20):
        content = gather.room(size)
        content[:] = 7
        assert content.size == size
        assert content.all()


def test_stretches_hold_all_runs_and_one_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are taken together up to the limit; a longer one is a stretch by itself."""
    monkeypatch.setattr(gather, "STRETCH_ITEMS", 10)
    first = gather.starts_of(np.array([4, 6, 1, 30, 2, 8]))
    assert list(gather.stretches(first)) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(gather.stretches(np.zeros(1, np.int64))) == []
