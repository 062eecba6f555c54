"""Archives: which layers are found, under which names, and what is refused."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gate.errors import (
    BundleError,
    CorruptError,
    EmptyComponentError,
    EncryptedError,
    NoLayerError,
    NotAnArchiveError,
    TooLargeError,
    TruncatedError,
    UnsafeArchiveError,
    UnsupportedError,
)
from gate.shapefile.archive import Archives
from gate.shapefile.port import METADATA_LIMIT_BYTES, ArchivedLayer, Contents
from gate.shapefile.zip_file import Budget, Zip
from tests.archives import (
    CRC,
    DEVICE,
    FILE_BYTES,
    FLAGS,
    METHOD,
    VERSION,
    archive,
    entry,
    files,
    patched,
)
from tests.shapefiles import points, without

LAYER = without(points(2), ".prj", ".cpg")
MAC_TWIN = bytes.fromhex("00051607") + bytes(78)


def unpacked(
    packed: bytes,
    folder: Path,
    *,
    max_entries: int = 100,
    max_unpacked_bytes: int = 1 << 20,
    step: Callable[[], object] = lambda: None,
) -> Contents:
    """Unpack an archive called `in/a.zip` below `folder/work`."""
    source = folder / "a.zip"
    source.write_bytes(packed)
    work = folder / "work"
    work.mkdir()
    return Archives(max_entries, max_unpacked_bytes)(source, work, "in/a.zip", step)


def names(contents: Contents) -> list[str]:
    """Return the names of all layers."""
    return [layer.name for layer in contents.layers]


def content(layer: ArchivedLayer) -> dict[str, bytes]:
    """Return what lies in the folder of a layer, extension → bytes."""
    return {
        path.name.removeprefix("layer"): path.read_bytes()
        for path in sorted(layer.folder.iterdir())
    }


def notices(contents: Contents) -> dict[str, int]:
    """Return notice code → count."""
    return {notice.code: notice.count for notice in contents.notices}


def faults(contents: Contents) -> dict[str, str]:
    """Return layer → code of its fault."""
    return {layer.name: layer.fault.code for layer in contents.layers if layer.fault}


# --- what is found --------------------------------------------------------------


@pytest.mark.parametrize("folders", [(), ("data/", "data/x/")], ids=["plain", "with folders"])
def test_a_folder_zipped_as_a_whole_is_read(tmp_path: Path, folders: tuple[str, ...]) -> None:
    """Case 32: parts below `data/x/` make a layer, with and without entries for the folders."""
    contents = unpacked(archive(files("data/x/a", LAYER), folders=folders), tmp_path)

    [layer] = contents.layers
    assert (layer.name, layer.spelled) == ("data/x/a", "data/x/a")
    assert layer.extensions == (".dbf", ".shp", ".shx")
    assert content(layer) == LAYER
    assert layer.fault is None
    assert not contents.notices


def test_folders_are_no_components(tmp_path: Path) -> None:
    """Case 32: a folder that is called like a component or an archive is only a folder."""
    packed = archive(files("a", LAYER), folders=("b.shp/", "c.zip/", "a.dbf/./"))

    contents = unpacked(packed, tmp_path)

    assert names(contents) == ["a"]
    assert not faults(contents)


def test_what_a_mac_adds_is_passed_over(tmp_path: Path) -> None:
    """Case 31: twins under __MACOSX, twins beside the files and .DS_Store leave one clean layer."""
    twins = {f"__MACOSX/._{name}": MAC_TWIN for name in files("a", LAYER)}
    beside = {"._a.shp": MAC_TWIN, "x/._a.shp": MAC_TWIN, ".DS_Store": b"\0" * 10}

    contents = unpacked(archive(files("a", LAYER), twins, beside), tmp_path)

    assert names(contents) == ["a"]
    assert content(contents.layers[0]) == LAYER
    assert not contents.notices


def test_two_layers_are_two(tmp_path: Path) -> None:
    """Case 33: `a` and `b` in one archive are two layers in folders of their own."""
    other = without(points(5), ".prj", ".cpg")

    contents = unpacked(archive(files("b", other), files("a", LAYER)), tmp_path)

    assert names(contents) == ["a", "b"]
    assert [content(layer) for layer in contents.layers] == [LAYER, other]


def test_decoys_stay_packed(tmp_path: Path) -> None:
    """Case 34: an index, a document and a metadata file are no layers; the last comes along."""
    decoys = {"a.qix": b"junk", "a.sbn": b"", "readme.pdf": b"%PDF", "a.shp.xml": b"<metadata/>"}

    contents = unpacked(archive(files("a", LAYER), decoys), tmp_path)

    assert names(contents) == ["a"]
    assert content(contents.layers[0]) == {**LAYER, ".shp.xml": b"<metadata/>"}


def test_metadata_beyond_bounds_is_left_out_and_said(tmp_path: Path) -> None:
    """Case 34: a .shp.xml larger than any real one is a notice of its layer."""
    large = {"a.shp.xml": bytes(METADATA_LIMIT_BYTES + 1)}

    contents = unpacked(
        archive(files("a", LAYER), large), tmp_path, max_unpacked_bytes=METADATA_LIMIT_BYTES * 2
    )

    assert [notice.code for notice in contents.layers[0].notices] == ["metadata_too_large"]
    assert contents.layers[0].extensions == (".dbf", ".shp", ".shx")


def test_upper_case_is_folded(tmp_path: Path) -> None:
    """Case 35: PARCELS.SHP with Parcels.dbf is the layer `parcels`, under neutral names."""
    spelled = {"PARCELS.SHP": LAYER[".shp"], "Parcels.dbf": LAYER[".dbf"], "parcels.Shx": b"x"}

    [layer] = unpacked(archive(spelled), tmp_path).layers

    assert (layer.name, layer.spelled) == ("parcels", "PARCELS")
    assert sorted(content(layer)) == [".dbf", ".shp", ".shx"]


def test_composed_and_decomposed_names_meet(tmp_path: Path) -> None:
    """Case 35: a Mac's decomposed spelling and a composed one, in stem and folder, are one."""
    spelled = {
        "Mu\u0308nchen/u\u0308ber.shp": LAYER[".shp"],
        "M\u00fcnchen/\u00dcber.dbf": LAYER[".dbf"],
        "M\u00fcnchen/\u00fcber.shx": LAYER[".shx"],
    }

    [layer] = unpacked(archive(spelled), tmp_path).layers

    assert layer.name == "M\u00fcnchen/\u00fcber"
    assert layer.fault is None


