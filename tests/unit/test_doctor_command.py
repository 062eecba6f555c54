"""`python -m gate doctor`: where it looks, what it prints, how it ends."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gate import cli, wiring
from gate.doctor import date, environment, gcloud
from gate.errors import ConfigurationError
from tests.deployments import TASKING, Cloud, description, text


@pytest.fixture(autouse=True)
def this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine be in order: its environment, its libraries and its clock."""
    for name in (*environment.EMULATORS, *environment.DISPLACED, "SINK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(wiring, "ready", lambda _: "Fiona")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(date, "asked", lambda: (now, now))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the commands that gcloud is asked, which knows a sound deployment."""
    cloud = Cloud()
    monkeypatch.setattr(gcloud, "ask", cloud)
    return cloud.asked


def test_a_sound_deployment_ends_with_0(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A deployment that is fetched by name and is sound ends with 0 and nothing but `ok`."""
    assert cli.main(["doctor", "--region=europe-west1", "--project=acme"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 20
    assert all(line.startswith("ok ") for line in lines)
    assert asked[0] == "functions describe gate-ingest --gen2 --region=europe-west1"


def test_the_sweep_may_have_another_name(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--sweep` says which function sweeps; one that is not there is unchecked."""
    arguments = ["doctor", "--region=europe-west1", "--project=acme", "--sweep=broom"]
    assert cli.main(arguments) == 2
    assert "functions describe broom --gen2 --region=europe-west1" in asked
    assert "unchecked" in capsys.readouterr().out


def test_the_function_that_tasks_call_may_have_another_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 7: `--work` says which function tasks call; one that is not there is unchecked."""
    service = {"environmentVariables": TASKING}
    cloud = Cloud()
    cloud.answers["functions describe gate-ingest --gen2 --region=europe-west1"] = description(
        service=service
    )
    monkeypatch.setattr(gcloud, "ask", cloud)
    cli.main(["doctor", "--region=europe-west1", "--project=acme", "--work=hands"])
    assert "functions describe hands --gen2 --region=europe-west1" in cloud.asked
    assert "unchecked" in capsys.readouterr().out


def test_without_a_region_it_looks_at_this_machine(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a function, the environment and the machine are checked, and gcloud is not asked."""
    assert cli.main(["doctor"]) == 1
    assert "failed     this machine: SINK: is not set; " in capsys.readouterr().out
    monkeypatch.setenv("SINK", "gs://acme-out/layers")
    assert cli.main(["doctor"]) == 0
    assert asked == []


@pytest.mark.usefixtures("asked")
def test_a_description_in_a_file_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A12: a saved description without retries ends with 1, and the last line says why."""
    saved = tmp_path / "function.json"
    saved.write_text(text(trigger={"retryPolicy": None}))
    assert cli.main(["doctor", "--function-json", str(saved)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("failed     function gate-ingest: its retry policy is not set")
    assert last.endswith("; deploy it with --retry")


@pytest.mark.usefixtures("asked")
def test_a_description_comes_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A12: `-` reads standard input, and `--json` gives a program every finding."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text(trigger={"retryPolicy": None})))
    assert cli.main(["doctor", "--function-json", "-", "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    [failure] = [each for each in findings if each["verdict"] == "failed"]
    assert failure["check"] == "retry_policy"
    assert failure["todo"] == "deploy it with --retry"


def test_what_cannot_be_checked_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing failed, and still there is no verdict while something could not be asked."""

    def ask(*words: str) -> Any:
        raise ConfigurationError("command not found", where="gcloud", cure="install it")

    monkeypatch.setattr(gcloud, "ask", ask)
    saved = tmp_path / "function.json"
    saved.write_text(text())
    assert cli.main(["doctor", "--function-json", str(saved)]) == 2
    assert "unchecked  gcloud: command not found; install it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["doctor", "--function-json", "gone"], "gone: No such file or directory; "),
        (["doctor", "--function-json", "list.json"], "description of the function: it describes"),
        (["doctor", "--function-json", "torn.json"], "description of the function: it is no JSON"),
    ],
)
def test_nothing_to_look_at_ends_with_2(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a function to look at, one line on standard error says so, exit code 2."""
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "torn.json").write_bytes(b"{\xff")
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    told = capsys.readouterr()
    assert told.err.startswith(said)
    assert told.err.count("\n") == 1
    assert told.out == ""


SCRIPT = """#!/bin/sh
case "$*" in
"storage ls --format=json --quiet") echo '[1]' ;;
*) echo 'ERROR: (gcloud.x)   no
such thing' >&2; exit 1 ;;
esac
"""


def test_gcloud_answers_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command prints is decoded, and what it refuses is an error in one line."""
    command = tmp_path / "gcloud"
    command.write_text(SCRIPT)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gcloud.ask("storage", "ls") == [1]
    with pytest.raises(ConfigurationError) as refused:
        gcloud.ask("storage", "nothing")
    assert str(refused.value) == "gcloud storage nothing: (gcloud.x) no such thing; try it by hand"


def test_a_gcloud_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that hangs is ended, and named."""
    command = tmp_path / "gcloud"
    command.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gcloud, "ANSWER_SECONDS", 0.05)
    with pytest.raises(ConfigurationError, match=r"^gcloud storage ls: no answer; try it by hand$"):
        gcloud.ask("storage", "ls")


def test_without_gcloud_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without gcloud is told to install it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"^gcloud: command not found; install it$"):
        gcloud.ask("storage", "ls")
