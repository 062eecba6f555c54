"""What a person is told before uploading: the same reader, and nothing written."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from gate import cli, settings, variables, wiring
from gate.errors import ConfigurationError, HeldError, PermissionDeniedError, StorageBusyError
from gate.inspect import Inspect, Inspected, Problem, Severity, address
from gate.inspect_text import as_json, as_text
from gate.overrides import Overrides
from gate.shapefile.archive import Archives
from gate.source.memory import MemorySource
from tests.archives import archive, files
from tests.shapefiles import (
    DBF_COUNT,
    Field,
    column,
    cut,
    layer,
    parcels,
    patched,
    points,
    polygon,
    square,
    without,
    write,
)

DEFAULTS = settings.for_reading({})


def inspect(**changed: Any) -> Inspect:
    """Return what inspects with the real reader, silently."""
    given: dict[str, Any] = {
        "open_layer": wiring.opener(),
        "unpack": Archives(1000, 1 << 24),
        "required": DEFAULTS.required,
        "max_bundle_bytes": 1 << 24,
        "progress": lambda _name, _rows: None,
        **changed,
    }
    return Inspect(**given)


def codes(inspected: Inspected) -> list[tuple[str, str]]:
    """Return severity and code of every problem."""
    return [(problem.severity.value, problem.code) for problem in inspected.problems]


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and time of change of every file below a folder."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- local files ----------------------------------------------------------------


def test_a_layer_is_read_with_its_companions_in_any_case(tmp_path: Path) -> None:
    """Case 35: PARCELS.SHP finds Parcels.dbf beside it, and other bundles are left alone."""
    spelled = {"PARCELS.SHP": ".shp", "parcels.SHX": ".shx", "Parcels.dbf": ".dbf"}
    bundle = parcels(12)
    for name, extension in spelled.items():
        (tmp_path / name).write_bytes(bundle[extension])
    write(points(2), tmp_path, "other")

    [found] = inspect().local(tmp_path / "PARCELS.SHP")

    assert found.clean
    assert found.report
    assert found.report["rows"]["loaded"] == 12
    assert (found.source, found.layer) == (str(tmp_path / "PARCELS.SHP"), "parcels")


@pytest.mark.parametrize("name", ["a.dbf", "a.SHP", "A"])
def test_any_component_or_the_stem_names_a_bundle(tmp_path: Path, name: str) -> None:
    """Issue 3: whichever file of it a person names, the whole bundle is read."""
    write(points(3), tmp_path, "a")

    [found] = inspect().local(tmp_path / name)

    assert found.clean


def test_a_folder_is_everything_in_it(tmp_path: Path) -> None:
    """Issue 3: bundles and archives of all folders below, twins and lone tables left out."""
    write(points(1), tmp_path, "b")
    write(points(2), tmp_path / "deep", "a")
    (tmp_path / "deep" / "._a.shp").write_bytes(b"\0")
    (tmp_path / "codes.dbf").write_bytes(b"x")
    (tmp_path / "lone.prj").write_bytes(b"x")
    (tmp_path / "c.zip").write_bytes(archive(files("x/y", points(3)), files("z", points(4))))

    found = inspect().local(tmp_path)

    assert [(each.layer, each.clean) for each in found] == [
        ("b", True),
        ("x/y", True),
        ("z", True),
        ("a", True),
    ]


def test_nothing_is_written(tmp_path: Path) -> None:
    """Issue 3: the inspected files stay as they are, and the temporary folder is gone."""
    write(points(3), tmp_path, "a")
    (tmp_path / "b.zip").write_bytes(archive(files("b", points(3))))
    before = everything(tmp_path)
    folders: list[Path] = []

    @contextmanager
    def watched(folder: Path, name: str, _overrides: Overrides) -> Iterator[Any]:
        folders.append(folder)
        with wiring.opener()(folder, name) as layer:
            yield layer

    inspect(open_layer=watched).local(tmp_path)

    assert everything(tmp_path) == before
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)


def test_files_are_copied_where_links_are_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 3: a system without links for everybody reads the same."""
    write(points(3), tmp_path, "a")

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("a required privilege is not held")

    monkeypatch.setattr(Path, "symlink_to", refuse)

    assert inspect().local(tmp_path)[0].clean


