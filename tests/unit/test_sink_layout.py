"""The names a sink writes under, and which of them it may remove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.names import Bundle
from gate.sinks.layout import Attempt, folder, removable
from tests.layers import revision

BUNDLE_PARTS = st.text(
    st.one_of(st.sampled_from("./%~_ aé\U0001f5fa"), st.characters(exclude_categories=["Cs"])),
    max_size=400,
)


def attempt(order: int, fence: int = 1, token: str = "a1", revision_id: str = "0" * 32) -> Attempt:
    """Return an attempt at a revision of this order."""
    return Attempt(order, revision_id, fence, token)


def test_an_ordinary_bundle_keeps_its_name() -> None:
    """Case 36: spaces, brackets and per cent signs are the user's and stay."""
    bundle = Bundle("uploads", "in/2024 [final]/", "a%20b+c")

    assert folder("out/", bundle) == "out/in/2024 [final]/a%20b+c/"


def test_a_dotted_segment_is_spelt_out() -> None:
    """Case 65: no tool that resolves dots can be led out of the prefix."""
    name = folder("out/", Bundle("uploads", "../../etc/", "roads"))

    assert name.startswith("out/_.._/_.._/etc/roads~")


def test_spelt_out_names_do_not_meet_written_ones() -> None:
    """A folder that is really called like the spelling belongs to another bundle."""
    spelt = folder("out/", Bundle("uploads", "../", "roads"))
    written = folder("out/", Bundle("uploads", "_.._/", "roads"))

    assert spelt != written


@given(BUNDLE_PARTS, BUNDLE_PARTS)
def test_every_bundle_stays_below_the_prefix(path: str, stem: str) -> None:
    """Cases 36, 38, 65, B5: whatever a bundle is called, its objects have legal names below it."""
    bundle = Bundle("uploads", f"{path}/" if path else "", stem or "x")
    place = folder("out/", bundle)
    longest = place + attempt(10**21, fence=10**6, token="0" * 8).report

    assert place.startswith("out/")
    assert place.endswith("/")
    assert not {"", ".", ".."} & set(place.removesuffix("/").split("/"))
    assert len(longest.encode()) <= 1024


@given(BUNDLE_PARTS, BUNDLE_PARTS)
def test_two_bundles_never_share_a_folder(one: str, two: str) -> None:
    """Long and dotted names are told apart by the bundle's id."""
    bundles = {Bundle("uploads", "", f"{stem}x" * 2) for stem in (one, two)}

    assert len({folder("out/", bundle) for bundle in bundles}) == len(bundles)


def test_long_names_are_cut_at_a_character() -> None:
    """B5: a name of 1024 bytes is cut between characters and keeps its bundle's id."""
    bundles = [Bundle("uploads", "", "é" * 505 + end) for end in ("a", "b")]
    places = [folder("out/", bundle) for bundle in bundles]

    assert places[0] != places[1]
    assert all(set(place.split("~")[0]) == set("out/é") for place in places)


@pytest.mark.parametrize("length", [850, 890, 900, 1000])
@pytest.mark.parametrize("layer", ["", "inner"])
@pytest.mark.parametrize("segment", ["x", "./"])
def test_long_names_leave_room_for_what_a_sink_writes(
    segment: str, layer: str, length: int
) -> None:
    """B5: with its id, a cut name and the longest of its objects are a name the bucket takes."""
    bundle = Bundle("uploads", "", (segment * length)[: length - 4] + "last")
    place = folder("out/", bundle, layer)
    longest = Attempt(2**63, "f" * 32, 10**6, "f" * 32).rejects

    assert len(f"{place}{longest}".encode()) <= 1024
    assert len(place.encode()) <= 1024 - 128 + 1


def test_names_sort_as_orders_do() -> None:
    """Design 2: 9 sorts before 10, and a sum beyond 64 bits after both."""
    names = [attempt(order).dataset for order in (9, 10, 2**53, 30 * 2**63)]

    assert names == sorted(names)


def test_an_attempt_is_that_of_its_revision() -> None:
    """Order, revision and fence stand in the name, in this order."""
    of = revision(shp=3, dbf=4)

    assert Attempt.of(of, 5, "c3").dataset == f"{'7':0>22}-{of.id}-5-c3.parquet"
    assert Attempt.of(of, 5, "c3").report == f"{'7':0>22}-{of.id}-5-c3.report.json"


def test_lesser_orders_are_removable() -> None:
    """What an attempt has superseded goes, dataset and report; anything newer stays."""
    older, newer = attempt(9), attempt(11)

    found = removable(
        [older.dataset, older.report, newer.dataset, newer.report], attempt(10), kept=()
    )

    assert found == [older.dataset, older.report]


