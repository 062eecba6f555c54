"""The contract of `gate.source.port.Source`, held against every implementation."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gate.errors import ChecksumError, PermissionDeniedError, StorageBusyError
from gate.identity import Pin
from gate.source.port import Gone, ObjectFacts
from tests.contract.sources import SourceBench

NFC, NFD = "in/caf\u00e9.shp", "in/cafe\u0301.shp"
NAMES = [
    "in/a b+c%20d#1.shp",
    "in/UNESCO Global [2024] (final).zip",
    "in/100%.shp",
    "in/%2F.shp",
    "in/a?b&c=d.dbf",
    "in//double.shp",
    "in/../up.shp",
    "in/\U0001f5fa.shp",
    "é" * 512,
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_taken_as_they_are(source_bench: SourceBench, tmp_path: Path, name: str) -> None:
    """Case 38, B5: an object is found, told and fetched under its very name, never unquoted."""
    put = source_bench.put(name, b"payload")

    facts = source_bench.source.stat(source_bench.bucket, put.pin)
    assert isinstance(facts, ObjectFacts)
    assert facts.name == name
    assert source_bench.source.fetch(source_bench.bucket, facts, tmp_path / "layer.shp") is None
    assert (tmp_path / "layer.shp").read_bytes() == b"payload"


def test_normalisation_twins_stay_distinct(source_bench: SourceBench, tmp_path: Path) -> None:
    """B5: two names that differ in Unicode normalisation only are two objects."""
    twins = {NFC: b"composed", NFD: b"decomposed"}
    facts = {name: source_bench.put(name, payload) for name, payload in twins.items()}

    for name, payload in twins.items():
        source_bench.source.fetch(source_bench.bucket, facts[name], tmp_path / "layer.shp")
        assert (tmp_path / "layer.shp").read_bytes() == payload


def test_facts_are_those_of_the_generation(source_bench: SourceBench) -> None:
    """Size, crc32c and custom metadata of a pinned generation are what the server holds."""
    put = source_bench.put("in/roads.dbf", b"123456789", {"encoding": "cp1252"})

    facts = source_bench.source.stat(source_bench.bucket, put.pin)

    expected = ObjectFacts("in/roads.dbf", put.generation, 9, "4waSgw==", {"encoding": "cp1252"})
    assert facts == expected


def test_an_overwritten_generation_is_gone_with_its_successor(source_bench: SourceBench) -> None:
    """D1: the facts of an overwritten generation are `Gone`, with the live pin."""
    old = source_bench.put("in/roads.shp", b"old")
    new = source_bench.put("in/roads.shp", b"new")

    gone = source_bench.source.stat(source_bench.bucket, old.pin)

    assert gone == Gone(old.pin, new.pin)


def test_a_deleted_generation_is_gone_without_successor(source_bench: SourceBench) -> None:
    """D1: the facts of a deleted object are `Gone`, with nothing live."""
    old = source_bench.put("in/roads.shp", b"old")
    source_bench.delete("in/roads.shp")

    assert source_bench.source.stat(source_bench.bucket, old.pin) == Gone(old.pin, None)


def test_an_overwrite_between_facts_and_bytes_is_gone(
    source_bench: SourceBench, tmp_path: Path
) -> None:
    """D1, case 42: an object overwritten as its fetch begins gives `Gone` and no file."""
    old = source_bench.put("in/roads.shp", b"old")
    replaced: list[ObjectFacts] = []
    source_bench.before_fetch(lambda: replaced.append(source_bench.put("in/roads.shp", b"new")))

    gone = source_bench.source.fetch(source_bench.bucket, old, tmp_path / "layer.shp")

    assert gone == Gone(old.pin, replaced[0].pin)
    assert not (tmp_path / "layer.shp").exists()


def test_a_deletion_between_facts_and_bytes_is_gone(
    source_bench: SourceBench, tmp_path: Path
) -> None:
    """D1: an object deleted as its fetch begins gives `Gone` with nothing live."""
    old = source_bench.put("in/roads.shp", b"old")
    source_bench.before_fetch(lambda: source_bench.delete("in/roads.shp"))

    gone = source_bench.source.fetch(source_bench.bucket, old, tmp_path / "layer.shp")

    assert gone == Gone(old.pin, None)
    assert not (tmp_path / "layer.shp").exists()


@pytest.mark.parametrize(
    "change", [lambda payload: payload[:-1], lambda payload: payload + b"!"], ids=["cut", "longer"]
)
def test_a_wrong_size_leaves_no_file(
    source_bench: SourceBench, tmp_path: Path, change: object
) -> None:
    """D5: bytes of another size than the object's raise `ChecksumError`, the file is removed."""
    facts = source_bench.put("in/roads.shp", b"payload")
    source_bench.damage(change)  # type: ignore[arg-type]

    with pytest.raises(ChecksumError, match="of 7 bytes"):
        source_bench.source.fetch(source_bench.bucket, facts, tmp_path / "layer.shp")
    assert not (tmp_path / "layer.shp").exists()


