"""A pulse beside the work: it renews a lease while the work is in one long call.

The worker looks after its lease itself, between batches of rows. A download, a
large record or an upload may take longer than a lease, so a thread of its own
does the same every half second. A call that holds the interpreter stops that
thread as well: a lease outlives all but the oddest of those (`make bench-stalls`),
and the lease of the next claim is twice as long (`gate.job.Limits.lease_of`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

from gate import log

PULSE_SECONDS = 0.5


@contextmanager
def heartbeat(
    pulse: Callable[[], object], *, pause_seconds: float = PULSE_SECONDS
) -> Iterator[None]:
    """Call `pulse` again and again in another thread, until the block is left.

    No call is under way any more when the block has been left. What `pulse`
    raises is logged and ends nothing: the worker looks after its lease too.
    """
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(pause_seconds):
            try:
                pulse()
            except Exception as error:  # noqa: BLE001  the next pulse may do better
                log.crash("heartbeat failed", error)

    thread = threading.Thread(
        target=copy_context().run, args=(beat,), name="heartbeat", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def shutting_down() -> bool:
    """Tell whether this process has been told to stop.

    functions-framework serves with gunicorn, whose worker handles SIGTERM by a
    method that clears `alive` and lets requests end. Asking that worker needs no
    handler of our own, which no thread that serves a request could install. False
    where something else handles the signal.
    """
    worker = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return not getattr(worker, "alive", True)