def test_kept_datasets_stay_with_their_reports() -> None:
    """What the pointer still promises is not removed."""
    older = attempt(9)

    assert not removable([older.dataset, older.report], attempt(10), kept=[older.dataset])


def test_other_attempts_at_the_revision_are_removable_up_to_the_fence() -> None:
    """Lower and equal fences have lost; a higher one may be at work and removes its own."""
    lower, equal, higher = (attempt(10, fence, "b2") for fence in (1, 2, 3))
    mine = attempt(10, 2)

    names = [it.dataset for it in (lower, equal, higher, mine)]

    assert removable(names, mine, kept=()) == [lower.dataset, equal.dataset]


def test_fences_are_compared_as_numbers() -> None:
    """Fence 9 has lost to fence 10, and fence 10 not to 9."""
    nine, ten = attempt(10, 9, "b2"), attempt(10, 10)

    assert removable([nine.dataset], ten, kept=()) == [nine.dataset]
    assert not removable([ten.dataset], nine, kept=())


def test_another_revision_of_the_same_order_stays() -> None:
    """A tie is not ordered, so neither may remove the other."""
    other = attempt(10, revision_id="1" * 32)

    assert not removable([other.dataset], attempt(10), kept=())


def test_what_no_sink_wrote_is_never_removed() -> None:
    """The pointer and whatever a user puts there stay."""
    name = attempt(9).dataset
    foreign = ["latest.json", "notes.parquet", f"x{name}", f"{name}.bak", name.upper(), f"a/{name}"]

    assert not removable(foreign, attempt(10), kept=())


@given(BUNDLE_PARTS, BUNDLE_PARTS)
def test_every_layer_stays_below_the_prefix(stem: str, layer: str) -> None:
    """Cases 36, 65: whatever a layer is called, its objects have legal names below the prefix."""
    bundle = Bundle("uploads", "in/", stem or "x", ".zip")
    place = folder("out/", bundle, layer or "x")
    longest = place + attempt(10**21, fence=10**6, token="0" * 8).report

    assert place.startswith("out/")
    assert not {"", ".", ".."} & set(place.removesuffix("/").split("/"))
    assert not any(character in place for character in "\r\n\0")
    assert len(longest.encode()) <= 1024
    assert place != folder("out/", bundle)


def test_the_layers_of_an_archive_lie_below_it() -> None:
    """Issue 3: `<basename>/<layer>/`, with the names as they are."""
    bundle = Bundle("uploads", "in/", "a b", ".zip")

    assert folder("out/", bundle) == "out/in/a b.zip/"
    assert folder("out/", bundle, "data/x [1]") == "out/in/a b.zip/data/x [1]/"


def test_long_layers_of_one_archive_do_not_meet() -> None:
    """B5: names that are cut are told apart by what they were."""
    bundle = Bundle("uploads", "in/", "a", ".zip")
    places = {folder("out/", bundle, "é" * 1000 + end) for end in ("a", "b")}

    assert len(places) == 2


def test_what_is_called_like_an_archive_keeps_out_of_its_layers() -> None:
    """Design 2: no other bundle gets the folder of an archive or of one of its layers."""
    bundle = Bundle("uploads", "in/", "a", ".zip")
    own = {folder("out/", bundle, layer) for layer in ("", "b", "c.zip/d", "x.shz/c.zip/d")}
    others = [
        folder("out/", Bundle("uploads", "in/a.zip/", "b")),
        folder("out/", Bundle("uploads", "in/", "a.zip")),
        folder("out/", Bundle("uploads", "in/a.zip/", "c", ".zip"), "d"),
        folder("out/", Bundle("uploads", "in/a.zip/x.shz/", "c", ".zip"), "d"),
    ]

    assert own.isdisjoint(others)
    assert len(own) == len(set(others)) == 4


def test_metadata_goes_with_its_dataset() -> None:
    """Case 34: what is stored beside a report is removed with it, and kept with it."""
    older = attempt(9)

    assert removable([older.metadata], attempt(10), kept=()) == [older.metadata]
    assert not removable([older.metadata], attempt(10), kept=[older.dataset])


def test_rejected_rows_go_with_their_dataset() -> None:
    """Case 51: the list of rejected rows is removed with its dataset, and kept with it."""
    older = attempt(9)

    assert removable([older.rejects], attempt(10), kept=()) == [older.rejects]
    assert not removable([older.rejects], attempt(10), kept=[older.dataset])
