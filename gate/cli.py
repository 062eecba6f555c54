"""The command line, `python -m gate`.

Each command is a function that takes its parsed arguments and returns the exit
code. What it needs is imported inside it, so that `--help` answers at once.
A `GateError` is told on standard error, in one line unless it has a list to tell,
and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gate import maintenance, operations
from gate.errors import GateError, TransientError
from gate.terminal import safe, tell

if TYPE_CHECKING:
    from gate.doctor.finding import Finding
    from gate.local.stack import Stack

WATCH_SECONDS = 0.2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
UNUSABLE = 2  # as argparse says of arguments that make no sense


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except TransientError as error:
        # Nobody repeats the command, as a redelivered event would the work.
        print(error.with_cure("run the command again later"), file=sys.stderr)
        return 1
    except GateError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Return the parser, with the function of each command under `command`."""
    top = argparse.ArgumentParser(
        prog="python -m gate",
        description="Ingest every version of every shapefile bundle exactly once.",
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    inspect_parser = commands.add_parser(
        "inspect",
        help="tell what would become of a shapefile, and write nothing",
        description="Read a shapefile as the gate does, and print its schema, encoding, CRS, "
        "counts and every problem with its cure. Nothing is written and no settings are needed; "
        "those for reading (REQUIRED_EXTS, ...) are taken from the environment. The exit code is "
        "0 if everything would be loaded, 1 if a layer or a row would not, 2 if there was nothing "
        "to inspect.",
    )
    inspect_parser.add_argument(
        "path",
        metavar="PATH|gs://BUCKET/NAME",
        help="a .shp, a .zip, a folder of them, or the same in a bucket (a folder ends in /)",
    )
    inspect_parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of a table"
    )
    inspect_parser.set_defaults(command=inspect)

    doctor_parser = commands.add_parser(
        "doctor",
        help="check a deployment, and say what to do about what is wrong",
        description="Check a deployed function, its sweep and what both depend on, through gcloud; "
        "without a region, what the environment says and this machine only. Nothing is changed. "
        "The exit code is 0 if nothing failed, 1 if something did, 2 if something could not be "
        "checked.",
    )
    doctor_parser.add_argument(
        "function",
        nargs="?",
        default="gate-ingest",
        help="the function that takes events (default: %(default)s)",
    )
    doctor_parser.add_argument("--region", help="where it is deployed")
    doctor_parser.add_argument("--project", default="", help="if not that of gcloud")
    doctor_parser.add_argument(
        "--sweep",
        default="",
        help="the function that sweeps (default: the other's name, with sweep for ingest)",
    )
    doctor_parser.add_argument(
        "--work",
        default="",
        help="the function that tasks call (default: the other's name, with work for ingest)",
    )
    doctor_parser.add_argument(
        "--function-json",
        type=Path,
        metavar="FILE",
        help="what `gcloud functions describe --format=json` printed; - is standard input",
    )
    doctor_parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of lines"
    )
    doctor_parser.set_defaults(command=doctor)

    operations.add_to(commands)
    maintenance.add_to(commands)

    local = commands.add_parser(
        "local",
        help="run the gate on this machine, with emulators",
        description="Run the gate on this machine: the Firestore and Pub/Sub emulators, a "
        "storage server that notifies, and functions-framework running main.py.",
    )
    locals_ = local.add_subparsers(title="commands", metavar="COMMAND", required=True)
    up_parser = locals_.add_parser(
        "up",
        help="start everything, and keep it until Ctrl-C",
        description="Start everything on free loopback ports, print the addresses, and keep it "
        "until Ctrl-C. Settings of the function (SETTLE_SECONDS, ...) are taken from the "
        "environment.",
    )
    up_parser.add_argument(
        "--postgis",
        action="store_true",
        help="store layers as tables of a PostgreSQL server with PostGIS, which is started too",
    )
    up_parser.set_defaults(command=up)
    demo_parser = locals_.add_parser(
        "demo",
        help="upload bundles in the worst order and watch them go through",
        description="Start everything, upload two layers in the worst order and twice, replace "
        "one, show what each event led to, and check that each revision was ingested once. "
        "Ends by itself; the exit code is 0 only if all was as promised.",
    )
    demo_parser.add_argument(
        "--cache",
        type=Path,
        default=Path(".cache"),
        metavar="FOLDER",
        help="where the downloaded sample is kept (default: %(default)s)",
    )
    demo_parser.set_defaults(command=demo)
    return top


