"""What is proven of the three required files before GDAL sees them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gate.errors import (
    BundleError,
    CorruptError,
    EmptyComponentError,
    NotAShapefileError,
    RecordTooLargeError,
    TooLargeError,
    TornBundleError,
    TruncatedError,
    UnsupportedError,
)
from gate.shapefile import records
from gate.shapefile.files import map_files
from gate.shapefile.findings import Findings
from gate.shapefile.headers import Structure, check
from tests.shapefiles import (
    DBF_COUNT,
    DBF_HEADER_BYTES,
    DBF_RECORD_BYTES,
    DBF_VERSION,
    MULTIPATCH,
    NULL,
    POINT,
    POLYGON,
    SHP_KIND,
    SHP_VERSION,
    SHX_KIND,
    SHX_WORDS,
    Bundle,
    Field,
    M,
    Z,
    cut,
    index_entry,
    layer,
    line,
    multipatch,
    null,
    parcels,
    patched,
    point,
    points,
    polygon,
    square,
    write,
)


def checked(bundle: Mapping[str, bytes], folder: Path) -> tuple[Structure, dict[str, int]]:
    """Return the structure of a bundle and its notices as code → count."""
    findings = Findings()
    structure = check(map_files(write(bundle, folder), "roads.shp"), findings)
    return structure, {notice.code: notice.count for notice in findings.notices()}


def refusal(bundle: Mapping[str, bytes], folder: Path) -> BundleError:
    """Return the error that the bundle is refused with."""
    with pytest.raises(BundleError) as caught:
        checked(bundle, folder)
    return caught.value


def test_a_sound_bundle_is_without_notices(tmp_path: Path) -> None:
    """A bundle as writers make it passes in silence, deleted rows counted."""
    bundle = layer([polygon(square(0, 0)), null(), polygon(square(1, 1))], deleted=[2])
    structure, notices = checked(bundle, tmp_path)
    assert (structure.rows, structure.deleted, structure.several_parts) == (3, 1, False)
    assert notices == {}


def test_several_parts_are_found_in_any_record(tmp_path: Path) -> None:
    """One record with two parts anywhere makes the layer one of several parts."""
    shapes = [line([(0, 0), (1, 1)]), line([(0, 0), (1, 1)], [(2, 2), (3, 3)])]
    assert checked(layer(shapes), tmp_path)[0].several_parts


@pytest.mark.parametrize("extension", [".shp", ".shx", ".dbf"])
def test_d8_a_file_of_no_bytes_is_empty(extension: str, tmp_path: Path) -> None:
    """Scenario D8: a required component of 0 bytes is refused by name."""
    error = refusal(cut(points(), extension, 0), tmp_path)
    assert isinstance(error, EmptyComponentError)
    assert error.where == f"roads{extension}"


@pytest.mark.parametrize(
    ("extension", "header_bytes"), [(".shp", 100), (".shx", 100), (".dbf", 65)]
)
@pytest.mark.parametrize("words", [None, 50])
def test_d8_a_header_alone_is_empty_where_the_others_have_rows(
    extension: str, header_bytes: int, words: int | None, tmp_path: Path
) -> None:
    """Scenario D8: a required component that is a header alone is refused by name."""
    bundle = cut(points(), extension, header_bytes)
    if words and extension == ".shx":
        bundle = patched(bundle, extension, SHX_WORDS, words)
    if words and extension == ".dbf":
        bundle = patched(bundle, extension, DBF_COUNT, 0)
    error = refusal(bundle, tmp_path)
    assert isinstance(error, EmptyComponentError)
    assert error.where == f"roads{extension}"


@pytest.mark.parametrize(
    ("extension", "size"), [(".shp", 99), (".shx", 2), (".dbf", 31), (".dbf", 6)]
)
def test_d8_less_than_a_header_is_empty(extension: str, size: int, tmp_path: Path) -> None:
    """Scenario D8: a required component of fewer bytes than its header is refused by name."""
    error = refusal(cut(points(), extension, size), tmp_path)
    assert isinstance(error, EmptyComponentError)
    assert error.where == f"roads{extension}"


@pytest.mark.parametrize("content", [b'{"type": "FeatureCollection"}', b"<html>", b"PK\3\4"])
@pytest.mark.parametrize("extension", [".shp", ".shx", ".dbf"])
def test_another_format_under_the_name_is_refused(
    content: bytes, extension: str, tmp_path: Path
) -> None:
    """A GeoJSON, page or archive renamed is no shapefile, however long it is."""
    for padded in (content, content.ljust(400)):
        error = refusal({**points(), extension: padded}, tmp_path)
        assert isinstance(error, NotAShapefileError)
        assert error.where == f"roads{extension}"


@pytest.mark.parametrize("version", [2, 4, 0x8C])
def test_other_tables_are_named(version: int, tmp_path: Path) -> None:
    """A table of FoxBASE or dBase 7 has another header and is refused as unsupported."""
    assert isinstance(
        refusal(patched(points(), ".dbf", DBF_VERSION, version), tmp_path), UnsupportedError
    )


@pytest.mark.parametrize(("extension", "size"), [(".shp", 140), (".shx", 108), (".dbf", 80)])
def test_a_cut_file_is_truncated(extension: str, size: int, tmp_path: Path) -> None:
    """A file that ends before what its header declares is named as cut."""
    error = refusal(cut(points(), extension, size), tmp_path)
    assert isinstance(error, TruncatedError)
    assert error.where == f"roads{extension}"


@pytest.mark.parametrize(("rows", "others"), [(3, 2), (2, 3)])
@pytest.mark.parametrize("extension", [".shp", ".shx", ".dbf"])
def test_c8_components_of_two_exports_are_torn(
    rows: int, others: int, extension: str, tmp_path: Path
) -> None:
    """Scenario C8: one component from an export with other rows never makes a layer."""
    bundle = {**points(others), extension: points(rows)[extension]}
    error = refusal(bundle, tmp_path)
    if extension == ".dbf":
        assert isinstance(error, TornBundleError)
        assert f"has {rows} rows while the .shx has {others} records" in str(error)
    assert error.code in {"torn_bundle", "corrupt"}


def test_c8_a_shp_that_goes_on_is_torn(tmp_path: Path) -> None:
    """Scenario C8: a newer, longer .shp under an old index and table is not silently shortened."""
    error = refusal({**points(2), ".shp": points(3)[".shp"]}, tmp_path)
    assert isinstance(error, TornBundleError)
    empty = {**layer([], kind=POINT), ".shp": points(3)[".shp"]}
    assert isinstance(refusal(empty, tmp_path), TornBundleError)


def test_c8_a_shp_of_the_same_count_with_other_lengths_is_refused(tmp_path: Path) -> None:
    """Scenario C8: same count, other records: the lengths of .shp and .shx differ."""
    one, two = parcels(10), layer([polygon(square(number, 0)) for number in range(10)])
    error = refusal({**two, ".shp": one[".shp"]}, tmp_path)
    assert isinstance(error, CorruptError)
    assert "different lengths" in str(error)


def test_c8_an_index_of_another_type_is_torn(tmp_path: Path) -> None:
    """Scenario C8: .shp and .shx that announce different types come from two exports."""
    error = refusal(patched(points(), ".shx", SHX_KIND, POLYGON), tmp_path)
    assert isinstance(error, TornBundleError)


@pytest.mark.parametrize(
    ("place", "value"), [(SHP_VERSION, 999), (SHP_KIND, 4), (SHP_KIND, -1), (SHP_KIND, 33)]
)
@pytest.mark.parametrize("extension", [".shp", ".shx"])
def test_impossible_header_fields_are_refused(
    place: tuple[int, str], value: int, extension: str, tmp_path: Path
) -> None:
    """A version or type that the format does not have is corrupt."""
    error = refusal(patched(points(), extension, place, value), tmp_path)
    assert isinstance(error, CorruptError)
    assert error.where == f"roads{extension}"


@pytest.mark.parametrize(
    ("offset", "words"), [(0, 10), (49, 10), (-1, 10), (50, 1), (50, -1), (50, 9), (64, 10)]
)
def test_an_index_entry_that_is_no_record_is_refused(
    offset: int, words: int, tmp_path: Path
) -> None:
    """An entry in the header, of no length, of another length or of another record is corrupt."""
    error = refusal(patched(points(3), ".shx", index_entry(0), offset, words), tmp_path)
    assert isinstance(error, CorruptError)


def test_an_index_entry_beyond_a_whole_shp_is_the_indexs_fault(tmp_path: Path) -> None:
    """Where the .shp is as long as it declares, an entry beyond its end is corrupt, not a cut."""
    error = refusal(patched(points(3), ".shx", index_entry(2), 5000, 10), tmp_path)
    assert isinstance(error, CorruptError)
    assert error.where == "roads.shx"


def test_records_may_stand_in_another_order(tmp_path: Path) -> None:
    """A .shp edited in place, whose records are not in row order, is read in row order."""
    bundle = points(3)
    first, last = index_entry(0), index_entry(2)
    swapped = patched(patched(bundle, ".shx", first, 78, 10), ".shx", last, 50, 10)
    structure, notices = checked(swapped, tmp_path)
    assert structure.rows == 3
    assert notices == {}


def test_records_may_not_overlap_in_any_order(tmp_path: Path) -> None:
    """Two entries of one record, whatever their order, would double a shape and lose another."""
    error = refusal(patched(points(3), ".shx", index_entry(2), 50, 10), tmp_path)
    assert isinstance(error, CorruptError)
    assert "shares bytes" in str(error)


@pytest.mark.parametrize("count", [5, 40])
def test_bytes_of_no_record_are_noted(count: int, tmp_path: Path) -> None:
    """Bytes after the last record that are no record are harmless, and noted."""
    bundle = points(2)
    bundle[".shp"] += bytes(count)
    assert checked(bundle, tmp_path)[1] == {"unused_bytes": 1, "declared_length": 1}


def test_bytes_after_index_and_table_are_noted(tmp_path: Path) -> None:
    """Bytes after the declared end of .shx and .dbf are harmless, and noted."""
    bundle = points(2)
    bundle[".shx"] += bytes(8)
    bundle[".dbf"] += bytes(12)
    assert checked(bundle, tmp_path)[1] == {"index_tail": 1, "table_tail": 1}


@pytest.mark.parametrize(
    ("kind", "of_record"), [(POINT, POLYGON), (POINT, POINT + Z), (POINT, POINT + M), (NULL, POINT)]
)
def test_a_record_of_another_type_is_refused(kind: int, of_record: int, tmp_path: Path) -> None:
    """A record must be null or of the layer's type: GDAL would drop what does not fit, unsaid."""
    shape = (
        polygon(square(0, 0))
        if of_record == POLYGON
        else point(1, 1, *([3] if of_record != POINT else []), kind=of_record)
    )
    error = refusal(layer([null(), shape], kind=kind), tmp_path)
    assert isinstance(error, CorruptError)
    assert "record 2" in str(error)