def test_names_with_spaces_and_brackets_stay(tmp_path: Path) -> None:
    """Case 36: the name of a layer keeps what its user wrote; the spelling is kept beside it."""
    name = "UNESCO Global [2024] (final)"

    [layer] = unpacked(archive(files(name, LAYER)), tmp_path).layers

    assert (layer.name, layer.spelled) == (name.lower(), name)


def test_dots_in_a_stem_stay(tmp_path: Path) -> None:
    """Case 37: `parcels.v2.shp` is the layer `parcels.v2` and `parcels.v2.shp.xml` its metadata."""
    packed = archive(files("parcels.v2", LAYER), {"parcels.v2.shp.xml": b"<x/>"})

    [layer] = unpacked(packed, tmp_path).layers

    assert layer.name == "parcels.v2"
    assert layer.extensions == (".dbf", ".shp", ".shp.xml", ".shx")


def test_percent_signs_stay(tmp_path: Path) -> None:
    """Case 38: a name is nowhere unquoted."""
    [layer] = unpacked(archive(files("a b+c%20d#1", LAYER)), tmp_path).layers

    assert layer.name == "a b+c%20d#1"


def test_the_same_stem_in_two_folders_is_two_layers(tmp_path: Path) -> None:
    """Case 33: layers of one stem are told apart by their folders, whatever lies beside them."""
    two = unpacked(archive(files("x/a", LAYER), files("y/a", LAYER)), tmp_path)
    (tmp_path / "alone").mkdir()
    one = unpacked(archive(files("y/a", LAYER)), tmp_path / "alone")

    assert names(two) == ["x/a", "y/a"]
    assert names(one) == ["y/a"]


