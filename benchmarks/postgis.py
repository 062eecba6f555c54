"""Loading shapefiles into PostGIS against ogr2ogr, all in one run.

`python -m benchmarks.postgis` starts a server of its own and prints a Markdown
table for each layer, with and without a spatial index. The contestants take
turns, each in a process of its own that has read and loaded a layer of a few
rows before time counts; the median of several rounds is shown. Both make a new
table each time, over the one that the last round made.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks import layers
from benchmarks.warm import warm_memory
from gate.local import postgres
from gate.local.processes import Child, free_ports, stop_all
from gate.local.stack import START_SECONDS

ROUNDS = 5
FEW = "-few"
GATE, OGR2OGR = "gate", "ogr2ogr"

# Ours in relation to theirs, without an index and with one.
GOALS = {"no index": 0.8, "GiST index": 0.9}


def main() -> int:
    """Run everything, or (with `--measure`) one contestant in this process."""
    options = _options()
    if options.measure:
        name, how, source, uri = options.measure
        print(_measured(name, how, Path(source), uri))
        return 0
    if shutil.which(OGR2OGR) is None:
        print("ogr2ogr: command not found; install it: sudo apt-get install gdal-bin")
        return 1
    scale = 0.02 if options.quick else 1.0
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, _server() as uri:
        for recipe, rows in layers.sizes(scale):
            if recipe.name in options.layers:
                layers.write(recipe, 200, Path(folder) / f"{recipe.name}{FEW}")
                source = layers.write(recipe, rows, Path(folder) / recipe.name)
                _layer(recipe, rows, source, uri, options.rounds)
                shutil.rmtree(source)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small layers, to see that it runs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--layers", nargs="+", default=list(layers.RECIPES), metavar="NAME")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


@contextmanager
def _server() -> Iterator[str]:
    """Run PostgreSQL as its package is configured, but for a write-ahead log with more room."""
    server = postgres.prepare(free_ports(1)[0])
    log = server.folder.with_suffix(".log")
    command = (*server.command, "-c", "max_wal_size=8GB")
    child = Child("postgres", command, environment=os.environ, log=log)
    try:
        child.wait_until(server.answers, seconds=START_SECONDS)
        yield server.uri
    finally:
        stop_all([child])
        server.remove()
        log.unlink()


def _layer(recipe: layers.Recipe, rows: int, source: Path, uri: str, rounds: int) -> None:
    print(f"\n## {recipe.name}: {rows:,} rows × {len(recipe.fields)} attributes\n")
    print("| to PostGIS | gate s | ogr2ogr s | gate / ogr2ogr | goal |")
    print("| --- | --- | --- | --- | --- |")
    for how, goal in GOALS.items():
        seconds: dict[str, list[float]] = {GATE: [], OGR2OGR: []}
        for _ in range(rounds):
            for name, taken in seconds.items():
                taken.append(_run(name, how, source, uri))
        ours, theirs = (statistics.median(seconds[name]) for name in (GATE, OGR2OGR))
        judged = f"≤ {goal} {'✓' if ours / theirs <= goal else '✗'}"
        print(f"| {how} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} | {judged} |", flush=True)


def _run(name: str, how: str, source: Path, uri: str) -> float:
    command = [sys.executable, "-m", "benchmarks.postgis", "--measure", name, how, source, uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    return float(done.stdout.split()[-1])


def _measured(name: str, how: str, source: Path, uri: str) -> float:
    load = {GATE: _gate, OGR2OGR: _ogr2ogr}[name]
    load(how, source.with_name(f"{source.name}{FEW}"), uri)
    warm_memory()
    started = time.perf_counter()
    load(how, source, uri)
    return time.perf_counter() - started


def _gate(how: str, source: Path, uri: str) -> None:
    from gate.identity import Pin, Revision
    from gate.names import Bundle
    from gate.policies import Policies, Validity
    from gate.shapefile.reader import ReadOptions, open_layer
    from gate.sinks import postgis_tables
    from gate.sinks.factory import open_sink
    from gate.sinks.port import Publication, Published
    from gate.sinks.postgis_address import parse

    options = ReadOptions(policies=Policies(validity=Validity.OFF))
    sink = open_sink(parse(uri), None)  # type: ignore[arg-type]
    pins = {".shp": Pin("layer.shp", time.time_ns())}
    publication = Publication(Revision.of(Bundle("bench", "", source.name), pins), "job", 1)
    described = patch.object(postgis_tables, "_finish", lambda *_: None)
    with open_layer(source, name="layer", options=options) as layer:
        if how == "no index":
            described.start()
        done = sink.publish(publication, layer, lambda: layer.report().as_json(), lambda: True)
        assert isinstance(done, Published)
    patch.stopall()


def _ogr2ogr(how: str, source: Path, uri: str) -> None:
    index = "NONE" if how == "no index" else "GIST"
    kind = "POINT" if source.name.startswith(layers.POINTS.name) else "PROMOTE_TO_MULTI"
    subprocess.run(
        [
            *("ogr2ogr", "-f", "PostgreSQL", uri, source / "layer.shp", "-overwrite"),
            *(
                "-nln",
                f"theirs_{source.name}".replace("-", "_"),
                "-nlt",
                kind,
                "-lco",
                f"SPATIAL_INDEX={index}",
            ),
            *("--config", "PG_USE_COPY", "YES"),
        ],
        check=True,
        capture_output=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
