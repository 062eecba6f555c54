"""The outcome ledger: one line for each delivery, whatever happens to it."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from gate import ledger
from gate.errors import (
    ConfigurationError,
    CorruptError,
    GateError,
    MalformedEventError,
    StoreBusyError,
    StoreQuotaError,
)
from gate.events import ObjectFinalized
from gate.job import State
from gate.outcomes import Outcome
from tests.posting import STATUS, binary, posted_to, resource, written
from tests.world import Answer, World, raising

FAULTS = (
    StoreBusyError("contention"),
    StoreQuotaError("quota"),
    ConfigurationError("no database"),
    KeyError("nobody foresaw"),
)
CALLS = (
    "store.record",
    "store.read",
    "store.dispatch",
    "store.replace",
    "store.job",
    "store.manifest",
    "store.note_published",
    "source.stat",
    "source.fetch",
    "source.siblings",
    "sink.current",
    "sink.publish",
    "letters.send",
)


@pytest.fixture
def world() -> World:
    """Return a deployment in which a second attempt is the last."""
    return World(MAX_ATTEMPTS="2")


@pytest.fixture
def client(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """Return a client of the deployed application, whose gate is the world."""
    with posted_to(world, monkeypatch) as client:
        yield client


def deliveries(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the ledger's lines since the last call."""
    return [line for line in written(capsys) if line["message"] == "delivery"]


def uploads(world: World) -> list[ObjectFinalized]:
    """Upload bundles that end in different ways, one half replaced; return all events."""
    events = []
    for number in range(6):
        events += world.upload_bundle(f"in/good{number}")
    events += world.upload_bundle("in/good0", "second", parts=(".dbf",))
    events += world.upload_bundle("in/torn", parts=(".shp", ".shx"))
    events.append(world.upload("in/torn.dbf", b"one row"))
    events += world.upload_bundle("in/short", parts=(".shp", ".shx"))
    events.append(world.upload("in/broken.zip", b"no archive"))
    events.append(world.upload("in/notes.txt"))
    return events