@pytest.mark.parametrize(
    ("old", "new"), [("A.SHP", "a.shp"), ("a.SHP", "a.shp"), ("a.shp", "a.SHP")]
)
def test_the_newest_of_two_spellings_counts(tmp_path: Path, old: str, new: str) -> None:
    """C9: two files for one component are what they would be in a bucket: the newer one wins."""
    bundle = points(3)
    write(without(bundle, ".shp"), tmp_path, "a")
    (tmp_path / old).write_bytes(b"old")
    (tmp_path / new).write_bytes(bundle[".shp"])
    os.utime(tmp_path / old, ns=(1, 1))

    assert inspect().local(tmp_path)[0].clean


def test_two_bundles_that_differ_in_case_are_refused(tmp_path: Path) -> None:
    """B6: a newer file of another spelling beside a whole bundle is no part of it, as there."""
    write(points(3), tmp_path, "a")
    (tmp_path / "A.dbf").write_bytes(points(3)[".dbf"])
    os.utime(tmp_path / "A.dbf", ns=(2**62, 2**62))

    [found] = inspect().local(tmp_path)

    assert codes(found) == [("refused", "mixed_spellings")]
    assert found.problems[0].what.startswith("a: its files are spelt in ways")


@pytest.mark.parametrize("name", ["", "nope.shp", "readme.txt"])
def test_nothing_to_inspect_is_said(tmp_path: Path, name: str) -> None:
    """Issue 3: an empty folder, a missing file and a text are no shapefile."""
    (tmp_path / "readme.txt").write_text("x")

    with pytest.raises(ConfigurationError, match=r"there is no shapefile; name a \.shp"):
        inspect().local(tmp_path / name)


# --- what is found --------------------------------------------------------------


@pytest.mark.parametrize("gone", [".shp", ".shx", ".dbf"])
def test_a_missing_component_is_refused(tmp_path: Path, gone: str) -> None:
    """Cases 6, 10: what the gate would wait for is named, with its cure."""
    write(without(points(3), gone), tmp_path, "a")

    [found] = inspect().local(tmp_path)

    assert not found.clean
    [problem] = found.problems
    assert problem == Problem(
        Severity.REFUSED,
        "missing_component",
        f"a: has no {gone}",
        "upload the missing file beside the others",
    )


def test_what_the_deployment_requires_is_required(tmp_path: Path) -> None:
    """Design 4: REQUIRED_EXTS of the environment counts."""
    write(without(points(3), ".prj"), tmp_path, "a")

    [found] = inspect(required=(".shp", ".shx", ".dbf", ".prj")).local(tmp_path)

    assert codes(found) == [("refused", "missing_component")]


def test_damage_is_refused_with_code_and_cure(tmp_path: Path) -> None:
    """Case 12: what would be a dead letter is said beforehand."""
    write(patched(points(3), ".dbf", DBF_COUNT, 0), tmp_path, "a")

    [found] = inspect().local(tmp_path / "a.shp")

    assert codes(found) == [("refused", "corrupt")]
    assert found.problems[0].what.startswith("a.dbf: its header says 0 rows")
    assert found.report is None


def test_altered_values_are_said_and_refuse_nothing(tmp_path: Path) -> None:
    """Case 23: values that become null are counted with their rows, and the layer is clean."""
    write(column(Field("N", "N", 10), b"**********", 12, b"abc", b"abc"), tmp_path, "a")

    [found] = inspect().local(tmp_path)

    assert found.clean
    assert {(each.code, each.count, each.rows) for each in found.problems} == {
        ("overflow", 1, (1,)),
        ("not_a_number", 2, (3, 4)),
    }
    assert all(each.severity is Severity.ALTERED for each in found.problems)


def test_notices_are_said_and_refuse_nothing(tmp_path: Path) -> None:
    """Case 7: an empty layer is clean, with a notice."""
    write(points(0), tmp_path, "a")

    [found] = inspect().local(tmp_path)

    assert found.clean
    assert ("notice", "no_rows") in codes(found)


