"""READER=auto against READER=fiona: the same rows, except where Fiona loses something."""

from __future__ import annotations

import datetime
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.errors import BundleError, UnreadableError
from gate.policies import Reader
from tests.differences import DIFFERENCES, UNREADABLE, Difference
from tests.reading import Reading, read
from tests.shapefiles import (
    LINE,
    MULTIPOINT,
    POINT,
    POLYGON,
    Bundle,
    Field,
    M,
    Shape,
    Z,
    column,
    flipped,
    layer,
    line,
    multipatch,
    multipoint,
    null,
    parcels,
    point,
    polygon,
    square,
)

EXAMPLES = 150


def both(bundle: Bundle, **options: Any) -> tuple[Reading, Reading]:
    """Read a bundle in both ways."""
    with tempfile.TemporaryDirectory() as folder:
        auto = read(bundle, Path(folder) / "auto", reader=Reader.AUTO, **options)
        fiona = read(bundle, Path(folder) / "fiona", reader=Reader.FIONA, **options)
    return auto, fiona


def agree(bundle: Bundle, **options: Any) -> Reading:
    """Assert that both ways give the same rows and facts; return what they give."""
    auto, fiona = both(bundle, **options)
    assert auto.column("geometry") == fiona.column("geometry")
    assert auto.report.geometry == fiona.report.geometry
    assert auto.report.validity == fiona.report.validity
    assert auto.report.rows == fiona.report.rows
    assert auto.table.drop(["geometry"]).to_pydict() == fiona.table.drop(["geometry"]).to_pydict()
    return auto


# --- geometry ---------------------------------------------------------------

# Few different numbers, so that rings touch, share corners and lie in each other.
SMALL = st.integers(0, 6).map(float)
ODD = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -0.0])
NUMBER = st.one_of(SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, ODD)


@st.composite
def rings(draw: st.DrawFn) -> list[tuple[float, ...]]:
    """Return a ring: mostly a square of either winding, sometimes anything."""
    if draw(st.integers(0, 5)):
        ring = list(square(draw(SMALL), draw(SMALL), draw(st.sampled_from([0.5, 1, 2, 3, 6]))))
        turn = draw(st.integers(0, 3))
        ring = [*ring[turn:-1], *ring[:turn], ring[turn]]
        return ring[::-1] if draw(st.booleans()) else ring
    ring = draw(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=6))
    return [*ring, ring[0]] if draw(st.booleans()) else ring


def widened(kind: int, parts: Sequence[Sequence[Sequence[float]]], more: Sequence[float]) -> Shape:
    """Return a shape of this kind with a z or m for each position, taken from `more` in turn."""
    extra = {0: 0, 1: len(more) % 2 + 1, 2: 1}[kind // 10]
    positions = iter(range(10**6))
    grown = tuple(
        tuple(
            (*position, *(more[(next(positions) + axis) % len(more)] for axis in range(extra)))
            for position in part
        )
        for part in parts
    )
    return Shape(kind, grown)


@st.composite
def shapes(draw: st.DrawFn) -> list[Shape]:
    """Return shapes of one type, null shapes and empty ones among them."""
    plain = draw(st.sampled_from([POINT, LINE, POLYGON, POLYGON, POLYGON, MULTIPOINT]))
    kind = plain + draw(st.sampled_from([0, 0, Z, M]))
    position = st.tuples(NUMBER, NUMBER)
    parts: st.SearchStrategy[Any] = {
        POINT: st.lists(st.tuples(position), min_size=1, max_size=1),
        LINE: st.lists(st.lists(position, min_size=1, max_size=4), max_size=3),
        POLYGON: st.lists(rings(), max_size=4),
        MULTIPOINT: st.lists(st.lists(position, max_size=4), min_size=1, max_size=1),
    }[plain]
    more = draw(st.lists(SMALL, min_size=1, max_size=4))
    some = draw(st.lists(st.one_of(parts, parts, parts, st.none()), min_size=1, max_size=8))
    return [null() if each is None else widened(kind, each, more) for each in some] + [
        widened(kind, draw(parts), more)
    ]


@settings(max_examples=EXAMPLES, deadline=None)
@given(some=shapes(), deleted=st.sets(st.integers(0, 8)), batch_bytes=st.sampled_from([1, 400]))
def test_every_geometry_is_the_one_that_fiona_gives(
    some: list[Shape], deleted: set[int], batch_bytes: int
) -> None:
    """Any layer of one type: the same bytes of WKB and the same facts, in batches of any size."""
    kind = next(shape.kind for shape in some if shape.kind)
    gone = [row for row in deleted if row < len(some) - 1]
    # Of polygons of NaN all may be rejected, and that is an error; a null shape stays.
    agree(layer([*some, null()], kind=kind, deleted=gone), batch_bytes=batch_bytes)


MAKERS: tuple[Callable[[], Bundle], ...] = (
    lambda: layer([polygon(square(0, 0, 4), square(1, 1)[::-1]), polygon(square(5, 5))]),
    lambda: layer([line([(0, 0, 1), (1, 1, 1)], [(2, 2, 0), (3, 3, 0)], kind=LINE + Z)]),
    lambda: layer([multipoint((0, 0, 5), (1, 1, 6), kind=MULTIPOINT + M)]),
    lambda: layer([point(0, 0, 1, kind=POINT + Z), null()]),
)


def test_a_cadastre_is_the_one_that_fiona_gives() -> None:
    """Parcels with holes and second shells agree row by row, values included."""
    agree(parcels(300), batch_bytes=5_000)


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(patches=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=3))
def test_a_multipatch_is_the_one_that_fiona_gives(patches: list[tuple[int, int]]) -> None:
    """Multipatches are never plain, whatever surfaces they are of; both ways ask Fiona."""
    surfaces = [(kind, square(place, place, 1, 3)) for kind, place in patches]
    agree(layer([multipatch(*surfaces), null()]))


