"""Reading shapefiles against pyogrio, ogr2ogr and a Fiona loop, all in one run.

`python -m benchmarks.read` prints Markdown tables: decoding to Arrow, shapefile
to GeoParquet, the check of polygons, and peak memory, each beside its goal.
Every measurement is a process of its own, which reads a layer of a few rows
first, so that everything is imported; then time and memory count. The
contestants take turns, and the median of several rounds is shown. Memory is the
peak of the process above what it had by then; what decodes to Arrow holds the
whole table in the end, what writes a file does not. Right before each measurement
another process fetches memory from the host, so that it costs all contestants the
same (`benchmarks.warm`). CPU is what all threads and
children have used: it hardly changes where other programs are running, while
seconds and their ratios are those of a machine with two cores to spare.
`--quick` takes small layers: it shows that the benchmark runs, and its numbers
mean little.
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
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import layers
from benchmarks.warm import warm_memory

ROUNDS = 5
FEW = "-few"
ZSTD_LEVEL = 3
MEMORY_GOAL_MB = 150


def main() -> int:
    """Run everything, or (with `--measure`) one contestant in this process."""
    options = _options()
    if options.measure:
        name, source, target = options.measure
        print(*_measured(CONTESTANTS[name](), Path(source), Path(target)))
        return 0
    scale = 0.02 if options.quick else 1.0
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        bench = Bench(Path(folder), options.rounds)
        for recipe, rows in layers.sizes(scale):
            if recipe.name in options.layers:
                bench.layer(recipe, rows)
        for recipe, rows in layers.sizes(scale):
            if recipe.name in options.layers and not options.no_long:
                bench.long(recipe, 10 * rows)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small layers, to see that it runs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--layers", nargs="+", default=list(layers.RECIPES), metavar="NAME")
    parser.add_argument("--no-long", action="store_true", help="no layers ten times as long")
    parser.add_argument("--folder", help="where the layers are made (default: the temporary one)")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


class Bench:
    """Measures contestants in turns and prints what came out."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self._folder = folder
        self._rounds = rounds

    def layer(self, recipe: layers.Recipe, rows: int) -> None:
        """Make a layer, run all contestants over it, and print the tables."""
        source = self._made(recipe, rows)
        found = self._rounds_of(list(CONTESTANTS), source, self._rounds)
        print(f"\n## {recipe.name}: {rows:,} rows × {len(recipe.fields)} attributes\n")
        self._table("to Arrow", found, DECODING)
        self._table("to a file, zstd", found, WRITING)
        print(f"Memory of the pipeline: {_peak(found[PIPELINE].peak_mb)}\n")
        if recipe.kind == layers.POLYGON:
            self._validity(found)
        shutil.rmtree(source)

    def long(self, recipe: layers.Recipe, rows: int) -> None:
        """Print the peak memory for a layer of this many rows."""
        source = self._made(recipe, rows)
        found = self._rounds_of([PIPELINE], source, 1)
        peak = found[PIPELINE].peak_mb
        print(f"\n{recipe.name}, {rows:,} rows: {_peak(peak)}", flush=True)
        shutil.rmtree(source)

    def _made(self, recipe: layers.Recipe, rows: int) -> Path:
        """Make a layer, and one of a few rows beside it."""
        layers.write(recipe, 200, self._folder / f"{recipe.name}{FEW}")
        return layers.write(recipe, rows, self._folder / recipe.name)

    def _rounds_of(self, names: Sequence[str], source: Path, rounds: int) -> dict[str, Median]:
        answers: dict[str, list[tuple[float, ...]]] = {}
        for _ in range(rounds):
            for name in names:
                answer = self._run(name, source)
                if answer is not None:
                    answers.setdefault(name, []).append(answer)
        return {
            name: Median(*map(statistics.median, zip(*answers[name], strict=True)))
            for name in answers
        }

    def _run(self, name: str, source: Path) -> tuple[float, ...] | None:
        if name == OGR2OGR and shutil.which("ogr2ogr") is None:
            return None
        target = self._folder / "target.fgb"
        command = [
            sys.executable,
            "-m",
            "benchmarks.read",
            "--measure",
            name,
            source,
            target,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        target.unlink(missing_ok=True)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr}")
        return tuple(map(float, done.stdout.split()[-3:]))

    def _table(self, title: str, found: dict[str, Median], goals: dict[str, float | None]) -> None:
        ours = found[next(iter(goals))]
        print(f"| {title} | seconds | ours / theirs | goal | CPU seconds | peak MB |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, goal in goals.items():
            if name not in found:
                print(f"| {name} | not installed: `apt-get install gdal-bin` | | | | |")
                continue
            median = found[name]
            ratio = ours.seconds / median.seconds
            judged = "" if goal is None else f"≤ {goal} {'✓' if ratio <= goal else '✗'}"
            shown = "" if median is ours else f"{ratio:.2f}"
            peak = "" if name in (OGR2OGR, *ZSTD) else f"{median.peak_mb:.0f}"
            cpu = "" if name in ZSTD else f"{median.cpu_seconds:.2f}"
            print(f"| {name} | {median.seconds:.2f} | {shown} | {judged} | {cpu} | {peak} |")
        print(flush=True)

    def _validity(self, found: dict[str, Median]) -> None:
        added = found["gate: GeoParquet, flag"].seconds - found[PIPELINE].seconds
        alone = found[CHECK].seconds
        print(
            f"VALIDITY=flag adds {added:.2f} s to the pipeline; the check alone, of geometries"
            f" that exist already, takes {alone:.2f} s {'✓' if added <= max(alone, 0.05) else '✗'}",
            flush=True,
        )


class Median:
    """The medians of one contestant."""

    def __init__(self, seconds: float, cpu_seconds: float, peak_mb: float) -> None:
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds
        self.peak_mb = peak_mb


def _peak(peak_mb: float) -> str:
    judged = "✓" if peak_mb <= MEMORY_GOAL_MB else "✗"
    return f"{peak_mb:.0f} MB above the interpreter (goal: ≤ {MEMORY_GOAL_MB}) {judged}"


# --- contestants, each in a process of its own ------------------------------

# A contestant imports what it needs and returns its work, which takes source and
# target and may return how many seconds of it count.
Work = Callable[[Path, Path], float | None]
PIPELINE = "gate: GeoParquet"
OGR2OGR = "ogr2ogr: FlatGeobuf"
CHECK = "shapely: the check alone"
ZSTD = {f"zstd {level} of the geometry alone": level for level in (1, 3)}


def _measured(work: Work, source: Path, target: Path) -> tuple[float, float, float]:
    """Return seconds, CPU seconds, and peak memory in MB above what the process had before."""
    work(source.with_name(f"{source.name}{FEW}"), target)
    target.unlink(missing_ok=True)
    warm_memory()
    before = _peak_now_mb()
    started, used = time.perf_counter(), sum(os.times()[:4])
    counted = work(source, target)
    seconds, cpu = time.perf_counter() - started, sum(os.times()[:4]) - used
    return counted if counted is not None else seconds, cpu, _peak_now_mb() - before


def _peak_now_mb() -> float:
    """Return the peak of this process; that of `getrusage` includes the one it came from."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _gate(validity: str, *, write: bool) -> Callable[[], Work]:
    def contestant() -> Work:
        from gate.policies import Policies, Validity
        from gate.shapefile.reader import ReadOptions, open_layer
        from gate.sinks import geoparquet

        options = ReadOptions(policies=Policies(validity=Validity(validity)))

        def work(source: Path, target: Path) -> None:
            with open_layer(source, name="layer", options=options) as layer:
                if write:
                    geoparquet.write(target, layer, {})
                else:
                    held = list(layer.batches())
                    assert held
                layer.report()

        return work

    return contestant


def _pyogrio_arrow() -> Work:
    import pyogrio.raw

    def work(source: Path, _target: Path) -> None:
        pyogrio.raw.read_arrow(source / "layer.shp")

    return work


def _fiona_loop() -> Work:
    import fiona

    def work(source: Path, _target: Path) -> None:
        with fiona.open(source / "layer.shp") as layer:
            for feature in layer:
                _ = feature.geometry, feature.properties

    return work


def _geopandas() -> Work:
    import geopandas  # noqa: F401 - pyogrio needs it
    import pyogrio

    def work(source: Path, target: Path) -> None:
        frame = pyogrio.read_dataframe(source / "layer.shp", use_arrow=True)
        frame.to_parquet(target, compression="zstd", compression_level=ZSTD_LEVEL)

    return work


def _pyogrio_stream() -> Work:
    """Parquet of the same columns, without what makes it GeoParquet: a floor."""
    import pyarrow.parquet as pq
    import pyogrio.raw

    def work(source: Path, target: Path) -> None:
        opened = pyogrio.raw.open_arrow(source / "layer.shp", use_pyarrow=True)
        with opened as (_, batches):
            schema = batches.schema
            with pq.ParquetWriter(
                target,
                schema,
                compression="zstd",
                compression_level=ZSTD_LEVEL,
                use_dictionary=schema.names[:-1],
            ) as writer:
                for batch in batches:
                    writer.write_batch(batch)

    return work


def _ogr2ogr() -> Work:
    def work(source: Path, target: Path) -> None:
        command = ["ogr2ogr", "-f", "FlatGeobuf", "-nlt", "PROMOTE_TO_MULTI"]
        if source.name.startswith(layers.POINTS.name):
            command = command[:3]
        subprocess.run([*command, target, source / "layer.shp"], check=True, capture_output=True)

    return work


def _check_alone() -> Work:
    import pyogrio.raw
    import shapely

    def work(source: Path, _target: Path) -> float:
        geometries = shapely.from_wkb(
            pyogrio.raw.read_arrow(source / "layer.shp", columns=[])[1].column(-1).to_numpy()
        )
        started = time.perf_counter()
        shapely.is_valid(geometries)
        return time.perf_counter() - started

    return work


def _zstd_alone(level: int) -> Callable[[], Work]:
    """Compress what the pipeline compresses, in one thread: no writer of one file is faster."""

    def contestant() -> Work:
        import pyarrow as pa

        from gate.policies import Policies, Validity
        from gate.shapefile.reader import ReadOptions, open_layer

        options = ReadOptions(policies=Policies(validity=Validity.OFF))
        codec = pa.Codec("zstd", level)

        def work(source: Path, _target: Path) -> float:
            seconds = 0.0
            with open_layer(source, name="layer", options=options) as layer:
                for batch in layer.batches():
                    content = batch.column(batch.num_columns - 1).buffers()[2]
                    started = time.thread_time()
                    codec.compress(content)
                    seconds += time.thread_time() - started
            return seconds

        return work

    return contestant


CONTESTANTS: dict[str, Callable[[], Work]] = {
    "gate: Arrow": _gate("off", write=False),
    "pyogrio: Arrow": _pyogrio_arrow,
    "Fiona: a loop": _fiona_loop,
    PIPELINE: _gate("off", write=True),
    "gate: GeoParquet, flag": _gate("flag", write=True),
    "pyogrio and geopandas: GeoParquet": _geopandas,
    "pyogrio and pyarrow: Parquet": _pyogrio_stream,
    OGR2OGR: _ogr2ogr,
    CHECK: _check_alone,
    **{name: _zstd_alone(level) for name, level in ZSTD.items()},
}
DECODING: dict[str, float | None] = {
    "gate: Arrow": None,
    "pyogrio: Arrow": 0.6,
    "Fiona: a loop": 0.15,
}
WRITING: dict[str, float | None] = {
    PIPELINE: None,
    "gate: GeoParquet, flag": None,
    "pyogrio and geopandas: GeoParquet": 0.6,
    "pyogrio and pyarrow: Parquet": None,
    OGR2OGR: 0.5,
    **dict.fromkeys(ZSTD),
}


if __name__ == "__main__":
    raise SystemExit(main())