def test_backslashes_part_folders(tmp_path: Path) -> None:
    """Case 32: names that a Windows program wrote with backslashes are paths like others."""
    packed = archive({f"data\\x\\a{ext}": part for ext, part in LAYER.items()})

    [layer] = unpacked(packed, tmp_path).layers

    assert layer.name == "data/x/a"
    assert content(layer) == LAYER


def test_dots_and_doubled_slashes_are_nothing(tmp_path: Path) -> None:
    """Case 32: `./data//a.shp` is `data/a.shp`."""
    packed = archive(files("./data//a", LAYER), folders=("./",))

    assert names(unpacked(packed, tmp_path)) == ["data/a"]


def old_name(raw: bytes) -> bytes:
    """Return an archive whose layer has these bytes for a stem, and no flag for UTF-8."""
    stand_in = "x" * len(raw)
    packed = archive(files(stand_in, LAYER), method=zipfile.ZIP_STORED)
    return packed.replace(stand_in.encode() + b".", raw + b".")


def test_an_old_code_page_is_stable_and_said(tmp_path: Path) -> None:
    """Issue 3: a name in a code page that nothing names is read as cp437, always alike."""
    contents = unpacked(old_name(b"stra\xe1e-\xff"), tmp_path)

    assert names(contents) == ["strasse-\u00a0"]
    assert notices(contents) == {"old_names": 3}
    assert content(contents.layers[0]) == LAYER


def test_utf8_without_its_flag_is_recognised(tmp_path: Path) -> None:
    """Issue 3: a Mac's names are UTF-8 and do not say so; they are read right, and it is said."""
    contents = unpacked(old_name("stra\u00dfe".encode()), tmp_path)

    assert names(contents) == ["strasse"]
    assert contents.layers[0].spelled == "stra\u00dfe"
    assert notices(contents) == {"unflagged_names": 3}


def with_unicode_path(
    raw: bytes,
    path: bytes,
    *,
    kind: int = 0x7075,
    version: int = 1,
    of: bytes | None = None,
    before: bytes = b"",
) -> bytes:
    """Return a layer named `raw` whose entries state `path` as their name in UTF-8.

    The checksum is that of the name `of`.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for extension, content in LAYER.items():
            made = entry("x" * len(raw) + extension)
            checked = (raw if of is None else of) + extension.encode()
            field = struct.pack("<BI", version, zlib.crc32(checked)) + path + extension.encode()
            made.extra = before + struct.pack("<HH", kind, len(field)) + field
            packed.writestr(made, content)
    return stream.getvalue().replace(b"x" * len(raw) + b".", raw + b".")


@pytest.mark.parametrize("raw", [b"gr\x94\xe1e", b"gr__e"])
@pytest.mark.parametrize(
    "before", [b"", struct.pack("<HHI", 0x5455, 4, 7), struct.pack("<HHB", 0x7075, 1, 1)]
)
def test_a_name_that_info_zip_adds_is_believed(raw: bytes, before: bytes, tmp_path: Path) -> None:
    """Issue 3: a name in UTF-8 beside one in an old code page, or beside ASCII, is the name."""
    contents = unpacked(with_unicode_path(raw, "łódź/größe".encode(), before=before), tmp_path)

    assert [layer.spelled for layer in contents.layers] == ["łódź/größe"]
    assert notices(contents) == {}
    assert content(contents.layers[0]) == LAYER


@pytest.mark.parametrize(
    "packed",
    [
        with_unicode_path(b"a", b"b", of=b"c"),
        with_unicode_path(b"a", b"b", kind=0x6375),
        with_unicode_path(b"a", b"b", version=2),
        with_unicode_path(b"a", b"\xff"),
    ],
)
def test_a_name_that_is_not_of_this_entry_is_passed_over(packed: bytes, tmp_path: Path) -> None:
    """Issue 3: of another name, of another version, or no UTF-8: the entry's own name counts."""
    contents = unpacked(packed, tmp_path)

    assert names(contents) == ["a"]


