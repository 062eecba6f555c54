"""A temporary folder for one run, and the removal of those whose run was killed.

The temporary folder of a function is memory. When native code ends the process
the instance goes on with a new one, and what the old one had downloaded would
stay for as long as the instance lives.

Each folder is locked by whoever uses it (`flock(2)`). The kernel gives a lock
back when its process ends, however it ends, so a folder whose lock is free has
no user: neither another process nor another request of this one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "gate-run-"


@contextmanager
def workspace() -> Iterator[Path]:
    """Give a new temporary folder, removed at the end; remove those that nobody uses first."""
    remove_unused()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_unused() -> None:
    """Remove the folders of runs that were killed. What cannot be removed is left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _lock(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """Make a folder and lock it; make another if somebody removed it in between."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _lock(folder)
        if lock is not None:
            if folder.exists():
                return folder, lock
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Return an open, locked descriptor, `None` if the folder is in use or gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