@pytest.mark.parametrize(
    ("shape", "count_at", "value"),
    [
        (polygon(square(0, 0)), 40, 6),
        (polygon(square(0, 0)), 40, -1),
        (polygon(square(0, 0)), 36, 2),
        (polygon(square(0, 0)), 36, -1),
        (polygon(square(0, 0, 1, 1), kind=POLYGON + Z), 40, 6),
        (multipatch((5, square(0, 0, 1, 1))), 36, 2),
    ],
)
def test_a_record_that_announces_more_than_it_holds_is_refused(
    shape: object, count_at: int, value: int, tmp_path: Path
) -> None:
    """Counts of parts or points that do not fit the record's length are corrupt."""
    bundle = patched(layer([shape]), ".shp", (108 + count_at, "<i"), value)  # type: ignore[list-item]
    error = refusal(bundle, tmp_path)
    assert isinstance(error, CorruptError)
    assert "shorter than the points" in str(error)


def test_a_point_without_room_for_its_z_is_refused(tmp_path: Path) -> None:
    """A PointZ of the length of a Point is corrupt."""
    bundle = patched(points(1), ".shp", SHP_KIND, POINT + Z)
    bundle = patched(patched(bundle, ".shx", SHX_KIND, POINT + Z), ".shp", (108, "<i"), POINT + Z)
    assert isinstance(refusal(bundle, tmp_path), CorruptError)


