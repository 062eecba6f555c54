"""What errors are told to readers, who know the names that they uploaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.errors import CorruptError
from gate.identity import Pin, Revision
from gate.names import Bundle
from gate.publishing import as_uploaded
from gate.shapefile.port import ArchivedLayer

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


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("in/a.zip/a", "in/A.ZIP/A"),
        ("in/a.zip/a.shp.xml", "in/A.ZIP/A.shp.xml"),
        ("in/a.zip/ab.shp", "in/A.ZIP/ab.shp"),
        ("in/a.zip/a.b.shp", "in/A.ZIP/a.b.shp"),
        ("in/a.zip/a/b.shp", "in/A.ZIP/a/b.shp"),
    ],
)
def test_a_layer_is_not_taken_for_one_whose_name_goes_on(where: str, told: str) -> None:
    """Case 35: the spelling of layer `a` is given to its own files, not to those of `ab`."""
    layer = ArchivedLayer("a", "A", Path(), (".shp",))
    assert as_uploaded(CorruptError("broken", where=where), ARCHIVE, layer).where == told
