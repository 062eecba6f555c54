"""What may become of one delivery of an event: the outcome ledger's accounts.

Every delivery that is answered ends in exactly one of these, and its line in the
log says in which, so that the sum over all outcomes is the number of deliveries.
The table in docs/architecture.md is written from here.
"""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """An outcome: its name in the log, what it means, and how the event is answered."""

    meaning: str
    answer: str

    def __new__(cls, name: str, meaning: str, answer: str) -> Outcome:
        """Return the member whose value is its name."""
        member = object.__new__(cls)
        member._value_ = name
        member.meaning = meaning
        member.answer = answer
        return member

    IGNORED = (
        "ignored",
        "not a component: another type of event, another bucket than `SOURCE_BUCKET`, a name"
        " outside `SOURCE_PREFIX`, a folder placeholder, a temporary part, an unknown extension,"
        " our own output; with `GATE=verify`, any component but the `.shp`",
        "acknowledged, nothing is stored",
    )
    MALFORMED = (
        "malformed",
        "an event or a task that cannot be read",
        "acknowledged, sent as a dead letter",
    )
    WAITING = ("waiting", "recorded; the bundle still lacks something", "acknowledged")
    INCLUDED = (
        "included",
        "recorded; what it leads to is dispatched, or is up to another event",
        "acknowledged",
    )
    LACKING = (
        "lacking",
        "`GATE=verify`: the bucket lacks a required file still; nothing is stored",
        "refused, to come again",
    )
    SCHEDULED = (
        "scheduled",
        "`GATE=poll`: a task will look at the bundle, a new one or one that is there already;"
        " nothing is stored",
        "acknowledged",
    )
    INCOMPLETE = (
        "incomplete",
        "`GATE=verify` and `poll`: a required file never came; nothing is stored",
        "acknowledged, sent as a dead letter",
    )
    WITHDRAWN = (
        "withdrawn",
        "`GATE=verify` and `poll`: what was uploaded is not in the bucket any more",
        "acknowledged, nothing is stored",
    )
    STALE = ("stale", "recorded; a newer generation of the object is known", "acknowledged")
    DUPLICATE = ("duplicate", "recorded before; nothing more to do", "acknowledged")
    SETTLING = (
        "settling",
        "recorded; the sweep dispatches it when uploads have rested",
        "acknowledged",
    )
    DISPATCHED = (
        "dispatched",
        "recorded; the bundle was whole, and this event runs the job",
        "acknowledged when the job has ended",
    )
    QUEUED = (
        "queued",
        "`EXECUTOR=tasks`: recorded; the bundle was whole, or this event's job is to be run again,"
        " and a task runs it",
        "acknowledged once the task is in its queue",
    )
    RESUMED = (
        "resumed",
        "this event's job had lost its worker, had failed or is held, and is run again",
        "acknowledged when the job has ended",
    )
    IN_PROGRESS = (
        "in_progress",
        "the job of this event, or task, is being run, or pauses between attempts",
        "refused, to come again",
    )
    RAN = ("ran", "this task ran its job", "acknowledged when the job has ended")
    NEEDLESS = (
        "needless",
        "the job of this task has ended, or its document is gone: nothing is left to do",
        "acknowledged",
    )
    BURIED = (
        "buried",
        "the job of this event, or task, has no attempt left, or its dead letter is still to be"
        " sent",
        "acknowledged; the sweep sends a letter that could not be sent; a job that turns out to be"
        " published is done instead",
    )
    FENCED_OUT = (
        "fenced_out",
        "this event, or task, ran the job, and another worker took it over meanwhile: nothing more"
        " was written",
        "acknowledged",
    )
    QUOTA = (
        "quota",
        "Firestore is over its quota; no attempt is used up",
        "refused, to come again",
    )
    RETRY = (
        "retry",
        "a fault that may pass kept the event, its task or the end of its job from being recorded;"
        " `code` says which",
        "refused, to come again",
    )
    MISCONFIGURED = (
        "misconfigured",
        "the deployment is at fault; `code` and `detail` say how",
        "refused with an error, to come again until that is mended",
    )
    CRASHED = (
        "crashed",
        "nobody foresaw this; the line has the traceback",
        "refused with an error, to come again",
    )
