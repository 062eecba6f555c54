"""The function's process is killed while bundles arrive; nothing is lost and nothing doubled."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections import Counter
from random import Random

import pyarrow.parquet as pq

from gate.local.stack import Stack
from tests.e2e.conftest import World
from tests.shapefiles import parcels

KILLS, BUNDLES, SEED = 4, 6, 5
PAUSE_SECONDS = (0.2, 1.5)
PARTS = (".shp", ".shx", ".dbf", ".prj")


def killed_now_and_then(stack: Stack, chance: Random) -> None:
    """Kill the function, which has no time to say so, and start it again, a few times."""
    for _ in range(KILLS):
        time.sleep(chance.uniform(*PAUSE_SECONDS))
        os.killpg(stack.pids["function"], signal.SIGKILL)
        stack.restart_function()


def test_kills_at_random_moments_lose_nothing_and_double_nothing(
    stack: Stack, world: World
) -> None:
    """A6, A7, E2: bundles that arrive while the function is killed take effect, each once."""
    chance = Random(SEED)
    files = {f"plot-{number}": parcels(rows=10 + number, seed=number) for number in range(BUNDLES)}
    uploads = [(stem, part) for stem in files for part in PARTS]
    chance.shuffle(uploads)
    killing = threading.Thread(target=killed_now_and_then, args=(stack, Random(SEED)))
    killing.start()
    try:
        for stem, part in uploads:
            world.upload(f"{stem}{part}", files[stem][part])
            time.sleep(chance.uniform(*PAUSE_SECONDS) / 2)
    finally:
        killing.join()
    for number, stem in enumerate(files):
        revision = world.wait_until_current(stem)["revision_id"]
        world.wait(f"the end of {stem}", lambda job=revision: world.job(job)["state"] == "done")
        assert pq.read_metadata(io.BytesIO(world.dataset(stem))).num_rows == 10 + number
    published = Counter(
        entry["revision"]
        for entry in world.decisions.of("ingestion ended")
        if entry["decision"] == "done" and "already" not in str(entry["detail"])
    )
    assert set(published.values()) <= {1}
