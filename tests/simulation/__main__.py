"""Play many seeds; show each that breaks a promise, and how to play it again.

    python -m tests.simulation [--seeds N] [--from N] [--without GUARD] [--executor tasks]
        [--state blobs] [--gate verify]

A single seed is told in full. Exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation.bucket import Bucket
from tests.simulation.database import Database
from tests.simulation.deployment import OpenDatabase
from tests.simulation.run import Run, run
from tests.simulation.teeth import GUARDS

MOST_SHOWN = 5
LAST_LINES = 40
AT_ONCE = 20
STATES: dict[str, OpenDatabase] = {"firestore": Database, "blobs": Bucket}


def played(first: int, seeds: int, guard: str, state: str, **how: str) -> Iterator[Run]:
    """Yield the runs of consecutive seeds, played on every processor."""
    numbers = range(first, first + seeds)
    if seeds == 1:
        yield run(first, guard, STATES[state], **how)
        return
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        yield from processes.map(partial(_short, guard, state, how), numbers, chunksize=AT_ONCE)


def _short(guard: str, state: str, how: Mapping[str, str], seed: int) -> Run:
    """Play a seed; leave the account of a good run behind, for nobody reads it."""
    one = run(seed, guard, STATES[state], **how)
    account = one.account if one.faults else ()
    return Run(seed, one.faults, account, steps=one.steps)


def shown(one: Run, lines: int | None, flags: str) -> None:
    """Print what was wrong with a run, the end of its account, and how to see it all."""
    for line in one.account[-lines:] if lines else one.account:
        print(line)
    for fault in one.faults:
        print(f"seed {one.seed}: {fault}")
    if lines:
        print(f"again, in full: make simulate SEEDS=1 FROM={one.seed}{flags}\n")


def main() -> int:
    """Play the seeds; 1 if one of them breaks a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--without", choices=["", *GUARDS], default="", help="leave a guard out")
    parser.add_argument("--executor", choices=["inline", "tasks"], default="inline")
    parser.add_argument("--state", choices=STATES, default="firestore", help="what keeps documents")
    parser.add_argument("--gate", choices=["manifest", "verify", "poll"], default="manifest")
    options = parser.parse_args()
    flags = f" WITHOUT={options.without}" if options.without else ""
    flags += f" EXECUTOR={options.executor}" if options.executor != "inline" else ""
    flags += f" STATE={options.state}" if options.state != "firestore" else ""
    flags += f" GATE={options.gate}" if options.gate != "manifest" else ""
    how = {"executor": options.executor, "gate": options.gate}
    runs = played(options.first, options.seeds, options.without, options.state, **how)
    begun = time.perf_counter()
    count = steps = broken = 0
    for one in runs:
        count += 1
        steps += one.steps
        if options.seeds == 1:
            shown(one, None, flags)
        elif one.faults and broken < MOST_SHOWN:
            shown(one, LAST_LINES, flags)
        broken += bool(one.faults)
        if sys.stderr.isatty():
            print(f"\r{count} of {options.seeds}", end="", file=sys.stderr)
    seconds = time.perf_counter() - begun
    print(f"{count} seeds, {steps} steps in {seconds:.0f} s: {broken} broke a promise")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
