"""The entry points of the deployed functions.

`ingest`: to return is to acknowledge an event; to raise is to have it delivered
again. What it returns is discarded by the framework, so nothing is returned.
`sweep`: called every minute by a scheduler, which counts its failures.
`work`: called by tasks, each until a call succeeds.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import flask
import functions_framework
from werkzeug.exceptions import Conflict, MethodNotAllowed, ServiceUnavailable

from gate import calls, dead_letters, events, ledger, log, settings
from gate.errors import TransientError
from gate.events import IgnoredType, Malformed, ObjectFinalized
from gate.intake import Receipt
from gate.outcomes import Outcome
from gate.wiring import Gate

if TYPE_CHECKING:
    from cloudevents.http.event import CloudEvent

# A deployment with wrong settings must not start: the platform then keeps the
# revision that works. Clients are built at the first event that needs them.
gate = Gate(settings.load(os.environ))


@functions_framework.cloud_event
def ingest(cloud_event: CloudEvent) -> None:
    """Take in one event, and run the job if it falls to this event, or give it to a task.

    Acknowledges what is recorded. Raises 503, without a traceback, for what is
    to be delivered again, and anything else for what nobody foresaw. However a
    delivery ends, the ledger has one line of it.
    """
    event = events.parse(cloud_event.get_attributes(), cloud_event.get_data())
    receipt = None
    try:
        trace()
        receipt = received(event)
        ending = gate.run(receipt.work) if receipt.work else None
    except BaseException as error:
        ledger.failed(event, receipt, error, now=datetime.now(UTC))
        if isinstance(error, TransientError):
            raise ServiceUnavailable(error.code) from error
        raise
    ledger.answered(event, receipt, ending, now=datetime.now(UTC))
    if receipt.redeliver or (ending and ending.redeliver):
        raise ServiceUnavailable(receipt.outcome.value)


@functions_framework.http
def sweep(request: flask.Request) -> dict[str, int]:
    """Do what no event will do, and answer with what that was, as counts.

    Answers 503 for a fault that passes, and raises what kept everything from
    being done.
    """
    if request.method != "POST":
        raise MethodNotAllowed(["POST"])
    trace()
    try:
        return gate.sweep().as_json()
    except TransientError as error:
        log.write("sweep failed", severity="WARNING", detail=str(error), code=error.code)
        raise ServiceUnavailable(error.code) from error


@functions_framework.http
def work(request: flask.Request) -> dict[str, str]:
    """Carry out one call of a task, and answer with its outcome.

    Answers 409 for what is to be called again on account of its own job, and 503
    for a fault that passes, at which Cloud Tasks slows the whole queue down; raises
    what nobody foresaw. However a call ends, the ledger has one line of it.
    """
    if request.method != "POST":
        raise MethodNotAllowed(["POST"])
    call = calls.parse(request.headers.get(calls.NAME_HEADER, ""), request.get_data())
    try:
        trace()
        worked = gate.work(call)
    except BaseException as error:
        ledger.failed(call, None, error, now=datetime.now(UTC))
        if isinstance(error, TransientError):
            raise ServiceUnavailable(error.code) from error
        raise
    ledger.answered(call, worked.receipt, worked.ending, now=datetime.now(UTC))
    outcome = worked.receipt.outcome.value
    if worked.again:
        raise Conflict(outcome)
    return {"outcome": outcome}


def trace() -> None:
    """Let every line of the log name the trace of this request."""
    traced = flask.request.headers.get("X-Cloud-Trace-Context", "")
    log.trace.set(log.trace_of(traced, gate.project) if traced else "")


def received(event: ObjectFinalized | IgnoredType | Malformed) -> Receipt:
    """Return what became of one delivery, before any job is run."""
    match event:
        case ObjectFinalized():
            return gate.entrance(event)
        case IgnoredType(event_type):
            return Receipt(Outcome.IGNORED, f"ignored_type {event_type}")
        case Malformed(reason):
            gate.letters.send(dead_letters.of_event(event))
            return Receipt(Outcome.MALFORMED, reason)
