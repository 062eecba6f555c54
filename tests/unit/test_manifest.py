"""The manifest's one decision, in every state and at every boundary."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gate.errors import MixedSpellingsError
from gate.identity import Pin, Revision
from gate.manifest import (
    Dispatch,
    Dispatched,
    Manifest,
    PublishedRevision,
    Settling,
    Waiting,
    decide,
)
from gate.names import PRIMARY_EXTENSIONS, Bundle

BUNDLE = Bundle("uploads", "in/", "roads")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTLE = timedelta(seconds=30)
RESTED, RESTING = NOW - SETTLE, NOW - SETTLE + timedelta(microseconds=1)

WHOLE = {"shp": 1, "shx": 2, "dbf": 3}


def manifest(
    components: dict[str, int], dispatched: dict[str, int] | None = None, updated: object = NOW
) -> Manifest:
    """Return a manifest by extension without dots."""
    assert updated is None or isinstance(updated, datetime)
    known = Manifest(
        BUNDLE,
        {f"in/roads.{key}": value for key, value in components.items()},
        updated_at=updated,
    )
    if dispatched is None:
        return known
    return known.with_dispatched({f".{key}": value for key, value in dispatched.items()})


def verdict(known: Manifest, required: tuple[str, ...] = PRIMARY_EXTENSIONS) -> object:
    """Return what is decided at NOW."""
    return decide(known, NOW, required=required, settle=SETTLE)


def revision(**generations: int) -> Revision:
    """Return a revision by extension without dots."""
    return Revision.of(
        BUNDLE, {f".{key}": Pin(f"in/roads.{key}", value) for key, value in generations.items()}
    )


@pytest.mark.parametrize(
    ("components", "missing"),
    [
        ({}, (".shp", ".shx", ".dbf")),
        ({"shp": 1}, (".shx", ".dbf")),
        ({"dbf": 1, "shx": 1}, (".shp",)),
        ({"prj": 1, "cpg": 1}, (".shp", ".shx", ".dbf")),
        ({"shp.xml": 9, "shx": 1, "dbf": 1}, (".shp",)),
    ],
)
def test_an_incomplete_bundle_waits(components: dict[str, int], missing: tuple[str, ...]) -> None:
    """B7, C1: what is missing is named, in the order of the setting; sidecars do not count."""
    assert verdict(manifest(components)) == Waiting(missing)


@pytest.mark.parametrize("updated", [NOW, RESTED, None])
def test_a_complete_bundle_is_dispatched_at_once(updated: datetime | None) -> None:
    """C1: the first complete version does not wait for the uploads to rest."""
    assert verdict(manifest(WHOLE, updated=updated)) == Dispatch(revision(**WHOLE))


def test_sidecars_are_taken_along() -> None:
    """C9: sidecars that are present are part of the revision."""
    known = manifest({**WHOLE, "prj": 9})
    assert verdict(known) == Dispatch(revision(**WHOLE, prj=9))


@pytest.mark.parametrize("updated", [NOW, RESTED, None])
def test_what_was_dispatched_is_not_dispatched_again(updated: datetime | None) -> None:
    """A1: a manifest with nothing newer than was dispatched calls for nothing, at any time."""
    known = manifest(WHOLE, WHOLE, updated)
    assert verdict(known) == Dispatched(revision(**WHOLE))


@pytest.mark.parametrize("updated", [NOW, RESTED, None])
def test_a_full_re_upload_is_dispatched_at_once(updated: datetime | None) -> None:
    """C7: once every required component is newer, nothing is waited for."""
    newer = {"shp": 11, "shx": 12, "dbf": 13}
    assert verdict(manifest(newer, WHOLE, updated)) == Dispatch(revision(**newer))


@pytest.mark.parametrize(
    "newer",
    [
        {"dbf": 13},
        {"shp": 11, "shx": 12},
        {"prj": 9},
        {"prj": 9, "dbf": 13},
    ],
)
def test_a_partly_replaced_bundle_settles(newer: dict[str, int]) -> None:
    """C7, C8, C9: it is due exactly when the uploads have rested, and not a moment before."""
    target = revision(**{**WHOLE, **newer})
    assert verdict(manifest({**WHOLE, **newer}, WHOLE)) == Settling(target, NOW + SETTLE)
    resting = verdict(manifest({**WHOLE, **newer}, WHOLE, RESTING))
    assert resting == Settling(target, RESTING + SETTLE)
    assert verdict(manifest({**WHOLE, **newer}, WHOLE, RESTED)) == Dispatch(target)


def test_a_manifest_without_a_time_settles_from_now() -> None:
    """C8: where no time of a change is known, the rest is counted from now."""
    known = manifest({**WHOLE, "prj": 9}, WHOLE, None)
    assert verdict(known) == Settling(revision(**WHOLE, prj=9), NOW + SETTLE)


def test_required_extensions_are_a_setting() -> None:
    """B7: only the required extensions are waited for."""
    known = manifest({"shp": 1})
    assert verdict(known, (".shp",)) == Dispatch(revision(shp=1))
    assert verdict(known, (".shp", ".prj")) == Waiting((".prj",))


def test_an_archive_needs_only_itself() -> None:
    """C1: an archive is complete by itself, and each upload of it is a full one."""
    bundle = Bundle("uploads", "in/", "roads", ".zip")
    pin = Pin("in/roads.zip", 5)
    known = Manifest(bundle).joined([pin])
    whole = Revision.of(bundle, {".zip": pin})
    assert verdict(known) == Dispatch(whole)
    assert verdict(known.with_dispatched({".zip": 5})) == Dispatched(whole)
    again = known.with_dispatched({".zip": 5}).joined([Pin("in/roads.zip", 6)])
    assert isinstance(verdict(again), Dispatch)
    assert verdict(Manifest(bundle)) == Waiting((".zip",))


@pytest.mark.parametrize(
    ("components", "newest"),
    [
        ({"in/roads.shp": 1, "in/ROADS.SHP": 2}, Pin("in/ROADS.SHP", 2)),
        ({"in/roads.shp": 2, "in/ROADS.SHP": 1}, Pin("in/roads.shp", 2)),
        ({"in/roads.shp": 2, "in/ROADS.SHP": 2}, Pin("in/roads.shp", 2)),
        ({"in/ROADS.SHP": 2, "in/roads.shp": 2}, Pin("in/roads.shp", 2)),
    ],
)
def test_spellings_compete_by_generation_then_name(components: dict[str, int], newest: Pin) -> None:
    """B6: of two spellings of one component the newer counts; a tie is broken by the name."""
    known = Manifest(BUNDLE, components)
    assert known.current() == {".shp": newest}
    assert known.seen == (".shp",)


def test_joining_keeps_the_greater_generation() -> None:
    """C2: a join adds what is new, raises what is older, and leaves what is newer."""
    known = manifest({"shp": 5, "dbf": 5})
    pins = [Pin("in/roads.shp", 4), Pin("in/roads.dbf", 6), Pin("in/roads.shx", 1)]
    joined = known.joined(pins)
    assert joined.components == {"in/roads.shp": 5, "in/roads.dbf": 6, "in/roads.shx": 1}
    assert known.components == {"in/roads.shp": 5, "in/roads.dbf": 5}
    assert joined.updated_at == known.updated_at


def test_marks_of_dispatch_only_grow() -> None:
    """C2: marking an older revision as dispatched takes nothing back."""
    known = manifest(WHOLE, {"shp": 5, "dbf": 1})
    marked = known.with_dispatched({".shp": 4, ".dbf": 2, ".shx": 1})
    assert marked.dispatched == {".shp": 5, ".dbf": 2, ".shx": 1}
    assert marked.dispatched_order == 7
    assert known.with_dispatched({".shp": 4}).dispatched_order == 6
    assert Manifest(BUNDLE).dispatched_order == 0


@pytest.mark.parametrize("updated", [NOW, RESTED, None])
def test_the_join_of_two_dispatched_revisions_is_dispatched_too(updated: datetime | None) -> None:
    """C9: two revisions, neither with all of the other's sidecars, call for the one with both."""
    known = manifest({**WHOLE, "prj": 8, "cpg": 9}, {**WHOLE, "prj": 8}, updated)
    both = known.with_dispatched(revision(**WHOLE, cpg=9).generations)
    joined = revision(**WHOLE, prj=8, cpg=9)
    assert both.dispatched == joined.generations
    assert verdict(both) == Dispatch(joined)
    assert verdict(both.with_dispatched(joined.generations)) == Dispatched(joined)