@pytest.mark.parametrize("make", MAKERS)
def test_damage_is_met_alike(make: Callable[[], Bundle], tmp_path: Path) -> None:
    """Every byte of the .shp flipped: both ways refuse it alike, or give the same geometries."""
    bundle = make()
    for offset in range(len(bundle[".shp"])):
        broken = flipped(bundle, ".shp", offset)
        auto, fiona = (outcome(broken, tmp_path, reader=reader) for reader in Reader)
        if isinstance(auto, Reading):
            assert isinstance(fiona, Reading), offset
            assert auto.column("geometry") == fiona.column("geometry"), offset
            assert auto.report.geometry == fiona.report.geometry, offset
        else:
            assert str(auto) == str(fiona), offset


def outcome(bundle: Bundle, folder: Path, *, reader: Reader) -> Reading | BundleError:
    """Return what reading gives, or the error it ends with."""
    try:
        return read(bundle, folder, reader=reader)
    except BundleError as error:
        return error


# --- values -----------------------------------------------------------------

DATES = st.dates(datetime.date(1, 1, 1))
TEXT = st.text(st.sampled_from("abz äé€ß-09"), max_size=6).map(str.strip)


def values_of(field: Field) -> st.SearchStrategy[Any]:
    """Return values that a field holds and that Fiona does not alter."""
    if field.kind == "N" and not field.decimals:
        limit = 10 ** (field.width - 1) - 1
        return st.one_of(st.none(), st.integers(-limit // 10, limit))
    if field.kind in "NF":
        return st.one_of(st.none(), st.integers(-9999, 99999).map(lambda whole: whole / 100))
    if field.kind == "D":
        return st.one_of(st.none(), DATES)
    if field.kind == "L":
        return st.one_of(st.none(), st.booleans())
    return st.one_of(st.none(), TEXT.map(lambda text: text or None))


FIELDS = (
    Field("SMALL", "N", 4),
    Field("WHOLE", "N", 9),
    Field("LONG", "N", 18),
    Field("REAL", "N", 12, 2),
    Field("FLOAT", "F", 14, 3),
    Field("DAY", "D", 8),
    Field("YES", "L", 1),
    Field("TEXT", "C", 20),
)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(rows=st.lists(st.tuples(*map(values_of, FIELDS)), min_size=1, max_size=8))
def test_every_value_is_the_one_that_fiona_gives(rows: list[tuple[Any, ...]]) -> None:
    """Any values of any field that Fiona can read come out the same."""
    places = [point(number, number) for number in range(len(rows))]
    agree(layer(places, FIELDS, rows), batch_bytes=300)


NUMERIC = tuple(field for field in FIELDS if field.kind in "NF")


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            *(st.text("019-+.,*eEx ", max_size=field.width).map(str.encode) for field in NUMERIC)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_number_that_fiona_reads_otherwise_is_null_and_counted(
    rows: list[tuple[bytes, ...]],
) -> None:
    """Both make the same number of any characters, or it is null here and counted with its row."""
    places = [point(number, number) for number in range(len(rows))]
    auto, fiona = both(layer(places, NUMERIC, rows))
    for field in NUMERIC:
        name = str(field.name)
        counted = {row for (of, _), found in auto.problems.items() if of == name for row in found}
        pairs = zip(auto.column(name), fiona.column(name), strict=True)
        for number, (here, there) in enumerate(pairs, 1):
            assert here == there or (here is None and number in counted)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.what)
def test_the_written_differences_are_what_fiona_loses(
    difference: Difference, tmp_path: Path
) -> None:
    """Each listed row is read exactly, or null and counted; Fiona alters it without a word."""
    auto = read(difference.bundle, tmp_path / "auto", reader=Reader.AUTO)
    assert auto.table.drop(["geometry"]).to_pylist() == [difference.here]
    assert bool(auto.problems) == difference.counted
    if difference.there == UNREADABLE:
        with pytest.raises(UnreadableError):
            read(difference.bundle, tmp_path / "fiona", reader=Reader.FIONA)
        return
    fiona = read(difference.bundle, tmp_path / "fiona", reader=Reader.FIONA)
    assert fiona.table.drop(["geometry"]).to_pylist() == [difference.there]
    assert not fiona.problems


def test_a_field_called_geometry_keeps_clear_of_the_geometry() -> None:
    """In both ways a field with the name of the geometry column gets another one."""
    auto, fiona = both(column(Field("GEOMETRY"), "a"))
    assert auto.table.schema == fiona.table.schema
    assert fiona.report.fields[0].original_name == "GEOMETRY"


def test_deleted_rows_do_not_shift_values() -> None:
    """In both ways values stay with the geometry of their row when rows between are deleted."""
    bundle = layer([point(number, 0) for number in range(9)], deleted=range(2, 7))
    reading = agree(bundle, batch_bytes=1)
    assert reading.column("ID") == [1, 2, 8, 9]
    assert reading.wkt == ["POINT (0 0)", "POINT (1 0)", "POINT (7 0)", "POINT (8 0)"]
