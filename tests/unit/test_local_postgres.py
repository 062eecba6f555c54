"""What is said when PostgreSQL or PostGIS is missing or broken, and what is cleaned up."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from gate.errors import ConfigurationError
from gate.local import postgres


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which an ordinary user finds versions of PostgreSQL."""
    monkeypatch.setattr(postgres, "_VERSIONS", tmp_path / "lib")
    monkeypatch.setattr(postgres, "_EXTENSIONS", tmp_path / "share")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path


def install(machine: Path, version: str, script: str = "exit 0", *, postgis: bool = True) -> Path:
    """Install programs that do what a script says, and return their folder."""
    programs = machine / "lib" / version / "bin"
    programs.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    if postgis:
        extensions = machine / "share" / version / "extension"
        extensions.mkdir(parents=True)
        (extensions / "postgis.control").touch()
    return programs


@pytest.mark.parametrize("version", ["", "15"])
def test_what_is_missing_is_one_line_with_its_cure(machine: Path, version: str) -> None:
    """Issue 4: without a server, or with one that has no PostGIS, the command is named."""
    if version:
        install(machine, version, postgis=False)
    with pytest.raises(ConfigurationError) as raised:
        postgres.prepare(1)
    assert str(raised.value) == (
        "PostgreSQL with PostGIS: server not found;"
        " install it: sudo apt-get install postgresql postgresql-postgis"
    )


def test_the_newest_version_with_postgis_is_taken(machine: Path) -> None:
    """Versions are compared as numbers, and one without PostGIS is passed over."""
    install(machine, "9")
    programs = install(machine, "15")
    install(machine, "16", postgis=False)
    server = postgres.prepare(5555)
    assert server.programs == programs
    assert server.command[0] == str(programs / "postgres")
    assert server.uri == "postgresql://gate@127.0.0.1:5555/gis"
    server.remove()
    assert list((machine / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [("echo no space >&2; exit 1", "exit code 1 (no space)"), ("echo ERROR: x >&2", "(ERROR: x)")],
)
def test_a_failure_is_told_and_leaves_no_files(machine: Path, script: str, said: str) -> None:
    """A database that cannot be made says why in one line, and its folder is gone."""
    install(machine, "15", script)
    with pytest.raises(ConfigurationError, match="initdb: ended") as raised:
        postgres.prepare(1)
    assert said in str(raised.value)
    assert list((machine / "tmp").iterdir()) == []