def test_a_flipped_byte_leaves_no_file(source_bench: SourceBench, tmp_path: Path) -> None:
    """D5: bytes of the right size with another crc32c raise `ChecksumError`, no file stays."""
    facts = source_bench.put("in/roads.shp", b"payload")
    source_bench.damage(lambda payload: payload[:-1] + b"X")

    with pytest.raises(ChecksumError, match="crc32c"):
        source_bench.source.fetch(source_bench.bucket, facts, tmp_path / "layer.shp")
    assert not (tmp_path / "layer.shp").exists()


def test_facts_of_another_object_are_not_believed(
    source_bench: SourceBench, tmp_path: Path
) -> None:
    """D7: the check is against the given facts, so a crc32c alone is proof enough."""
    facts = dataclasses.replace(source_bench.put("in/roads.shp", b"payload"), crc32c="AAAAAA==")

    with pytest.raises(ChecksumError):
        source_bench.source.fetch(source_bench.bucket, facts, tmp_path / "layer.shp")


def test_an_empty_object_is_fetched(source_bench: SourceBench, tmp_path: Path) -> None:
    """Case 40: an object of 0 bytes is fetched as such; judging it is the reader's work."""
    facts = source_bench.put("in/roads.shp", b"")

    assert source_bench.source.fetch(source_bench.bucket, facts, tmp_path / "layer.shp") is None
    assert (tmp_path / "layer.shp").read_bytes() == b""


def test_a_part_is_that_of_the_generation(source_bench: SourceBench) -> None:
    """Issue 4: any part of an object, from its first byte to its last, is read by itself."""
    facts = source_bench.put("in/a b+c%20d#1.shp", bytes(range(256)))
    source, bucket = source_bench.source, source_bench.bucket
    for start, stop in ((0, 1), (0, 256), (255, 256), (17, 101)):
        assert source.read(bucket, facts, start, stop) == bytes(range(start, stop))


def test_a_part_of_an_overwritten_generation_is_gone(source_bench: SourceBench) -> None:
    """D1, issue 4: a part is never that of another generation, though both have such bytes."""
    old = source_bench.put("in/roads.shp", b"old one")
    new = source_bench.put("in/roads.shp", b"new one")
    found = source_bench.source.read(source_bench.bucket, old, 2, 5)
    assert found == Gone(old.pin, new.pin)
    source_bench.delete("in/roads.shp")
    assert source_bench.source.read(source_bench.bucket, new, 2, 5) == Gone(new.pin, None)


@pytest.mark.parametrize(
    "change", [lambda payload: payload[:-1], lambda payload: payload + b"!"], ids=["cut", "longer"]
)
def test_a_part_of_another_length_is_refused(source_bench: SourceBench, change: object) -> None:
    """D5: fewer bytes than were asked for, or more, are no part of the object."""
    facts = source_bench.put("in/roads.shp", b"payload")
    source_bench.damage(change)  # type: ignore[arg-type]
    with pytest.raises(ChecksumError, match="of 3 bytes"):
        source_bench.source.read(source_bench.bucket, facts, 1, 4)


