"""The commands that do by hand what is done by itself: sweep, and backfill.

They work on the deployment that the environment names, with the credentials of
whoever calls them. Their log goes to standard error, their answer to standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from gate.terminal import columns, tell

if TYPE_CHECKING:
    from gate.reconcile import Page
    from gate.wiring import Gate


def add_to(commands: Any) -> None:
    """Add the parsers of these commands to the subparsers of the command line."""
    sweep_parser = commands.add_parser(
        "sweep",
        help="do what is due, as the scheduler has it done every minute",
        description="Take over jobs without a worker, send letters that were not sent, look at "
        "bundles whose time has come, and go on with the pass over the bucket. Prints what was "
        "done, as counts.",
    )
    sweep_parser.set_defaults(command=sweep)

    backfill_parser = commands.add_parser(
        "backfill",
        help="take in what lies in the bucket already",
        description="Go through SOURCE_BUCKET once and record every object that the gate does not "
        "know, as its event would have been; the sweep loads them. Calling it again goes on where "
        "it stopped, and once it has ended, it finds nothing to do.",
    )
    backfill_parser.add_argument(
        "--prefix", default="", help="only objects whose names begin with this (SOURCE_PREFIX)"
    )
    how = backfill_parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only count what would be recorded")
    how.add_argument(
        "--publish",
        metavar="TOPIC",
        help="publish a notification of each object to the topic that triggers the function,"
        " instead of recording it: faster for many bundles, since the function scales",
    )
    backfill_parser.set_defaults(command=backfill)

    for each in (sweep_parser, backfill_parser):
        each.add_argument("--json", action="store_true", help="print one JSON object instead")


def sweep(options: argparse.Namespace) -> int:
    """Sweep once."""
    with redirect_stdout(sys.stderr):
        counts = _gate().sweep().as_json()
    return _told(counts, as_json=options.json)


def backfill(options: argparse.Namespace) -> int:
    """Go through the bucket once, or on from where the last call stopped."""
    from gate.cli import Progress

    counts = {"objects": 0, "unknown": 0}
    progress = Progress(sys.stderr, "objects")
    try:
        with redirect_stdout(sys.stderr):
            for page in _pages(_gate(), options):
                counts["objects"] += page.objects
                counts["unknown"] += len(page.unknown)
                progress(page.last, counts["objects"])
    finally:
        progress.clear()
    return _told(counts, as_json=options.json)


def _pages(gate: Gate, options: argparse.Namespace) -> Iterator[Page]:
    reconcile = gate.reconcile(options.prefix)
    if options.dry_run:
        return reconcile.preview()
    record = gate.notifications(options.publish) if options.publish else None
    return reconcile.steps(reconcile.asked(), record)


def _gate() -> Gate:
    from gate import settings
    from gate.wiring import Gate

    return Gate(settings.load(os.environ))


def _told(counts: Mapping[str, int], *, as_json: bool) -> int:
    """Print the counts; return the exit code, 1 if nobody could read them."""
    rows = [(name, f"{count:,}") for name, count in counts.items()]
    text = json.dumps(counts) if as_json else "\n".join(columns(rows))
    return 1 if tell(sys.stdout, text) else 0
