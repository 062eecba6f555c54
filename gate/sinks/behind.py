"""Work that is done in another thread while its next piece is gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def each(items: Iterable[T], work: Callable[[T], object]) -> None:
    """Do `work` on each item, in order, in one other thread.

    The items are gathered in this thread, whose lease their reader may keep.
    What `work` raises is raised here, one item later at most; of the items no
    more than two are there at a time.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="write") as other:
        done: Future[object] | None = None
        for item in items:
            if done is not None:
                done.result()
            done = other.submit(work, item)
            del item
        if done is not None:
            done.result()