def test_what_is_published_decides_nothing() -> None:
    """C6: the note of what the sink holds is for people; the decision does not look at it."""
    note = PublishedRevision("x", 99, "memory:in/roads")
    known = Manifest(BUNDLE, manifest(WHOLE).components, published=note)
    assert isinstance(verdict(known), Dispatch)


def spelt(*names: str) -> Manifest:
    """Return a manifest of these objects, each newer than the one before."""
    pins = [Pin(f"in/{name}", number) for number, name in enumerate(names, start=1)]
    return Manifest(BUNDLE).joined(pins)


@pytest.mark.parametrize(
    ("names", "mixed"),
    [
        ("roads.shp roads.shx roads.dbf", False),
        ("Roads.shp roads.shx ROADS.DBF", False),
        ("roads.shp roads.shx roads.dbf ROADS.prj", False),
        ("roads.shp roads.shx roads.dbf ROADS.SHP ROADS.SHX ROADS.DBF", False),
        ("roads.shp roads.shx roads.dbf ROADS.DBF", True),
        ("ROADS.DBF Roads.shp roads.shp roads.shx roads.dbf Roads.shx Roads.dbf", True),
    ],
)
def test_a_newer_file_of_another_spelling_beside_a_whole_one_is_a_mixture(
    names: str, mixed: bool
) -> None:
    """B6: spellings may meet in a bundle, but two bundles that differ in case must not."""
    known = spelt(*names.split())
    taken = Revision.of(BUNDLE, known.current())
    assert known.mixes(taken, PRIMARY_EXTENSIONS) is mixed


