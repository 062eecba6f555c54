"""The demonstration: bundles arrive as badly as they can, and are ingested once.

Every step waits for what it has promised, and at the end everything is counted
again from the store, the sink and the function's log. What is not as promised
raises `BrokenPromiseError`.
"""

from __future__ import annotations

import io
import os
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

from gate import settings
from gate.errors import ConfigurationError
from gate.identity import Pin
from gate.local.bare import BareStack
from gate.local.countries import countries
from gate.local.decisions import Decisions, Narrator
from gate.local.parcels import parcels
from gate.local.promises import Evidence, broken
from gate.local.stack import SOURCE_BUCKET, UPLOADS_TOPIC, Stack
from gate.local.tools import bare_tools, find_tools
from gate.local.view import View
from gate.names import Bundle
from gate.variables import VARIABLES

SETTLE_SECONDS = 3
NOTIFICATIONS = "notifications"  # a subscription that collects what the bucket said
COUNTRIES = Bundle(SOURCE_BUCKET, "in/", "countries")
PARCELS = Bundle(SOURCE_BUCKET, "in/", "parcels")
HEAD_ROWS = 4

# Decisions that the demonstration is to show, and what each stands for.
EXPECTED = {
    "waiting": "a bundle that was not whole",
    "dispatched": "a bundle that was",
    "settling": "a .prj that came late",
    "duplicate": "an event that came twice",
}

Files = Mapping[str, bytes]


class BrokenPromiseError(ConfigurationError):
    """Something that the demonstration promises did not come true."""

    code = "broken_promise"
    cure = "this is a fault of the gate; report it with the function's log"


def run(cache: Path) -> int:
    """Run the demonstration from start to end and return 0.

    `cache` holds the downloaded sample. Raises `GateError` for whatever kept it
    from its end, `BrokenPromiseError` if a promise was not kept.
    """
    begun = time.monotonic()
    narrator = Narrator(sys.stdout)
    for variable in VARIABLES:  # what is set for another deployment
        os.environ.pop(variable.name, None)
    with ThreadPoolExecutor(1) as pool:
        sample = pool.submit(countries, cache)
        with _stack(narrator) as stack:
            os.environ.update(stack.environment)
            narrator.line(f"started in {time.monotonic() - begun:.1f} s; logs in {stack.folder}")
            demonstration = Demonstration(stack, narrator)
            demonstration.play(sample.result(), parcels(80, 60), parcels(50, 40, seed=2))
            demonstration.show()
            demonstration.check()
    narrator.line(f"\nall as promised, in {time.monotonic() - begun:.1f} s")
    return 0


def _stack(narrator: Narrator) -> Stack:
    """Return the stack that this machine has the tools for; say so if it is not the whole one."""
    settings = {"SETTLE_SECONDS": str(SETTLE_SECONDS)}
    bare_tools()
    try:
        find_tools()
    except ConfigurationError as missing:
        narrator.line(f"without the emulators: {missing}")
        narrator.line("instead of Firestore a bucket keeps the state (STATE=blobs), and each event")
        narrator.line("is posted to the function by itself, until it is acknowledged")
        narrator.line("starting the bucket and the function ...")
        return BareStack(settings)
    narrator.line("starting the emulators, the bucket and the function ...")
    return Stack(settings)