def inspect(options: argparse.Namespace) -> int:
    """Inspect local files or live objects; anything that keeps it from looking is exit code 2."""
    from gate import inspect_text, settings, wiring
    from gate.inspect import address

    progress = Progress(sys.stderr)
    try:
        look = wiring.inspector(settings.for_reading(os.environ), progress)
        remote = address(options.path)
        if remote:
            found = look.bucket(wiring.live_source(), *remote)
        else:
            found = look.local(Path(options.path))
        text = inspect_text.as_json(found) if options.json else inspect_text.as_text(found)
    except TransientError as error:
        # Nobody repeats the command, as a redelivered event would the work.
        return unusable(str(error.with_cure("run the command again later")))
    except GateError as error:
        return unusable(str(error))
    except OSError as error:
        what = error.strerror or str(error)
        return unusable(f"{options.path}: {what}; see to it, or name another path")
    except Exception as error:  # noqa: BLE001  a traceback would be exit code 1, a verdict
        what = f"{type(error).__name__}: {error}"
        return unusable(f"{options.path}: {what}; report it with what was inspected")
    finally:
        progress.clear()
    failure = tell(sys.stdout, text)
    if failure and not isinstance(failure, BrokenPipeError):
        what = failure.strerror or str(failure)
        return unusable(f"standard output: {what}; send it somewhere else")
    return 0 if all(each.clean for each in found) else 1


def doctor(options: argparse.Namespace) -> int:
    """Check a deployment; what keeps it from looking at the function at all is exit code 2."""
    from gate.doctor import text
    from gate.doctor.finding import Verdict, worst

    named = options.function_json
    try:
        findings = tuple(examined(options))
    except GateError as error:
        return unusable(str(error))
    except OSError as error:
        return unusable(f"{named}: {error.strerror}; name another file")
    tell(sys.stdout, text.as_json(findings) if options.json else text.as_text(findings))
    return {Verdict.FAILED: 1, Verdict.UNCHECKED: UNUSABLE}.get(worst(findings), 0)


def examined(options: argparse.Namespace) -> Iterator[Finding]:
    """Yield what the doctor finds; raises `GateError` or `OSError` if there is no function."""
    from gate import settings, wiring
    from gate.doctor import date, environment, examination, gcloud, here
    from gate.doctor.function import read

    function = None
    if options.function_json:
        saved = options.function_json
        function = read(sys.stdin.read() if saved == Path("-") else saved.read_bytes())
    elif options.region:
        project = examination.Project(gcloud.ask, options.project)
        function = project.function(options.function, options.region)
    if function:
        project = examination.Project(gcloud.ask, options.project or function.project)
        yield from examination.examine(
            function, project, sweep_name=options.sweep, work_name=options.work
        )
    else:
        yield from environment.load(here.HERE, os.environ)[1]
    yield environment.displaced(here.HERE, os.environ)
    yield environment.addressed(here.HERE, os.environ, deployed=False)
    yield here.libraries(lambda: wiring.ready(settings.for_reading(os.environ).policies))
    yield from here.clock(date.asked)


def unusable(message: str) -> int:
    """Say on standard error why there is no verdict, and return the exit code for it."""
    tell(sys.stderr, message)
    return UNUSABLE


class Progress:
    """One line that says how far a long read is; silent unless somebody watches a terminal."""

    def __init__(self, stream: TextIO, unit: str = "rows") -> None:
        self._stream = stream
        self._unit = unit
        self._watched = stream.isatty()
        self._told_seconds = time.monotonic()
        self._width = 0

    def __call__(self, name: str, count: int) -> None:
        """Say how much has been read, of or up to what is named, a few times a second."""
        if not self._watched or time.monotonic() - self._told_seconds < WATCH_SECONDS:
            return
        self._told_seconds = time.monotonic()
        line = safe(f"{name[-50:]}: {count:,} {self._unit}")
        self._stream.write(f"\r{line:<{self._width}}")
        self._stream.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            self._stream.write(f"\r{'':<{self._width}}\r")
            self._stream.flush()
            self._width = 0


def up(options: argparse.Namespace) -> int:
    """Start the local stack and keep it until Ctrl-C, which is its ordinary end."""
    from gate.local.processes import stop_signals

    with stop_signals():
        try:
            from gate.local.stack import Stack

            print("starting the emulators, the bucket and the function ...", flush=True)
            with Stack(postgis=options.postgis) as stack:
                print(addresses(stack), flush=True)
                while True:
                    if failure := stack.ended():
                        raise failure
                    time.sleep(WATCH_SECONDS)
        except KeyboardInterrupt:
            print("stopped", flush=True)
            return 0


def addresses(stack: Stack) -> str:
    """Return what a person needs to use a running stack."""
    from gate.local.stack import DEAD_LETTER_SUBSCRIPTION, SOURCE_BUCKET

    told = stack.environment
    exports = "\n".join(f"  export {name}={shlex.quote(text)}" for name, text in told.items())
    return (
        f"upload to    gs://{SOURCE_BUCKET}\n"
        f"datasets in  {told['SINK']}\n"
        f"function     {stack.function_url}\n"
        f"dead letters subscription {DEAD_LETTER_SUBSCRIPTION}\n"
        f"logs         {stack.folder}\n"
        f"\n"
        f"for clients in another terminal:\n"
        f"{exports}\n"
        f"\n"
        f"Ctrl-C stops everything."
    )


def demo(options: argparse.Namespace) -> int:
    """Run the demonstration."""
    from gate.local.processes import stop_signals

    with stop_signals():
        from gate.local.demo import run

        return run(options.cache)