def test_an_added_name_leads_nowhere_either(tmp_path: Path) -> None:
    """Case 65: the name that counts is the one that is looked at."""
    with pytest.raises(UnsafeArchiveError, match=r"leaves the archive"):
        unpacked(with_unicode_path(b"a", b"../a"), tmp_path)


def test_a_flagged_name_needs_no_other(tmp_path: Path) -> None:
    """Issue 3: an entry that says its name is UTF-8 has it there, whatever stands beside it."""
    packed = with_unicode_path(b"a", b"b")
    for extension in LAYER:
        packed = patched(packed, f"a{extension}", FLAGS, 0x800)

    assert names(unpacked(packed, tmp_path)) == ["a"]


def test_an_archive_inside_is_unpacked(tmp_path: Path) -> None:
    """Issue 3: one level of archives inside is read; its layers carry its name."""
    inner = archive(files("Roads", LAYER), files("x/a", LAYER))

    contents = unpacked(archive(files("a", LAYER), {"Data/Inner.ZIP": inner}), tmp_path)

    assert names(contents) == ["Data/inner.zip/roads", "Data/inner.zip/x/a", "a"]
    assert [content(layer) for layer in contents.layers] == [LAYER] * 3
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["layers"]


def test_deeper_archives_are_a_fault_of_their_own(tmp_path: Path) -> None:
    """Issue 3: an archive two levels deep is named, and takes nothing else along."""
    deep = archive(files("deep", LAYER))
    inner = archive({"deep.zip": deep}, files("b", LAYER))

    contents = unpacked(archive({"inner.shz": inner}, files("a", LAYER)), tmp_path)

    assert names(contents) == ["a", "inner.shz/b", "inner.shz/deep.zip"]
    assert faults(contents) == {"inner.shz/deep.zip": "unsupported"}


@pytest.mark.parametrize(
    ("inner", "code"),
    [(b"", "empty_component"), (b"<html>404", "not_an_archive"), (b"PK\x03\x04", "truncated")],
)
def test_a_broken_archive_inside_is_a_fault_of_its_own(
    tmp_path: Path, inner: bytes, code: str
) -> None:
    """Case 33: an archive inside that cannot be opened does not undo the layers beside it."""
    contents = unpacked(archive({"x/inner.zip": inner}, files("a", LAYER)), tmp_path)

    assert faults(contents) == {"x/inner.zip": code}
    assert contents.layers[1].fault
    assert contents.layers[1].fault.where.startswith("in/a.zip/x/inner.zip")


def test_an_archive_inside_without_layers_is_a_notice(tmp_path: Path) -> None:
    """Case 34: documents packed in an archive of their own are no fault."""
    docs = archive({"manual.pdf": b"%PDF"})

    contents = unpacked(archive({"docs.zip": docs}, files("a", LAYER)), tmp_path)

    assert names(contents) == ["a"]
    assert notices(contents) == {"no_layer_inside": 1}


def test_a_table_alone_is_no_layer(tmp_path: Path) -> None:
    """Case 34: a table of codes beside a layer is said and is no broken layer."""
    contents = unpacked(archive(files("a", LAYER), {"codes.dbf": LAYER[".dbf"]}), tmp_path)

    assert names(contents) == ["a"]
    assert notices(contents) == {"lone_table": 1}


@pytest.mark.parametrize("gone", [".shp", ".shx", ".dbf"])
def test_an_incomplete_layer_is_a_layer(tmp_path: Path, gone: str) -> None:
    """Cases 6, 10: what is missing is seen by whoever reads the layer, as with a bundle."""
    [layer] = unpacked(archive(files("a", without(LAYER, gone))), tmp_path).layers

    assert gone not in layer.extensions
    assert len(layer.extensions) == 2


