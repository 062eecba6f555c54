"""Names: which component of which bundle an object is, or why it is none."""

from __future__ import annotations

import unicodedata

import pytest

from gate.names import (
    ARCHIVE_EXTENSIONS,
    KNOWN_EXTENSIONS,
    SIDECAR_EXTENSIONS,
    Bundle,
    Component,
    Reason,
    extension_of,
    fold,
    named,
    parse,
)

UBER_NFC, UBER_NFD = (unicodedata.normalize(form, "\u00fcber") for form in ("NFC", "NFD"))

# name → (folder, stem, extension)
COMPONENTS = {
    "roads.shp": ("", "roads", ".shp"),
    "in/roads.shp": ("in/", "roads", ".shp"),
    "in/roads.shp.xml": ("in/", "roads", ".shp.xml"),
    "in/ROADS.SHP.XML": ("in/", "roads", ".shp.xml"),
    "in/parcels.v2.shp": ("in/", "parcels.v2", ".shp"),
    "in/parcels.v2.shp.xml": ("in/", "parcels.v2", ".shp.xml"),
    "in/parcels.shp.shp": ("in/", "parcels.shp", ".shp"),
    "in/parcels.shp.shp.xml": ("in/", "parcels.shp", ".shp.xml"),
    "in/roads.zip.shp": ("in/", "roads.zip", ".shp"),
    "in/a..shp": ("in/", "a.", ".shp"),
    "In/Roads.DbF": ("In/", "roads", ".dbf"),
    "in//roads.shp": ("in//", "roads", ".shp"),
    "/in/roads.shp": ("/in/", "roads", ".shp"),
    "in/a b+c%20d#1.shp": ("in/", "a b+c%20d#1", ".shp"),
    "in/a%2Fb.shp": ("in/", "a%2fb", ".shp"),
    "in/[2024] (final).prj": ("in/", "[2024] (final)", ".prj"),
    "in/\N{ROCKET}.cpg": ("in/", "\N{ROCKET}", ".cpg"),
    "in/Stra\u00dfe.shp": ("in/", "strasse", ".shp"),
    "in/\u0130zmir.shp": ("in/", "i\u0307zmir", ".shp"),
    f"in/{UBER_NFC}.shp": ("in/", UBER_NFC, ".shp"),
    f"in/{UBER_NFD}.shp": ("in/", UBER_NFC, ".shp"),
    f"{UBER_NFD}/roads.shp": (f"{UBER_NFD}/", "roads", ".shp"),
    "MACOSX/roads.shp": ("MACOSX/", "roads", ".shp"),
    "in/my__MACOSX/roads.shp": ("in/my__MACOSX/", "roads", ".shp"),
    "in/_.roads.shp": ("in/", "_.roads", ".shp"),
    "in/gcloud/tmp/parallel_composite_uploads/roads.shp": (
        "in/gcloud/tmp/parallel_composite_uploads/",
        "roads",
        ".shp",
    ),
}

NO_COMPONENTS = {
    "B1": ("a/b/", Reason.PLACEHOLDER),
    "B1 with an extension": ("in/roads.shp/", Reason.PLACEHOLDER),
    "B1 root": ("/", Reason.PLACEHOLDER),
    "B2": ("gcloud/tmp/parallel_composite_uploads/x/roads.shp", Reason.TEMPORARY),
    "B2 slash": ("/gcloud/tmp/parallel_composite_uploads/x/roads.shp", Reason.TEMPORARY),
    "B3": ("in/tmp/9b1f2c7e", Reason.EXTENSION),
    "B4": ("gsutil/tmp/parallel_composite_uploads/x/roads.shp", Reason.TEMPORARY),
    "B4 slash": ("/gsutil/tmp/parallel_composite_uploads/x/roads.dbf", Reason.TEMPORARY),
    "B7 twin": ("in/._roads.shp", Reason.DECOY),
    "B7 twin at the root": ("._roads.shp", Reason.DECOY),
    "B7 archive folder": ("__MACOSX/roads.shp", Reason.DECOY),
    "B7 archive folder below": ("in/__MACOSX/x/roads.shp", Reason.DECOY),
    "B7 lock": ("in/roads.shp.lock", Reason.EXTENSION),
    "B7 tar": ("in/roads.tar.gz", Reason.EXTENSION),
    "B7 store": ("in/.DS_Store", Reason.EXTENSION),
    "B7 xml": ("in/roads.xml", Reason.EXTENSION),
    "no stem": ("in/.shp", Reason.EXTENSION),
    "no stem, sidecar": ("in/.shp.xml", Reason.EXTENSION),
    "no dot": ("in/shp", Reason.EXTENSION),
    "no extension": ("in/roads", Reason.EXTENSION),
    "space after": ("in/roads.shp ", Reason.EXTENSION),
    "empty": ("", Reason.EXTENSION),
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_belongs_to_one_bundle(name: str) -> None:
    """B5, B6, B7, case 37: folder as it is, stem folded, the longest known extension cut off."""
    folder, stem, extension = COMPONENTS[name]
    assert parse("uploads", name) == Component(Bundle("uploads", folder, stem), name, extension)


@pytest.mark.parametrize(("name", "reason"), NO_COMPONENTS.values(), ids=NO_COMPONENTS)
def test_everything_else_has_a_reason(name: str, reason: Reason) -> None:
    """B1, B2, B3, B4, B7, case 39: what is no component is told apart by rule."""
    assert parse("uploads", name) is reason


@pytest.mark.parametrize("extension", KNOWN_EXTENSIONS)
@pytest.mark.parametrize("spell", [str.lower, str.upper], ids=["lower", "upper"])
def test_every_known_extension_in_either_case(extension: str, spell: type[str]) -> None:
    """B6, case 35: each known extension is recognised in small and in capital letters."""
    name = f"in/roads{spell(extension)}"
    component = parse("uploads", name)
    assert isinstance(component, Component)
    assert component.extension == extension
    assert component.bundle.stem == "roads"
    assert component.sibling_start == "roads."
    assert extension_of(name) == extension


def test_sidecars_are_the_documented_ones() -> None:
    """B7: the sidecars are the sixteen that the design lists, and no archive is among them."""
    indexes = {".sbn", ".sbx", ".qix", ".fix", ".ain", ".aih", ".atx", ".ixs", ".mxs"}
    others = {".prj", ".cpg", ".cst", ".qpj", ".fbn", ".fbx", ".shp.xml"}
    assert set(SIDECAR_EXTENSIONS) == indexes | others
    assert len(SIDECAR_EXTENSIONS) == 16
    assert ARCHIVE_EXTENSIONS == (".zip", ".shz")


@pytest.mark.parametrize("archive", ARCHIVE_EXTENSIONS)
def test_an_archive_is_a_bundle_by_itself(archive: str) -> None:
    """B6: an archive and the shapefile of the same stem are two bundles with two basenames."""
    packed = parse("uploads", f"in/Roads{archive}")
    loose = parse("uploads", "in/Roads.shp")
    assert isinstance(packed, Component)
    assert isinstance(loose, Component)
    assert packed.bundle == Bundle("uploads", "in/", "roads", archive)
    assert packed.bundle.basename == f"in/roads{archive}"
    assert loose.bundle.basename == "in/roads"
    assert str(packed.bundle) == f"gs://uploads/in/roads{archive}"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("in/Roads.shp", "Roads"),
        ("in/ROADS.SHP.XML", "ROADS"),
        ("in/Parcels.V2.dbf", "Parcels.V2"),
        (f"in/{UBER_NFD}.prj", UBER_NFD),
        ("Stra\u00dfe.shp", "Stra\u00dfe"),
    ],
)
def test_a_component_knows_how_its_stem_is_spelled(name: str, stem: str) -> None:
    """B6: a listing asks for the stem as the object spells it, not as it is folded."""
    component = parse("uploads", name)
    assert isinstance(component, Component)
    assert component.sibling_start == f"{stem}."