def test_invalid_geometry_is_said_and_refuses_nothing(tmp_path: Path) -> None:
    """Case 16: polygons that cross themselves are counted with their rows."""
    bow_tie = polygon(((0, 0), (1, 1), (1, 0), (0, 1), (0, 0)))
    write(layer([polygon(square(0, 0)), bow_tie]), tmp_path, "a")

    [found] = inspect().local(tmp_path)

    assert found.clean
    assert [(each.severity, each.count, each.rows) for each in found.problems] == [
        (Severity.NOTICE, 1, (2,))
    ]


class Told:
    """A layer that reports what it is told to."""

    schema = geo_crs = None

    def __init__(self, **report: Any) -> None:
        self._report = report

    def batches(self) -> Iterator[Any]:
        """Yield nothing."""
        return iter(())

    def report(self) -> Told:
        """Return the report."""
        return self

    def as_json(self) -> dict[str, Any]:
        """Return the report."""
        return self._report


def telling(layer: Told | Exception) -> Any:
    """Return a reader that opens this layer, or fails so."""

    @contextmanager
    def open_layer(_folder: Path, _name: str, _overrides: Overrides) -> Iterator[Any]:
        if isinstance(layer, Exception):
            raise layer
        yield layer

    return open_layer


def test_rejected_rows_are_not_clean(tmp_path: Path) -> None:
    """Promise 3: rows that would be left out are counted, shown and make the exit code 1."""
    write(points(1), tmp_path, "a")
    reject = {"reason": "null_geometry", "count": 9, "examples": [{"row": 4, "text": ""}]}

    [found] = inspect(open_layer=telling(Told(rejects=[reject]))).local(tmp_path)

    assert not found.clean
    assert found.problems == (
        Problem(
            Severity.REJECTED,
            "null_geometry",
            "row is rejected",
            "give the row a shape, or set `NULL_GEOMETRY` to `keep`",
            9,
            (4,),
        ),
    )


@pytest.mark.parametrize(
    ("error", "code"), [(HeldError("no CRS"), "held"), (KeyError("x"), "unexpected")]
)
def test_what_would_be_held_or_crash_is_not_clean(
    tmp_path: Path, error: Exception, code: str
) -> None:
    """Issue 3: a layer that would be held, or that breaks the reader, is refused."""
    write(points(1), tmp_path, "a")

    [found] = inspect(open_layer=telling(error)).local(tmp_path)

    assert codes(found) == [("refused", code)]


def test_a_fault_of_the_machine_is_no_verdict(tmp_path: Path) -> None:
    """Issue 3: an error that says nothing of the bundle is not blamed on it."""
    write(points(1), tmp_path, "a")

    with pytest.raises(StorageBusyError):
        inspect(open_layer=telling(StorageBusyError("503"))).local(tmp_path)


def test_one_bad_layer_of_an_archive_is_one(tmp_path: Path) -> None:
    """Case 33: each layer of an archive has its own verdict."""
    bad = cut(points(3), ".shx", 90)
    packed = archive(files("a", points(3)), files("b", bad), files("c", without(points(1), ".dbf")))
    (tmp_path / "x.zip").write_bytes(packed)

    found = inspect().local(tmp_path / "x.zip")

    assert [(each.layer, each.clean) for each in found] == [("a", True), ("b", False), ("c", False)]
    assert codes(found[2]) == [("refused", "missing_component")]


def test_a_layer_that_cannot_be_unpacked_is_refused(tmp_path: Path) -> None:
    """Case 33: so has one that is damaged inside the archive, with its notices."""
    packed = archive(files("a", points(3)), {"b.zip": b"<html>", "codes.dbf": b""})
    (tmp_path / "x.zip").write_bytes(packed)

    found = inspect().local(tmp_path)

    assert [codes(each) for each in found] == [
        [("notice", "lone_table")],
        [("refused", "not_an_archive")],
    ]


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "empty_component"), (b"<html>", "not_an_archive"), (archive(), "no_layer")],
)
def test_an_archive_that_is_none_is_refused(tmp_path: Path, content: bytes, code: str) -> None:
    """Case 11: the three kinds of nothing are told apart here too."""
    (tmp_path / "x.zip").write_bytes(content)

    [found] = inspect().local(tmp_path)

    assert codes(found) == [("refused", code)]


