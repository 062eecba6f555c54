"""Rings that need no check, and polygons put together from rings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from gate import gather
from gate.shapefile.parts import Parts
from gate.shapefile.rings import organise, star_shaped

Ring = list[tuple[float, float]]


def sure(*rings: Ring) -> list[bool]:
    """Tell of each of these rings, one to a record, whether it needs no check."""
    lengths = np.array([len(ring) for ring in rings])
    positions = np.array([position for ring in rings for position in ring], dtype=np.float64)
    parts = Parts(np.arange(len(rings)), gather.starts_of(lengths), positions)
    certain, found = organise(parts)
    told = np.zeros(len(rings), np.bool_)
    told[certain] = star_shaped(found)
    answer: list[bool] = told.tolist()
    return answer


def around(*angles: float, radius: float = 1.0) -> Ring:
    """Return a closed ring of positions at these angles, in eighths of a turn."""
    ring = [
        (radius * math.cos(angle * math.pi / 4), radius * math.sin(angle * math.pi / 4))
        for angle in angles
    ]
    return [*ring, ring[0]]


SQUARE = [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
BOW_TIE = [(0.0, 0.0), (3.0, 3.0), (3.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
PENTAGRAM = around(0, 3.2, 6.4, 9.6, 12.8)
HORSESHOE = [(0.0, 0.0), (0.0, 9.0), (9.0, 9.0), (9.0, 8.0), (1.0, 8.0), (1.0, 0.0), (0.0, 0.0)]


@pytest.mark.parametrize(
    ("ring", "told"),
    [
        (SQUARE, True),
        (SQUARE[::-1], True),
        (around(*range(8)), True),
        (BOW_TIE, False),
        (PENTAGRAM, False),
        (HORSESHOE, False),
        ([*SQUARE[:2], *SQUARE[1:]], False),
        (around(*range(8), *range(8)), False),
    ],
)
def test_only_rings_around_their_middle_need_no_check(ring: Ring, told: bool) -> None:
    """A ring seen from its middle is valid; one that turns twice, back or nowhere is not told."""
    assert sure(ring) == [told]
    assert sure(SQUARE, ring, SQUARE) == [True, told, True]


def test_a_hole_is_reason_to_check() -> None:
    """A record of two rings is never told as sure, however good each of them is."""
    hole = [(x * 0.5 + 0.2, y * 0.5 + 0.2) for x, y in reversed(SQUARE)]
    parts = Parts(np.zeros(2, np.int64), np.array([0, 5, 10]), np.array([*SQUARE, *hole]))
    certain, rings = organise(parts)
    assert certain.all()
    assert not star_shaped(rings).any()


NUMBER = st.one_of(st.integers(0, 5).map(float), st.floats(-10, 10), st.floats(1e6, 1e6 + 1e-3))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=3, max_size=7))
def test_what_needs_no_check_is_valid(corners: Ring) -> None:
    """Whatever ring is told as sure is valid for GEOS as well."""
    ring = [*corners, corners[0]]
    if sure(ring) == [True]:
        assert shapely.is_valid(shapely.Polygon(ring))


def test_rings_are_told_alike_however_many_are_measured_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Boxes, turns and shells do not depend on how many positions are looked at together."""
    hole = [(x * 0.5 + 0.2, y * 0.5 + 0.2) for x, y in reversed(SQUARE)]
    rings = [SQUARE, hole, HORSESHOE[::-1], around(*range(8)), BOW_TIE]
    lengths = np.array([len(ring) for ring in rings])
    positions = np.array([position for ring in rings for position in ring])
    parts = Parts(np.array([0, 0, 1, 2, 3]), gather.starts_of(lengths), positions)
    certain, together = organise(parts)
    monkeypatch.setattr(gather, "STRETCH_ITEMS", 6)
    one_by_one, apart = organise(parts)
    assert certain.tolist() == one_by_one.tolist()
    assert certain[0]
    for name in ("shell", "clockwise", "low", "high"):
        assert getattr(together, name).tolist() == getattr(apart, name).tolist()
