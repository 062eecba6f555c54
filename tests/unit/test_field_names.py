"""Plain names for warehouses: which they are, and that they are distinct and stable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.sinks.field_names import MOST_CHARACTERS, RESERVED, warehouse_name, warehouse_names


@pytest.mark.parametrize(
    ("original", "plain"),
    [
        ("a-b.c", "a_b_c"),
        ("my col", "my_col"),
        ("Größe", "grosse"),
        ("STRASSE", "strasse"),
        ("Ærøskøbing", "aeroskobing"),
        ("Łódź", "lodz"),
        ("  x  ", "x"),
        ("__a__b__", "a_b"),
        ("2024", "f_2024"),
        ("½", "f_1_2"),
        ("名前", "f_5b9e23e2"),
        ("", "f_d41d8cd9"),
        ("___", "f_948a13f1"),
        ("a" * 70, "a" * 63),
        ("a" * 62 + "_b", "a" * 62),
    ],
)
def test_case_29_a_name_that_a_warehouse_refuses_has_a_plain_form(
    original: str, plain: str
) -> None:
    """Case 29: lower case, ASCII, one `_` for what is between, no digit first, never nothing."""
    assert warehouse_name(original) == plain


@pytest.mark.parametrize(
    ("original", "plain"),
    [
        ("UNESCO Global [2024] (final)", "unesco_global_2024_final"),
        ("parcels.v2", "parcels_v2"),
    ],
)
def test_cases_36_and_37_a_layer_has_a_plain_name_for_its_table(original: str, plain: str) -> None:
    """Cases 36 and 37: brackets, blanks and dots in a stem do no harm to the name of a table."""
    assert warehouse_name(original) == plain


def test_case_30_cut_names_stay_distinct() -> None:
    """Case 30: names that a writer cut to ten characters are distinct, the same on each upload."""
    for _ in range(2):
        assert warehouse_names(["ABCDEFGHIJ", "ABCDEFGH_1"]) == ("abcdefghij", "abcdefgh_1")


def test_case_28_equal_names_get_the_first_free_number() -> None:
    """Case 28: a number is given that no field has by itself, whatever the case of letters."""
    assert warehouse_names(["NAME", "name", "Name_1", "Näme"]) == (
        "name",
        "name_2",
        "name_1",
        "name_3",
    )


def test_case_29_names_that_a_database_has_for_itself_are_not_taken() -> None:
    """Case 29: neither the geometry nor a system column of PostgreSQL meets a field."""
    assert warehouse_names(["GEOMETRY", "ctid", "xmin"]) == ("geometry_1", "ctid_1", "xmin_1")


def test_case_30_a_long_name_makes_room_for_its_number() -> None:
    """Case 30: a name that is cut keeps within the limit with its number too."""
    long = "x" * 80
    assert warehouse_names([long, long], most=10) == ("x" * 10, "x" * 8 + "_1")


@given(st.lists(st.text(max_size=80), max_size=20))
def test_case_29_names_are_plain_distinct_and_stable(originals: list[str]) -> None:
    """Case 29: whatever fields are called, their names are legal and no two are alike."""
    names = warehouse_names(originals)
    assert len(set(names)) == len(originals)
    assert not set(names) & set(RESERVED)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)
    assert all(len(name) <= MOST_CHARACTERS for name in names)
    assert names == warehouse_names(originals)
