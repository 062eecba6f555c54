"""Temporary folders: removed by their run, or by the next one if their run was killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gate import workspace as module
from gate.workspace import PREFIX, remove_unused, workspace


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a temporary folder that belongs to this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_lasts_as_long_as_its_run(temporary: Path) -> None:
    """E10: a run has an empty folder of its own, and leaves nothing, even if it fails."""

    def run() -> None:
        with workspace() as folder:
            assert folder.parent == temporary
            assert list(folder.iterdir()) == []
            (folder / "layer.shp").write_bytes(b"payload")
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert list(temporary.iterdir()) == []


def test_runs_at_once_have_folders_of_their_own(temporary: Path) -> None:
    """E20: a run that begins while another is at work leaves its folder alone."""
    with workspace() as one, workspace() as other:
        (one / "layer.shp").write_bytes(b"payload")
        remove_unused()
        assert one != other
        assert (one / "layer.shp").exists()
    assert list(temporary.iterdir()) == []


KILLED = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from gate.workspace import workspace
with workspace() as folder:
    (folder / "layer.shp").write_bytes(b"payload")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_run(temporary: Path) -> None:
    """I9: a process that was killed leaves its files in memory only until the next run begins."""
    subprocess.run([sys.executable, "-c", KILLED, str(temporary)], check=False)
    [left] = temporary.iterdir()
    assert (left / "layer.shp").exists()
    with workspace() as folder:
        assert list(temporary.iterdir()) == [folder]


def test_what_is_not_a_folder_of_a_run_is_left(temporary: Path) -> None:
    """E20: only folders that carry the name of a run's are ever removed."""
    kept = [temporary / "gate-local-x", temporary / f"{PREFIX}file", temporary / "other"]
    kept[0].mkdir()
    kept[1].write_bytes(b"")
    kept[2].mkdir()
    remove_unused()
    assert sorted(temporary.iterdir()) == sorted(kept)


@pytest.mark.parametrize("meanwhile", [shutil.rmtree, lambda _folder: None])
def test_a_folder_removed_before_it_was_locked_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Path], None]
) -> None:
    """E20: another run may take a folder for unused until it is locked; then there is another."""
    real, made = module._lock, []

    def lock(folder: Path) -> int | None:
        made.append(folder)
        descriptor = real(folder)
        if len(made) == 1:
            meanwhile(folder)
            if folder.exists():
                os.close(descriptor or 0)
                return None
        return descriptor

    monkeypatch.setattr(module, "_lock", lock)
    with workspace() as folder:
        assert folder == made[-1] != made[0]
        assert folder.exists()


def test_a_folder_in_use_elsewhere_is_left(temporary: Path) -> None:
    """E20: the folder of another process is left alone for as long as that process lives."""
    script = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "print(folder); input()")
    command = [sys.executable, "-uc", script, str(temporary)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        folder = Path(other.stdout.readline().strip())
        remove_unused()
        assert (folder / "layer.shp").exists()
        other.communicate("\n")
    assert list(temporary.iterdir()) == []
