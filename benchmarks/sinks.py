"""Shapefile to each form of dataset, against ogr2ogr to the same form, all in one run.

`python -m benchmarks.sinks` prints a Markdown table for each layer: the whole
way from the files to the dataset, reading included. Each dataset is written to
the disk once, as ogr2ogr does, and its checksum is computed, as for an upload;
nothing is sent. Every measurement is a process of its own, which writes a layer
of a few rows first, so that everything is imported; ogr2ogr is a process by
itself. The contestants take turns, and the median of several rounds is shown.
The last table shows what a row costs in layers of growing length; `--long` adds
ten million rows. CPU seconds, those of both threads, hold on a busy machine too,
where time says little of work that is done side by side. `--quick` takes small
layers: it shows that the benchmark runs, and its numbers mean little.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import layers
from benchmarks.warm import warm_memory

ROUNDS = 5
FEW = "-few"

# Takes a folder with a layer, and an empty folder to write to.
Work = Callable[[Path, Path], None]


@dataclass(frozen=True, slots=True)
class Contest:
    """Two contestants, by name, and how much of the other's time ours may take."""

    ours: str
    theirs: str
    goal: float | None = None


class Cost(NamedTuple):
    """What one run takes, or the medians of several: by the clock, and of all threads together."""

    seconds: float
    cpu_seconds: float


def main() -> int:
    """Run everything, or (with `--measure`) one contestant in this process."""
    options = _options()
    if options.measure:
        name, source, target = options.measure
        print(*_measured(CONTESTANTS[name], Path(source), Path(target)))
        return 0
    scale = 0.02 if options.quick else 1.0
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        bench = Bench(Path(folder), options.rounds)
        for recipe, rows in layers.sizes(scale):
            if recipe.name in options.layers:
                bench.layer(recipe, rows, options.contests)
        if layers.POINTS.name in options.layers:
            lengths = [100_000, 1_000_000, *([10_000_000] if options.long else [])]
            bench.lengths([int(rows * scale) for rows in lengths])
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small layers, to see that it runs")
    parser.add_argument("--long", action="store_true", help="ten million points too")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--layers", nargs="+", default=list(layers.RECIPES), metavar="NAME")
    parser.add_argument("--contests", default="", help="only those of ours with this in their name")
    parser.add_argument("--folder", help="where the layers are made (default: the temporary one)")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