# --- faults of one layer --------------------------------------------------------


def two_layers() -> bytes:
    """Return an archive of `a` and `b`, not compressed."""
    return archive(files("a", LAYER), files("b", LAYER), method=zipfile.ZIP_STORED)


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        (CRC, 1, CorruptError, r"Bad CRC-32"),
        (FLAGS, 0x1, EncryptedError, "is encrypted; .* without a password"),
        (FLAGS, 0x41, EncryptedError, "is encrypted"),
        (METHOD, 99, EncryptedError, "is encrypted"),
        (METHOD, 9, UnsupportedError, "packed with deflate64; pack it with deflate"),
        (METHOD, 12, UnsupportedError, "packed with bzip2"),
        (METHOD, 14, UnsupportedError, "packed with LZMA"),
        (METHOD, 250, UnsupportedError, "packed with method 250"),
        (METHOD, 8, CorruptError, "cannot be unpacked"),
        (FLAGS, 0x20, UnsupportedError, "patched"),
        (FILE_BYTES, 10, CorruptError, "Bad CRC-32"),
        (FILE_BYTES, 9999, CorruptError, "unpacks to"),
    ],
)
def test_a_component_that_cannot_be_unpacked_is_its_layers_fault(
    tmp_path: Path, place: tuple[int, int, str], value: int, error: type[BundleError], message: str
) -> None:
    """Case 33: damage, encryption or an unknown method of one entry leaves the other layer."""
    contents = unpacked(patched(two_layers(), "a.dbf", place, value), tmp_path)

    bad, good = contents.layers
    with pytest.raises(error, match=f"^in/a.zip/a.dbf: .*{message}"):
        raise bad.fault or AssertionError("no fault")
    assert good.fault is None
    assert content(good) == LAYER


def test_a_changed_byte_is_found_by_its_checksum(tmp_path: Path) -> None:
    """Issue 3: the CRC of every component is checked."""
    packed = bytearray(two_layers())
    packed[packed.index(LAYER[".dbf"]) + 40] ^= 1

    assert faults(unpacked(bytes(packed), tmp_path)) == {"a": "corrupt"}


def test_a_file_packed_twice_is_a_fault(tmp_path: Path) -> None:
    """Case 35: two spellings of one component leave it open which is meant."""
    packed = archive(files("a", LAYER), {"A.DBF": LAYER[".dbf"]}, files("b", LAYER))

    contents = unpacked(packed, tmp_path)

    with pytest.raises(CorruptError, match=r"\.dbf is packed 2 times: 'A.DBF', 'a.dbf'"):
        raise contents.layers[0].fault or AssertionError("no fault")
    assert faults(contents) == {"a": "corrupt"}


def test_a_name_that_headers_spell_differently_is_a_fault(tmp_path: Path) -> None:
    """Issue 3: directory and local header have to agree on the name."""
    packed = two_layers().replace(b"a.dbf", b"c.dbf", 1)

    assert faults(unpacked(packed, tmp_path)) == {"a": "corrupt"}


# --- refused whole --------------------------------------------------------------


@pytest.mark.parametrize(
    ("packed", "error"),
    [
        (b"", EmptyComponentError),
        (b"<html><body>404</body></html>", NotAnArchiveError),
        (archive(), NoLayerError),
    ],
)
def test_three_kinds_of_nothing_are_told_apart(
    tmp_path: Path, packed: bytes, error: type[BundleError]
) -> None:
    """Case 11: no bytes, a page, and an archive without entries have a code each."""
    with pytest.raises(error, match=r"^in/a\.zip: "):
        unpacked(packed, tmp_path)


def test_an_archive_without_shapes_has_no_layer(tmp_path: Path) -> None:
    """Case 11: documents and a lone table are no layer."""
    with pytest.raises(NoLayerError):
        unpacked(archive({"readme.pdf": b"%PDF", "codes.dbf": LAYER[".dbf"]}), tmp_path)


