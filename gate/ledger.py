"""The outcome ledger: each delivery leaves exactly one line, however it ends.

A delivery is that of an event (`delivery`) or the call of a task (`task`). The
line is written when the delivery is about to be answered, and nowhere else. A
process that is killed answers nothing and leaves no line: its event comes back, and
that is another delivery. So the lines of a time, summed over their outcomes, are
the deliveries that were answered in it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from gate import log
from gate.calls import Call
from gate.errors import ConfigurationError, GateError, StoreQuotaError, TransientError
from gate.events import IgnoredType, Malformed, ObjectFinalized
from gate.intake import Receipt
from gate.outcomes import Outcome

if TYPE_CHECKING:
    from gate.ingest import Ending

Delivered = ObjectFinalized | IgnoredType | Malformed | Call


def answered(
    event: Delivered,
    receipt: Receipt,
    ending: Ending | None,
    *,
    now: datetime,
) -> None:
    """Write the line of a delivery that took its course; `now` is when it was answered."""
    outcome = receipt.outcome
    fields: dict[str, Any] = {"detail": receipt.detail}
    if ending:
        fields["state"] = ending.state.value if ending.state else None
        outcome = outcome if ending.state else Outcome.FENCED_OUT
    log.write(_message(event), decision=outcome.value, **fields, **_subject(event, receipt, now))


def failed(
    event: Delivered,
    receipt: Receipt | None,
    error: BaseException,
    *,
    now: datetime,
) -> None:
    """Write the line of a delivery that an error ended; `receipt` is how far it had come."""
    outcome = outcome_of(error)
    fields: dict[str, Any] = {"decision": outcome.value, **_subject(event, receipt, now)}
    if isinstance(error, GateError):
        severity = "WARNING" if isinstance(error, TransientError) else "ERROR"
        log.write(_message(event), severity=severity, detail=error, code=error.code, **fields)
    else:
        detail = f"{type(error).__name__}: {error}"
        log.crash(_message(event), error, detail=detail, **fields)


def outcome_of(error: BaseException) -> Outcome:
    """Return the account of a delivery that an error ended."""
    match error:
        case StoreQuotaError():
            return Outcome.QUOTA
        case TransientError():
            return Outcome.RETRY
        case ConfigurationError():
            return Outcome.MISCONFIGURED
        case _:
            return Outcome.CRASHED


def _message(event: Delivered) -> str:
    return "task" if isinstance(event, Call) else "delivery"


def _subject(event: Delivered, receipt: Receipt | None, now: datetime) -> dict[str, Any]:
    """Return the fields that tell what a delivery was about, as far as that is known."""
    fields: dict[str, Any] = {}
    if isinstance(event, Call):
        carried = event.payload
        fields.update(task=event.task, kind=carried.get("kind"), name=carried.get("name"))
    if isinstance(event, ObjectFinalized):
        fields.update(event=event.event_id, name=event.name, generation=str(event.generation))
        fields["late_event"] = event.late(now) or None
    if receipt and receipt.claim:
        fields["bundle"] = str(receipt.claim.component.bundle)
    if receipt and receipt.work:
        running = receipt.work.job
        fields.setdefault("bundle", str(running.revision.bundle))
        fields.update(job=running.id, fence=running.fence, attempt=running.attempts)
    return fields