@pytest.mark.parametrize("kind", [MULTIPATCH, POLYGON + Z])
def test_empty_records_with_z_are_legal(kind: int, tmp_path: Path) -> None:
    """A record of no points needs no room for a range of Z."""
    bundle = layer([polygon(kind=kind)], kind=kind)
    assert checked(bundle, tmp_path)[0].rows == 1


@pytest.mark.parametrize("change", [1, -1, 200])
def test_a_row_length_that_the_fields_contradict_is_refused(change: int, tmp_path: Path) -> None:
    """If the fields do not fill the rows, every column would be shifted."""
    error = refusal(patched(points(), ".dbf", DBF_RECORD_BYTES, 10 + change), tmp_path)
    assert isinstance(error, CorruptError)
    assert "rows of" in str(error)


@pytest.mark.parametrize("header_bytes", [0, 32, 33, 64])
def test_a_header_length_that_the_fields_contradict_is_refused(
    header_bytes: int, tmp_path: Path
) -> None:
    """If the header does not end where its field list does, every row would be shifted."""
    error = refusal(patched(points(), ".dbf", DBF_HEADER_BYTES, header_bytes), tmp_path)
    assert isinstance(error, CorruptError)
    assert error.where == "roads.dbf"


def test_a_header_longer_than_the_file_is_truncated(tmp_path: Path) -> None:
    """A table cut inside its field list is a cut file."""
    assert isinstance(refusal(cut(points(), ".dbf", 40), tmp_path), TruncatedError)


