"""An archive goes from a bucket through the function into the sink, layer by layer."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from gate import cli
from gate.local.stack import SOURCE_BUCKET
from tests.archives import archive, files
from tests.e2e.conftest import World
from tests.shapefiles import parcels, points, without


def index(world: World, name: str) -> dict[str, Any] | None:
    """Return the index of an archive as its readers see it."""
    blob = world.sink.get_blob(f"layers/{world.folder}{name}/index.json")
    return json.loads(blob.download_as_bytes()) if blob else None


def test_the_good_layers_of_an_archive_arrive(world: World) -> None:
    """Case 33: two layers are current, the broken one is named, and the job ends partial."""
    packed = archive(
        files("Points", points(7)),
        files("north/plots", parcels(40)),
        files("bad", without(points(2), ".shx")),
        {"north/plots.shp.xml": b"<metadata/>"},
    )
    world.upload("parts.zip", packed)
    world.decisions.wait("the index", lambda: index(world, "parts.zip") is not None)

    listed = index(world, "parts.zip")
    assert listed is not None
    assert [(layer["name"], layer["state"]) for layer in listed["layers"]] == [
        ("bad", "failed"),
        ("north/plots", "done"),
        ("points", "done"),
    ]
    assert listed["layers"][0]["code"] == "missing_component"
    for name, rows in (("north/plots", 40), ("points", 7)):
        dataset = world.dataset(f"parts.zip/{name}")
        assert pq.read_metadata(io.BytesIO(dataset)).num_rows == rows
    pointer = world.pointer("parts.zip/north/plots")
    assert pointer is not None
    stored = f"layers/{world.folder}parts.zip/north/plots/{pointer['metadata']}"
    assert world.sink.blob(stored).download_as_bytes() == b"<metadata/>"
    world.decisions.wait(
        "the job's end", lambda: world.job(listed["revision_id"])["state"] == "partial"
    )
    summary = world.job(listed["revision_id"])["summary"]
    assert summary["layers"] == {"found": 3, "done": 2, "failed": 1}


def test_an_object_is_inspected_where_it_lies(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 3: a client reads the verdict on a live object, and nothing comes of it in the sink."""
    world.upload("lone.shp", parcels(5)[".shp"])
    assert cli.main(["inspect", f"gs://{SOURCE_BUCKET}/{world.folder}lone.shp"]) == 1
    assert "refused  missing_component" in capsys.readouterr().out

    world.upload("seen.zip", archive(files("a", points(3))))
    assert cli.main(["inspect", "--json", f"gs://{SOURCE_BUCKET}/{world.folder}seen.zip"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["layers"][0]["report"]["rows"]["loaded"] == 3