def test_siblings_are_those_of_one_folder(source_bench: SourceBench) -> None:
    """A listing gives live pins directly in the folder that begin alike, and no others."""
    put = {
        name: source_bench.put(name, b"")
        for name in ["in/roads.shp", "in/roads.prj", "in/Roads.dbf", "in/rivers.shp", "roads.shp"]
    }
    source_bench.put("in/roads/inner.shp", b"")
    source_bench.put("in/roads.shp.d/inner.shp", b"")
    put["in/roads.shp"] = source_bench.put("in/roads.shp", b"again")

    found = list(source_bench.source.siblings(source_bench.bucket, "in/", "roads"))

    assert sorted(found, key=lambda pin: pin.name) == [
        put["in/roads.prj"].pin,
        put["in/roads.shp"].pin,
    ]


def test_siblings_of_an_empty_folder_are_none(source_bench: SourceBench) -> None:
    """A folder without objects lists nothing."""
    assert list(source_bench.source.siblings(source_bench.bucket, "in/", "")) == []


def test_pages_go_through_all_folders_in_the_order_of_names(source_bench: SourceBench) -> None:
    """H6: pages follow each other without a gap, by the bytes of names, at any depth."""
    names = ("in/B.shp", "in/a b+c%20#.shp", "in/a/inner.shp", "in/a/é.shp", "in/é.shp")
    put = {name: source_bench.put(name, b"").pin for name in reversed(names)}
    source_bench.put("other/roads.shp", b"")
    put["in/B.shp"] = source_bench.put("in/B.shp", b"again").pin
    source, bucket = source_bench.source, source_bench.bucket
    found: list[Pin] = []
    while page := source.page(bucket, "in/", found[-1].name if found else "", 2):
        assert len(page) <= 2
        found += page
    assert found == [put[name] for name in names]


def test_a_page_begins_after_a_name_that_is_gone(source_bench: SourceBench) -> None:
    """H6: a pass goes on after the last name, whether or not that object is still there."""
    pins = [source_bench.put(f"in/{letter}.shp", b"").pin for letter in "abc"]
    source, bucket = source_bench.source, source_bench.bucket
    assert source.page(bucket, "in/", "in/a.shp", 5) == tuple(pins[1:])
    source_bench.delete("in/a.shp")
    assert source.page(bucket, "in/", "in/a.shp", 2) == tuple(pins[1:])
    assert source.page(bucket, "in/", "in/a.shp", 1) == tuple(pins[1:2])
    assert source.page(bucket, "in/", "in/c.shp", 5) == ()


def test_a_lost_connection_is_busy(source_bench: SourceBench, tmp_path: Path) -> None:
    """D6: what passes by itself raises `StorageBusyError` in every operation."""
    facts = source_bench.put("in/roads.shp", b"payload")
    source, bucket = source_bench.source, source_bench.bucket

    source_bench.busy()
    with pytest.raises(StorageBusyError):
        source.stat(bucket, facts.pin)
    source_bench.busy()
    with pytest.raises(StorageBusyError):
        source.fetch(bucket, facts, tmp_path / "layer.shp")
    source_bench.busy()
    with pytest.raises(StorageBusyError):
        source.read(bucket, facts, 0, 3)
    source_bench.busy()
    with pytest.raises(StorageBusyError):
        list(source.siblings(bucket, "in/", ""))
    source_bench.busy()
    with pytest.raises(StorageBusyError):
        source.page(bucket, "in/", "", 5)
    assert not (tmp_path / "layer.shp").exists()


def test_a_refusal_is_no_matter_of_waiting(source_bench: SourceBench, tmp_path: Path) -> None:
    """D6: a missing permission raises `PermissionDeniedError` in every operation."""
    facts = source_bench.put("in/roads.shp", b"payload")
    source, bucket = source_bench.source, source_bench.bucket

    source_bench.denied()
    with pytest.raises(PermissionDeniedError):
        source.stat(bucket, Pin("in/roads.shp", facts.generation))
    source_bench.denied()
    with pytest.raises(PermissionDeniedError):
        source.fetch(bucket, facts, tmp_path / "layer.shp")
    source_bench.denied()
    with pytest.raises(PermissionDeniedError):
        source.read(bucket, facts, 0, 3)
    source_bench.denied()
    with pytest.raises(PermissionDeniedError):
        list(source.siblings(bucket, "in/", ""))
    source_bench.denied()
    with pytest.raises(PermissionDeniedError):
        source.page(bucket, "in/", "", 5)
    assert not (tmp_path / "layer.shp").exists()