class Bench:
    """Measures contestants in turns and prints what came out."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self._folder = folder
        self._rounds = rounds

    def layer(self, recipe: layers.Recipe, rows: int, chosen: str) -> None:
        """Make a layer, run the contests over it, and print their table."""
        contests = [contest for contest in CONTESTS if chosen in contest.ours]
        source = self._made(recipe, rows)
        names = dict.fromkeys(
            name for contest in contests for name in (contest.ours, contest.theirs)
        )
        medians = self._medians(list(names), source)
        print(f"\n## {recipe.name}: {rows:,} rows × {len(recipe.fields)} attributes\n")
        print("| ours | seconds | CPU | theirs | seconds | CPU | ours / theirs | CPU | goal |")
        print("|" + " --- |" * 9)
        for contest in contests:
            ours, theirs = medians[contest.ours], medians[contest.theirs]
            ratio = ours.seconds / theirs.seconds
            met = "" if contest.goal is None else "✓" if ratio <= contest.goal else "✗"
            goal = "" if contest.goal is None else f"≤ {contest.goal} {met}"
            print(
                f"| {contest.ours} | {ours.seconds:.2f} | {ours.cpu_seconds:.2f}"
                f" | {contest.theirs} | {theirs.seconds:.2f} | {theirs.cpu_seconds:.2f}"
                f" | {ratio:.2f} | {ours.cpu_seconds / theirs.cpu_seconds:.2f} | {goal} |"
            )
        print(flush=True)

    def lengths(self, lengths: Sequence[int]) -> None:
        """Print what a row of points costs as GeoParquet, in layers of these lengths."""
        print("\n## GeoParquet, cost against rows\n")
        print("| rows | seconds | µs a row | CPU | along a Hilbert curve, µs a row | CPU |")
        print("|" + " --- |" * 6)
        names = ["gate: geoparquet", "gate: geoparquet, order=hilbert"]
        for rows in lengths:
            source = self._made(layers.POINTS, rows)
            plain, along = self._medians(names, source).values()
            each = [f"{cost / rows * 1e6:.2f}" for cost in (*plain, *along)]
            print(f"| {rows:,} | {plain.seconds:.2f} | {' | '.join(each)} |")
        print(flush=True)

    def _made(self, recipe: layers.Recipe, rows: int) -> Path:
        """Make a layer, and one of a few rows beside it."""
        layers.write(recipe, 200, self._folder / f"{recipe.name}{FEW}")
        return layers.write(recipe, rows, self._folder / recipe.name)

    def _medians(self, names: Sequence[str], source: Path) -> dict[str, Cost]:
        costs: dict[str, list[Cost]] = {name: [] for name in names}
        for _ in range(self._rounds):
            for name in names:
                costs[name].append(self._run(name, source))
        return {
            name: Cost(*map(statistics.median, zip(*each, strict=True)))
            for name, each in costs.items()
        }

    def _run(self, name: str, source: Path) -> Cost:
        with tempfile.TemporaryDirectory(dir=self._folder) as target:
            command = [sys.executable, "-m", "benchmarks.sinks", "--measure", name, source, target]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr}")
        seconds, cpu_seconds = map(float, done.stdout.split()[-2:])
        return Cost(seconds, cpu_seconds)


def _measured(work: Work, source: Path, target: Path) -> Cost:
    """Return what a contestant takes once it has done a few rows."""
    for each in ("few", "all"):
        (target / each).mkdir()
    work(source.with_name(f"{source.name}{FEW}"), target / "few")
    warm_memory()
    started, before = time.perf_counter(), os.times()
    work(source, target / "all")
    seconds, after = time.perf_counter() - started, os.times()
    return Cost(seconds, sum(after[:4]) - sum(before[:4]))


# --- contestants --------------------------------------------------------------


class _Checked(io.RawIOBase):
    """What is sent, as far as its checksum, and kept in a file unless it came from one."""

    def __init__(self, path: Path | None) -> None:
        from gate.crc32c import Running

        super().__init__()
        self._file = path.open("wb") if path else None
        self._running = Running()

    def writable(self) -> bool:
        """Tell that it can be written to."""
        return True

    def write(self, piece: Any, /) -> int:
        """Take the next bytes."""
        self._running.add(bytes(piece))
        return self._file.write(piece) if self._file else len(piece)

    def finish(self) -> None:
        """Bring the last bytes to the file."""
        if self._file:
            self._file.close()


def _gate(parameters: str) -> Work:
    def work(source: Path, target: Path) -> None:
        from gate.policies import Policies, Validity
        from gate.shapefile.reader import ReadOptions, open_layer
        from gate.sinks import address, formats

        form = formats.chosen(address.parse(f"gs://bucket?{parameters}"))
        by_gdal = form.extension in {".fgb", ".gpkg"}
        sent = _Checked(None if by_gdal else target / f"dataset{form.extension}")
        folder = target / "work"
        folder.mkdir()
        options = ReadOptions(policies=Policies(validity=Validity.OFF))
        with open_layer(source, name="layer", options=options) as layer:
            form.write(sent, layer, formats.Origin("layer", {}), folder)
            layer.report()
        sent.finish()

    return work


def _ogr2ogr(driver: str, extension: str) -> Work:
    def work(source: Path, target: Path) -> None:
        command = ["ogr2ogr", "-f", driver]
        if not source.name.startswith(layers.POINTS.name):
            command += ["-nlt", "PROMOTE_TO_MULTI"]
        path = target / f"dataset{extension}"
        subprocess.run([*command, path, source / "layer.shp"], check=True, capture_output=True)

    return work


CONTESTANTS: dict[str, Work] = {
    "gate: geoparquet": _gate("format=geoparquet"),
    "gate: geoparquet, order=hilbert": _gate("format=geoparquet&order=hilbert"),
    "gate: flatgeobuf": _gate("format=flatgeobuf"),
    "gate: geojsonseq": _gate("format=geojsonseq"),
    "gate: gpkg": _gate("format=gpkg"),
    "ogr2ogr: FlatGeobuf": _ogr2ogr("FlatGeobuf", ".fgb"),
    "ogr2ogr: GeoJSONSeq": _ogr2ogr("GeoJSONSeq", ".geojsonl"),
    "ogr2ogr: GPKG": _ogr2ogr("GPKG", ".gpkg"),
}
CONTESTS = (
    Contest("gate: geoparquet", "ogr2ogr: FlatGeobuf", 0.4),
    Contest("gate: geoparquet, order=hilbert", "ogr2ogr: FlatGeobuf"),
    Contest("gate: flatgeobuf", "ogr2ogr: FlatGeobuf", 1.2),
    Contest("gate: geojsonseq", "ogr2ogr: GeoJSONSeq", 0.5),
    Contest("gate: gpkg", "ogr2ogr: GPKG"),
)


if __name__ == "__main__":
    raise SystemExit(main())