def test_a_cut_archive_is_truncated(tmp_path: Path) -> None:
    """Case 11: the beginning of an archive without its directory is told from a page."""
    with pytest.raises(TruncatedError):
        unpacked(two_layers()[:-60], tmp_path)


@pytest.mark.parametrize("place", [46, 12])
def test_a_broken_directory_is_corrupt(tmp_path: Path, place: int) -> None:
    """Issue 3: a directory that is not where or what the archive says is one coded error."""
    packed = bytearray(two_layers())
    end = packed.rindex(b"PK\x05\x06")
    if place == 46:
        packed[packed.index(b"PK\x01\x02")] = 0
    else:
        struct.pack_into("<I", packed, end + place, 0x7FFFFFFF)

    with pytest.raises(CorruptError, match="cannot be unpacked"):
        unpacked(bytes(packed), tmp_path)


def test_names_that_are_no_utf8_are_corrupt(tmp_path: Path) -> None:
    """Issue 3: a name that says it is UTF-8 and is not gives one coded error."""
    packed = patched(two_layers(), "a.dbf", FLAGS, 0x800).replace(b"a.dbf", b"\xff.dbf")

    with pytest.raises(CorruptError, match="UnicodeDecodeError"):
        unpacked(packed, tmp_path)


def test_an_archive_of_a_later_version_is_unsupported(tmp_path: Path) -> None:
    """Issue 3: a version of the format that the reader does not know is named."""
    with pytest.raises(UnsupportedError, match=r"zip file version 9\.9"):
        unpacked(patched(two_layers(), "a.dbf", VERSION, 99), tmp_path)


def everything_below(folder: Path) -> Iterator[Path]:
    """Yield every file of a folder that is not the archive itself."""
    yield from (path for path in folder.rglob("*") if path.is_file() and path.name != "a.zip")


