"""What an event costs: calls to Firestore, modules imported, clients built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from gate.intake import Outcome
from gate.listing import Listing
from gate.source.memory import MemorySource
from gate.verify import Verify
from tests.contract.stores import BUCKET, FirestoreBench
from tests.emulator.deliveries import finalized, intake_over
from tests.emulator.firestore import PROJECT, Wire
from tests.world import PARTS, Letters

ROOT = Path(__file__).parents[2]
SHP, SHX, DBF = "in/roads.shp", "in/roads.shx", "in/roads.dbf"
WRITE, READ = "Commit", "BatchGetDocuments"

# What nothing but a dispatched job needs.
HEAVY = (
    "fiona",
    "google.cloud.pubsub",
    "google.cloud.pubsub_v1",
    "google.cloud.storage",
    "google.pubsub_v1",
    "numpy",
    "pyarrow",
    "shapely",
)


def test_an_ignored_object_costs_nothing(bench: FirestoreBench, wire: Wire) -> None:
    """Scenarios B1, B2, B7: what is no component of ours makes no call at all."""
    intake = intake_over(bench.store)
    for name in ("in/", "in/._roads.shp", "in/roads.tar.gz", "in/roads.shp.lock", "in/part-0001"):
        assert intake(finalized(name)).outcome is Outcome.IGNORED
    assert wire.calls == []


def test_a_waiting_event_costs_one_call(bench: FirestoreBench, wire: Wire) -> None:
    """Design 4: the commit itself tells that a required file is missing; three are allowed."""
    assert intake_over(bench.store)(finalized(SHP)).outcome is Outcome.WAITING
    assert wire.calls == [WRITE]


def test_a_duplicate_costs_two_calls(bench: FirestoreBench, wire: Wire) -> None:
    """Design 4: the refused commit, then claim and manifest in one read; three are allowed."""
    intake, event = intake_over(bench.store), finalized(SHP)
    intake(event)
    wire.clear()
    assert intake(event).outcome is Outcome.DUPLICATE
    assert wire.calls == [WRITE, READ]


def test_a_dispatching_event_costs_three_calls(bench: FirestoreBench, wire: Wire) -> None:
    """Design 4, case 53: one more commit without a read writes all; five calls are allowed."""
    intake = intake_over(bench.store, {"in/roads.prj": 7})
    intake(finalized(SHX))
    intake(finalized(DBF))
    wire.clear()
    assert intake(finalized(SHP)).outcome is Outcome.DISPATCHED
    assert wire.calls == [WRITE, READ, WRITE]


def test_a_late_component_of_a_dispatched_bundle_costs_two_calls(
    bench: FirestoreBench, wire: Wire
) -> None:
    """Design 4: an event whose component the dispatch already found only records it."""
    intake = intake_over(bench.store, {"in/roads.prj": 7})
    for name in (SHX, DBF, SHP):
        intake(finalized(name))
    wire.clear()
    assert intake(finalized("in/roads.prj", 7)).outcome is Outcome.INCLUDED
    assert wire.calls == [WRITE, READ]


def test_the_event_of_a_running_job_costs_three_calls(bench: FirestoreBench, wire: Wire) -> None:
    """Design 5: the redelivered event of a job also reads the job; three calls are allowed."""
    intake, last = intake_over(bench.store), finalized(SHP)
    for event in (finalized(SHX), finalized(DBF), last):
        intake(event)
    wire.clear()
    assert intake(last).outcome is Outcome.IN_PROGRESS
    assert wire.calls == [WRITE, READ, READ]


def test_a_take_over_costs_four_calls(bench: FirestoreBench, wire: Wire) -> None:
    """Design 5: the event that takes over an expired job dispatches it anew; five are allowed."""
    intake, last = intake_over(bench.store, lease=timedelta(0)), finalized(SHP)
    for event in (finalized(SHX), finalized(DBF), last):
        intake(event)
    wire.clear()
    assert intake(last).outcome is Outcome.RESUMED
    assert wire.calls == [WRITE, READ, READ, WRITE]


def test_the_gates_that_list_cost_no_call_before_a_bundle_is_whole(
    bench: FirestoreBench, wire: Wire
) -> None:
    """Issue 7: a listing that lacks something leads to none, a whole bundle to three, as before."""
    source, intake = MemorySource(), intake_over(bench.store)
    listing = Listing(source, intake.parsed)
    verify = Verify(intake, listing, Letters(), PARTS, timedelta(days=1), bench.clock)
    shape = finalized(SHP, source.put(BUCKET, SHP, b"").generation)
    assert verify(shape).outcome is Outcome.LACKING
    assert verify(finalized(SHX, 7)).outcome is Outcome.IGNORED
    assert wire.calls == []
    for name in (SHX, DBF):
        source.put(BUCKET, name, b"")
    assert verify(shape).outcome is Outcome.DISPATCHED
    assert wire.calls == [WRITE, READ, WRITE]


def ran(script: str, **environment: str) -> Any:
    """Run a script in a fresh interpreter; return what its last line of output says in JSON."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**kept, "SINK": "gs://datasets/layers", "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WAITING_EVENT = """
import json, sys
import functions_framework
app = functions_framework.create_app("ingest", "main.py", "cloudevent")
answer = app.test_client().post(
    "/",
    json={"bucket": "uploads", "name": "in/roads.shp", "generation": "1731000000000001"},
    headers={
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "//storage.googleapis.com/projects/_/buckets/uploads",
        "ce-type": "google.cloud.storage.object.v1.finalized",
    },
)
print(json.dumps([answer.status_code, sorted(sys.modules)]))
"""


def test_a_waiting_event_imports_no_library_of_the_job(firestore_address: str) -> None:
    """Design 4: importing main and taking in a waiting event loads nothing that reads layers."""
    status, modules = ran(
        WAITING_EVENT, FIRESTORE_EMULATOR_HOST=firestore_address, GOOGLE_CLOUD_PROJECT=PROJECT
    )
    assert status == 200
    assert "gate.store.firestore" in modules
    assert [name for name in modules if name.startswith(HEAVY)] == []


NO_CLIENT = """
import json, socket
import google.auth
from google.cloud import firestore

def refuse(*_arguments, **_options):
    raise AssertionError("a client was built at import")

firestore.Client.__init__ = google.auth.default = socket.socket.connect = refuse
import main
print(json.dumps(sorted(vars(main.gate))))
"""


def test_importing_main_builds_no_client() -> None:
    """Design 4: without an emulator, a network or credentials, main is imported all the same."""
    assert ran(NO_CLIENT) == ["settings"]
