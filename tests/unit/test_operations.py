"""The commands for a deployment, over a world in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gate import cli, wiring
from gate.errors import (
    ConfigurationError,
    CorruptError,
    PermissionDeniedError,
    StorageBusyError,
    StoreBusyError,
)
from gate.job import State
from gate.settings import Settings
from tests.world import PARTS, World, raising

DENIED = PermissionDeniedError("403", where="in/roads.shp")
Output = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the deployment that the commands ask."""
    world = World()

    def opened(_settings: Settings) -> World:
        return world

    monkeypatch.setattr(wiring, "Gate", opened)
    monkeypatch.setenv("SINK", "gs://datasets/out")
    monkeypatch.setenv("USER", "ana")
    return world


@pytest.fixture
def run(world: World, capsys: Output) -> Run:
    """Return what runs a command and tells its exit code, output and error output."""

    def ran(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return ran


def parsed(run: Run, *arguments: str) -> Any:
    """Return what a command says with `--json`."""
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def dead(world: World, base: str = "in/roads", fault: Exception = DENIED) -> str:
    """Upload a bundle that ends dead; return its job."""
    world.reader.fault = fault
    world.settle(*world.upload_bundle(base))
    world.reader.fault = None
    return world.jobs[-1].id


# --- status -------------------------------------------------------------------


def test_status_of_nothing(run: Run) -> None:
    """Without jobs every state counts none, and no job is on its way."""
    code, out, err = run("status")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["queued", "0"]
    assert out.splitlines()[-1] == "no job is on its way"


def test_status_counts_and_lists_what_is_on_its_way(world: World, run: Run) -> None:
    """A person sees how many jobs stand where, and which is to run when."""
    world.settle(*world.upload_bundle("in/good"))
    dead(world)
    world.reader.fault = StorageBusyError("503")
    for event in world.upload_bundle("in/rivers"):
        world.deliver(event)
    failed = world.jobs[-1]
    out = run("status")[1]
    counts = dict(line.split() for line in out.partition("\n\n")[0].splitlines())
    assert (counts["done"], counts["dead"], counts["failed"]) == ("1", "1", "1")
    head, row = out.partition("\n\n")[2].splitlines()
    assert head.split() == ["JOB", "STATE", "ATTEMPT", "DUE", "BUNDLE"]
    assert failed.next_attempt_at
    due = f"{failed.next_attempt_at:%Y-%m-%d %H:%M:%S}"
    assert row.split() == [failed.id, "failed", "1", *due.split(), "gs://uploads/in/rivers"]
    assert row.index(due) == head.index("DUE")
    told = parsed(run, "status")
    assert told["jobs"]["failed"] == 1
    assert [one["job"] for one in told["active"]] == [failed.id]


def test_status_of_a_bundle(world: World, run: Run) -> None:
    """One bundle: how it stands, its components, what is published and every job."""
    world.settle(*world.upload_bundle("in/Roads"))
    [done] = world.jobs
    for subject in ("gs://uploads/in/ROADS.dbf", "gs://uploads/in/roads", done.id):
        code, out, _ = run("status", subject)
        assert code == 0
        assert out.startswith(f"gs://uploads/in/roads: revision {done.id} is dispatched\n")
        assert f"\npublished: revision {done.id} as memory:in/roads\n" in out
        assert "\nin/Roads.shp" in out
        assert f"\n{done.id}  done   1      1         " in out
    told = parsed(run, "status", done.id)
    assert (told["bundle"], told["published"]["revision"]) == ("gs://uploads/in/roads", done.id)
    assert sorted(told["components"]) == ["in/Roads.dbf", "in/Roads.shp", "in/Roads.shx"]
    assert [one["state"] for one in told["jobs"]] == ["done"]
    assert told["jobs"][0]["summary"]["loaded"] == 3


def test_status_says_what_is_missing(world: World, run: Run) -> None:
    """H5: a bundle that waits says for what; it has no job, and nothing is published."""
    world.deliver(world.upload("in/roads.shp"))
    out = run("status", "gs://uploads/in/roads.shp")[1]
    assert out.startswith("gs://uploads/in/roads: waits for .shx .dbf\npublished: nothing known\n")
    assert out.endswith("\nno job is remembered\n")
    told = parsed(run, "status", "gs://uploads/in/roads.shp")
    assert (told["published"], told["jobs"]) == (None, [])


def test_status_says_what_settles_and_what_is_due(world: World, run: Run) -> None:
    """C8, A7: a revision that settles says until when; a whole one says that it is due."""
    world.settle(*world.upload_bundle("in/roads"))
    world.deliver(world.upload("in/roads.dbf"))
    assert ": revision " in (out := run("status", "gs://uploads/in/roads")[1])
    assert " settles until 2026-03-01T12:00:30+00:00\n" in out
    world.clock.advance(31)
    assert "is whole and not dispatched yet" in run("status", "gs://uploads/in/roads")[1]


def test_what_has_expired_is_said_to_be_gone(world: World, run: Run) -> None:
    """H7: without a manifest the jobs still tell; without components that is said."""
    world.settle(*world.upload_bundle("in/roads"))
    world.store.manifests.clear()
    out = run("status", "gs://uploads/in/roads")[1]
    assert out.startswith("gs://uploads/in/roads: its manifest has expired\n")
    assert "\nno component is remembered\n" in out
    assert parsed(run, "status", "gs://uploads/in/roads")["components"] == {}


@pytest.mark.parametrize("command", ["status", "explain"])
@pytest.mark.parametrize("subject", ["gs://uploads/in/other", "0" * 32, "roads", "gs://uploads/"])
def test_what_nobody_knows_is_exit_code_1(run: Run, command: str, subject: str) -> None:
    """A subject that leads nowhere is told on standard error, with what to give instead."""
    code, out, err = run(command, subject)
    assert (code, out) == (1, "")
    assert err == (
        f"{subject}: nothing is remembered of it; give a job or gs://BUCKET/NAME, or see the log if"
        " it is not whole yet, for only GATE=manifest remembers what waits\n"
    )


# --- dead letters -------------------------------------------------------------


def test_no_dead_letters(run: Run) -> None:
    """Without one, that is said in words, and the JSON has an empty list."""
    assert run("dead-letters") == (0, "no job waits for a person\n", "")
    assert parsed(run, "dead-letters") == {"dead_letters": []}


def test_dead_letters_say_what_to_do(world: World, run: Run) -> None:
    """D6: each has its job, bundle, code, cause and cure; the latest comes first."""
    first = dead(world)
    world.clock.advance(60)
    second = dead(world, "in/rivers", CorruptError("broken", where="in/rivers.shp"))
    code, out, _ = run("dead-letters")
    assert code == 0
    latest, earlier, last = out.rstrip("\n").split("\n\n")
    assert latest.splitlines() == [
        f"{second}  dead since 2026-03-01 12:01:00 UTC",
        "  gs://uploads/in/rivers",
        "  corrupt: in/rivers.shp: broken",
        f"  → {CorruptError.cure}",
    ]
    assert earlier.startswith(f"{first}  dead since 2026-03-01 12:00:00 UTC\n")
    assert last == "2 dead letters; once the cause has passed: python -m gate redrive JOB"
    told = parsed(run, "dead-letters")["dead_letters"]
    assert [one["job"] for one in told] == [second, first]
    assert told[0]["redrive"] == f"python -m gate redrive {second}"
    assert told[0]["ended_at"] == "2026-03-01T12:01:00+00:00"
    assert told[0]["notified"]


def test_a_letter_that_was_not_sent_is_told_as_such(world: World, run: Run) -> None:
    """G5: a dead letter whose message is still to be sent says so."""
    world.faults.before("letters.send", raising(StoreBusyError("x")))
    world.reader.fault = DENIED
    for event in world.upload_bundle("in/roads"):
        world.deliver(event)
    out = run("dead-letters")[1]
    assert " UTC, letter still to be sent\n" in out
    assert "\n1 dead letter; once" in out
    assert not parsed(run, "dead-letters")["dead_letters"][0]["notified"]


# --- explain ------------------------------------------------------------------


def test_the_story_of_a_bundle_in_order(world: World, run: Run) -> None:
    """D6, G7: events, dispatch, the failed attempt, the end, the redrive and the good end."""
    job = dead(world)
    world.clock.advance(60)
    assert run("redrive", job, "--reason", "granted", "--now")[0] == 0
    code, out, _ = run("explain", job)
    assert code == 0
    head, _, table = out.partition("\n\n")
    assert head.startswith(f"gs://uploads/in/roads: revision {job} is dispatched\npublished: ")
    lines = table.splitlines()
    assert lines[0].split() == ["TIME", "(UTC)", "WHAT", "OF", "HOW"]
    kinds = [line[21:].split()[0] for line in lines[1:]]
    assert kinds == ["event", "event", "event", "dispatch", "attempt", "redrive", "end"]
    assert "2026-03-01 12:00:00  event " in lines[1]
    assert "attempt 1, fence 1: permission: in/roads.shp: 403; " in lines[5]
    assert lines[6].endswith("redriven by ana: granted")
    assert "done; 3 rows in " in lines[7]


def test_any_name_of_a_bundle_leads_to_its_story(world: World, run: Run) -> None:
    """A job, a claim, the bundle and each object, in any case, tell the same story."""
    world.settle(*world.upload_bundle("in/roads"), world.upload("in/parts.zip", b"no archive"))
    one = run("explain", "gs://uploads/in/roads")[1]
    claims = [key for key, claim in world.store.claims.items() if claim["name"].endswith(".shx")]
    job = next(one.id for one in world.jobs if one.state is State.DONE)
    for subject in ("gs://uploads/in/ROADS.SHP", "gs://uploads/in/roads.prj", *claims, job):
        assert run("explain", subject)[1] == one
    archive = run("explain", "gs://uploads/in/parts.zip")[1]
    assert archive.startswith("gs://uploads/in/parts.zip: ")
    assert "not_an_archive" in archive
    assert "dead; letter sent; codes not_an_archive" in archive


def test_a_story_for_machines(world: World, run: Run) -> None:
    """The JSON has claims with their events, every step in order, and each job whole."""
    job = dead(world)
    told = parsed(run, "explain", job)
    assert {claim["name"] for claim in told["claims"]} == {f"in/roads{part}" for part in PARTS}
    assert all(claim["event"].startswith("event-") for claim in told["claims"])
    assert [step["kind"] for step in told["steps"]][-3:] == ["dispatch", "attempt", "end"]
    assert told["steps"][-1]["how"] == "dead; letter sent; codes permission"
    assert told["jobs"][0]["history"][0]["code"] == "permission"


def test_a_job_on_its_way_has_no_end_yet(world: World, run: Run) -> None:
    """G1: the story of a job that failed and is due again stops at its latest attempt."""
    world.reader.fault = StorageBusyError("503")
    for event in world.upload_bundle("in/roads"):
        world.deliver(event)
    last = run("explain", "gs://uploads/in/roads")[1].splitlines()[-1]
    assert "attempt 1, fence 1: storage_busy: 503; " in last


def test_an_object_that_no_event_told_of_says_so(world: World, run: Run) -> None:
    """D1: a generation that was recorded without an event is told as found."""
    job = dead(world)
    world.upload("in/roads.dbf")
    run("redrive", job)
    assert "recorded; found without an event" in run("explain", job)[1]


def test_text_of_others_does_nothing_to_a_terminal(world: World, run: Run) -> None:
    """A name with control characters is shown without them."""
    world.deliver(world.upload("in/a\x1b[31mb.shp"))
    out = run("explain", "gs://uploads/in/a\x1b[31mb.shp")[1]
    assert "\x1b" not in out
    assert "in/a�[31mb" in out


# --- redrive ------------------------------------------------------------------


def test_redrive_makes_a_job_due(world: World, run: Run) -> None:
    """G7: one line says that it is due; the history knows who asked, by default the user."""
    job = dead(world)
    code, out, err = run("redrive", job)
    assert (code, out, err) == (0, f"{job}  redriven: it is due now; the sweep takes it up\n", "")
    assert world.states == [State.FAILED]
    assert world.jobs[0].history[-1].message == "redriven by ana"
    told = parsed(run, "redrive", job, "--actor", "bob")
    assert [one["verdict"] for one in told["redriven"]] == ["already_redriven"]
    assert told["redriven"][0]["bundle"] == "gs://uploads/in/roads"


def test_redrive_runs_a_job_at_once_if_told_to(world: World, run: Run) -> None:
    """G7: with `--now` the job runs here, its log goes to standard error, its end is told."""
    job = dead(world)
    code, out, err = run("redrive", job, "--now")
    assert code == 0
    first, second = out.splitlines()
    assert first.startswith(f"{job}  redriven: ")
    assert second.startswith(f"{job}  done: 3 rows in ")
    assert "ingestion started" in err
    assert world.states == [State.DONE]


def test_a_run_that_fails_again_is_exit_code_1(world: World, run: Run) -> None:
    """G7: what was not mended ends dead again, and a script can tell."""
    job = dead(world)
    world.reader.fault = DENIED
    code, out, _ = run("redrive", job, "--now", "--json")
    assert code == 1
    [told] = json.loads(out)["redriven"]
    assert (told["verdict"], told["ended"]["state"]) == ("redriven", "dead")


def test_a_run_that_is_lost_on_the_way_says_so(world: World, run: Run) -> None:
    """E4: a job that another worker takes over during `--now` is told as fenced out."""
    job = dead(world)

    def steal(_number: int) -> None:
        [stored] = world.store.jobs
        taken = world.store.job(stored)
        assert taken
        world.store.replace(taken, replace(taken.job, token="thief", fence=9))

    world.reader.on_row = steal
    code, out, _ = run("redrive", job, "--now")
    assert code == 1
    assert f"\n{job}  fenced_out: " in out


def test_what_cannot_be_redriven_is_exit_code_1(world: World, run: Run) -> None:
    """G7: an unknown job, or one that is done, is told so in one line; nothing changes."""
    world.settle(*world.upload_bundle("in/roads"))
    [done] = world.jobs
    assert run("redrive", done.id) == (1, f"{done.id}  not_needed: it is done\n", "")
    code, out, _ = run("redrive", "0" * 32)
    assert code == 1
    assert "unknown: there is no such job" in out
    [told] = json.loads(run("redrive", "0" * 32, "--json")[1])["redriven"]
    assert told.keys() == {"job", "verdict", "detail"}
    assert run("redrive", done.id, "--now") == (1, f"{done.id}  not_needed: it is done\n", "")
    assert world.jobs == [done]


def test_all_with_a_code_are_redriven(world: World, run: Run) -> None:
    """D6: after one grant, all jobs that lacked it are made due, and no other."""
    denied = {dead(world), dead(world, "in/rivers")}
    other = dead(world, "in/lakes", CorruptError("x"))
    code, out, _ = run("redrive", "--all-with", "permission", "--reason", "granted")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()} == denied
    assert {one.id for one in world.jobs if one.state is State.DEAD} == {other}