def test_a_bundle_beyond_the_usual_limit_is_read_and_said(tmp_path: Path) -> None:
    """Case 63: how much is too much is the deployment's to say, so it is a notice."""
    write(points(3), tmp_path, "a")

    [found] = inspect(max_bundle_bytes=10).local(tmp_path)

    assert found.clean
    assert found.report
    assert codes(found) == [("notice", "beyond_max_bundle_bytes")]


def test_progress_is_told_while_reading(tmp_path: Path) -> None:
    """Issue 3: after each batch the rows so far are told, under the name of the layer."""
    write(points(3), tmp_path, "a")
    told: list[tuple[str, int]] = []

    inspect(progress=lambda name, rows: told.append((name, rows))).local(tmp_path)

    assert told == [("a", 3)]


# --- objects of a bucket --------------------------------------------------------


@pytest.fixture
def source() -> MemorySource:
    """Return a bucket with two bundles in `in/` and an archive."""
    source = MemorySource()
    for extension, content in points(3).items():
        source.put("uploads", f"in/Roads{extension.upper()}", content)
        source.put("uploads", f"in/deeper/other{extension}", content)
    source.put("uploads", "in/b.zip", archive(files("b", points(2))))
    return source


@pytest.mark.parametrize("name", ["in/Roads.SHP", "in/roads.dbf", "in/roads", "in/ROADS"])
def test_live_objects_are_read(source: MemorySource, name: str) -> None:
    """Issue 3: a bundle of a bucket is found by any of its names and read as it is live."""
    [found] = inspect().bucket(source, "uploads", name)

    assert found.clean
    assert found.report
    assert found.report["rows"]["loaded"] == 3
    assert found.source == "gs://uploads/in/roads"


def test_a_folder_of_a_bucket_is_everything_directly_in_it(source: MemorySource) -> None:
    """Issue 3: a name that ends in a slash is all bundles there, not those below."""
    found = inspect().bucket(source, "uploads", "in/")

    assert [(each.source, each.layer) for each in found] == [
        ("gs://uploads/in/b.zip", "b"),
        ("gs://uploads/in/roads", "roads"),
    ]


def test_an_archive_of_a_bucket_is_unpacked(source: MemorySource) -> None:
    """Issue 3: so is an archive."""
    [found] = inspect().bucket(source, "uploads", "in/b.zip")

    assert (found.layer, found.clean) == ("b", True)


def test_the_newest_generation_is_read(source: MemorySource) -> None:
    """C9: of two spellings of a component the greater generation counts, as it would."""
    source.put("uploads", "in/Roads.shp", b"newer and broken")

    [found] = inspect().bucket(source, "uploads", "in/roads")

    assert codes(found) == [("refused", "not_a_shapefile")]


def test_live_bundles_that_differ_in_case_are_refused(source: MemorySource) -> None:
    """B6: what a job would end as is told, also of objects in a bucket."""
    source.put("uploads", "in/roads.shp", points(3)[".shp"])

    [found] = inspect().bucket(source, "uploads", "in/roads")

    assert codes(found) == [("refused", "mixed_spellings")]


def test_an_overwritten_object_is_looked_at_again(source: MemorySource) -> None:
    """D1: what is replaced between listing and reading is listed again."""
    newer = points(5)
    left = [1]

    def replace(operation: str, name: str) -> None:
        if operation == "stat" and left:
            left.pop()
            for extension, content in newer.items():
                source.put("uploads", f"in/Roads{extension.upper()}", content)

    source.before = replace

    [found] = inspect().bucket(source, "uploads", "in/roads")

    assert found.report
    assert found.report["rows"]["loaded"] == 5


