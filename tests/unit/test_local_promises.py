"""The demonstration sees each promise that is not kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gate.identity import Pin, Revision
from gate.job import Job, Limits, State, opened
from gate.local.promises import Evidence, broken
from gate.manifest import Manifest
from gate.names import Bundle

BUNDLE = Bundle("uploads", "in/", "a")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def revision(generation: int) -> Revision:
    """Return a revision of two components."""
    pins = {ext: Pin(f"in/a{ext}", generation) for ext in (".dbf", ".shp")}
    return Revision.of(BUNDLE, pins)


def job(generation: int, state: State = State.DONE) -> Job:
    """Return a job of that revision in some state."""
    limits = Limits(timedelta(minutes=1), 5, timedelta(seconds=1))
    made = opened(revision(generation), dispatched_by="e", token="t", now=NOW, limits=limits)
    return replace(made, state=state)


OLD, NEW = job(1), job(2)
KEPT = Evidence(
    runs={OLD.id: 1, NEW.id: 1},
    jobs=(OLD, NEW),
    manifest=Manifest(
        BUNDLE, components={"in/a.dbf": 2, "in/a.shp": 2}, dispatched={".dbf": 2, ".shp": 2}
    ),
    pointer={"revision_id": NEW.id, "rows": 7},
    report={"crs": {"source": "prj"}},
    rows_in_file=7,
    rows_in_dataset=7,
)


def test_kept_promises_are_not_mentioned() -> None:
    """When everything is as promised, there is nothing to say."""
    assert list(broken(KEPT)) == []


def test_a_superseded_job_is_no_fault() -> None:
    """A revision that was overtaken before it was read did not have to run."""
    overtaken = replace(KEPT, jobs=(job(1, State.SUPERSEDED), NEW), runs={OLD.id: 0, NEW.id: 1})
    assert list(broken(overtaken)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"runs": {OLD.id: 1, NEW.id: 2}}, "was read 2 times"),
        ({"runs": {OLD.id: 0, NEW.id: 1}}, "was read 0 times"),
        ({"jobs": (job(1, State.FAILED), NEW)}, "is failed"),
        ({"jobs": (OLD, job(2, State.SUPERSEDED))}, "not current"),
        ({"pointer": {"revision_id": OLD.id, "rows": 7}}, "not current"),
        ({"pointer": {"revision_id": NEW.id, "rows": 8}}, "the pointer says 8"),
        ({"rows_in_dataset": 6}, "the dataset 6"),
        ({"rows_in_file": 6}, "the file has 6 rows"),
        ({"report": {"crs": {"source": "missing"}}}, "no CRS"),
        ({"manifest": replace(KEPT.manifest, components={"in/a.shp": 3})}, "lacks the newest"),
        ({"manifest": replace(KEPT.manifest, dispatched={".shp": 1})}, "was dispatched"),
    ],
)
def test_each_broken_promise_is_said(change: dict[str, Any], said: str) -> None:
    """One thing that is wrong gives one sentence that names it."""
    (sentence,) = broken(replace(KEPT, **change))
    assert said in sentence
