"""Where each of the 66 cases from the field is tested, and which of them come later."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

READING = "unit/test_cases_reading.py"
SINK = "unit/test_cases_sink.py"
ENCODING = "unit/test_shapefile_encoding.py"
CRS = "unit/test_shapefile_crs.py"
POLICIES = "unit/test_row_policies.py"
NAMES = "unit/test_field_names.py"
VALIDITY = "unit/test_shapefile_validity.py"
ARCHIVE = "unit/test_archive.py"
ARCHIVES = "scenarios/test_archives.py"

# Case → the tests that show it, as file and beginning of the function's name.
TESTED: dict[int, tuple[tuple[str, str], ...]] = {
    1: ((READING, "test_case_1_"), (ENCODING, "test_case_1_")),
    2: ((READING, "test_case_2_"), (ENCODING, "test_case_2_")),
    3: ((READING, "test_case_3_"), ("scenarios/test_held.py", "test_case_3_")),
    4: ((READING, "test_case_4_"), (SINK, "test_case_4_")),
    5: ((READING, "test_case_5_"),),
    6: ((READING, "test_cases_6_and_10_"), (ARCHIVES, "test_real_layers_that_lack_a_file")),
    7: ((READING, "test_case_7_"), ("contract/test_sink.py", "test_an_empty_layer_is_published")),
    8: ((READING, "test_case_8_"),),
    9: ((READING, "test_case_9_"),),
    10: ((READING, "test_cases_6_and_10_"), (ARCHIVES, "test_real_layers_that_lack_a_file")),
    11: ((ARCHIVES, "test_three_kinds_of_nothing_are_dead_once"),),
    12: ((READING, "test_case_12_"),),
    13: ((READING, "test_case_13_"), (POLICIES, "test_case_13_"), (SINK, "test_case_13_")),
    14: ((READING, "test_case_14_"), (VALIDITY, "test_case_14_")),
    15: ((VALIDITY, "test_case_15_"),),
    16: ((VALIDITY, "test_case_16_"),),
    17: ((READING, "test_case_17_"),),
    18: ((READING, "test_case_18_"), (SINK, "test_case_18_")),
    19: ((READING, "test_case_19_"), (CRS, "test_case_19_")),
    20: ((CRS, "test_case_20_"), ("scenarios/test_held.py", "test_case_20_")),
    21: (("unit/test_projection.py", "test_case_21_"), (SINK, "test_case_21_")),
    22: ((READING, "test_case_22_"), (SINK, "test_case_22_")),
    23: ((READING, "test_case_23_"),),
    24: ((READING, "test_case_24_"), (SINK, "test_case_24_")),
    25: ((READING, "test_case_25_"), (SINK, "test_case_25_")),
    26: ((READING, "test_case_26_"), (SINK, "test_case_26_")),
    27: ((READING, "test_case_27_"), (SINK, "test_case_27_")),
    28: ((READING, "test_case_28_"), (NAMES, "test_case_28_"), (SINK, "test_cases_28_and_29_")),
    29: ((NAMES, "test_case_29_"), (SINK, "test_cases_28_and_29_")),
    30: ((READING, "test_case_30_"), (NAMES, "test_case_30_")),
    31: ((ARCHIVE, "test_what_a_mac_adds_is_passed_over"),),
    32: ((ARCHIVE, "test_a_folder_zipped_as_a_whole_is_read"),),
    33: (
        (ARCHIVES, "test_each_layer_is_a_result"),
        ("scenarios/test_held.py", "test_case_33_"),
    ),
    34: ((ARCHIVES, "test_metadata_of_a_bundle_is_stored_beside_its_report"),),
    35: (
        (READING, "test_case_35_"),
        ("unit/test_names.py", "test_every_known_extension_in_either_case"),
    ),
    36: ((ARCHIVE, "test_names_with_spaces_and_brackets_stay"), (NAMES, "test_cases_36_and_37_")),
    37: ((ARCHIVE, "test_dots_in_a_stem_stay"), (NAMES, "test_cases_36_and_37_")),
    38: (
        (ARCHIVE, "test_percent_signs_stay"),
        ("unit/test_identity.py", "test_names_are_not_unquoted"),
    ),
    39: (("unit/test_names.py", "test_everything_else_has_a_reason"),),
    40: (("contract/test_source.py", "test_an_empty_object_is_fetched"),),
    41: (("unit/test_main.py", "test_a_bundle_posted_twice_is_ingested_once"),),
    42: (("contract/test_source.py", "test_an_overwrite_between_facts_and_bytes_is_gone"),),
    43: (
        ("unit/test_names.py", "test_the_output_is_ignored"),
        ("unit/test_settings.py", "test_output_inside_what_triggers_us_is_refused"),
    ),
    44: (
        (
            "scenarios/test_ownership.py",
            "test_a_handler_that_goes_on_after_its_timeout_harms_nobody",
        ),
    ),
    45: (("unit/test_main.py", "test_every_form_of_an_event_is_taken_in"),),
    46: (("unit/test_main.py", "test_every_form_of_an_event_is_taken_in"),),
    47: (("unit/test_main.py", "test_a_post_that_is_no_event_has_no_effect"),),
    48: (("emulator/test_contention.py", "test_twenty_identical_deliveries_of_a_waiting_event"),),
    49: (("emulator/test_store_faults.py", "test_a_real_lock_of_the_emulator_is_waited_for"),),
    50: (("unit/test_identity.py", "test_ids_are_valid_document_ids"),),
    51: (
        ("scenarios/test_rejects.py", "test_case_51_"),
        (ARCHIVES, "test_layers_beyond_count_stay_within_the_job"),
    ),
    52: (("contract/test_store.py", "test_every_field_of_a_job_comes_back_equal"),),
    53: (("emulator/test_rpcs.py", "test_a_dispatching_event_costs_three_calls"),),
    56: (("unit/test_ogr.py", "test_case_56_"),),
    57: ((SINK, "test_case_57_"),),
    58: (("contract/test_postgis_tables.py", "test_case_58_"),),
    59: ((POLICIES, "test_case_59_"), ("scenarios/test_rejects.py", "test_case_59_")),
    60: (("contract/test_postgis_swap.py", "test_case_60_"),),
    61: ((SINK, "test_case_61_"),),
    62: (("unit/test_packaging.py", "test_an_install_never_builds_from_source"),),
    63: ((ARCHIVES, "test_an_archive_beyond_the_limits_is_held_once"),),
    64: (("unit/test_main.py", "test_a_deployment_with_wrong_settings_does_not_start"),),
    65: ((ARCHIVES, "test_an_archive_that_would_leave_its_folder_is_dead"),),
    66: ((ARCHIVE, "test_a_bomb_is_refused_from_its_directory"),),
}

# Case → why nothing of it can be tested yet.
LATER = {
    54: "the time-to-live policies belong to the deployment, which is not written yet",
    55: "there is no sink into BigQuery yet",
}


@cache
def functions(path: str) -> tuple[ast.FunctionDef, ...]:
    """Return the tests of one file."""
    tree = ast.parse((TESTS / path).read_text())
    found: Iterator[ast.AST] = ast.walk(tree)
    return tuple(
        node for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    )


def test_every_case_has_its_place() -> None:
    """Each of the 66 cases is either tested or, with its reason, left for later."""
    assert not TESTED.keys() & LATER.keys()
    assert sorted({*TESTED, *LATER}) == list(range(1, 67))
    assert all(LATER.values())


@pytest.mark.parametrize(
    ("case", "path", "name"),
    [(case, path, name) for case, tests in TESTED.items() for path, name in tests],
)
def test_the_tests_that_are_named_exist(case: int, path: str, name: str) -> None:
    """Each test of the table is there, and its name or its docstring says the case's number."""
    named = [function for function in functions(path) if function.name.startswith(name)]
    assert named
    for function in named:
        told = f"{function.name.replace('_', ' ')} {ast.get_docstring(function)}"
        assert re.search(rf"\b{case}\b", told), function.name
