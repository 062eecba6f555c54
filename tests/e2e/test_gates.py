"""The gates that list, in the local stack: the bucket and the queue behind real addresses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gate.local.stack import Stack
from tests.e2e.conftest import SETTINGS, World
from tests.shapefiles import parcels

# Short, for the tests; the order of things is the same.
ENVIRONMENTS = {
    "verify": {"GATE": "verify"},
    "poll": {"GATE": "poll", "POLL_DELAY_SECONDS": "1"},
}
REFUSED = {"verify": "lacking", "poll": "scheduled"}


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def shared_stack(
    request: pytest.FixtureRequest, _tools: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """Run a stack of its own behind each gate."""
    folder = tmp_path_factory.mktemp(request.param)
    with Stack({**SETTINGS, **ENVIRONMENTS[request.param]}, folder=folder) as running:
        yield running


def test_a_bundle_is_ingested_once_it_is_whole(
    world: World, request: pytest.FixtureRequest
) -> None:
    """Issue 7, B6: files that come late, spelt otherwise, make one revision; a new upload another.

    The `.shp` comes first and waits, and nothing is stored meanwhile.
    """
    gate = request.node.callspec.params["shared_stack"]
    files = parcels(rows=12)
    world.upload_all("roads", files, ".shp", ".shx")
    world.wait_for("roads.shp", REFUSED[gate])
    assert world.manifest("roads") == {}
    world.upload("ROADS.PRJ", files[".prj"])
    world.upload("Roads.DBF", files[".dbf"])
    expected = sum(world.generations.values())
    world.wait("the dataset", lambda: (world.pointer("roads") or {}).get("order") == str(expected))
    pointer = world.pointer("roads")
    assert pointer
    assert pointer["rows"] == 12
    assert set(world.job(str(pointer["revision_id"]))["pins"]) == {".dbf", ".prj", ".shp", ".shx"}
    world.upload_all("roads", parcels(rows=30), ".dbf", ".shx", ".prj", ".shp")
    world.wait("the newer", lambda: (world.pointer("roads") or {}).get("rows") == 30)
    assert world.count("reading", "roads") == 2
