"""The command line: help at once, errors as one line, interrupts without a traceback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gate import cli
from gate.errors import ConfigurationError
from gate.local import demo, stack

ROOT = Path(__file__).parents[2]


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` says what the program is for, and ends with 0."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["local", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "up " in out
    assert "demo " in out


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command, usage is printed and the exit code is 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2
    assert "usage: python -m gate" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    """Printing help loads no client, no Arrow and no Fiona."""
    source = (
        "import sys, gate.cli\n"
        "try: gate.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'google.auth', 'grpc', 'pyarrow', 'fiona', 'numpy', 'functions_framework'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


class Missing:
    """A stack that cannot start."""

    def __init__(self, *, postgis: bool) -> None:
        assert not postgis

    def __enter__(self) -> None:
        raise ConfigurationError("command not found", where="java", cure="install it")

    def __exit__(self, *_: object) -> None:
        raise AssertionError("it was never entered")


def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the stack lacks is said in one line on standard error, exit code 1."""
    monkeypatch.setattr(stack, "Stack", Missing)
    assert cli.main(["local", "up"]) == 1
    assert capsys.readouterr().err == "java: command not found; install it\n"


def _raising(error: BaseException) -> Callable[[Path], int]:
    def run(_cache: Path) -> int:
        raise error

    return run


def test_the_demonstration_tells_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--cache` reaches the demonstration, whose exit code is passed on."""
    asked: list[Path] = []

    def run(cache: Path) -> int:
        asked.append(cache)
        return 0

    monkeypatch.setattr(demo, "run", run)
    assert cli.main(["local", "demo", "--cache", "kept"]) == 0
    assert asked == [Path("kept")]


def test_a_broken_promise_fails_the_demonstration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A promise that was not kept ends with exit code 1 and says which."""
    broken = demo.BrokenPromiseError("it does not hold that x", where="gs://b/a")
    monkeypatch.setattr(demo, "run", _raising(broken))
    assert cli.main(["local", "demo"]) == 1
    assert "gs://b/a: it does not hold that x" in capsys.readouterr().err


def test_an_interrupted_demonstration_has_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends the demonstration with 130, as shells expect it."""
    monkeypatch.setattr(demo, "run", _raising(KeyboardInterrupt()))
    assert cli.main(["local", "demo"]) == cli.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"