def test_objects_that_never_rest_are_busy(source: MemorySource) -> None:
    """D1: a bundle that is replaced in every round is not read for ever."""
    source.before = lambda operation, _name: (
        operation == "stat" and source.put("uploads", "in/Roads.SHP", b"x")
    )

    with pytest.raises(StorageBusyError, match="changes while it is read"):
        inspect().bucket(source, "uploads", "in/roads")


def test_a_deleted_object_is_refused(source: MemorySource) -> None:
    """D2: a component that vanishes while the bundle is read is said to be gone."""
    source.before = lambda operation, name: (
        operation == "stat" and name.endswith(".DBF") and source.delete("uploads", name)
    )

    [found] = inspect().bucket(source, "uploads", "in/roads")

    assert codes(found) == [("refused", "source_deleted")]


def test_an_object_that_may_not_be_read_is_no_verdict(source: MemorySource) -> None:
    """Issue 3: missing permission says nothing of the bundle."""

    def refuse(operation: str, _name: str) -> None:
        if operation == "fetch":
            raise PermissionDeniedError("403")

    source.before = refuse

    with pytest.raises(PermissionDeniedError):
        inspect().bucket(source, "uploads", "in/roads")


@pytest.mark.parametrize("name", ["in/nope.shp", "nowhere/", "in/lone"])
def test_nothing_live_is_said(source: MemorySource, name: str) -> None:
    """Issue 3: an object that is not there, an empty folder and a lone sidecar are nothing."""
    source.put("uploads", "in/lone.prj", b"x")

    with pytest.raises(ConfigurationError, match=f"gs://uploads/{name}: there is no shapefile"):
        inspect().bucket(source, "uploads", name)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("gs://b/in/a%20b+c#1.zip", ("b", "in/a%20b+c#1.zip")),
        ("gs://b", ("b", "")),
        ("gs://b/in/", ("b", "in/")),
        ("GS://b/In/", ("b", "In/")),
        ("data/roads.shp", None),
    ],
)
def test_addresses_are_told_from_paths(text: str, parsed: tuple[str, str] | None) -> None:
    """Case 38: the name of an object is taken as it is."""
    assert address(text) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "gs://",
        "gs:///x",
        "gs://Bad_/x",
        "gs://-/x",
        "gs://b_/x",
        f"gs://{'b' * 223}/x",
        f"gs://b/{'ä' * 513}",
        "gs://b/a\nb",
        "gs://b/a\rb",
        "gs://b/\udcff",
    ],
)
def test_what_no_object_can_be_called_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 38: an impossible bucket or name is exit code 2, before storage is asked."""
    monkeypatch.setattr(wiring, "live_source", lambda: pytest.fail("storage was asked"))

    assert cli.main(["inspect", text]) == 2
    assert "; name a .shp, a .zip, a folder of them, or gs://" in capsys.readouterr().err


def test_the_metadata_of_objects_counts(source: MemorySource) -> None:
    """Case 3: what a person has said of an object is obeyed as it would be."""
    for extension, content in without(points(3), ".prj").items():
        source.put("uploads", f"in/a{extension}", content, {"crs": "EPSG:25832"})

    [found] = inspect().bucket(source, "uploads", "in/a")

    assert found.report
    crs = found.report["crs"]
    assert (crs["name"], crs["source"]) == ("EPSG:25832", "override")


def test_contradicting_metadata_is_refused(source: MemorySource) -> None:
    """Case 3: what would be held for two opinions is said beforehand."""
    source.put("uploads", "in/Roads.SHP", points(3)[".shp"], {"crs": "EPSG:25832"})
    source.put("uploads", "in/Roads.DBF", points(3)[".dbf"], {"crs": "EPSG:25833"})

    [found] = inspect().bucket(source, "uploads", "in/roads")

    assert [severity for severity, _ in codes(found)] == ["refused"]
    assert "EPSG:25832" in found.problems[0].what


def test_the_layer_that_was_chosen_is_the_one(source: MemorySource) -> None:
    """Case 33: an archive whose metadata names a layer is that layer, or is refused."""
    packed = archive(files("a", points(1)), files("b", points(2)))
    source.put("uploads", "in/c.zip", packed, {"layer": "B"})

    [found] = inspect().bucket(source, "uploads", "in/c.zip")
    assert (found.layer, found.clean) == ("b", True)

    source.put("uploads", "in/c.zip", packed, {"layer": "z"})
    [refused] = inspect().bucket(source, "uploads", "in/c.zip")
    assert [severity for severity, _ in codes(refused)] == ["refused"]


# --- for a person, for a machine ------------------------------------------------


def test_a_person_reads_a_table(tmp_path: Path) -> None:
    """Issue 3: schema, encoding, CRS, counts, bounds and problems, and a last line that sums up."""
    write(column(Field("SIZE", "N", 10), b"**********", 12), tmp_path, "a")
    write(cut(points(3), ".shx", 90), tmp_path, "b")

    assert as_text(inspect().local(tmp_path)).splitlines() == [
        str(tmp_path / "a.shp"),
        "  layer     a",
        "  rows      2 in the file: 2 loaded, 0 deleted, 0 rejected",
        "  geometry  Point: Point",
        "  bounds    0 0 1 1",
        "  crs       EPSG:4326 (prj)",
        "  encoding  utf-8 (cpg)",
        "  fields    SIZE  int64            N(10,0)",
        "  problems  altered  overflow: value of SIZE is altered or becomes null",
        "                     rows 1",
        "                     → widen the field and export again",
        "",
        str(tmp_path / "b.shp"),
        "  layer     b",
        "  problems  refused  empty_component: b.shx: holds 90 bytes, fewer than its header",
        "                     → upload the file again, whole",
        "",
        "2 layers: 1 would be loaded, 1 would be refused",
    ]


def test_names_cannot_steer_a_terminal() -> None:
    """Issue 3: whatever a file or a field is called, no control character is printed."""
    problem = Problem(Severity.NOTICE, "x", "\x1b[2Jwiped\r\n")
    text = as_text([Inspected("in/\x1b]0;x\x07.shp", "a\nb", None, (problem,))])

    assert not any(not line.isprintable() for line in text.splitlines())
    assert "\x07" not in text
    assert text.count("\n") == 4


def test_rows_that_are_left_out_are_summed_up() -> None:
    """Issue 3: the last line tells complete layers from those that lose rows."""
    lossy = Inspected("a", "a", None, (Problem(Severity.REJECTED, "x", "y", count=30, rows=(1,)),))
    clean = Inspected("b", "b", None, ())

    assert as_text([lossy]).endswith("1 layer: 1 would be loaded, 1 of them without some rows")
    assert "rejected x: y (30 times)\n                     rows 1, …" in as_text([lossy])
    assert as_text([lossy, clean]).endswith(
        "2 layers: 2 would be loaded, 1 of them without some rows"
    )


def test_odd_fields_and_counts_are_shown() -> None:
    """Case 28: a renamed field shows both names; null geometries are counted; no CRS is none."""
    report = {
        "rows": {"in_file": 2000, "loaded": 1999, "deleted": 1, "rejected": 0},
        "geometry": {
            "file_type": "Point",
            "types": [],
            "bounds": None,
            "null": 3,
            "empty": 0,
            "not_finite": 0,
            "collapsed": 2,
            "measures_dropped": 1000,
            "heights_dropped": 0,
        },
        "crs": {
            "name": "",
            "source": "missing",
            "recognised": {"name": "EPSG:25832", "confidence": 70},
            "transformed": {"target": "EPSG:4326", "operation": "UTM zone 32N"},
        },
        "encoding": {"name": "cp1252", "source": "default"},
        "fields": [
            {"name": "NAME", "original_name": "NAME", "type": "string", "file_type": "C(4)"},
            {"name": "NAME_1", "original_name": "NAME", "type": "int64", "file_type": "N(4,0)"},
        ],
    }

    text = as_text([Inspected("a", "", report, ())])

    assert "  rows      2,000 in the file: 1,999 loaded, 1 deleted, 0 rejected\n" in text
    assert "Point: none, 3 null, 2 collapsed, 1,000 without their M values\n" in text
    assert "\n  crs       none (missing)\n" in text
    assert "            taken for EPSG:25832, with a confidence of 70 %\n" in text
    assert "            transformed to EPSG:4326 by UTM zone 32N\n" in text
    assert "  fields    NAME               string           C(4)\n" in text
    assert "            NAME_1 (was NAME)  int64            N(4,0)\n" in text
    assert "bounds" not in text


def test_a_machine_reads_everything(tmp_path: Path) -> None:
    """Issue 3: the JSON has the whole report and every problem, and says whether all is clean."""
    write(points(3), tmp_path, "a")
    write(without(points(3), ".dbf"), tmp_path, "b")

    content = json.loads(as_json(inspect().local(tmp_path)))

    assert content["clean"] is False
    assert [layer["clean"] for layer in content["layers"]] == [True, False]
    crs = content["layers"][0]["report"]["crs"]
    assert (crs["name"], crs["source"]) == ("EPSG:4326", "prj")
    assert content["layers"][1]["problems"] == [
        {
            "severity": "refused",
            "code": "missing_component",
            "what": "b: has no .dbf",
            "cure": "upload the missing file beside the others",
            "count": 1,
            "rows": [],
        }
    ]


# --- the command ----------------------------------------------------------------


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what a deployment sets: the command needs none of it."""
    for variable in variables.VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)


