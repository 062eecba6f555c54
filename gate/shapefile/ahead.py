"""Work that goes on in a thread of its own while its results are used in another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _End:
    """Follows the last item; `error` is what ended the iteration, if it was not exhausted."""

    error: BaseException | None = None


class Ahead(Generic[T]):
    """An iterator whose items another thread makes, `depth` of them ahead of their use.

    That thread sees the context variables of the one that made this. What the
    iteration raises is raised here, after the items before it. A generator is
    closed in the thread that has run it.
    """

    def __init__(self, items: Iterator[T], depth: int) -> None:
        self._items = items
        self._ready: SimpleQueue[T | _End] = SimpleQueue()
        self._room = threading.Semaphore(depth)
        self._unwanted = threading.Event()
        self._ended = False
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Return the next item, waiting for it. Raises what the iteration has raised."""
        if self._ended:
            raise StopIteration
        item = self._ready.get()
        if isinstance(item, _End):
            self.close()
            if item.error is not None:
                raise item.error
            raise StopIteration
        self._room.release()
        return item

    def close(self) -> None:
        """End the iteration, wait for its thread, and drop what was not used.

        Closing twice is harmless. An error that nobody has met yet is dropped too.
        """
        self._ended = True
        self._unwanted.set()
        self._room.release()
        self._thread.join()
        while True:
            try:
                self._ready.get_nowait()
            except Empty:
                return

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                self._ready.put(item)
                self._room.acquire()
                if self._unwanted.is_set():
                    break
        except BaseException as raised:  # noqa: BLE001 - it is raised where the items are used
            error = raised
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
            self._ready.put(_End(error))


def lagging(items: Iterable[T], count: int) -> Iterator[T]:
    """Yield items late, each when `count` more have been made.

    So what the making of an item has set going elsewhere has time to end.
    """
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting
