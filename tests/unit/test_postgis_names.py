"""The names of tables: plain, within 63 bytes, and no two alike."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.names import Bundle
from gate.sinks.postgis_names import source_name, table_name


def bundle(basename: str, archive: str = "", bucket: str = "uploads") -> Bundle:
    """Return the bundle of this name."""
    cut = basename.rfind("/") + 1
    return Bundle(bucket, basename[:cut], basename[cut:].removesuffix(archive), archive)


def short(*lines: str) -> str:
    """Return the id that a name ends in."""
    return hashlib.md5("\n".join(lines).encode(), usedforsecurity=False).hexdigest()[:8]


@pytest.mark.parametrize(
    ("basename", "table"),
    [
        ("roads", "roads"),
        ("city/roads", "city__roads"),
        ("a/b_2/c", "a__b_2__c"),
        ("city/My Roads", f"city__my_roads_{short('city/My Roads', '', '')}"),
        ("city/größe", f"city__grosse_{short('city/größe', '', '')}"),
        ("2024/roads", f"f_2024__roads_{short('2024/roads', '', '')}"),
        ("a__b", f"a_b_{short('a__b', '', '')}"),
        ("x" * 63, "x" * 63),
        ("x" * 64, f"{'x' * 54}_{short('x' * 64, '', '')}"),
    ],
)
def test_a_table_is_called_like_its_bundle(basename: str, table: str) -> None:
    """Issue 4: the path with `__` for `/`; what cannot stand so is spelt plain, with an id."""
    assert table_name("{name}", bundle(basename)) == table


def test_a_layer_of_an_archive_has_a_name_of_its_own() -> None:
    """Case 33: archive and layer make the name, which no bundle of the same spelling has."""
    packed = bundle("north/a.zip", ".zip")
    name = table_name("{name}", packed, "x/b")
    assert name == f"north__a_zip__x__b_{short('north/a.zip', '.zip', 'x/b')}"
    assert name != table_name("{name}", bundle("north/a.zip/x/b"))
    assert table_name("{name}", packed, "b") != table_name("{name}", packed, "x/b")


def test_the_bucket_is_no_part_of_the_name() -> None:
    """Two buckets with one name meet, and the ledger refuses the second."""
    here, there = (bundle("a b", bucket=bucket) for bucket in ("one", "two"))
    assert table_name("{name}", here) == table_name("{name}", there)


@pytest.mark.parametrize(
    ("template", "basename", "layer", "table"),
    [
        ("lyr_{stem}", "city/My Roads", "", "lyr_my_roads"),
        ("{stem}_x", "city/roads", "", "roads_x"),
        ("{stem}", "a.zip", "x/Roads", "roads"),
        ("all", "city/roads", "", "all"),
        ("v_{name}", "city/roads", "", "v_city__roads"),
        ("v_{stem}_w", "x" * 80, "", f"v_{'x' * 59}_w"),
    ],
)
def test_a_template_is_filled(template: str, basename: str, layer: str, table: str) -> None:
    """Issue 4: `{name}` is the whole path, `{stem}` its last part; text stands around them."""
    archive = ".zip" if layer else ""
    assert table_name(template, bundle(basename, archive), layer) == table


@given(
    st.text(min_size=1, max_size=80), st.text(max_size=30), st.sampled_from(["{name}", "v{stem}"])
)
def test_every_name_is_a_plain_identifier(basename: str, layer: str, template: str) -> None:
    """Issue 4: whatever comes in, the name is 1 to 63 of a-z, 0-9 and _, a letter first."""
    named = table_name(template, Bundle("b", "", basename), layer)
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,62}", named)


@given(st.lists(st.text("ab_/. é", min_size=1, max_size=70), min_size=2, max_size=8, unique=True))
def test_no_two_bundles_meet(basenames: list[str]) -> None:
    """Design 2: names that differ make tables that differ."""
    names = {table_name("{name}", Bundle("b", "", basename)) for basename in basenames}
    assert len(names) == len(basenames)


def test_the_page_names_tables_as_the_code_does() -> None:
    """The examples of the page on PostGIS are what comes out."""
    page = (Path(__file__).parents[2] / "docs" / "postgis.md").read_text()
    examples = dict(re.findall(r"^\| (`[^|]+) \| `([a-z0-9_]+)` \|$", page, re.MULTILINE))
    packed = bundle("north/a.zip", ".zip")
    assert examples["`city/roads`"] == table_name("{name}", bundle("city/roads"))
    assert examples["`city/My Roads`"] == table_name("{name}", bundle("city/My Roads"))
    assert examples["`north/a.zip`, layer `b`"] == table_name("{name}", packed, "b")
    for source in (source_name(bundle("north/parcels")), "gs://uploads/north.zip#parcels"):
        assert f"`{source}`" in page


def test_rows_say_whose_they_are() -> None:
    """In a shared table a row names its bundle, and its layer behind a `#`."""
    assert source_name(bundle("in/roads")) == "gs://uploads/in/roads"
    assert source_name(bundle("in/a.zip", ".zip"), "x/b") == "gs://uploads/in/a.zip#x/b"
