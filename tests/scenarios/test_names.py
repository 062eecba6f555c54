"""Scenarios B: names that look like components and are none, and odd names that are."""

from __future__ import annotations

import unicodedata
from itertools import count

import pytest

from gate.errors import ConfigurationError
from gate.events import ObjectFinalized
from gate.intake import Outcome
from gate.job import State
from tests.world import BUCKET, Answer, World, expected

PARTS_FOLDER = "tmp/parallel_composite_uploads/see_gcloud_storage_cp_help_for_details"
IGNORED = {
    "B1 folder": ("a/b/", "ignored_placeholder"),
    "B2 gcloud part": (f"gcloud/{PARTS_FOLDER}/in/roads.shp_1", "ignored_temp"),
    "B3 own prefix": ("in/roads.shp_parts/0f3c9", "ignored_extension"),
    "B4 gsutil part": (
        "gsutil/tmp/parallel_composite_uploads/for_details/roads.shp_0",
        "ignored_temp",
    ),
    "B4 gsutil part with a slash": (
        "/gsutil/tmp/parallel_composite_uploads/for_details/roads.shp",
        "ignored_temp",
    ),
    "B7 twin": ("in/._roads.shp", "ignored_decoy"),
    "B7 lock": ("in/roads.shp.lock", "ignored_extension"),
    "B7 tar": ("in/roads.tar.gz", "ignored_extension"),
    "B7 store": ("in/.DS_Store", "ignored_extension"),
    "B7 archive twin": ("in/__MACOSX/roads.shp", "ignored_decoy"),
}


@pytest.mark.parametrize(("name", "reason"), IGNORED.values(), ids=IGNORED)
def test_foreign_objects_cost_no_call(world: World, name: str, reason: str) -> None:
    """B1, B2, B3, B4, B7: what is no component is acknowledged, and no port is called."""
    assert world.deliver(world.upload(name)) is Answer.ACK
    receipt = world.deliveries[-1].receipt
    assert receipt
    assert (receipt.outcome, receipt.detail) == (Outcome.IGNORED, reason)
    assert world.faults.calls == []


def test_decoys_never_complete_a_bundle(world: World) -> None:
    """B7: `.shp.xml` is a sidecar of its bundle, and twins and locks count for nothing."""
    for name in ("in/roads.shx", "in/roads.dbf", "in/roads.shp.xml", "in/._roads.shp"):
        world.deliver(world.upload(name))
    world.deliver(world.upload("in/roads.shp.lock"))
    assert world.manifest("in/roads").seen == (".dbf", ".shp.xml", ".shx")
    assert not world.jobs


ODD = (
    "in/a b",
    "in/a%2Fb",
    "in/a%20b+c#123",
    "in/roads [2024]",
    "in/roads \N{ROCKET}",
    "in/parcels.v2",
    unicodedata.normalize("NFC", "in/Stra\u00dfen \u00fcber"),
    unicodedata.normalize("NFD", "in/\u00fcber"),
    "in/" + "x" * 1017,
)


@pytest.mark.parametrize("base", ODD)
def test_odd_names_are_taken_as_they_are(world: World, base: str) -> None:
    """B5: spaces, escapes, brackets, emoji, both normal forms and 1024 bytes are ingested."""
    uploaded = world.upload_bundle(base)
    world.settle(*uploaded)
    assert [pin.name for _, pin in world.effects[0].pins] == sorted(
        event.name for event in uploaded
    )
    assert world.rows(base) == expected("first")
    assert all(key.isalnum() and len(key) == 32 for key in world.store.claims)


def test_normal_form_twins_are_two_objects_of_one_bundle(world: World) -> None:
    """B5: NFC and NFD twins have claims of their own; in one bundle the newer of them counts."""
    composed, decomposed = (
        unicodedata.normalize(form, "in/\u00fcber.shp") for form in ("NFC", "NFD")
    )
    world.deliver(world.upload(composed))
    newer = world.upload(decomposed)
    world.deliver(newer)
    assert len(world.store.claims) == 2
    assert len(world.store.manifests) == 1
    current = world.manifest("in/\u00fcber").current()
    assert (current[".shp"].name, current[".shp"].generation) == (decomposed, newer.generation)


def test_spellings_of_one_stem_meet_and_folders_do_not(world: World) -> None:
    """B6: `Roads.shp`, `ROADS.DBF`, `roads.shx` are one bundle; another folder is another."""
    world.deliver(world.upload("in/Roads.SHP", b"shape"))
    world.deliver(world.upload("in/ROADS.dbf", b"record"))
    world.deliver(world.upload("IN/roads.shx"))
    assert world.outcomes == [Outcome.WAITING] * 3
    world.deliver(world.upload("in/roads.shx"))
    assert world.outcomes[-1] is Outcome.DISPATCHED
    assert world.rows("in/roads") == [("shape", "record", None)]


def test_two_bundles_that_differ_in_case_are_never_mixed(world: World) -> None:
    """B6: geometry of one and attributes of the other are a dead letter, not a dataset."""
    world.settle(*world.upload_bundle("in/roads"))
    world.settle(world.upload("in/ROADS.shp", b"other"))
    assert world.states == [State.DONE, State.DEAD]
    assert [letter.code for letter in world.sent.sent] == ["mixed_spellings"]
    assert world.rows("in/roads") == expected("first")
    world.settle(*world.upload_bundle("in/ROADS", "second"))
    assert world.rows("in/roads") == expected("second")


def test_output_in_the_source_bucket_starts_nothing() -> None:
    """B8: what the sink writes under its prefix is ignored, also when three steps feed on it."""
    world = World(SINK=f"gs://{BUCKET}/out")
    steps = count()
    world.settle(*world.upload_bundle("in/roads"))
    before = list(world.faults.calls)
    for _ in range(3):
        for name in ("out/in/roads/1.parquet", "out/in/roads/latest.json", "out/x.shp"):
            world.deliver(world.upload(name, str(next(steps)).encode()))
    assert world.outcomes[-9:] == [Outcome.IGNORED] * 9
    assert world.faults.calls == before
    assert len(world.effects) == 1


@pytest.mark.parametrize(
    ("sink", "prefix"), [("", ""), ("", "in/"), ("/in", "in/"), ("/in", "in/x/")]
)
def test_a_sink_over_the_whole_source_is_refused(sink: str, prefix: str) -> None:
    """B8: where all uploads would count as output no event is taken in, nor acknowledged."""
    world = World(SINK=f"gs://{BUCKET}{sink}", SOURCE_PREFIX=prefix)
    event = world.upload(f"{prefix}roads.shp")
    assert world.deliver(event) is Answer.NACK
    with pytest.raises(ConfigurationError, match="which triggers us"):
        world.intake(event)
    assert world.faults.calls == []
    elsewhere = ObjectFinalized("elsewhere", f"{prefix}roads.shp", 1, "")
    assert world.intake(elsewhere).outcome is Outcome.WAITING


def test_other_buckets_are_ignored_where_the_source_is_named() -> None:
    """B8: with SOURCE_BUCKET an event of another bucket costs no call, whatever the sink holds."""
    world = World(SOURCE_BUCKET=BUCKET, SINK="gs://elsewhere")
    receipt = world.intake(ObjectFinalized("elsewhere", "in/roads.shp", 1, ""))
    assert (receipt.outcome, receipt.detail) == (Outcome.IGNORED, "ignored_bucket")
    assert world.faults.calls == []
    world.settle(*world.upload_bundle("in/roads"))
    assert world.rows("in/roads") == expected("first")
