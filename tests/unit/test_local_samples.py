"""The layers of the demonstration are real ones."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gate.errors import ConfigurationError
from gate.local.countries import EXTENSIONS, LAYER, countries
from gate.local.parcels import parcels
from gate.shapefile.reader import ReadOptions, open_layer
from tests.shapefiles import write


def test_parcels_are_a_sound_layer(tmp_path: Path) -> None:
    """The generated layer reads without a notice: every row, its CRS and its text."""
    write(parcels(12, 10), tmp_path)
    with open_layer(tmp_path, name="parcels", options=ReadOptions()) as layer:
        rows = [row for batch in layer.batches() for row in batch.to_pylist()]
        report = layer.report()
    assert report.rows.in_file == report.rows.loaded == len(rows) == 120
    assert report.notices == report.values == report.rejects == ()
    assert report.geometry.rewound == 0
    assert "Böschung" in {row["USE"] for row in rows}
    assert report.crs.name == "EPSG:25832"


def test_parcels_depend_on_their_seed_alone() -> None:
    """The same seed gives the same bytes, another seed other ones."""
    assert parcels(3, 2) == parcels(3, 2)
    assert parcels(3, 2)[".shp"] != parcels(3, 2, seed=2)[".shp"]


def test_countries_come_from_the_cache_once_they_are_there(tmp_path: Path) -> None:
    """A wheel in the cache is read, and nothing is downloaded."""
    with zipfile.ZipFile(tmp_path / "geopandas-0.14.4-py3-none-any.whl", "w") as wheel:
        for extension in EXTENSIONS:
            wheel.writestr(f"{LAYER}{extension}", extension)
    assert countries(tmp_path) == {extension: extension.encode() for extension in EXTENSIONS}


def test_a_failed_download_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If pip cannot have it, its last words are told with what to do."""

    def refuse(command: Any, **_options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "trying\nERROR: no route to host\n")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(ConfigurationError) as raised:
        countries(tmp_path / "cache")
    assert "pip could not download it (ERROR: no route to host)" in str(raised.value)
    assert "\n" not in str(raised.value)
