"""Follow the function's log, and tell each decision in one line for a person."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from gate.errors import ConfigurationError

POLL_SECONDS = 0.03

# What a delivery may lead to, and the colour that a terminal shows it in.
_COLOURS = {
    "dispatched": "32",
    "done": "32;1",
    "duplicate": "36",
    "settling": "33",
    "in_progress": "33",
    "waiting": "33",
    "dead": "31;1",
    "failed": "31",
}
# What a person need not read in full, and what remains of it.
_SHORTER = (
    (re.compile(r" in gs://\S+"), ""),
    (re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24}\b"), r"\1"),
    (re.compile(r"\d{4}-\d\d-\d\dT([\d:]{8})[\d.]*\+00:00"), r"\1 UTC"),
)
# A decision that is repeated until something else becomes of the event.
_UNSETTLED = "in_progress"
# What the sweep finds every time, and a person need not read.
_ROUTINE = ("reading", "sweep")
_QUIET = ("again", "rest")

Entry = Mapping[str, Any]


class Decisions:
    """The structured lines of a log that grows, in order.

    `entries` are all lines read so far; what is not JSON is passed over.
    """

    def __init__(self, log: Path, tell: Callable[[Entry], None]) -> None:
        self.entries: list[Entry] = []
        self._log = log
        self._tell = tell
        self._offset = 0

    def read(self) -> None:
        """Take in what has been written since the last call, and tell each entry."""
        with self._log.open("rb") as log:
            log.seek(self._offset)
            fresh = log.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            if entry := _parsed(line):
                self.entries.append(entry)
                self._tell(entry)

    def wait(self, what: str, met: Callable[[], bool], *, seconds: float = 30.0) -> None:
        """Follow the log until `met`. Raises `ConfigurationError` after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            self.read()
            if met():
                return
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"did not come to pass within {seconds:.0f} s",
                    where=what,
                    cure=f"read {self._log}",
                )
            time.sleep(POLL_SECONDS)

    def of(self, message: str) -> list[Entry]:
        """Return the entries with this constant message."""
        return [entry for entry in self.entries if entry["message"] == message]

    def outcomes(self) -> dict[str, str]:
        """Return event id → the latest decision about it."""
        return {
            entry["event"]: entry["decision"] for entry in self.of("delivery") if "event" in entry
        }

    def settled(self) -> bool:
        """Tell whether every event so far is acknowledged, settled, and every run has ended."""
        if self._settling() or _UNSETTLED in self.outcomes().values():
            return False
        return len(self.of("ingestion started")) == len(self.of("ingestion ended"))

    def _settling(self) -> set[str]:
        """Return the bundles of which a component settles, and that nobody took up since."""
        settling: set[str] = set()
        for one in self.entries:
            bundle = str(one.get("bundle", ""))
            if one.get("decision") == "settling":
                settling.add(bundle)
            elif one["message"] == "ingestion started" or one.get("decision") == "rest":
                settling.discard(bundle)
        return settling

    def decided(self, name: str, generation: int) -> bool:
        """Tell whether there was a decision about this generation of an object."""
        return any(
            entry.get("name") == name and entry.get("generation") == str(generation)
            for entry in self.of("delivery")
        )

    def runs(self) -> Counter[str]:
        """Return job id → how many times its layer was opened and read."""
        return Counter(entry["job"] for entry in self.of("reading"))


def _parsed(line: bytes) -> Entry | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "message" in entry else None


class Narrator:
    """Write entries for a person: in colour on a terminal, plain elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._coloured = out.isatty() and "NO_COLOR" not in os.environ
        self._begun = time.monotonic()
        self._told: set[tuple[str, str]] = set()

    def heading(self, text: str) -> None:
        """Write what happens next."""
        self.line(f"\n{self._paint(text, '1')}")

    def line(self, text: str) -> None:
        """Write a line as it is."""
        print(text, file=self._out, flush=True)

    def entry(self, entry: Entry) -> None:
        """Write one decision; an event that keeps its decision is told once."""
        decision = str(entry.get("decision", ""))
        match entry["message"]:
            case "delivery":
                event = (str(entry.get("event", "")), decision)
                if decision != _UNSETTLED or event not in self._told:
                    self._told.add(event)
                    subject = str(entry.get("name", "event"))
                    self._decided(subject, decision, str(entry.get("detail", "")))
            case "ingestion ended":
                bundle = str(entry.get("bundle", ""))
                detail = f"{entry.get('detail', '')} ({entry.get('seconds', '?')} s)"
                self._decided(f"job of {bundle.partition('//')[2]}", decision, detail)
            case "ingestion started":
                bundle = str(entry.get("bundle", ""))
                detail = f"revision {entry.get('revision', '')}"
                self._decided(f"job of {bundle.partition('//')[2]}", "started", detail)
            case "look" | "take-over":
                if decision not in _QUIET:
                    bundle = str(entry.get("bundle", ""))
                    detail = str(entry.get("detail", ""))
                    self._decided(f"sweep of {bundle.partition('//')[2]}", decision, detail)
            case message if message in _ROUTINE:
                pass
            case message:
                self._decided(str(message), "", str(entry.get("detail", "")))

    def _decided(self, subject: str, decision: str, detail: str) -> None:
        seconds = time.monotonic() - self._begun
        painted = self._paint(f"{decision:<11}", _COLOURS.get(decision, "0"))
        for pattern, shorter in _SHORTER:
            detail = pattern.sub(shorter, detail)
        self.line(f"  {seconds:5.1f} s  {subject:<28} {painted} {detail}".rstrip())

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured else text