def test_a_clean_bundle_is_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 3: no settings are needed; standard error stays empty."""
    write(points(3), tmp_path, "a")

    assert cli.main(["inspect", str(tmp_path / "a.shp")]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith("1 layer: 1 would be loaded\n")
    assert not printed.err


def test_a_refused_layer_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 3: something that would not be loaded is exit code 1, also for a machine."""
    write(without(points(3), ".shx"), tmp_path, "a")

    assert cli.main(["inspect", str(tmp_path)]) == 1
    assert cli.main(["inspect", "--json", str(tmp_path)]) == 1
    assert '"clean": false' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("environment", "message"),
    [({}, "there is no shapefile"), ({"MAX_ENTRIES": "many"}, "MAX_ENTRIES: 'many' is no")],
)
def test_what_cannot_be_inspected_is_exit_code_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    message: str,
) -> None:
    """Issue 3: a path without shapefiles, or wrong settings, is one line and exit code 2."""
    for name, text in environment.items():
        monkeypatch.setenv(name, text)

    assert cli.main(["inspect", str(tmp_path / "nope.shp")]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert not printed.out


def test_a_path_that_the_system_refuses_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 3: a name that is too long is one line, not a traceback."""
    assert cli.main(["inspect", str(tmp_path / ("a" * 300))]) == 2
    printed = capsys.readouterr()
    assert printed.err.endswith("a: File name too long; see to it, or name another path\n")
    assert printed.err.count("\n") == 1


def test_an_empty_path_is_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 3: an empty variable of a script is not taken for the current folder."""
    write(points(3), tmp_path, "a")
    monkeypatch.chdir(tmp_path)

    assert cli.main(["inspect", ""]) == 2
    assert capsys.readouterr().err.startswith("the path is empty; name a .shp")


def test_storage_out_of_reach_promises_no_retry(
    source: MemorySource, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 3: who runs a command is told to run it again, for nobody else will."""

    def fail(_operation: str, _name: str) -> None:
        raise StorageBusyError("503", where="gs://uploads/in/")

    source.before = fail
    monkeypatch.setattr(wiring, "live_source", lambda: source)

    assert cli.main(["inspect", "gs://uploads/in/roads"]) == 2
    assert capsys.readouterr().err == "gs://uploads/in/: 503; run the command again later\n"


def test_a_fault_of_the_program_is_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 3: what nobody foresaw gives no verdict and no traceback."""

    def fail(*_: object) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(wiring, "inspector", fail)

    assert cli.main(["inspect", "a.shp"]) == 2
    assert capsys.readouterr().err.startswith("a.shp: IndexError: out of range; report it")


def test_an_argument_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 3: usage is exit code 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["inspect"])
    assert ended.value.code == 2


def test_settings_for_reading_are_taken_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 3: a client who knows the deployment can inspect by its rules."""
    write(without(points(3), ".prj"), tmp_path, "a")
    assert cli.main(["inspect", str(tmp_path)]) == 0

    monkeypatch.setenv("REQUIRED_EXTS", ".shp,.shx,.dbf,.prj")
    assert cli.main(["inspect", str(tmp_path)]) == 1


def test_an_object_of_a_bucket_is_inspected(
    source: MemorySource, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 3: a gs:// address leads to the live objects."""
    monkeypatch.setattr(wiring, "live_source", lambda: source)

    assert cli.main(["inspect", "gs://uploads/in/Roads.SHP"]) == 0
    assert capsys.readouterr().out.startswith("gs://uploads/in/roads\n")


def test_json_is_ascii_that_any_reader_takes() -> None:
    """Issue 3: letters are escaped, and what is no text becomes U+FFFD, not half a pair."""
    text = as_json([Inspected("ä/\udcff.shp", "𝄞\x7f", None, ())])

    assert text.isascii()
    assert "\\udcff" not in text
    [layer] = json.loads(text)["layers"]
    assert (layer["source"], layer["layer"]) == ("ä/\ufffd.shp", "𝄞\x7f")


def run(output: int | IO[bytes], *arguments: str, **environment: str) -> tuple[int, bytes, str]:
    """Run the command in a process of its own; return exit code, output and errors."""
    ended = subprocess.run(
        [sys.executable, "-m", "gate", "inspect", *arguments],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
    )
    return ended.returncode, ended.stdout or b"", ended.stderr.decode()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_any_encoding_of_the_output_will_do(tmp_path: Path, encoding: str) -> None:
    """Issue 3: what the terminal cannot show is escaped, and the verdict stays."""
    write(without(points(3), ".shx"), tmp_path, "a")

    code, output, errors = run(subprocess.PIPE, str(tmp_path), PYTHONIOENCODING=encoding)

    assert (code, errors) == (1, "")
    assert b"\\u2192 upload the missing file" in output


def test_a_reader_that_went_away_changes_no_verdict(tmp_path: Path) -> None:
    """Issue 3: `| head` may close the pipe early; there is no traceback."""
    write(points(3), tmp_path, "a")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run(writing, str(tmp_path)) == (0, b"", "")
    finally:
        os.close(writing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_output_that_cannot_be_written_is_exit_code_2(tmp_path: Path) -> None:
    """Issue 3: a full disk is one line, for nobody has got the verdict."""
    write(points(3), tmp_path, "a")
    message = "standard output: No space left on device; send it somewhere else\n"

    with Path("/dev/full").open("wb") as full:
        assert run(full, str(tmp_path)) == (2, b"", message)


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_progress_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 3: on a terminal the rows are shown a few times a second, and cleared at the end."""
    seconds = iter([0.0, 0.1, 0.5, 0.5, 0.6, 2.0, 2.0])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(seconds))
    terminal = Terminal()
    progress = cli.Progress(terminal)

    for rows in (10, 2000, 3000, 4000):
        progress("in/\aroads", rows)
    progress.clear()
    progress.clear()

    shown = "in/�roads: 2,000 rows"
    assert terminal.getvalue() == (f"\r{shown}\rin/�roads: 4,000 rows\r{' ' * len(shown)}\r")


def test_the_command_takes_its_progress_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 3: the table stands alone on the terminal, whether or not there was a verdict."""
    write(points(3), tmp_path, "a")
    terminal = Terminal()
    monkeypatch.setattr(cli.sys, "stderr", terminal)
    monkeypatch.setattr(cli, "WATCH_SECONDS", -1)

    cli.main(["inspect", str(tmp_path)])

    assert terminal.getvalue() == f"\ra: 3 rows\r{' ' * 9}\r"


def test_nobody_watching_is_told_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 3: a pipe or a log gets no progress."""
    stream = io.StringIO()
    progress = cli.Progress(stream)
    monkeypatch.setattr(cli, "WATCH_SECONDS", -1)

    progress("in/roads", 10)
    progress.clear()

    assert stream.getvalue() == ""