def test_one_that_cannot_be_redriven_does_not_hide_the_others(world: World, run: Run) -> None:
    """G9: of all with a code, those whose objects are gone are told, and the rest go on."""
    dead(world)
    gone = dead(world, "in/rivers")
    world.source.delete("uploads", "in/rivers.shp")
    code, out, _ = run("redrive", "--all-with", "permission")
    assert code == 1
    assert f"{gone}  source_deleted: " in out
    assert sorted(one.state.value for one in world.jobs) == ["dead", "failed"]


def test_no_job_with_a_code_is_exit_code_1(run: Run) -> None:
    """A code that no job has, perhaps misspelt, is told, with where to look."""
    code, out, err = run("redrive", "--all-with", "permision")
    assert (code, out) == (1, "")
    assert err == "permision: no job has this error code; see `dead-letters`\n"


@pytest.mark.parametrize("arguments", [["redrive"], ["redrive", "0" * 32, "--all-with", "x"]])
def test_redrive_wants_one_job_or_one_code(run: Run, arguments: list[str]) -> None:
    """Neither, or both, is a usage error: exit code 2."""
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2


def test_a_store_that_does_not_answer_is_told_to_a_person(world: World, run: Run) -> None:
    """F4: a passing fault says to run the command again, for nobody does it for a person."""
    world.faults.before("store.job", raising(StoreBusyError("quota", where="Firestore")))
    code, out, err = run("explain", "0" * 32)
    assert (code, out) == (1, "")
    assert err == "Firestore: quota; run the command again later\n"