@pytest.mark.parametrize(
    "field",
    [Field("A", "C", 0), Field(b"", "C", 5), Field(b"\x01A", "C", 5), Field("A", "\x07", 5)],
)
def test_a_field_that_is_none_is_refused(field: Field, tmp_path: Path) -> None:
    """A field without width, name or type letter means that the header is damaged."""
    bundle = layer([point(0, 0)], [Field("B"), field], [("x", b"")])
    error = refusal(bundle, tmp_path)
    assert isinstance(error, CorruptError)
    assert "field 2" in str(error)


@pytest.mark.parametrize("flag", [0x1A, 0x00, 0x41])
def test_a_row_without_a_deletion_flag_is_refused(flag: int, tmp_path: Path) -> None:
    """A row that begins with anything but a blank or `*` is not where rows begin."""
    error = refusal(patched(points(3), ".dbf", (65 + 10, "B"), flag), tmp_path)
    assert isinstance(error, CorruptError)
    assert "row 2" in str(error)


def test_case_12_a_header_that_counts_too_few_rows_is_refused(tmp_path: Path) -> None:
    """Case 12: size and index agree on 3 rows, the header says 2: it is the header that lies."""
    error = refusal(patched(points(3), ".dbf", DBF_COUNT, 2), tmp_path)
    assert isinstance(error, CorruptError)
    assert "says 2 rows while it holds 3" in str(error)


def test_an_index_that_counts_too_few_records_is_torn(tmp_path: Path) -> None:
    """An index whose own length leaves records out is refused, not read in part."""
    error = refusal(patched(points(3), ".shx", SHX_WORDS, 58), tmp_path)
    assert isinstance(error, TornBundleError)


@pytest.mark.parametrize("words", [0, -50, 49, 51])
def test_an_index_length_that_is_no_number_of_entries_is_refused(
    words: int, tmp_path: Path
) -> None:
    """A declared length below the header or between entries is corrupt."""
    error = refusal(patched(points(3), ".shx", SHX_WORDS, words), tmp_path)
    assert isinstance(error, CorruptError)


