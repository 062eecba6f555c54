"""The sweep as its scheduler calls it, in the local stack."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime, timedelta

from gate.identity import bundle_id, job_id
from gate.local.processes import answers, post
from gate.local.stack import SOURCE_BUCKET, Stack
from gate.sweep import Counts
from tests.e2e.conftest import World
from tests.shapefiles import parcels


def test_a_sweep_is_posted_for_and_answers_with_counts(stack: Stack) -> None:
    """Design 7.4: the framework serves the sweep as plain HTTP, to POST alone."""
    assert answers(stack.sweep_url, status=405)
    assert post(stack.sweep_url, b"", {}) == 200
    request = urllib.request.Request(stack.sweep_url, data=b"", method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        assert json.load(answer).keys() == Counts().as_json().keys()


def test_a_file_whose_event_was_lost_is_found_in_the_bucket(world: World) -> None:
    """H5: with claim and register of one file gone, as if never heard of, the listing finds it."""
    files = parcels(rows=12)
    world.upload_all("quiet", files, ".shp", ".shx")
    world.wait_for("quiet.shx", "waiting")
    # The time to come is out of the scheduler's sight until all is arranged.
    document = world.firestore.document(f"manifests/{bundle_id(world.bundle('quiet'))}")
    document.update({"wake_at": datetime.now(UTC) + timedelta(days=1)})
    name = f"{world.folder}quiet.shx"
    claim = job_id(SOURCE_BUCKET, name, world.generations["quiet.shx"])
    world.firestore.document(f"claims/{claim}").delete()
    known = {f"{world.folder}quiet.shp": world.generations["quiet.shp"]}
    document.update({"components": known, "seen": [".shp"], "newest.`.shx`": 0})
    world.upload("quiet.dbf", files[".dbf"])
    world.wait_for("quiet.dbf", "waiting")
    assert world.wait_until_current("quiet")["rows"] == 12
    assert world.count("reading", "quiet") == 1
