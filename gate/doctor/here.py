"""Checks of the machine they run on: its libraries and its clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from gate.doctor.finding import Finding, failed, ok, unchecked, warning
from gate.errors import GateError

HERE = "this machine"

# Tokens are refused from about five minutes on; well before that, times in logs mislead.
MOST_SKEW = timedelta(seconds=30)


def libraries(proved: Callable[[], str]) -> Finding:
    """Return whether shapefiles can be read here; `proved` says by what, or raises why not."""
    try:
        return ok("libraries", HERE, f"{proved()} reads and transforms")
    except GateError as error:
        return failed("libraries", error.where or HERE, error.what, error.todo)
    except ImportError as error:
        return failed("libraries", HERE, str(error), "pip install -r requirements.txt")


def clock(ask: Callable[[], tuple[datetime, datetime]]) -> Iterator[Finding]:
    """Yield whether the clock here is right.

    `ask` returns the time of a server and the time here, or raises a `GateError`.
    No decision of the gate hangs on this clock; tokens and logs do.
    """
    try:
        there, now = ask()
    except GateError as error:
        yield unchecked("clock", error.where, error.what, error.todo)
        return
    skew = now - there
    if abs(skew) <= MOST_SKEW:
        yield ok("clock", HERE, "its clock is right")
    else:
        word = "fast" if skew > timedelta() else "slow"
        yield warning(
            "clock",
            HERE,
            f"its clock is {abs(skew) // timedelta(seconds=1)} s {word}",
            "set it; tokens are refused from about 300 s on",
        )
