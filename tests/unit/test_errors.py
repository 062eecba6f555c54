"""Errors: one tree, four branches, and a cure in every message."""

from __future__ import annotations

import inspect

import pytest

from gate import errors
from gate.errors import (
    BundleError,
    ConfigurationError,
    GateError,
    HeldError,
    MalformedEventError,
    TransientError,
)

BRANCHES = (TransientError, BundleError, HeldError, ConfigurationError)
ALL = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, GateError) and error is not GateError
]


@pytest.mark.parametrize("error", ALL)
def test_every_error_stands_under_one_branch(error: type[GateError]) -> None:
    """G2: the edge can tell from the branch alone what helps; only an event's fault has none."""
    branches = [branch for branch in BRANCHES if issubclass(error, branch)]
    assert len(branches) == (0 if error is MalformedEventError else 1)


@pytest.mark.parametrize("error", ALL)
def test_every_error_has_a_code_and_a_cure(error: type[GateError]) -> None:
    """G2: codes are short and plain, cures say something, and each class has its own sentence."""
    assert error.code.replace("_", "").isalnum()
    assert error.code == error.code.lower()
    assert len(error.cure) > 10
    assert not error.cure.endswith(".")
    assert error.__doc__


def test_codes_are_unique() -> None:
    """G2: a code selects one kind of fault, so no two share one."""
    codes = [error.code for error in [GateError, *ALL]]
    assert len(set(codes)) == len(codes)


def test_a_message_says_where_what_and_the_cure() -> None:
    """G2: the form is `where: what; cure`, and the three can be had apart."""
    error = BundleError("read 498 of 1000 declared features", where="roads.shp")
    assert str(error) == (
        "roads.shp: read 498 of 1000 declared features;"
        " correct the files and upload the bundle again"
    )
    assert (error.where, error.what) == ("roads.shp", "read 498 of 1000 declared features")
    assert error.todo == BundleError.cure


def test_where_and_cure_may_be_left_out_or_given() -> None:
    """G2: without a place the message begins with the fault; a cure of the moment wins."""
    assert str(TransientError("lost")) == "lost; it is tried again by itself"
    special = TransientError("lost", cure="wait an hour")
    assert str(special) == "lost; wait an hour"
    assert (special.where, special.todo) == ("", "wait an hour")


@pytest.mark.parametrize("error", [error for error in ALL if issubclass(error, HeldError)])
def test_what_is_cured_by_a_fact_says_what_makes_it_count(error: type[HeldError]) -> None:
    """Case 20: to set metadata sends no event, so each such cure says to redrive the job."""
    assert "redrive the job" in error.cure
