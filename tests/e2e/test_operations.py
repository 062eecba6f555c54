"""The commands for a deployment, against the running stack."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate import cli
from gate.local.stack import SOURCE_BUCKET
from tests.e2e.conftest import World
from tests.shapefiles import parcels


def test_a_held_bundle_goes_through_once_its_metadata_is_corrected(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 20, G7: listed with its cure, corrected where it lies, redriven, run by the sweep."""

    def told(*arguments: str) -> Any:
        assert cli.main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    files = parcels(rows=12)
    world.upload_all("plots", files, ".prj", ".shx", ".dbf")
    shp = world.storage.bucket(SOURCE_BUCKET).blob(f"{world.folder}plots.shp")
    shp.metadata = {"encoding": "klingon"}
    shp.upload_from_string(files[".shp"])
    world.generations["plots.shp"] = int(shp.generation)
    address = f"gs://{SOURCE_BUCKET}/{world.folder}plots.shp"

    def letters() -> list[Any]:
        found = told("dead-letters")["dead_letters"]
        return [one for one in found if one["bundle"] == str(world.bundle("plots"))]

    world.wait("the dead letter", lambda: bool(letters()))
    [letter] = letters()
    assert (letter["state"], letter["code"]) == ("held", "unknown_override")
    # Until its letter is marked as sent, the job is still its worker's to move.
    world.wait("the letter sent", lambda: world.job(letter["job"])["notified"])
    shp.metadata = {"encoding": "UTF-8"}
    shp.patch()
    [redriven] = told("redrive", letter["job"], "--reason", "corrected")["redriven"]
    assert redriven["verdict"] == "redriven"
    assert world.wait_until_current("plots")["rows"] == 12
    world.wait("the job's end", lambda: world.job(letter["job"])["state"] == "done")
    story = told("explain", address)
    kinds = [step["kind"] for step in story["steps"]]
    assert kinds == [*["event"] * 4, "dispatch", "attempt", "redrive", "end"]

    def current() -> bool:
        published = told("status", address)["published"]
        return bool(published) and published["revision"] == letter["job"]

    world.wait("the note of what is current", current)
