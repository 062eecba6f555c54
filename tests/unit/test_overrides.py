"""What the metadata of objects says, apart from any job."""

from __future__ import annotations

import pytest

from gate.errors import ConflictingOverridesError
from gate.overrides import Overrides, relevant
from gate.overrides import stated as stated_by


def stated(metadata: dict[str, dict[str, str]]) -> Overrides:
    """Return what metadata as a bucket has it says."""
    return stated_by(relevant(metadata))


def test_any_component_may_state_a_fact() -> None:
    """Case 3: facts of several components come together; other metadata is not ours."""
    found = stated(
        {
            "in/roads.shp": {"crs": "EPSG:25832", "owner": "survey"},
            "in/roads.dbf": {" Encoding ": " cp1252 "},
            "in/roads.shx": {},
        }
    )
    assert found == Overrides(encoding="cp1252", crs="EPSG:25832")
    assert found.as_json() == {"encoding": "cp1252", "crs": "EPSG:25832"}


def test_what_is_blank_is_not_stated() -> None:
    """Case 3: an empty value overrides nothing."""
    assert stated({"in/roads.shp": {"crs": " ", "layer": ""}}) == Overrides()
    assert Overrides().as_json() == {}


def test_two_components_may_say_the_same() -> None:
    """Case 3: the same fact twice is one fact."""
    metadata = {"in/roads.shp": {"layer": "Roads"}, "in/roads.dbf": {"LAYER": "Roads "}}
    assert stated(metadata) == Overrides(layer="Roads")


def test_only_what_is_about_reading_is_compared() -> None:
    """Case 3: other metadata, and objects without any, are no part of what was said."""
    metadata = {"b": {"CRS": " EPSG:1111 "}, "a": {"owner": "survey"}, "c": {"layer": " "}}
    assert relevant(metadata) == {"b": {"crs": "EPSG:1111"}}


def test_a_contradiction_names_both_components() -> None:
    """Case 3: two components that contradict each other hold the job, and both are named."""
    with pytest.raises(ConflictingOverridesError) as caught:
        stated({"in/roads.shp": {"crs": "EPSG:1111"}, "in/roads.dbf": {"crs": "EPSG:2222"}})
    for part in ("in/roads.shp", "in/roads.dbf", "EPSG:1111", "EPSG:2222"):
        assert part in str(caught.value)


def test_the_choice_of_a_layer_does_not_say_how_to_read() -> None:
    """Case 33: `layer` selects from an archive; encoding and CRS apply to what is read."""
    assert Overrides("cp1252", "EPSG:1111", "b").for_each_layer == Overrides("cp1252", "EPSG:1111")
