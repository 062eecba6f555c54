"""The commands for whoever runs a deployment: status, dead-letters, explain, redrive.

They ask the deployment that the environment names: `FIRESTORE_DATABASE` and the
collections, with the credentials of whoever asks. Only `redrive` changes anything.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gate.errors import TransientError
from gate.terminal import tell

if TYPE_CHECKING:
    from gate.operations_text import Result
    from gate.wiring import Gate

SUBJECT = "JOB|gs://BUCKET/NAME"
SOMEBODY = "somebody"


def add_to(commands: Any) -> None:
    """Add the parsers of these commands to the subparsers of the command line."""
    status_parser = commands.add_parser(
        "status",
        help="tell how jobs stand, or how a bundle stands",
        description="Without an argument: how many jobs stand in each state, and those that run "
        "or are to run. With one: what is known of that bundle, and its jobs.",
    )
    status_parser.add_argument("subject", nargs="?", metavar=SUBJECT)
    status_parser.set_defaults(command=status)

    letters_parser = commands.add_parser(
        "dead-letters",
        help="list the jobs that wait for a person, with the cure",
        description="List the jobs that ended dead, held or partial and are still remembered, "
        "the latest first, each with its cause and its cure.",
    )
    letters_parser.set_defaults(command=dead_letters)

    explain_parser = commands.add_parser(
        "explain",
        help="tell the whole story of a bundle",
        description="Tell what happened to a bundle, in order: events, revisions, attempts, "
        "errors and ends.",
    )
    explain_parser.add_argument(
        "subject", metavar=SUBJECT, help="a job, the bundle, or any object of it"
    )
    explain_parser.set_defaults(command=explain)

    redrive_parser = commands.add_parser(
        "redrive",
        help="give jobs new attempts, once the cause has passed",
        description="Make a dead, held, partial or failed job due at once, with all its attempts. "
        "The sweep takes it up. A job whose objects were overwritten or deleted is not run again. "
        "The exit code is 0 if every job got its attempts and, with --now, went through, "
        "1 otherwise.",
    )
    which = redrive_parser.add_mutually_exclusive_group(required=True)
    which.add_argument("job", nargs="?", metavar="JOB", help="the id of a job")
    which.add_argument("--all-with", metavar="CODE", help="every job with this error code")
    redrive_parser.add_argument("--reason", default="", metavar="TEXT", help="kept in the history")
    redrive_parser.add_argument(
        "--actor",
        default=os.environ.get("USER") or SOMEBODY,
        metavar="NAME",
        help="who asks, kept in the history (default: %(default)s)",
    )
    redrive_parser.add_argument(
        "--now", action="store_true", help="run the jobs in this process; needs SINK to be set"
    )
    redrive_parser.set_defaults(command=redrive)

    for each in (status_parser, letters_parser, explain_parser, redrive_parser):
        each.add_argument("--json", action="store_true", help="print one JSON object instead")


def status(options: argparse.Namespace) -> int:
    """Tell how jobs stand, or one bundle."""
    from gate import operations_text as text

    gate = _gate()
    if options.subject is None:
        overview = gate.explain.overview()
        return _told(text.overview_json(overview) if options.json else text.overview(overview))
    story = gate.explain.story(options.subject)
    if story is None:
        return _nothing(options.subject)
    return _told(text.standing_json(story) if options.json else text.standing(story))


def dead_letters(options: argparse.Namespace) -> int:
    """List what waits for a person."""
    from gate import operations_text as text

    found = _gate().explain.dead_letters()
    return _told(text.letters_json(found) if options.json else text.letters(found))


def explain(options: argparse.Namespace) -> int:
    """Tell the story of a bundle."""
    from gate import operations_text as text

    story = _gate().explain.story(options.subject)
    if story is None:
        return _nothing(options.subject)
    return _told(text.story_json(story) if options.json else text.story(story))


def redrive(options: argparse.Namespace) -> int:
    """Redrive one job, or all with an error code."""
    from gate import operations_text as text

    gate = _gate(whole=options.now)
    asked_for_one = options.all_with is None
    jobs = [options.job] if asked_for_one else sorted(gate.redrive.with_code(options.all_with))
    if not jobs:
        tell(sys.stderr, f"{options.all_with}: no job has this error code; see `dead-letters`")
        return 1
    results: list[Result] = []
    try:
        for job in jobs:
            results.append(_redriven(gate, job, options))
            if not options.json:
                _told(text.result(results[-1]))
    finally:
        # What is done is told, whatever keeps the rest from it.
        if options.json:
            _told(text.results_json(results))
    return 0 if all(result.well for result in results) else 1


def _redriven(gate: Gate, job: str, options: argparse.Namespace) -> Result:
    """Redrive one job, and run it if that was asked for; what may pass leaves others to be tried.

    A run writes its log to standard output, where the answer belongs: it goes to
    standard error instead.
    """
    from gate.operations_text import Result
    from gate.redrive import Redriven, Verdict

    try:
        asked = gate.redrive(job, actor=options.actor or SOMEBODY, reason=options.reason)
        if not asked.verdict.granted:
            return Result(asked, None)
        if not options.now:
            return Result(replace(asked, detail=f"{asked.detail}; the sweep takes it up"), None)
        work = gate.redrive.claimed(asked)
        if work is None:
            detail = "it is due, and somebody else runs it already; look at it again"
            return Result(Redriven(job, Verdict.TAKEN, detail, asked.stored), None)
        with redirect_stdout(sys.stderr):
            return Result(asked, gate.ingest(work))
    except TransientError as error:
        detail = str(error.with_cure("run the command again later"))
        return Result(Redriven(job, Verdict.INTERRUPTED, detail), None)


def _gate(*, whole: bool = False) -> Gate:
    """Return the gate of the deployment; `whole` if it is to be able to run jobs."""
    from gate import settings, wiring

    return wiring.Gate((settings.load if whole else settings.for_asking)(os.environ))


def _told(text: str) -> int:
    return 1 if tell(sys.stdout, text) else 0


def _nothing(subject: str) -> int:
    tell(
        sys.stderr,
        f"{subject}: nothing is remembered of it; give a job or gs://BUCKET/NAME, or see the log if"
        " it is not whole yet, for only GATE=manifest remembers what waits",
    )
    return 1
