"""The log: one JSON line per decision, in Cloud Logging's shape."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gate import log

Lines = pytest.CaptureFixture[str]


def written(capsys: Lines) -> dict[str, Any]:
    """Return the one line that was written, decoded."""
    out = capsys.readouterr().out
    assert out.endswith("\n")
    [line] = out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_is_severity_message_and_fields(capsys: Lines) -> None:
    """G11: a decision is one line of JSON with the names that Cloud Logging knows."""
    log.write("delivery", decision="waiting", generation="7")
    assert written(capsys) == {
        "severity": "INFO",
        "message": "delivery",
        "decision": "waiting",
        "generation": "7",
    }


def test_what_is_absent_is_left_out_and_zero_is_not(capsys: Lines) -> None:
    """G11: `None` and empty text are no fields; zero and false are."""
    log.write("x", severity="ERROR", nothing=None, empty="", zero=0, no=False, items=[])
    assert written(capsys) == {
        "severity": "ERROR",
        "message": "x",
        "zero": 0,
        "no": False,
        "items": [],
    }


def test_odd_values_stay_one_line(capsys: Lines) -> None:
    """B5: line breaks, surrogates and values unknown to JSON stay one readable line."""
    log.write("x", name="a\nb\u2028\ud800", at=datetime(2026, 3, 1, tzinfo=UTC))
    found = written(capsys)
    assert found["name"] == "a\nb\u2028\ud800"
    assert found["at"] == "2026-03-01 00:00:00+00:00"


def test_the_trace_of_the_request_is_in_its_lines(capsys: Lines) -> None:
    """G11: while a request is served its lines carry its trace; outside they carry none."""
    token = log.trace.set("projects/p/traces/t")
    log.write("inside")
    log.trace.reset(token)
    assert written(capsys)["logging.googleapis.com/trace"] == "projects/p/traces/t"
    log.write("outside")
    assert "logging.googleapis.com/trace" not in written(capsys)


@pytest.mark.parametrize(
    ("header", "project", "trace"),
    [
        ("105445aa7843bc8bf206b12000100000/1;o=1", "p", "105445aa7843bc8bf206b12000100000"),
        ("105445aa7843bc8bf206b12000100000", "p", "105445aa7843bc8bf206b12000100000"),
        ("", "p", ""),
        ("/1;o=1", "p", ""),
        ("abc/1", "", ""),
    ],
)
def test_a_trace_needs_a_header_and_a_project(header: str, project: str, trace: str) -> None:
    """G11: the trace is named in full, or not at all."""
    assert log.trace_of(header, project) == (trace and f"projects/{project}/traces/{trace}")


@pytest.mark.parametrize("secret", ["password=hunter2 ", "Authorization: Bearer hunter2hunter2 "])
def test_details_are_bounded_and_without_secrets(capsys: Lines, secret: str) -> None:
    """G10: whatever a library says of a fault, its line holds no secret and has an end."""
    log.write("delivery failed", detail=ValueError(secret + "x" * 10_000), name="n" * 1024)
    found = written(capsys)
    assert "hunter2" not in found["detail"]
    assert len(found["detail"]) < 2100
    assert found["name"] == "n" * 1024


@pytest.mark.parametrize("detail", [None, ""])
def test_no_detail_is_no_field(capsys: Lines, detail: str | None) -> None:
    """G11: a detail that says nothing is left out, as any other field is."""
    log.write("delivery", detail=detail)
    assert "detail" not in written(capsys)


def test_a_crash_is_written_with_its_traceback(capsys: Lines) -> None:
    """G10: an unforeseen error is one line with its traceback, without secrets, and bounded."""
    try:
        raise ValueError("password=hunter2 " + "x" * 10_000)
    except ValueError as error:
        log.crash("ingestion crashed", error, job="j")
    found = written(capsys)
    assert (found["severity"], found["message"], found["job"]) == (
        "ERROR",
        "ingestion crashed",
        "j",
    )
    assert found["stack_trace"].startswith("Traceback")
    assert "hunter2" not in found["stack_trace"]
    assert len(found["stack_trace"]) < 2100
