"""Text on its way to a terminal, a pipe or a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO


def tell(stream: TextIO, text: str) -> OSError | None:
    """Print a text at once; return what kept it from arriving.

    What the encoding of the stream does not have is escaped.
    """
    encoding = stream.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
    except OSError as error:
        # What is still buffered would fail once more when the interpreter ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return error
    return None


def safe(text: str) -> str:
    """Return the text without anything that a terminal would act on."""
    return "".join(character if character.isprintable() else "�" for character in text)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line for each row, its cells below those of the other rows."""
    shown = [[safe(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
