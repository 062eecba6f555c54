"""How long one call can stop every other thread, and so the heartbeat of a lease.

`python -m benchmarks.stalls` reads layers of one record that is as large, or has as
many parts, as comes up, by each way of reading, while another thread looks at the
clock every few milliseconds. It prints a Markdown table with the longest time for
which that thread was kept from running, and fails if that is more than what a first
lease has left when its renewal falls due. Records of more parts than these take
Fiona longer still: `--parts` tries. `--quick` takes small records: it shows that the
benchmark runs.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gate import settings
from gate.ownership import RENEW_AT
from gate.policies import Policies, Reader, Validity
from gate.shapefile.reader import ReadOptions, open_layer
from gate.sinks import geoparquet
from tests import shapefiles
from tests.shapefiles import Shape

TICK_SECONDS = 0.005
# Nearly the largest record that is taken: 32 MiB, 16 bytes for each position.
POSITIONS = 2_000_000
PARTS = 20_000

WAYS = {
    "auto": Policies(),
    "auto, repair": Policies(validity=Validity.REPAIR),
    "auto, to EPSG:3857": Policies(missing_crs="EPSG:4326", target_crs="EPSG:3857"),
    "fiona": Policies(reader=Reader.FIONA),
}


def main() -> int:
    """Measure each layer by each way of reading; return 1 if a lease may not outlast a call."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small records, to see that it runs")
    parser.add_argument("--parts", type=int, default=PARTS, help="of the record of many parts")
    options = parser.parse_args()
    scale = 0.01 if options.quick else 1.0
    layers = {
        "one ring": shapefiles.polygon(circle(int(POSITIONS * scale) - 10)),
        "one line": shapefiles.line(circle(int(POSITIONS * scale) - 10)),
        "many parts": islands(int(options.parts * scale)),
    }
    left_seconds = settings.for_reading({}).limits.lease.total_seconds() * RENEW_AT
    longest = max(table(layers))
    enough = longest < left_seconds
    print(
        f"\nlongest stall {longest:.2f} s; a first lease has {left_seconds:.0f} s left when its"
        f" renewal falls due {'✓' if enough else '✗'}"
    )
    return 0 if enough else 1


def table(layers: dict[str, Shape]) -> Iterator[float]:
    """Print a row for each layer and way of reading, and yield its longest stall."""
    print("| one record | read by | seconds | longest stall |\n| --- | --- | --- | --- |")
    for name, shape in layers.items():
        with tempfile.TemporaryDirectory(prefix="bench-") as made:
            folder = Path(made)
            shapefiles.write(shapefiles.layer([shape]), folder)
            for way, policies in WAYS.items():
                with watched() as pauses:
                    started = time.perf_counter()
                    with open_layer(
                        folder, name=name, options=ReadOptions(policies=policies)
                    ) as layer:
                        geoparquet.write(folder / "target.parquet", layer, {})
                    seconds = time.perf_counter() - started
                print(f"| {name} | {way} | {seconds:.2f} | {max(pauses):.2f} |", flush=True)
                yield max(pauses)


@contextmanager
def watched() -> Iterator[list[float]]:
    """Collect, from another thread, how long each of its short sleeps has really taken."""
    ended, pauses = threading.Event(), [0.0]

    def tick() -> None:
        while not ended.is_set():
            before = time.perf_counter()
            time.sleep(TICK_SECONDS)
            pauses.append(time.perf_counter() - before)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield pauses
    finally:
        ended.set()
        thread.join()


def circle(positions: int) -> list[tuple[float, float]]:
    """Return a closed ring, clockwise."""
    angles = (-math.tau * number / positions for number in range(positions))
    ring = [(10 * math.cos(angle), 10 * math.sin(angle)) for angle in angles]
    return [*ring, ring[0]]


def islands(count: int) -> Shape:
    """Return one polygon of so many squares apart from each other."""
    return shapefiles.polygon(
        *(shapefiles.square(n % 1000 * 0.3 - 150, n // 1000 * 0.3 - 80, 0.1) for n in range(count))
    )


if __name__ == "__main__":
    raise SystemExit(main())
