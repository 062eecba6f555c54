"""Dead letters: what could not be ingested, said in full to whoever must act.

The state of the job flips first, the message follows; a message that could not
be sent leaves the job marked as not notified, and the sweep sends it. The same
letter may be sent twice: `dedupe_id` lets a consumer count it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gate import log
from gate.errors import IncompleteError, MalformedEventError
from gate.events import Malformed
from gate.identity import Pin, Revision, digest
from gate.job import Job
from gate.manifest import Manifest
from gate.scrubbing import bounded

# What a person types; the id of the job follows.
REDRIVE_COMMAND = "python -m gate redrive"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that needs nothing else to be understood."""

    dedupe_id: str
    code: str
    body: Mapping[str, Any]


class DeadLetters(Protocol):
    """Somewhere that dead letters are kept until somebody reads them."""

    def send(self, letter: DeadLetter) -> None:
        """Store the letter durably; it returns only then.

        Raises `StoreBusyError` where waiting helps, `ConfigurationError` where
        the topic is missing or may not be used.
        """
        ...


def of_job(job: Job) -> DeadLetter:
    """Return the letter of a job that ended dead, held or partial.

    It says what failed, what can be done, and the command that tries again
    once that is done. That of an archive names its first failed layers, each
    with code and cure, how many there are, and the index that has them all.
    """
    last = job.history[-1]
    layers = ("layers", "failed_layers", "index")
    return DeadLetter(
        dedupe_id=f"{job.id}-{job.fence}",
        code=last.code,
        body={
            "kind": "job",
            "code": last.code,
            "message": last.message,
            "cause": last.message.removesuffix(f"; {last.cure}"),
            "cure": last.cure,
            "redrive": f"{REDRIVE_COMMAND} {job.id}",
            **facts_of(job),
            **{key: job.summary[key] for key in layers if key in job.summary},
        },
    )


def facts_of(job: Job) -> dict[str, Any]:
    """Return what a person is told of a job: bundle, pins, state and history, ready for JSON."""
    bundle = job.revision.bundle
    return {
        "state": job.state.value,
        "bundle": str(bundle),
        "bucket": bundle.bucket,
        "basename": bundle.basename,
        "job": job.id,
        "fence": job.fence,
        "attempts": job.attempts,
        "pins": _pins(dict(job.revision.pins)),
        "history": [
            {
                "at": entry.at.isoformat(),
                "fence": entry.fence,
                "attempt": entry.attempt,
                "code": entry.code,
                "message": entry.message,
            }
            for entry in job.history
        ],
    }


def of_incomplete(known: Manifest, missing: tuple[str, ...]) -> DeadLetter:
    """Return the letter of a bundle that never became a job, for want of what is missing.

    It has the same id for whoever finds the same objects there.
    """
    bundle, current = known.bundle, known.current()
    what = f"{' '.join(missing)} was never uploaded; {' '.join(known.seen)} is there"
    error = IncompleteError(what, where=str(bundle))
    return DeadLetter(
        dedupe_id=Revision.of(bundle, current).id,
        code=error.code,
        body={
            "kind": "bundle",
            "code": error.code,
            "message": str(error),
            "cause": str(error).removesuffix(f"; {error.todo}"),
            "cure": error.todo,
            "bundle": str(bundle),
            "bucket": bundle.bucket,
            "basename": bundle.basename,
            "pins": _pins(current),
        },
    )


def of_event(event: Malformed) -> DeadLetter:
    """Return the letter of an event that no version of this function could process."""
    cause = f"event {event.event_id or 'without id'}: {event.reason}"
    return DeadLetter(
        dedupe_id=digest(event.event_id, event.reason, event.raw),
        code=MalformedEventError.code,
        body={
            "kind": "event",
            "code": MalformedEventError.code,
            "message": f"{cause}; {MalformedEventError.cure}",
            "cause": cause,
            "cure": MalformedEventError.cure,
            "event": event.event_id,
            "raw": bounded(event.raw),
        },
    )


def _pins(pins: Mapping[str, Pin]) -> dict[str, dict[str, str]]:
    return {
        extension: {"name": pin.name, "generation": str(pin.generation)}
        for extension, pin in sorted(pins.items())
    }


class LoggedDeadLetters:
    """Keep dead letters in the log alone: for a deployment without a topic."""

    def send(self, letter: DeadLetter) -> None:
        """See `DeadLetters.send`."""
        log.write("dead letter", severity="ERROR", dedupe_id=letter.dedupe_id, letter=letter.body)
