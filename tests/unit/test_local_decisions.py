"""Following the function's log, and telling it to a person."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from gate.errors import ConfigurationError
from gate.local.decisions import Decisions, Entry, Narrator


class Log:
    """A log file that a function writes to, followed from its beginning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[Entry] = []
        path.touch()
        self.decisions = Decisions(path, self.told.append)

    def raw(self, text: str) -> None:
        """Append text as it is."""
        with self.path.open("a") as file:
            file.write(text)

    def write(self, message: str, **fields: Any) -> None:
        """Append one structured line, and read it."""
        self.raw(json.dumps({"message": message, **fields}) + "\n")
        self.decisions.read()

    def delivery(self, event: str, decision: str, **fields: Any) -> None:
        """Append the line of one delivery."""
        self.write("delivery", event=event, decision=decision, **fields)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return an empty log."""
    return Log(tmp_path / "function.log")


def test_only_structured_lines_count(log: Log) -> None:
    """Text, foreign JSON and a half-written line are passed over; the line counts once whole."""
    log.raw("Traceback (most recent call last):\n[1, 2]\n{}\n" + '{"message": "deli')
    log.decisions.read()
    assert log.decisions.entries == []
    log.raw('very", "decision": "waiting"}\n')
    log.decisions.read()
    assert [entry["message"] for entry in log.told] == ["delivery"]


def test_an_event_stands_at_its_latest_decision(log: Log) -> None:
    """Of an event that was delivered several times, the last decision is its outcome."""
    log.delivery("1", "settling")
    log.delivery("2", "waiting")
    log.delivery("1", "dispatched")
    log.write("delivery", decision="malformed")
    assert log.decisions.outcomes() == {"1": "dispatched", "2": "waiting"}


def test_what_will_come_back_is_not_settled(log: Log) -> None:
    """While an event is to be delivered again, things are not settled."""
    log.delivery("1", "in_progress")
    assert not log.decisions.settled()
    log.delivery("1", "duplicate")
    assert log.decisions.settled()


def test_what_settles_is_up_to_the_sweep(log: Log) -> None:
    """A bundle that settles has settled once its job was run, or the sweep lets it rest."""
    log.delivery("1", "settling", bundle="a")
    log.delivery("2", "settling", bundle="b")
    log.write("look", decision="again", bundle="a")
    assert not log.decisions.settled()
    log.write("look", decision="rest", bundle="a")
    assert not log.decisions.settled()
    for message in ("ingestion started", "ingestion ended"):
        log.write(message, bundle="b", job="j")
    assert log.decisions.settled()


def test_a_running_job_is_not_settled(log: Log) -> None:
    """From the start of a job to its end, whoever runs it, things are not settled."""
    log.delivery("1", "duplicate")
    log.write("ingestion started", job="j")
    assert not log.decisions.settled()
    log.write("ingestion ended", job="j", decision="done")
    assert log.decisions.settled()


def test_reads_are_counted_by_job(log: Log) -> None:
    """Every opening of a layer counts for its job, whatever else is said of it."""
    for message, job in (("reading", "a"), ("ingestion started", "a"), ("reading", "b")):
        log.write(message, job=job)
    log.write("reading", job="a")
    assert log.decisions.runs() == {"a": 2, "b": 1}


def test_a_decision_is_about_one_generation(log: Log) -> None:
    """The decision about another generation of the same object does not count."""
    log.delivery("1", "waiting", name="a.shp", generation="17")
    assert log.decisions.decided("a.shp", 17)
    assert not log.decisions.decided("a.shp", 18)


def test_waiting_ends_with_a_plain_error(log: Log) -> None:
    """What never happens is named, with the log to read."""
    with pytest.raises(ConfigurationError, match=r"the end: did not come to pass .*function\.log"):
        log.decisions.wait("the end", lambda: False, seconds=0)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


DELIVERY = {"message": "delivery", "event": "1", "name": "in/a.shp", "decision": "waiting"}


def test_a_plain_stream_gets_no_colours() -> None:
    """In a pipe, a decision is one plain line: object, decision, detail."""
    out = io.StringIO()
    Narrator(out).entry({**DELIVERY, "detail": "needs .shx"})
    assert out.getvalue().split()[2:] == ["in/a.shp", "waiting", "needs", ".shx"]
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_a_terminal_gets_colours_unless_refused(
    monkeypatch: pytest.MonkeyPatch, no_color: str | None, coloured: bool
) -> None:
    """A terminal gets colours; `NO_COLOR` turns them off."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    out = Terminal()
    Narrator(out).entry(DELIVERY)
    assert ("\x1b[33m" in out.getvalue()) is coloured


def test_what_comes_back_again_and_again_is_told_once() -> None:
    """An event that goes on being refused is told once, and again when that changes."""
    out = io.StringIO()
    narrator = Narrator(out)
    for decision in ("in_progress", "in_progress", "resumed", "duplicate", "duplicate"):
        narrator.entry({**DELIVERY, "decision": decision})
    told = [line.split()[3] for line in out.getvalue().splitlines()]
    assert told == ["in_progress", "resumed", "duplicate", "duplicate"]


def test_of_the_sweep_only_what_it_starts_is_told() -> None:
    """What the sweep dispatches or takes over is shown; that there was nothing to do is not."""
    out = io.StringIO()
    narrator = Narrator(out)
    narrator.entry({"message": "sweep", "counts": {"jobs": 0}})
    look = {"message": "look", "bundle": "gs://b/in/a", "detail": "revision r"}
    for decision in ("again", "dispatched", "rest"):
        narrator.entry({**look, "decision": decision})
    narrator.entry({**look, "message": "take-over", "decision": "resumed"})
    told = [line.split()[2:6] for line in out.getvalue().splitlines()]
    assert told == [["sweep", "of", "b/in/a", "dispatched"], ["sweep", "of", "b/in/a", "resumed"]]


def test_long_details_are_shortened() -> None:
    """Ids are cut, dates are left to the clock, and a dataset's address is left out."""
    out = io.StringIO()
    narrator = Narrator(out)
    narrator.entry({**DELIVERY, "detail": f"revision {'ab' * 16}"})
    narrator.entry({**DELIVERY, "detail": "until 2026-01-02T03:04:05.678+00:00"})
    ended = {"message": "ingestion ended", "bundle": "gs://b/in/a", "decision": "done"}
    narrator.entry({**ended, "detail": "7 rows in gs://d/x.parquet", "seconds": 0.5})
    first, second, third = out.getvalue().splitlines()
    assert first.endswith(" revision abababab")
    assert second.endswith(" until 03:04:05 UTC")
    assert third.endswith(" done        7 rows (0.5 s)")


def test_what_else_is_logged_is_told_too() -> None:
    """A message that nobody foresaw is shown; the inner steps of a run are not."""
    out = io.StringIO()
    narrator = Narrator(out)
    narrator.entry({"message": "reading"})
    narrator.entry({"message": "siblings not listed", "detail": "busy"})
    assert len(out.getvalue().splitlines()) == 1
    assert "siblings not listed" in out.getvalue()
