"""What errors are told to readers, who know the names that they uploaded."""

from __future__ import annotations

import pytest

from gate.errors import CorruptError
from gate.identity import Pin, Revision
from gate.names import Bundle
from gate.publishing import as_uploaded

ARCHIVE = Revision.of(Bundle("uploads", "in/", "a", ".zip"), {".zip": Pin("in/A.ZIP", 7)})


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("in/a.zip", "in/A.ZIP"),
        ("in/a.zip/inner.zip", "in/A.ZIP/inner.zip"),
        ("elsewhere", "elsewhere"),
    ],
)
def test_an_error_of_a_whole_archive_names_the_object(where: str, told: str) -> None:
    """Case 35: an archive is called as it was uploaded, and what lies inside it stays as it is."""
    error = as_uploaded(CorruptError("broken", where=where), ARCHIVE)
    assert (error.where, error.what, type(error)) == (told, "broken", CorruptError)
