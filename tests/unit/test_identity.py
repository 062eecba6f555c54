"""Ids: fixed by value, so that no version of the code can move a document."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest

from gate.identity import Pin, Revision, bundle_id, digest, is_id, job_id
from gate.names import Bundle

ROADS = Bundle("uploads", "in/", "roads")
PINS = {".shp": Pin("in/Roads.shp", 30), ".dbf": Pin("in/roads.dbf", 10), ".shx": Pin("x", 20)}


def md5(text: str) -> str:
    """Return the digest by the shortest way there is."""
    return hashlib.md5(text.encode()).hexdigest()


def test_ids_are_these_very_digests() -> None:
    """B5: the ids of a known object, bundle and revision are the literal ones they always were."""
    assert job_id("uploads", "in/roads.shp", 1700000000000001) == "995f93e3702ce488e8b2492cb8f3cb7c"
    assert bundle_id(ROADS) == "a0e28aee73c94d0db63537bc53abe820"
    assert Revision.of(ROADS, PINS).id == "564594588fb24d2a014fe3c870e0b552"


def test_ids_are_md5_over_lines() -> None:
    """B5: each id is the md5 of its lines joined by a newline, with none at the end."""
    assert digest("a", "b") == md5("a\nb")
    assert digest() == md5("")
    assert job_id("uploads", "in/roads.shp", 7) == md5("uploads\nin/roads.shp\n7")
    assert bundle_id(ROADS) == md5("uploads\nin/roads")
    revision = md5("uploads\nin/roads") + "\n.dbf=10\n.shp=30\n.shx=20"
    assert Revision.of(ROADS, PINS).id == md5(revision)


@pytest.mark.parametrize(
    "name",
    ["a%20b+c.shp", "in/a b.shp", "in/\N{ROCKET}.shp", "x" * 1020 + ".shp", "in/a/b/c.shp"],
)
def test_ids_are_valid_document_ids(name: str) -> None:
    """B5, case 50: whatever the name, an id is 32 hex digits and so holds no slash."""
    identifier = job_id("uploads", name, 2**63 - 1)
    assert len(identifier) == 32
    assert set(identifier) <= set("0123456789abcdef")


def test_names_are_not_unquoted() -> None:
    """B5, case 38: escaped and plain spellings are different objects."""
    spellings = ("a b.shp", "a%20b.shp", "a+b.shp", "a%2520b.shp")
    assert len({job_id("uploads", name, 1) for name in spellings}) == 4


def test_normal_form_twins_have_ids_of_their_own() -> None:
    """B5: NFC and NFD twins are two objects, and have two job ids."""
    twins = [unicodedata.normalize(form, "\u00fc.shp") for form in ("NFC", "NFD")]
    assert len({job_id("uploads", name, 1) for name in twins}) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b/c", 1), ("a/b", "c", 1)),
        (("a", "b1", 1), ("a", "b", 11)),
        (("a", "b", 1), ("a", "b", 2)),
        (("ab", "c", 1), ("a", "bc", 1)),
    ],
)
def test_lines_cannot_be_confused(one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    """B5: text that moves across a boundary gives another id."""
    assert job_id(*one) != job_id(*other)


def test_an_archive_never_meets_a_stem_of_its_name() -> None:
    """B6: `a.zip` and the bundle of `a.zip.shp` share a basename and no id."""
    archive, stem = Bundle("uploads", "in/", "a", ".zip"), Bundle("uploads", "in/", "a.zip")
    assert archive.basename == stem.basename
    assert bundle_id(archive) != bundle_id(stem)
    assert bundle_id(archive) == md5("uploads\nin/a\n.zip")
    assert bundle_id(archive) != bundle_id(Bundle("uploads", "in/", "a", ".shz"))


def test_bundles_of_two_folders_or_buckets_differ() -> None:
    """B6: the folder and the bucket are part of a bundle's id."""
    bundles = [
        Bundle(*where, "roads") for where in (("u", "a/"), ("u", "b/"), ("v", "a/"), ("u", ""))
    ]
    assert len({bundle_id(bundle) for bundle in bundles}) == 4


def test_a_revision_does_not_depend_on_the_order_of_its_pins() -> None:
    """C1: pins given in any order make an equal revision with one id."""
    backwards = dict(reversed(PINS.items()))
    assert Revision.of(ROADS, PINS) == Revision.of(ROADS, backwards)
    assert Revision.of(ROADS, PINS).pins[0][0] == ".dbf"


def test_the_order_is_the_sum_of_generations() -> None:
    """C6: the order is an exact integer, also where a float would round."""
    assert Revision.of(ROADS, PINS).order == 60
    huge = {part: Pin(part, 2**62 + 1) for part in PINS}
    assert Revision.of(ROADS, huge).order == 3 * (2**62 + 1)
    assert Revision.of(ROADS, {}).order == 0


def test_a_revision_is_its_generations_and_not_its_spellings() -> None:
    """C1: the id follows the generations; which spelling carries them makes no other revision."""
    renamed = {**PINS, ".shp": Pin("in/ROADS.SHP", 30)}
    newer = {**PINS, ".shp": Pin("in/Roads.shp", 31)}
    more = {**PINS, ".prj": Pin("in/roads.prj", 1)}
    identifiers = [Revision.of(ROADS, pins).id for pins in (PINS, renamed, newer, more)]
    assert identifiers[0] == identifiers[1]
    assert len(set(identifiers)) == 3
    assert Revision.of(ROADS, PINS).generations == {".dbf": 10, ".shp": 30, ".shx": 20}


@pytest.mark.parametrize("wrong", ["", "a" * 31, "a" * 33, "A" * 32, "a/" * 16, "a" * 32 + "\n"])
def test_only_what_has_the_form_of_an_id_is_one(wrong: str) -> None:
    """Every id has 32 lower-case hex digits; no other text is taken for one."""
    assert is_id(bundle_id(ROADS))
    assert not is_id(wrong)
