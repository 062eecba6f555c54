"""The complete list of rejected rows, on disk so that memory stays bounded.

One JSON object a line: `{"row": 7, "reason": "outside_domain", "text": "…"}`.
Rows count from 1 in file order, deleted rows included.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO


class RejectList:
    """A file that rejected rows are written to, made when there is a first one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: TextIO | None = None

    def add(self, row: int, reason: str, text: str) -> None:
        """Write one row."""
        if self._stream is None:
            self._stream = self._path.open("w", encoding="utf-8")
        line = {"row": row, "reason": reason, "text": text}
        self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")

    def close(self) -> Path | None:
        """Return the file with everything in it, `None` if there was nothing to write."""
        if self._stream is None:
            return None
        self._stream.close()
        return self._path
