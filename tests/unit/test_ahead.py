"""Work in another thread: its items in order, its errors where they are met, its end certain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from gate.shapefile.ahead import Ahead, lagging

NAME = ContextVar("NAME", default="nobody")


def test_items_arrive_in_order_from_another_thread() -> None:
    """All items come, each once, made in a thread of their own."""
    threads = set()

    def items() -> Iterator[int]:
        for number in range(100):
            threads.add(threading.get_ident())
            yield number

    assert list(Ahead(items(), 2)) == list(range(100))
    assert threads.isdisjoint({threading.get_ident()})


def test_no_more_is_made_than_there_is_room_for() -> None:
    """With room for two items, the third waits until one is taken."""
    made: list[int] = []
    third = threading.Event()

    def items() -> Iterator[int]:
        for number in range(5):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    ahead = Ahead(items(), 2)
    assert third.wait(10)
    assert made == [0, 1, 2]
    assert next(ahead) == 0
    ahead.close()
    assert len(made) <= 4


def test_an_error_comes_after_the_items_before_it() -> None:
    """What the iteration raises is raised here, once; then there is nothing more."""

    def items() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    ahead = Ahead(items(), 4)
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="broken"):
        next(ahead)
    assert list(ahead) == []


def test_an_abandoned_generator_is_closed_in_its_thread() -> None:
    """Closing ends the generator where it ran, and waits for that; again is harmless."""
    ended: list[int] = []

    def items() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append(threading.get_ident())

    ahead = Ahead(items(), 1)
    next(ahead)
    ahead.close()
    ahead.close()
    assert len(ended) == 1
    assert ended != [threading.get_ident()]
    assert not ahead._thread.is_alive()
    assert list(ahead) == []


def test_the_thread_sees_the_context_of_its_maker() -> None:
    """What a context variable says here, it says there: log lines keep their trace."""
    token = NAME.set("trace")
    try:
        assert list(Ahead((NAME.get() for _ in range(2)), 1)) == ["trace", "trace"]
    finally:
        NAME.reset(token)


@pytest.mark.parametrize(("count", "made"), [(0, 1), (2, 3), (9, 5)])
def test_lagging_items_come_when_others_have_been_made(count: int, made: int) -> None:
    """The first item is yielded when `count` more exist, or there are no more."""
    seen: list[int] = []
    late = lagging((seen.append(number) or number for number in range(5)), count)
    assert next(late) == 0
    assert len(seen) == made
    assert list(late) == [1, 2, 3, 4]
