"""Structured logs: one JSON line per decision, in Cloud Logging's shape.

The message is constant and the rest are fields, so that a log can be counted.
See Cloud Logging, "Structured logging", for the special names.
"""

from __future__ import annotations

import json
import sys
import traceback
from contextvars import ContextVar
from typing import Any

from gate.scrubbing import bounded

# The trace of the request being served, as Cloud Logging wants it:
# projects/PROJECT/traces/TRACE. Empty outside a request.
trace: ContextVar[str] = ContextVar("trace", default="")


def write(message: str, *, severity: str = "INFO", **fields: Any) -> None:
    """Write one line to standard output; fields that are `None` or empty are left out.

    Values that JSON does not know are written as text. `detail`, which often
    comes from a library, is written without secrets and bounded.
    """
    if "detail" in fields:
        fields["detail"] = bounded(str(fields["detail"] or ""))
    line: dict[str, object] = {"severity": severity, "message": message}
    line.update((key, value) for key, value in fields.items() if value not in (None, ""))
    if trace.get():
        line["logging.googleapis.com/trace"] = trace.get()
    sys.stdout.write(f"{json.dumps(line, default=str)}\n")
    sys.stdout.flush()


def crash(message: str, error: BaseException, **fields: Any) -> None:
    """Write an error with its traceback, bounded and without secrets."""
    stack = "".join(traceback.format_exception(error))
    write(message, severity="ERROR", stack_trace=bounded(stack), **fields)


def trace_of(header: str, project: str) -> str:
    """Return the trace name for an `X-Cloud-Trace-Context` header, empty if there is none."""
    identifier = header.partition("/")[0]
    return f"projects/{project}/traces/{identifier}" if identifier and project else ""