def test_one_that_is_interrupted_leaves_the_others_to_be_tried(world: World, run: Run) -> None:
    """G9: a fault that may pass, at one of many jobs, is told of that one; the rest go on."""
    for base in ("in/roads", "in/rivers", "in/lakes"):
        dead(world, base)
    world.faults.before("source.stat", raising(StorageBusyError("503")))
    code, out, err = run("redrive", "--all-with", "permission")
    assert (code, err) == (1, "")
    assert [line.split()[1] for line in out.splitlines()].count("redriven:") == 2
    assert "  interrupted: 503; run the command again later\n" in out
    assert run("redrive", "--all-with", "permission")[0] == 0


def test_only_a_run_needs_to_know_the_sink(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever only looks needs no SINK; whoever runs jobs does."""
    monkeypatch.delenv("SINK")
    assert run("status")[0] == 0
    assert run("redrive", "0" * 32)[0] == 1
    code, _, err = run("redrive", "0" * 32, "--now")
    assert code == 1
    assert "SINK: is not set" in err


def test_state_in_a_bucket_is_asked_there(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 54: with STATE=blobs the commands ask the bucket, and Firestore without it."""
    places: list[object] = []

    def opened(settings: Settings) -> World:
        places.append(settings.state and settings.state.bucket)
        return world

    monkeypatch.setattr(wiring, "Gate", opened)
    run("status")
    for name, stated in (("STATE", "blobs"), ("STATE_URI", "gs://kept"), ("SOURCE_BUCKET", "in")):
        monkeypatch.setenv(name, stated)
    run("status")
    assert places == [None, "kept"]


@pytest.mark.parametrize("subject", ["", "../x/y", "a/b", "gs://uploads/in/roads", "0" * 31, "é"])
def test_what_is_no_id_is_an_unknown_job(world: World, run: Run, subject: str) -> None:
    """B5: whatever is given for a job, the answer is a verdict, and the store is not asked."""
    world.faults.before("store.job", raising(AssertionError("asked")))
    code, out, err = run("redrive", subject)
    assert (code, err) == (1, "")
    assert out.startswith(f"{subject}  unknown: that is no id of a job; `dead-letters` lists ")


def test_a_run_that_somebody_else_has_begun_is_exit_code_1(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: `--now` says so where the sweep was faster, since how the run ends is not known."""
    job = dead(world)
    redrive = type(world.redrive)
    monkeypatch.setattr(redrive, "claimed", lambda _self, _redriven: None)
    code, out, _ = run("redrive", job, "--now")
    assert code == 1
    assert out == f"{job}  taken: it is due, and somebody else runs it already; look at it again\n"


def test_what_a_run_here_says_does_not_promise_the_sweep(world: World, run: Run) -> None:
    """G7: with `--now` nothing is left to the sweep, asked for the first time or again."""
    job = dead(world)
    run("redrive", job)
    code, out, _ = run("redrive", job, "--now")
    assert code == 0
    assert out.startswith(f"{job}  already_redriven: it is due already\n")


def test_nobody_is_no_name(world: World, run: Run) -> None:
    """G7: an empty `--actor` leaves no gap in the history."""
    job = dead(world)
    run("redrive", job, "--actor", "", "--reason", "granted")
    assert world.jobs[0].history[-1].message == "redriven by somebody: granted"


def test_what_was_redriven_is_told_though_the_rest_fails(world: World, run: Run) -> None:
    """G9: where the deployment is at fault half-way, the JSON has the verdicts until then."""
    first, _ = sorted((dead(world), dead(world, "in/rivers")))
    fault = ConfigurationError("refused", where="FIRESTORE_DATABASE")
    world.faults.before("source.stat", lambda: world.faults.before("store.job", raising(fault)))
    code, out, err = run("redrive", "--all-with", "permission", "--json")
    assert (code, err) == (1, f"{fault}\n")
    assert [one["job"] for one in json.loads(out)["redriven"]] == [first]