def test_checks_reach_beyond_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of rows are an economy of memory: a fault in a later one is found, with its row."""
    monkeypatch.setattr(records, "BLOCK_ROWS", 4)
    bundle: Bundle = points(10)
    assert checked(bundle, tmp_path)[0].rows == 10
    overlapping = patched(bundle, ".shx", index_entry(8), 50 + 14 * 7, 10)
    assert "record 9 shares bytes" in str(refusal(overlapping, tmp_path))
    foreign = patched(bundle, ".shp", (100 + 28 * 8 + 8, "<i"), POLYGON)
    assert "record 9" in str(refusal(foreign, tmp_path))


@pytest.mark.parametrize("words", [1, 0, -4])
def test_an_index_entry_without_room_for_a_type_is_none(words: int, tmp_path: Path) -> None:
    """A record has a type at least, so an entry with less, in both files, is no record."""
    bundle = patched(layer([null()]), ".shx", index_entry(0), 50, words)
    error = refusal(patched(bundle, ".shp", (104, ">i"), words), tmp_path)
    assert isinstance(error, CorruptError)
    assert "index entry is no record" in str(error)


@pytest.mark.parametrize(("kind", "torn"), [(POINT, True), (NULL, True), (POLYGON, False)])
def test_only_a_record_of_the_layers_type_makes_bytes_beyond_the_last_a_row(
    kind: int, torn: bool, tmp_path: Path
) -> None:
    """Bytes that look like one more record, but of a foreign type, are no row that is missing."""
    bundle = points(2)
    more = (3).to_bytes(4, "big") + (10).to_bytes(4, "big") + kind.to_bytes(4, "little") + bytes(16)
    bundle[".shp"] += more
    if torn:
        assert isinstance(refusal(bundle, tmp_path), TornBundleError)
    else:
        assert "unused_bytes" in checked(bundle, tmp_path)[1]


def test_a_record_beyond_the_limit_is_refused_with_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record is decoded in one piece, so its size is bounded; the limit itself is allowed."""
    bundle = layer([polygon(square(0, 0)), polygon(square(0, 0), square(2, 2))])
    largest = 44 + 2 * 4 + 10 * 16
    monkeypatch.setattr(records, "RECORD_LIMIT_BYTES", largest)
    assert checked(bundle, tmp_path)[0].rows == 2
    monkeypatch.setattr(records, "RECORD_LIMIT_BYTES", largest - 1)
    error = refusal(bundle, tmp_path)
    assert isinstance(error, RecordTooLargeError)
    assert (error.where, error.code) == ("roads.shp", "record_too_large")
    assert str(error).startswith(f"roads.shp: record 2 holds {largest} bytes")


def test_a_length_beyond_the_limit_has_to_be_that_of_the_record(tmp_path: Path) -> None:
    """A damaged index that makes a record seem too large is damage, not a large record."""
    bundle = points(1)
    bundle[".shp"] += bytes(40 << 20)
    offset, packing = index_entry(0)
    wrong = patched(bundle, ".shx", (offset, packing), 50, (40 << 20) // 2)
    error = refusal(wrong, tmp_path)
    assert isinstance(error, CorruptError)
    assert "state different lengths" in str(error)


def test_a_record_that_memory_does_not_suffice_for_is_held(tmp_path: Path) -> None:
    """Issue 4: what would end in a kill waits for a larger function; the exact size is allowed."""
    files = map_files(write(layer([polygon(square(0, 0))]), tmp_path), "roads.shp")
    taken = records.RECORD_FACTOR * (44 + 4 + 5 * 16)
    assert check(files, Findings(), taken).rows == 1
    with pytest.raises(
        TooLargeError, match=f"about {taken} to decode, of {taken - 1} that"
    ) as found:
        check(files, Findings(), taken - 1)
    assert found.value.where == "roads.shp"
    assert "redrive the job" in found.value.todo