@pytest.mark.parametrize(
    "name",
    [
        "../../x.shp",
        "/etc/x.shp",
        "C:\\x.shp",
        "c:/x.shp",
        "..\\x.shp",
        "a/../../x.shp",
        "\\\\host\\x.shp",
        "__MACOSX/../../x.shp",
        "../readme.pdf",
        "../",
    ],
)
def test_no_entry_leaves_the_archive(tmp_path: Path, name: str) -> None:
    """Case 65: one entry that would leave its folder refuses the archive; nothing is written."""
    with pytest.raises(UnsafeArchiveError, match="leaves the archive"):
        unpacked(archive(files("a", LAYER), {name: b"x"}), tmp_path)
    assert not list(everything_below(tmp_path))


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Case 65: a symbolic link refuses the archive, whatever it leads to."""
    packed = archive(files("a", without(LAYER, ".dbf")), links={"a.dbf": "/etc/passwd"})

    with pytest.raises(UnsafeArchiveError, match="is a link"):
        unpacked(packed, tmp_path)
    assert not list(everything_below(tmp_path))


def test_no_device_is_made(tmp_path: Path) -> None:
    """Case 65: an entry that is no plain file refuses the archive."""
    stream = io.BytesIO(archive(files("a", LAYER)))
    with zipfile.ZipFile(stream, "a") as more:
        device = entry("b.shp")
        device.external_attr = DEVICE << 16
        more.writestr(device, b"")

    with pytest.raises(UnsafeArchiveError, match="a device"):
        unpacked(stream.getvalue(), tmp_path)


def test_an_unsafe_archive_inside_refuses_the_whole(tmp_path: Path) -> None:
    """Case 65: an archive inside is held to the same."""
    inner = archive({"../x.shp": b""})

    with pytest.raises(UnsafeArchiveError, match=r"^in/a.zip/inner.zip: "):
        unpacked(archive({"inner.zip": inner}, files("a", LAYER)), tmp_path)


def test_two_layers_of_one_name_leave_the_others_alone(tmp_path: Path) -> None:
    """Case 33: a folder called like an archive inside must not mix with it, nor stop the rest."""
    packed = archive(
        {"inner.zip": archive(files("a", LAYER))},
        {f"inner.zip/a{extension}": part for extension, part in LAYER.items()},
        files("good", LAYER),
    )

    found = unpacked(packed, tmp_path).layers
    assert [layer.name for layer in found] == ["good", "inner.zip/a", "inner.zip/a"]
    assert [type(layer.fault) for layer in found] == [type(None), CorruptError, CorruptError]
    assert "rename one of them" in str(found[1].fault)


# --- limits ---------------------------------------------------------------------

SIZE = sum(map(len, LAYER.values()))


def test_declared_sizes_are_refused_before_unpacking(tmp_path: Path) -> None:
    """Cases 63, 66: what would not fit is refused from the directory, and nothing is written."""
    with pytest.raises(TooLargeError, match=f"unpacks to {SIZE} bytes, .* MAX_UNPACKED_BYTES"):
        unpacked(archive(files("a", LAYER)), tmp_path, max_unpacked_bytes=SIZE - 1)
    assert not list(everything_below(tmp_path))


def test_exactly_the_limit_is_allowed(tmp_path: Path) -> None:
    """Case 63: the limits are what may be reached."""
    contents = unpacked(
        archive(files("a", LAYER)), tmp_path, max_unpacked_bytes=SIZE, max_entries=3
    )

    assert names(contents) == ["a"]


def test_a_bomb_is_refused_from_its_directory(tmp_path: Path) -> None:
    """Case 66: a small archive that declares 5 GB is refused without unpacking a byte."""
    bomb = archive({"a.shp": bytes(1 << 20)}, {"a.shx": b"", "a.dbf": b""})
    declared = patched(bomb, "a.shp", FILE_BYTES, 0xFFFFFFF0)

    with pytest.raises(TooLargeError, match="unpacks to 4294967280 bytes"):
        unpacked(declared, tmp_path, max_unpacked_bytes=512 << 20)
    assert not list(everything_below(tmp_path))


def test_a_lying_size_gains_nothing(tmp_path: Path) -> None:
    """Case 66: content beyond the declared size is never written."""
    bomb = archive({"a.shp": bytes(1 << 20)}, {"a.shx": b"", "a.dbf": b""})

    contents = unpacked(patched(bomb, "a.shp", FILE_BYTES, 1000), tmp_path)

    assert faults(contents) == {"a": "corrupt"}
    assert sum(path.stat().st_size for path in everything_below(tmp_path)) <= 1000


def test_written_bytes_are_counted(tmp_path: Path) -> None:
    """Case 66: what comes out is counted against the limit, whatever was declared."""
    source = tmp_path / "a.zip"
    source.write_bytes(archive({"a.shp": bytes(3 << 20)}))
    budget = Budget(10, 2 << 20)

    with (
        Zip(source, "a.zip", budget) as packed,
        pytest.raises(TooLargeError, match=r"^a\.zip/a\.shp: "),
    ):
        packed.copy(packed.entries[0], tmp_path / "out", lambda: None)
    assert (tmp_path / "out").stat().st_size <= 2 << 20


def test_what_is_left_packed_is_not_counted(tmp_path: Path) -> None:
    """Case 63: large files that nobody unpacks do not refuse the layer beside them."""
    packed = archive(files("a", LAYER), {"image.tif": bytes(1 << 16)})

    assert names(unpacked(packed, tmp_path, max_unpacked_bytes=SIZE)) == ["a"]


def test_an_archive_inside_shares_the_limits(tmp_path: Path) -> None:
    """Case 66: archives inside unpack within what the outer one has left."""
    inner = archive(files("b", LAYER))
    packed = archive({"inner.zip": inner})

    with pytest.raises(TooLargeError, match=r"^in/a.zip/inner.zip: unpacks to"):
        unpacked(packed, tmp_path, max_unpacked_bytes=len(inner) + SIZE - 1)
    (tmp_path / "more").mkdir()
    assert names(
        unpacked(packed, tmp_path / "more", max_unpacked_bytes=len(inner) + SIZE, max_entries=4)
    ) == ["inner.zip/b"]
    (tmp_path / "less").mkdir()
    with pytest.raises(TooLargeError, match="MAX_ENTRIES"):
        unpacked(packed, tmp_path / "less", max_entries=3)


def test_entries_are_counted(tmp_path: Path) -> None:
    """Case 66: an archive that lists too much is refused, whatever the entries are."""
    packed = archive(files("a", LAYER), {"readme.txt": b""})

    with pytest.raises(TooLargeError, match=r"than the 3 that are allowed; .*MAX_ENT"):
        unpacked(packed, tmp_path, max_entries=3)


def test_a_long_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Case 66: entries with long names cannot fill the memory; the directory is measured first."""
    long = {f"{number}{'x' * 60000}": b"" for number in range(40)}

    with pytest.raises(TooLargeError, match="its directory takes 24"):
        unpacked(archive(files("a", LAYER), long), tmp_path)