@pytest.mark.parametrize("seed", range(4))
def test_the_outcomes_add_up_to_the_deliveries(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    """I1, E4: among faults of every kind each post leaves one line, and its answer fits it."""
    chance = random.Random(seed)
    bodies: list[object] = [resource(event) for event in uploads(world)]
    bodies += [b"{", {"bucket": "uploads"}]
    posts = bodies * 4
    chance.shuffle(posts)
    counted: Counter[str] = Counter()
    for body in posts:
        if chance.random() < 0.4:
            when = chance.choice([world.faults.before, world.faults.after])
            when(chance.choice(CALLS), raising(chance.choice(FAULTS)))
        response = binary(client, body)
        [line] = deliveries(capsys)
        counted[line["decision"]] += 1
        outcome = Outcome.__members__[line["decision"].upper()]
        answer = (response.status_code, STATUS in response.headers)
        assert answer in allowed(outcome), line
        world.clock.advance(chance.choice([0, 1, 40, 90]))
    assert counted.total() == len(posts)
    assert counted.keys() >= {"ignored", "malformed", "waiting", "duplicate", "dispatched"}
    assert counted.keys() >= {"quota", "retry", "misconfigured", "crashed"}


def allowed(outcome: Outcome) -> set[tuple[int, bool]]:
    """Return the answers that the table of outcomes allows: status, and whether it is a crash."""
    acknowledged, quiet, crash = (200, False), (503, False), (500, True)
    if outcome in (Outcome.DISPATCHED, Outcome.RESUMED, Outcome.BURIED):
        return {acknowledged, quiet}
    if outcome in (Outcome.MISCONFIGURED, Outcome.CRASHED):
        return {crash}
    return {quiet if outcome.answer.startswith("refused") else acknowledged}


def test_a_worker_that_was_replaced_is_counted_as_that(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """E4, E5: a fenced-out worker's delivery is acknowledged and counted as such, once."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)

    def steal(_number: int) -> None:
        world.reader.on_row = lambda _number: None
        world.clock.advance(61)
        assert world.deliver(last) is Answer.ACK

    world.reader.on_row = steal
    capsys.readouterr()
    response = binary(client, resource(last))
    [line] = deliveries(capsys)
    assert response.status_code == 200
    assert line["decision"] == "fenced_out"
    assert "state" not in line
    assert line["job"] == world.jobs[0].id
    assert world.states == [State.DONE]


def test_the_end_of_a_job_that_is_not_recorded_is_a_retry(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """G11: a delivery that ran a job and could not write its end is counted as a retry, once."""
    *early, last = world.upload_bundle("in/roads")
    world.settle(*early)

    def refuse() -> None:
        world.faults.before("store.replace", refuse)
        raise StoreBusyError("gone")

    world.faults.after("sink.publish", lambda: world.faults.before("store.replace", refuse))
    capsys.readouterr()
    response = binary(client, resource(last))
    [line] = deliveries(capsys)
    assert (response.status_code, line["decision"], line["code"]) == (503, "retry", "store_busy")
    assert line["job"] == world.jobs[0].id


def test_a_quota_is_an_account_of_its_own(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """F4: an exhausted quota is a quiet refusal, counted as quota, and uses up no attempt."""
    world.faults.before("store.record", raising(StoreQuotaError("over")))
    response = binary(client, resource(world.upload("in/roads.shp")))
    [line] = deliveries(capsys)
    assert (response.status_code, STATUS in response.headers) == (503, False)
    assert (line["decision"], line["code"], line["severity"]) == ("quota", "store_quota", "WARNING")
    assert not world.jobs


@pytest.mark.parametrize(("hours", "marked"), [(0, None), (23, None), (25, True), (24 * 30, True)])
def test_a_late_event_is_taken_in_and_marked(
    client: FlaskClient,
    world: World,
    capsys: pytest.CaptureFixture[str],
    hours: int,
    marked: bool | None,
) -> None:
    """A8: however old an event is, it is processed; over a day old, it is marked as late."""
    time = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    for event in world.upload_bundle("in/roads"):
        assert binary(client, resource(event), **{"ce-time": time}).status_code == 200
    lines = deliveries(capsys)
    assert [line.get("late_event") for line in lines] == [marked] * 3
    assert world.states == [State.DONE]


def test_a_crash_is_told_with_its_traceback_and_no_secret(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """G10: the line of an unforeseen error has type, text and traceback, bounded and masked."""
    fault = ValueError("postgresql://gate:hunter2@db/gis " + "x" * 1_000_000)
    world.faults.before("store.record", raising(fault))
    binary(client, resource(world.upload("in/roads.shp")))
    [line] = deliveries(capsys)
    assert (line["decision"], line["severity"]) == ("crashed", "ERROR")
    assert line["detail"].startswith("ValueError: postgresql://***@db/gis")
    assert line["stack_trace"].startswith("Traceback")
    assert "hunter2" not in str(line)
    assert len(str(line)) < 10_000


def test_no_trace_to_be_had_is_counted_too(
    client: FlaskClient,
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E4: a deployment without credentials, found out before anything else, leaves its line."""

    class Without(World):
        @property
        def project(self) -> str:
            raise ConfigurationError("no credentials")

    monkeypatch.setattr(sys.modules["main"], "gate", Without())
    event = world.upload("in/roads.shp")
    binary(client, resource(event), **{"X-Cloud-Trace-Context": "abc/1"})
    [line] = deliveries(capsys)
    assert (line["decision"], line["code"]) == ("misconfigured", "configuration")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (StoreQuotaError("x"), Outcome.QUOTA),
        (StoreBusyError("x"), Outcome.RETRY),
        (ConfigurationError("x"), Outcome.MISCONFIGURED),
        (CorruptError("x"), Outcome.CRASHED),
        (MalformedEventError("x"), Outcome.CRASHED),
        (KeyError("x"), Outcome.CRASHED),
        (SystemExit(1), Outcome.CRASHED),
    ],
)
def test_each_error_has_one_account(error: BaseException, outcome: Outcome) -> None:
    """E4: every error that can end a delivery is counted, by what helps against it."""
    assert ledger.outcome_of(error) is outcome


def test_a_gate_error_that_should_not_get_here_keeps_its_code(
    client: FlaskClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """E4: an error of the gate that nobody expects to end a delivery is told with its code."""
    error: GateError = CorruptError("astray")
    world.faults.before("store.record", raising(error))
    assert binary(client, resource(world.upload("in/roads.shp"))).status_code == 500
    [line] = deliveries(capsys)
    assert (line["decision"], line["code"], line["severity"]) == ("crashed", "corrupt", "ERROR")
