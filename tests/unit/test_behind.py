"""Work in another thread: its order, its errors, and how far it may lag behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gate.sinks import behind


def test_everything_is_done_in_order_in_one_other_thread() -> None:
    """Each item is worked on once, after the one before, while this thread gathers."""
    done: list[tuple[int, int]] = []

    behind.each(range(20), lambda item: done.append((item, threading.get_ident())))

    assert [item for item, _ in done] == list(range(20))
    assert {thread for _, thread in done} - {threading.get_ident()}
    assert len({thread for _, thread in done}) == 1


def test_nothing_to_do_is_done() -> None:
    """Without items no work is done."""
    behind.each([], pytest.fail)


def test_an_error_of_the_work_ends_the_gathering() -> None:
    """What fails is known one item later, and no more are gathered."""
    gathered: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            gathered.append(number)
            yield number

    def work(item: int) -> None:
        raise ConnectionError(f"at {item}")

    with pytest.raises(ConnectionError, match="at 0"):
        behind.each(items(), work)
    assert gathered == [0, 1]


def test_an_error_of_the_last_work_is_raised() -> None:
    """The work that nothing follows is waited for."""
    with pytest.raises(ZeroDivisionError):
        behind.each([0], lambda item: 1 / item)


def test_an_error_of_the_gathering_passes_through() -> None:
    """What was begun is finished, and the error is the items' own."""
    done: list[int] = []

    def items() -> Iterator[int]:
        yield 1
        raise ValueError("row 2")

    with pytest.raises(ValueError, match="row 2"):
        behind.each(items(), done.append)
    assert done == [1]
