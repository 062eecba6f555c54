"""An object read in parts: whatever order they are asked for in, each is proven."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.errors import ChecksumError, SourceChangedError, StorageBusyError
from gate.identity import Pin
from gate.source.memory import MemorySource
from gate.source.port import ObjectFacts
from gate.source.ranges import AHEAD_BLOCKS, KEPT_BLOCKS, Ranges

BUCKET, NAME, BLOCK = "uploads", "in/roads.shp", 10
PAYLOAD = bytes(range(95))
BLOCKS = 10


@pytest.fixture
def source() -> MemorySource:
    """Return a source that holds the object."""
    source = MemorySource()
    source.put(BUCKET, NAME, PAYLOAD)
    return source


@pytest.fixture
def ranges(source: MemorySource) -> Iterator[Ranges]:
    """Return the object in blocks of ten bytes."""
    opened = ranges_of(source)
    yield opened
    opened.close()


def ranges_of(source: MemorySource, crc32c: str = "") -> Ranges:
    """Return the object in blocks of ten bytes; its facts may tell another checksum."""
    [pin] = source.siblings(BUCKET, "in/", "roads")
    facts = source.stat(BUCKET, Pin(NAME, pin.generation))
    assert isinstance(facts, ObjectFacts)
    return Ranges(source, BUCKET, replace(facts, crc32c=crc32c or facts.crc32c), BLOCK)


def counted(source: MemorySource) -> list[str]:
    """Return a list that every read from now on is added to."""
    reads: list[str] = []
    source.before = lambda operation, name: reads.append(operation)
    return reads


@given(parts=st.lists(st.tuples(st.integers(0, 95), st.integers(0, 95)), max_size=12))
def test_every_part_is_that_of_the_object(parts: Sequence[tuple[int, int]]) -> None:
    """Issue 4: slices in any order, within a block or over many, are the bytes that are stored."""
    source = MemorySource()
    source.put(BUCKET, NAME, PAYLOAD)
    ranges = ranges_of(source)
    for start, stop in parts:
        assert ranges[start:stop].tobytes() == PAYLOAD[start:stop]
    ranges.prove()
    ranges.close()


def test_a_pass_from_first_to_last_byte_reads_each_block_once(
    source: MemorySource, ranges: Ranges
) -> None:
    """Issue 4: the first pass proves the object on the way; a second one reads what it must."""
    reads = counted(source)
    for start in range(0, len(PAYLOAD), 7):
        ranges[start : start + 7]
    ranges.prove()
    assert len(reads) == BLOCKS
    for start in range(0, len(PAYLOAD), 7):
        ranges[start : start + 7]
    assert len(reads) == 2 * BLOCKS


def test_few_blocks_are_held(source: MemorySource, ranges: Ranges) -> None:
    """Issue 4: however large the object is, only what was used last and what is next is held."""
    most = 0
    for start in range(0, len(PAYLOAD), 7):
        ranges[start : start + 7]
        most = max(most, len(ranges._kept) + len(ranges._coming))
    assert most <= KEPT_BLOCKS + AHEAD_BLOCKS


def test_the_next_blocks_are_asked_for_while_one_is_used(
    source: MemorySource, ranges: Ranges
) -> None:
    """Issue 4: who reads in order does not wait for each request."""
    asked = threading.Semaphore(0)
    source.before = lambda _operation, _name: asked.release()
    ranges[0:1]
    assert all(asked.acquire(timeout=5) for _ in range(1 + AHEAD_BLOCKS))


@pytest.mark.parametrize("first", [0, 94])
def test_a_whole_of_another_checksum_is_refused(source: MemorySource, first: int) -> None:
    """D5: bytes that are not the object's are found out no later than with the last of them."""
    ranges = ranges_of(source, "AAAAAA==")
    with pytest.raises(ChecksumError, match=r"crc32c is .*, not AAAAAA=="):
        ranges[first : first + 1], ranges.prove()
    with pytest.raises(ChecksumError):
        ranges.prove()
    ranges.close()


def test_a_byte_that_is_flipped_the_first_time_is_found_out(source: MemorySource) -> None:
    """D5: one byte on its way, in any block, and the whole is not proven."""
    ranges = ranges_of(source)
    ranges[0:1]
    source.damage = lambda content: content[:-1] + b"~"
    with pytest.raises(ChecksumError, match=r"gs://uploads/in/roads\.shp: crc32c"):
        ranges.prove()
    ranges.close()


def test_a_byte_that_is_flipped_the_second_time_is_found_out(
    source: MemorySource, ranges: Ranges
) -> None:
    """D5: what is read again has to be what was proven, before anybody uses it."""
    ranges.prove()
    source.damage = lambda content: b"~" + content[1:]
    with pytest.raises(ChecksumError, match="crc32c of block 0 is"):
        ranges[3:4]


def test_a_part_of_another_length_is_refused(source: MemorySource, ranges: Ranges) -> None:
    """D5: a block that is cut on its way is no end of the object."""
    source.damage = lambda content: content[:-1]
    with pytest.raises(ChecksumError, match="9 of 10 bytes of a part arrived"):
        ranges[0:1]


def test_an_object_that_is_gone_is_no_damage(source: MemorySource, ranges: Ranges) -> None:
    """D1: an object that was overwritten between two reads is told as such."""
    ranges[0:1]
    source.put(BUCKET, NAME, b"new")
    with pytest.raises(SourceChangedError, match=r"gs://uploads/in/roads\.shp: is gone"):
        ranges.prove()


def test_what_the_source_raises_is_raised_where_it_is_used(
    source: MemorySource, ranges: Ranges
) -> None:
    """D6: a fault of the network reaches whoever needs the block, and may pass."""
    failing = True

    def before(_operation: str, _name: str) -> None:
        if failing:
            raise StorageBusyError("503")

    source.before = before
    with pytest.raises(StorageBusyError):
        ranges[0:1]
    failing = False
    assert ranges[0:95].tobytes() == PAYLOAD


def test_nothing_is_asked_for_after_the_end(source: MemorySource, ranges: Ranges) -> None:
    """An object is closed with what was on its way, and slices of nothing need no request."""
    reads = counted(source)
    assert ranges[5:5].size == ranges[95:99].size == 0
    assert np.array_equal(ranges[:0], [])
    assert reads == []
    ranges.close()
    ranges.close()
    with pytest.raises(RuntimeError):
        ranges[0:1]