def test_spellings_meet_and_folders_do_not() -> None:
    """B5, B6: case and normal form make no other bundle; a folder or a bucket does."""
    same = {
        parse("uploads", name).bundle  # type: ignore[union-attr]
        for name in (f"in/{UBER_NFC}.shp", f"in/{UBER_NFD}.dbf", f"in/{UBER_NFD.upper()}.SHX")
    }
    assert len(same) == 1
    others = {
        parse(bucket, name).bundle  # type: ignore[union-attr]
        for bucket, name in (
            ("uploads", "a/roads.shp"),
            ("uploads", "b/roads.shp"),
            ("uploads", "A/roads.shp"),
            ("uploads", "roads.shp"),
            ("other", "a/roads.shp"),
        )
    }
    assert len(others) == 5


@pytest.mark.parametrize("text", ["\u1fb3", "\u0345\u0301", "\u1e9e", "\u0390", UBER_NFD, "\ufb03"])
def test_folding_twice_is_folding_once(text: str) -> None:
    """B5: a folded text is its own folding, also where folding undoes the normal form."""
    assert fold(fold(text)) == fold(text)
    assert unicodedata.is_normalized("NFC", fold(text))
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("in/roads.shp", Component),
        ("in/deep/roads.shp", Component),
        ("out/roads.shp", Reason.PREFIX),
        ("IN/roads.shp", Reason.PREFIX),
        ("in", Reason.PREFIX),
        ("roads.shp", Reason.PREFIX),
    ],
)
def test_only_the_source_prefix_counts(name: str, expected: object) -> None:
    """B8: with a source prefix set, everything outside it is ignored."""
    found = parse("uploads", name, source_prefix="in/")
    assert found is expected or type(found) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("out/roads.shp", Reason.OUTPUT),
        ("out/reports/x.json", Reason.OUTPUT),
        ("outer/roads.shp", Component),
        ("in/out/roads.shp", Component),
    ],
)
def test_the_output_is_ignored(name: str, expected: object) -> None:
    """B8, case 43: what lies under the output prefix is ignored, whatever it is called."""
    found = parse("uploads", name, output_prefix="out/")
    assert found is expected or type(found) is expected


def test_an_output_over_the_whole_bucket_ignores_it_all() -> None:
    """B8: an empty output prefix covers every name; none at all covers nothing."""
    assert parse("uploads", "in/roads.shp", output_prefix="") is Reason.OUTPUT
    assert isinstance(parse("uploads", "in/roads.shp", output_prefix=None), Component)


def test_output_inside_the_source_prefix_is_still_ignored() -> None:
    """B8: the output prefix wins over the source prefix that holds it."""
    found = parse("uploads", "in/out/roads.shp", source_prefix="in/", output_prefix="in/out/")
    assert found is Reason.OUTPUT


@pytest.mark.parametrize(
    ("name", "folder", "stem", "archive"),
    [
        ("in/Roads.SHP", "in/", "roads", ""),
        ("in/Roads", "in/", "roads", ""),
        ("Roads.v2", "", "roads.v2", ""),
        ("in/parts.zip", "in/", "parts", ".zip"),
    ],
)
def test_a_bundle_is_named_by_a_component_or_by_itself(
    name: str, folder: str, stem: str, archive: str
) -> None:
    """B5: a person may give the name of any object of a bundle, or the bundle's own."""
    assert named("uploads", name) == Bundle("uploads", folder, stem, archive)
