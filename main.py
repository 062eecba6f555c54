"""The entry points of the deployed function.

To return is to acknowledge an event; to raise is to have it delivered again.
What a function returns is discarded by the framework, so nothing is returned.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import flask
import functions_framework
from werkzeug.exceptions import ServiceUnavailable

from gate import dead_letters, events, log, settings
from gate.errors import TransientError
from gate.events import IgnoredType, Malformed, ObjectFinalized
from gate.intake import Outcome, Receipt
from gate.wiring import Gate

if TYPE_CHECKING:
    from cloudevents.http.event import CloudEvent

# A deployment with wrong settings must not start: the platform then keeps the
# revision that works. Clients are built at the first event that needs them.
gate = Gate(settings.load(os.environ))


@functions_framework.cloud_event
def ingest(cloud_event: CloudEvent) -> None:
    """Take in one event, and run the job if it falls to this event.

    Acknowledges what is recorded. Raises 503, without a traceback, for what is
    to be delivered again, and anything else for what nobody foresaw.
    """
    traced = flask.request.headers.get("X-Cloud-Trace-Context", "")
    log.trace.set(log.trace_of(traced, gate.project) if traced else "")
    event = events.parse(cloud_event.get_attributes(), cloud_event.get_data())
    try:
        receipt = received(event)
        log.write("delivery", **described(event, receipt))
        ending = gate.ingest(receipt.work) if receipt.work else None
    except TransientError as error:
        log.write("delivery failed", severity="WARNING", detail=str(error), code=error.code)
        raise ServiceUnavailable(error.code) from error
    if receipt.redeliver or (ending and ending.redeliver):
        raise ServiceUnavailable(receipt.outcome.value)


def received(event: ObjectFinalized | IgnoredType | Malformed) -> Receipt:
    """Return what became of one delivery, before any job is run."""
    match event:
        case ObjectFinalized():
            return gate.intake(event)
        case IgnoredType(event_type):
            return Receipt(Outcome.IGNORED, f"ignored_type {event_type}")
        case Malformed(reason):
            gate.letters.send(dead_letters.of_event(event))
            return Receipt(Outcome.MALFORMED, reason)


def described(event: ObjectFinalized | IgnoredType | Malformed, receipt: Receipt) -> dict[str, Any]:
    """Return the fields of the one log line that every delivery leaves."""
    fields: dict[str, Any] = {"decision": receipt.outcome.value, "detail": receipt.detail}
    if isinstance(event, ObjectFinalized):
        fields.update(event=event.event_id, name=event.name, generation=str(event.generation))
    if receipt.claim:
        fields.update(bundle=str(receipt.claim.component.bundle))
    if receipt.work:
        running = receipt.work.job
        fields.update(job=running.id, fence=running.fence, attempt=running.attempts)
    return fields
