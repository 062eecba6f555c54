"""What a stack tells its clients, before anything is started."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

import pytest

from gate import cli, settings
from gate.local.bare import BareStack
from gate.local.processes import ChildError
from gate.local.stack import MAIN, SOURCE_BUCKET, Stack


def test_the_environment_is_one_that_the_function_accepts(tmp_path: Path) -> None:
    """The function's settings load from it, and every service is on loopback at its own port."""
    stack = Stack(folder=tmp_path)
    loaded = settings.load(stack.environment)
    assert loaded.source_bucket == SOURCE_BUCKET
    assert str(loaded.sink) == "gs://datasets/layers/"
    assert loaded.dead_letter_topic == "projects/gate-local/topics/dead-letters"
    hosts = [value for name, value in stack.environment.items() if name.endswith("_HOST")]
    functions = {stack.addresses.function, stack.addresses.sweep}
    places = {host.removeprefix("http://") for host in hosts} | functions
    assert len(places) == 5
    assert all(place.startswith("127.0.0.1:") for place in places)


@pytest.mark.parametrize("proxy", ["http_proxy", "HTTPS_PROXY"])
def test_loopback_is_kept_from_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    """Where a proxy is set, clients are told not to use it for the stack."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert "NO_PROXY" not in Stack(folder=tmp_path).environment
    monkeypatch.setenv(proxy, "http://proxy.invalid")
    assert Stack(folder=tmp_path).environment["NO_PROXY"] == "127.0.0.1"


def test_with_postgis_the_sink_is_a_database_on_loopback(tmp_path: Path) -> None:
    """Issue 4: the function of such a stack is told the address of its own database."""
    stack = Stack(postgis=True, folder=tmp_path)
    told = str(settings.load(stack.environment).sink)
    assert told == f"postgresql://{stack.addresses.database}/gis"


def test_clients_are_told_the_settings_that_the_function_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 54: a command in another terminal finds the jobs where this stack keeps them."""
    stated = {
        "STATE": "blobs",
        "STATE_URI": "gs://state/gate",
        "EXECUTOR": "tasks",
        "FIRESTORE_DATABASE": "(default)",
    }
    for name, text in {**stated, "SINK": "gs://elsewhere/of?format=gpkg"}.items():
        monkeypatch.setenv(name, text)
    stack = Stack(folder=tmp_path)
    printed = cli.addresses(stack).splitlines()
    exported = dict(
        shlex.split(line)[1].split("=", 1) for line in printed if line.startswith("  export ")
    )
    assert "  export FIRESTORE_DATABASE='(default)'" in printed
    assert exported == stack.environment
    assert exported.items() >= stated.items()
    assert settings.load(exported) == stack.deployed
    assert exported["SINK"] == "gs://datasets/layers"


@pytest.mark.parametrize(
    ("uri", "buckets"),
    [
        ("gs://kept/gate", ("uploads", "datasets", "kept")),
        ("gs://datasets/state", ("uploads", "datasets")),
    ],
)
def test_the_bucket_that_keeps_the_state_is_one_of_the_stack(
    tmp_path: Path, uri: str, buckets: tuple[str, ...]
) -> None:
    """Case 54: what `STATE_URI` names is there before the function asks for it, and once."""
    stack = Stack({"STATE": "blobs", "STATE_URI": uri}, folder=tmp_path)
    assert stack.buckets == buckets
    assert Stack(folder=tmp_path).buckets == ("uploads", "datasets")
    assert BareStack(folder=tmp_path).buckets == ("uploads", "datasets", "state")


def test_a_stack_that_does_not_run_has_no_topics(tmp_path: Path) -> None:
    """Asking for topics too early, or leaving without having entered, is harmless and said."""
    stack = Stack(folder=tmp_path)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = stack.topics
    stack.close()
    assert stack.pids == {}
    assert stack.ended() is None


def test_wrong_settings_are_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 64: `local up` names every setting that the function would refuse, with its cure."""
    monkeypatch.setenv("SETTLE_SECONDS", "abc")
    monkeypatch.setenv("MAX_ATTEMPTS", "0")
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(tmp_path))
    assert cli.main(["local", "up"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "settings: 2 problems in the environment; correct the environment and deploy again:",
        "  - SETTLE_SECONDS: 'abc' is no whole number from 0 to 43200; use 30",
        "  - MAX_ATTEMPTS: '0' is no whole number from 1 to 1000; use 5",
    ]
    assert list(tmp_path.iterdir()) == []


def test_nothing_starts_once_the_stack_ends(tmp_path: Path) -> None:
    """A part whose start was under way when the stack was ended is not started after all."""
    stack = Stack(folder=tmp_path)
    stack.close()
    with pytest.raises(ChildError, match="function: not started"):
        stack.restart_function()
    assert list(tmp_path.iterdir()) == []


def test_the_function_is_the_deployed_one() -> None:
    """The file that is run locally is the one that is deployed."""
    assert Path(__file__).parents[2] / "main.py" == MAIN
    assert MAIN.exists()