def test_normal_forms_are_one_spelling() -> None:
    """B5: the same name from a Mac and from elsewhere is no mixture."""
    composed, decomposed = "\u00fcber", "u\u0308ber"
    known = spelt(*(f"{composed}{ext}" for ext in PRIMARY_EXTENSIONS), f"{decomposed}.dbf")
    assert not known.mixes(Revision.of(BUNDLE, known.current()), PRIMARY_EXTENSIONS)


def test_spellings_that_differ_in_their_last_letter_are_two() -> None:
    """B6: `roadS.dbf` beside a whole `roads` is another spelling, however late that shows."""
    components = {"in/roads.shp": 1, "in/roads.shx": 2, "in/roads.dbf": 3, "in/roadS.dbf": 4}
    known = Manifest(BUNDLE, components)
    assert known.mixes(Revision.of(BUNDLE, known.current()), PRIMARY_EXTENSIONS)


def test_a_mixture_is_refused_with_the_files_that_were_taken() -> None:
    """B6: the error names the bundle and every file, as spelt, so that a person sees which meet."""
    known = spelt("roads.shp", "roads.shx", "roads.dbf", "ROADS.DBF")
    with pytest.raises(MixedSpellingsError) as refused:
        known.demand_one_spelling(Revision.of(BUNDLE, known.current()), PRIMARY_EXTENSIONS)
    assert refused.value.where == "gs://uploads/in/roads"
    assert str(refused.value).startswith(
        "gs://uploads/in/roads: its files are spelt in ways of which one is whole by itself: "
        "in/ROADS.DBF, in/roads.shp, in/roads.shx; "
    )