class Demonstration:
    """One run over a running stack."""

    def __init__(self, stack: Stack, narrator: Narrator) -> None:
        self._stack = stack
        self._narrator = narrator
        self._decisions = Decisions(stack.function_log, narrator.entry)
        self._view = View(settings.load(os.environ))
        self._newest: dict[Bundle, Files] = {}
        self._uploaded: list[Pin] = []
        stack.topics.collect(NOTIFICATIONS, topic=UPLOADS_TOPIC)

    # --- what happens ---------------------------------------------------------

    def play(self, first: Files, second: Files, replacement: Files) -> None:
        """Upload, repeat, complete and replace; wait for what each step leads to."""
        say = self._narrator.heading
        say("1. Countries arrive in the worst order; the .prj is not there yet.")
        self._upload(COUNTRIES, first, (".dbf", ".shx", ".cpg", ".shp"))
        self._rest("the first ingestion of countries")

        say("2. Every one of these events is delivered again.")
        self._deliver_again()

        say(
            f"3. The .prj comes last. It might be a re-upload: {SETTLE_SECONDS} s to settle,"
            " then the sweep goes on."
        )
        self._upload(COUNTRIES, first, (".prj",))
        say("   Meanwhile, parcels are uploaded all at once, and every event comes twice.")
        self._upload(PARCELS, second, (".cpg", ".dbf", ".prj", ".shx", ".shp"), at_once=True)
        self._deliver_again()
        self._rest("settling")

        say("4. Countries are uploaded again: the same bytes, but new generations.")
        self._upload(COUNTRIES, first, (".prj", ".cpg", ".dbf", ".shx", ".shp"))
        self._rest("the second upload of countries")

        say("5. Parcels are replaced by a version with fewer rows.")
        self._upload(PARCELS, replacement, (".dbf", ".shx", ".shp"))
        self._rest("the replacement of parcels")

    def _upload(
        self, bundle: Bundle, files: Files, order: Iterable[str], *, at_once: bool = False
    ) -> None:
        """Upload components, one after the other's decision or all at the same time."""
        self._newest[bundle] = {**self._newest.get(bundle, {}), **files}

        def send(extension: str) -> None:
            name = f"{bundle.basename}{extension}"
            pin = Pin(name, self._view.upload(bundle.bucket, name, files[extension]))
            self._uploaded.append(pin)
            self._stack.uploaded(pin)
            if not at_once:
                self._decisions.wait(f"a decision about {name}", self._all_decided)

        if at_once:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(send, order))
        else:
            for extension in order:
                send(extension)

    def _all_decided(self) -> bool:
        return all(self._decisions.decided(pin.name, pin.generation) for pin in self._uploaded)

    def _deliver_again(self) -> None:
        """Publish again what the bucket published so far, and wait for the decisions."""
        topics = self._stack.topics
        again = {topics.publish(UPLOADS_TOPIC, one) for one in topics.pull(NOTIFICATIONS)}
        topics.pull(NOTIFICATIONS)  # the repetitions themselves
        self._decisions.wait(
            "the repeated events", lambda: again <= self._decisions.outcomes().keys()
        )

    def _rest(self, what: str) -> None:
        """Wait until every event is acknowledged and every job has ended."""
        self._decisions.wait(what, lambda: self._all_decided() and self._decisions.settled())

    # --- what came of it ------------------------------------------------------

    def show(self) -> None:
        """Show manifest, jobs, report and dataset of each bundle, as they are stored."""
        for bundle in self._newest:
            self._narrator.heading(f"{bundle}")
            manifest = self._view.manifest(bundle)
            pointer = self._view.pointer(bundle)
            report = self._view.report(bundle)
            self._fact("manifest", f"seen {' '.join(manifest.seen)}")
            self._fact("", f"dispatched {_short(manifest.dispatched)}")
            for job_id, count in self._runs(bundle).items():
                job = self._view.job(job_id)
                self._fact(
                    "job",
                    f"{job.id[:8]} {job.state.value}, fence {job.fence}, attempts {job.attempts}; "
                    f"Fiona ran {count} time{'s' if count != 1 else ''}",
                )
            for key in ("rows", "geometry", "encoding", "crs"):
                self._fact("report" if key == "rows" else "", f"{key} {_short(report[key])}")
            self._fact("current", str(pointer["location"]))
            self._head(bundle)

    def _head(self, bundle: Bundle) -> None:
        table = pq.read_table(io.BytesIO(self._view.dataset(bundle)))
        columns = [name for name in table.column_names if name not in ("geometry", "bbox")][:5]
        rows = [columns] + [
            [str(row[name]) for name in columns]
            for row in table.slice(0, HEAD_ROWS).select(columns).to_pylist()
        ]
        widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
        for number, row in enumerate(rows):
            cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self._fact("dataset" if number == 0 else "", cells.rstrip())
        self._fact("", f"{table.num_rows} rows in all")

    def _fact(self, name: str, text: str) -> None:
        self._narrator.line(f"  {name:<9} {text}")

    def _runs(self, bundle: Bundle) -> Mapping[str, int]:
        """Return job id → runs of Fiona, for every job that was dispatched for a bundle."""
        runs = self._decisions.runs()
        return {
            entry["job"]: runs[entry["job"]]
            for entry in self._decisions.of("ingestion started")
            if entry["bundle"] == str(bundle)
        }

    # --- whether that is what was promised -------------------------------------

    def check(self) -> None:
        """Raise `BrokenPromiseError` for the first promise that was not kept."""
        told = {entry["decision"] for entry in self._decisions.of("delivery")}
        for decision, meaning in EXPECTED.items():
            if decision not in told:
                raise BrokenPromiseError(f"no event was told as {decision}: {meaning}")
        for bundle in self._newest:
            for promise in broken(self._evidence(bundle)):
                raise BrokenPromiseError(promise, where=str(bundle))

    def _evidence(self, bundle: Bundle) -> Evidence:
        runs = self._runs(bundle)
        return Evidence(
            runs=runs,
            jobs=tuple(self._view.job(job_id) for job_id in runs),
            manifest=self._view.manifest(bundle),
            pointer=self._view.pointer(bundle),
            report=self._view.report(bundle),
            rows_in_file=struct.unpack_from("<I", self._newest[bundle][".dbf"], 4)[0],
            rows_in_dataset=pq.read_metadata(io.BytesIO(self._view.dataset(bundle))).num_rows,
        )


def _short(value: object) -> str:
    """Return a value from a document in one line."""
    if isinstance(value, Mapping):
        kept = ((key, each) for key, each in sorted(value.items()) if each not in (0, None, "", []))
        return ", ".join(f"{key} {_short(each)}" for key, each in kept)
    if isinstance(value, (list, tuple)):
        return " ".join(_short(each) for each in value)
    return f"{value:.8g}" if isinstance(value, float) else str(value)
