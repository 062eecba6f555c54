"""What a deployment can take is known from sizes alone, and what it cannot is held."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gate import settings, wiring
from gate.capacity import BYTES_PER_SECOND, WHOLE_BYTES, WORKING_BYTES, Capacity
from gate.errors import HeldError, TooLargeError
from gate.memory import memory_bytes

GIBIBYTE = 1 << 30
PARTS = (".shp", ".shx", ".dbf")


def capacity(**changes: Any) -> Capacity:
    """Return that of a function of 1 GiB that may run for nine minutes."""
    usual = {
        "most_bytes": 8 * GIBIBYTE,
        "memory_bytes": GIBIBYTE,
        "run": timedelta(seconds=486),
    }
    return Capacity(**{**usual, **changes})


def bundle(total: int) -> dict[str, int]:
    """Return the sizes of a bundle."""
    return {".shp": total - 20, ".shx": 8, ".dbf": 7, ".prj": 5}


def refusal(sizes: dict[str, int], **changes: Any) -> str:
    """Return what is said of a bundle that is too large, which a person can cure."""
    with pytest.raises(TooLargeError) as caught:
        capacity(**changes).left_in_place(sizes, "gs://uploads/in/roads")
    assert isinstance(caught.value, HeldError)
    assert "redrive the job" in caught.value.todo
    return str(caught.value)


def test_main_files_are_left_in_place_beyond_the_bound() -> None:
    """Issue 4: up to the bound all is downloaded; beyond it only what is small."""
    assert capacity().left_in_place(bundle(WHOLE_BYTES), "") == ()
    assert capacity().left_in_place(bundle(WHOLE_BYTES + 1), "") == PARTS


def test_two_gigabytes_go_through_a_gibibyte() -> None:
    """Issue 4: a bundle larger than the memory of the function is no matter of memory."""
    assert capacity().left_in_place(bundle(2_000_000_000), "") == PARTS


def test_more_than_the_setting_is_too_large() -> None:
    """D8: the message has both numbers, and names the variable."""
    assert capacity(most_bytes=100).left_in_place(bundle(100), "") == ()
    said = refusal(bundle(101), most_bytes=100)
    assert said.startswith("gs://uploads/in/roads: its components hold 101 bytes, the limit is 100")
    assert "MAX_BUNDLE_BYTES" in said


def test_more_than_the_time_suffices_for_is_too_large() -> None:
    """Issue 4: what could not be done in time is not tried over and over."""
    most = BYTES_PER_SECOND * 60
    assert capacity(run=timedelta(seconds=60)).left_in_place(bundle(most), "") == PARTS
    said = refusal(bundle(most + 1), run=timedelta(seconds=60))
    assert "within the 60 s of a run" in said
    assert "FUNCTION_TIMEOUT_SECONDS" in said
    assert "EXECUTOR=tasks" in said


@pytest.mark.parametrize(
    ("sizes", "changes", "advice"),
    [
        ({".zip": GIBIBYTE}, {}, "upload the files as they are"),
        (bundle(GIBIBYTE), {"piecemeal": False}, "set READER=auto"),
        (bundle(GIBIBYTE), {"copies": 1}, "choose a form of dataset"),
    ],
    ids=["archive", "Fiona", "spooled"],
)
def test_what_would_lie_in_memory_has_to_fit_into_it(
    sizes: dict[str, int], changes: dict[str, Any], advice: str
) -> None:
    """Issue 4: what has to be in the temporary folder is held, with what would do without."""
    said = refusal(sizes, **changes)
    assert f"of which {GIBIBYTE} would lie in memory" in said
    assert f"room for {GIBIBYTE - WORKING_BYTES}" in said
    assert advice in said
    enough = capacity(memory_bytes=GIBIBYTE + WORKING_BYTES, **changes)
    assert enough.left_in_place(sizes, "") == (PARTS if "copies" in changes else ())


def test_copies_add_up() -> None:
    """Issue 4: an archive and the copies of its dataset are there at once."""
    assert f"of which {3 * GIBIBYTE} would" in refusal({".zip": GIBIBYTE}, copies=2)


def test_a_small_bundle_is_never_a_matter_of_memory() -> None:
    """Issue 4: however little memory is found, what is small is tried, or lies elsewhere."""
    assert capacity(memory_bytes=1, copies=2).left_in_place({".zip": WHOLE_BYTES}, "") == ()
    assert capacity(memory_bytes=1).left_in_place(bundle(GIBIBYTE), "") == PARTS


@pytest.mark.parametrize(
    ("sink", "reader", "piecemeal", "copies"),
    [
        ("gs://datasets/out", "auto", True, 0),
        ("gs://datasets/out?order=hilbert", "auto", True, 1),
        ("gs://datasets/out?format=gpkg", "auto", True, 1),
        ("gs://datasets/out?format=flatgeobuf", "auto", True, 2),
        ("gs://datasets/out", "fiona", False, 0),
        ("postgresql://server/gis", "auto", True, 0),
    ],
)
def test_the_settings_say_what_needs_the_disk(
    sink: str, reader: str, piecemeal: bool, copies: int
) -> None:
    """Issue 4: forms that are written by GDAL or sorted wait on the disk; Fiona reads from it."""
    stated = settings.load({"SINK": sink, "READER": reader, "MAX_BUNDLE_BYTES": "9"})
    made = wiring.capacity(stated, 7)
    assert made == Capacity(9, 7, stated.limits.run, piecemeal, copies)


# --- memory -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"]
)
def test_the_limit_of_the_group_is_found(name: str, tmp_path: Path) -> None:
    """Issue 4: of either version of control groups, as the kernel writes it."""
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("123456\n")
    assert memory_bytes(tmp_path) == 123456


@pytest.mark.parametrize("limit", ["max\n", "9223372036854771712\n"])
def test_no_limit_leaves_the_memory_of_the_machine(limit: str, tmp_path: Path) -> None:
    """Issue 4: "max", or a number beyond any memory, is no limit."""
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(limit)
    assert memory_bytes(tmp_path) == memory_bytes(tmp_path / "nothing") > 1 << 20
