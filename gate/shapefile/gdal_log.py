"""What GDAL says while one read of one thread goes on.

GDAL reports damage to its error handler and returns something anyway; Fiona
passes the message on to the `fiona` logger. So absence of an exception proves
nothing until the log has been read.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gate.errors import UnreadableError
from gate.shapefile.findings import Findings, shown

LOGGER = logging.getLogger("fiona")
WARNING_LIMIT = 20
MESSAGE_LIMIT = 200
_SHAPE = re.compile(r"\bshape (\d{1,9})\b")


class GdalLog:
    """Collects the warnings of one read as notices and keeps its first error.

    `rows` are those that GDAL's numbers of shapes mean, where it is shown some of
    the layer's rows alone.
    """

    def __init__(self, where: str, findings: Findings) -> None:
        self.rows: Sequence[int] = ()
        self._where = where
        self._findings = findings
        self._kinds: set[str] = set()
        self._error = ""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to this thread while the block runs; raise `UnreadableError` for an ERROR.

        That goes before an exception of the block, which is but its consequence.
        """
        ear = _Ear(self, threading.get_ident())
        if not LOGGER.isEnabledFor(logging.WARNING):
            LOGGER.setLevel(logging.WARNING)
        LOGGER.addHandler(ear)
        try:
            yield
        except Exception as error:
            self._refuse_errors(error)
            raise
        finally:
            LOGGER.removeHandler(ear)
        self._refuse_errors()

    def _refuse_errors(self, cause: Exception | None = None) -> None:
        if self._error:
            raise UnreadableError(f"GDAL reported: {self._error}", where=self._where) from cause

    def hear(self, record: logging.LogRecord) -> None:
        """Take one record of the log."""
        message = _SHAPE.sub(self._numbered, record.getMessage())
        if record.levelno >= logging.ERROR:
            self._error = self._error or shown(message, MESSAGE_LIMIT)
        elif record.levelno >= logging.WARNING:
            self._findings.notice("gdal_warning", self._kind(message))

    def _numbered(self, shape: re.Match[str]) -> str:
        number = int(shape[1])
        return f"shape {self.rows[number]}" if number < len(self.rows) else shape[0]

    def _kind(self, message: str) -> str:
        """Return the message, or one for all the rest where there are too many different ones."""
        kind = f"GDAL: {shown(message, MESSAGE_LIMIT)}"
        if kind not in self._kinds and len(self._kinds) >= WARNING_LIMIT:
            return "GDAL: further warnings"
        self._kinds.add(kind)
        return kind


class _Ear(logging.Handler):
    """A handler that hears one thread only."""

    def __init__(self, log: GdalLog, thread: int) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._thread = thread

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._log.hear(record)
