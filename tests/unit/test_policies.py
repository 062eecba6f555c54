"""The policies of a deployment: how they are spelled, and what settings make of them."""

from __future__ import annotations

import pytest

from gate.environment import SettingsError
from gate.policies import (
    Heights,
    Measures,
    MissingCrs,
    Multi,
    Policies,
    Reader,
    RowPolicy,
    Validity,
    authority,
)
from gate.settings import load

SINK = {"SINK": "gs://datasets/out"}


def problems(**environment: str) -> list[str]:
    """Return which variables an environment is refused for."""
    with pytest.raises(SettingsError) as caught:
        load({**SINK, **environment})
    return [problem.partition(":")[0] for problem in caught.value.problems]


def test_by_default_every_row_is_kept_and_no_crs_is_demanded() -> None:
    """Cases 13 and 20: without settings nothing is left out, held or transformed."""
    assert load(SINK).policies == Policies()
    assert Policies() == Policies(MissingCrs.ACCEPT, "", *[RowPolicy.KEEP] * 4)


def test_each_policy_is_read_from_its_own_variable() -> None:
    """Cases 13 and 20: each variable reaches the policy that is named for it, in any case."""
    environment = {
        "MISSING_CRS": "Hold",
        "TARGET_CRS": "epsg:4326",
        "NULL_GEOMETRY": "SKIP",
        "EMPTY_GEOMETRY": "reject",
        "NAN_COORDINATES": "skip",
        "COLLAPSED_GEOMETRY": "Reject",
        "MULTI_GEOMETRY": "ALWAYS",
        "Z_VALUES": "drop",
        "M_VALUES": "reject",
        "READER": "fiona",
        "VALIDITY": "repair",
    }
    expected = Policies(
        MissingCrs.HOLD,
        "EPSG:4326",
        RowPolicy.SKIP,
        RowPolicy.REJECT,
        RowPolicy.SKIP,
        RowPolicy.REJECT,
        Multi.ALWAYS,
        Heights.DROP,
        Measures.REJECT,
        Reader.FIONA,
        Validity.REPAIR,
    )
    assert load({**SINK, **environment}).policies == expected


def test_a_crs_may_be_assumed() -> None:
    """Case 20: `MISSING_CRS` may name the CRS that is meant."""
    assert load({**SINK, "MISSING_CRS": " epsg: 25832 "}).policies.missing_crs == "EPSG:25832"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EPSG:4326", "EPSG:4326"),
        ("epsg::3857", "EPSG:3857"),
        (" EPSG : 25832", "EPSG:25832"),
        ("4326", None),
        ("EPSG:", None),
        ("EPSG:0", None),
        ("EPSG:04326", None),
        ("EPSG:４３２６", None),
        ("EPSG:12345678", None),
        ("ESRI:102100", None),
        ("", None),
    ],
)
def test_an_epsg_code_has_one_form(text: str, expected: str | None) -> None:
    """Case 20: spellings of one code are one, and what is no code is none."""
    assert authority(text) == expected


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MISSING_CRS", "guess"),
        ("MISSING_CRS", "EPSG:"),
        ("TARGET_CRS", "WGS84"),
        ("NULL_GEOMETRY", "drop"),
        ("EMPTY_GEOMETRY", "no"),
        ("NAN_COORDINATES", "zero"),
        ("COLLAPSED_GEOMETRY", "repair"),
        ("MULTI_GEOMETRY", "never"),
        ("Z_VALUES", "no"),
        ("M_VALUES", "keep"),
        ("VALIDITY", "fix"),
        ("READER", "gdal"),
    ],
)
def test_what_is_no_policy_is_refused_at_the_start(variable: str, value: str) -> None:
    """Case 13: a policy that does not exist keeps the deployment from starting."""
    assert problems(**{variable: value}) == [variable]


def test_a_target_needs_a_source() -> None:
    """Case 20: a deployment that transforms cannot accept layers without a CRS."""
    assert problems(TARGET_CRS="EPSG:4326") == ["MISSING_CRS"]
    for policy in ("hold", "EPSG:25832"):
        assert load({**SINK, "TARGET_CRS": "EPSG:4326", "MISSING_CRS": policy})


GEOJSON = {"SINK": "gs://datasets?format=geojsonseq"}


@pytest.mark.parametrize("target", ["", "EPSG:4326", "epsg:4326"])
def test_geojson_is_transformed_to_its_one_crs(target: str) -> None:
    """RFC 7946, 4: with that form the target is WGS 84, whether it is stated or not."""
    settings = load({**GEOJSON, "TARGET_CRS": target, "MISSING_CRS": "hold"})

    assert settings.policies.target_crs == "EPSG:4326"


def test_another_crs_for_geojson_is_refused() -> None:
    """RFC 7946, 4: at start-up, with the cure."""
    with pytest.raises(SettingsError) as caught:
        load({**GEOJSON, "TARGET_CRS": "EPSG:3857", "MISSING_CRS": "hold"})

    (problem,) = caught.value.problems
    assert problem == (
        "TARGET_CRS: EPSG:3857 is not EPSG:4326, the one CRS of the sink's format; leave it empty"
    )


def test_geojson_of_layers_without_crs_is_refused() -> None:
    """RFC 7946, 4: what becomes of a layer without CRS has to be said, as for any target."""
    with pytest.raises(SettingsError) as caught:
        load(GEOJSON)

    (problem,) = caught.value.problems
    assert problem == (
        "MISSING_CRS: a layer without a CRS cannot be transformed to EPSG:4326; set it to hold or"
        " EPSG:NUMBER"
    )