def test_too_many_entries_are_never_made_into_objects(tmp_path: Path) -> None:
    """Case 66: the directory is counted before the standard module parses it."""
    packed = archive({f"{number}": b"" for number in range(9000)})
    source = tmp_path / "a.zip"
    source.write_bytes(packed)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            Zip(source, "a.zip", Budget(8999, 1))
        assert tracemalloc.get_traced_memory()[1] < 2_500_000
    finally:
        tracemalloc.stop()


def test_memory_stays_flat_whatever_unpacks(tmp_path: Path) -> None:
    """Cases 63, 66: half a gigabyte of zeros passes through a few megabytes of memory."""
    source = tmp_path / "a.zip"
    with (
        zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("a.shp", "w") as stream,
    ):
        for _ in range(64):
            stream.write(bytes(8 << 20))
    (tmp_path / "work").mkdir()
    tracemalloc.start()
    try:
        Archives(10, 1 << 30)(source, tmp_path / "work", "a.zip", lambda: None)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_every_chunk_is_a_step(tmp_path: Path) -> None:
    """E2: whoever unpacks can keep a lease between chunks, and can stop."""
    steps: list[int] = []
    large = {".shp": bytes(5 << 20), ".shx": b"x", ".dbf": b"x"}

    unpacked(
        archive(files("a", large)),
        tmp_path,
        max_unpacked_bytes=8 << 20,
        step=lambda: steps.append(1),
    )

    assert len(steps) == 7
    (tmp_path / "stopped").mkdir()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpacked(archive(files("a", LAYER)), tmp_path / "stopped", step=stop)


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path: Path) -> None:
    """Issue 3: what the machine refuses is not blamed on the upload."""

    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        unpacked(archive(files("a", LAYER)), tmp_path, step=full)


# --- damage ---------------------------------------------------------------------


def test_no_flipped_byte_is_more_than_an_error(tmp_path: Path) -> None:
    """Issue 3: each byte of an archive, flipped, gives the right layers or a coded error."""
    packed = archive(files("a", LAYER), {"inner.zip": archive(files("b", LAYER))})
    for offset in range(len(packed)):
        damaged = bytearray(packed)
        damaged[offset] ^= 0xFF
        folder = tmp_path / str(offset)
        folder.mkdir()
        try:
            contents = unpacked(bytes(damaged), folder)
        except (BundleError, TooLargeError):
            continue
        for layer in contents.layers:
            if layer.fault is None:
                assert content(layer).items() <= LAYER.items()


def test_no_cut_is_more_than_an_error(tmp_path: Path) -> None:
    """Issue 3: an archive cut at any byte is a coded error, and never a smaller archive."""
    packed = archive(files("a", LAYER))
    for size in range(len(packed)):
        folder = tmp_path / str(size)
        folder.mkdir()
        with pytest.raises((TruncatedError, NotAnArchiveError, EmptyComponentError)):
            unpacked(packed[:size], folder)
