"""A bundle larger than the memory of a function, from Cloud Storage to Cloud Storage.

`python -m benchmarks.large` makes layers of points in code, gives each to
fake-gcs-server, ingests it as GeoParquet in a process of its own, from the
events to the pointer, and prints what that took: time, memory at its peak, and
what lay in the temporary folder at its peak, which on a function is memory too.
State is kept in the memory of that process. Each layer is read where it lies,
unless it is small, and then (with `--downloaded`) as if it were small.
`--layer coasts` takes long rings instead. The server is another process, whose
memory is not counted, and whose work on the same processors is in the time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests

from benchmarks import layers

ROWS = (100_000, 1_000_000, 10_000_000, 18_000_000)
UPLOADS, DATASETS = "uploads", "datasets"
EXTENSIONS = (".prj", ".cpg", ".shp", ".shx", ".dbf")
WARM_ROWS = 200
START_SECONDS = 120
SAMPLE_SECONDS = 0.05
MEGABYTE = 1e6


def main() -> int:
    """Measure each length, or (with `--measure`) ingest one bundle in this process."""
    options = _options()
    if options.measure:
        print(json.dumps(_measured(options.measure, downloaded=options.downloaded)))
        return 0
    print("| rows | bundle, MB | seconds | CPU | server's CPU | peak memory, MB | files, MB |")
    print("|" + " --- |" * 7, flush=True)
    recipe = layers.RECIPES[options.layer]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as place:
        for rows in options.rows:
            size_bytes = _made(recipe, rows, Path(place) / "objects" / UPLOADS / "in")
            with _server(Path(place)) as (url, server):
                for downloaded in (False, True) if options.downloaded else (False,):
                    before = _cpu_seconds(server)
                    took = _run(url, Path(place), downloaded=downloaded)
                    _show(rows, size_bytes, {**took, "server": _cpu_seconds(server) - before})
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--layer", default=layers.POINTS.name, choices=list(layers.RECIPES))
    parser.add_argument("--downloaded", action="store_true", help="as if it were small, too")
    parser.add_argument("--folder", help="where the layers are made (default: the temporary one)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


def _show(rows: int, size_bytes: int, took: dict[str, float]) -> None:
    megabytes = size_bytes / MEGABYTE
    print(
        f"| {rows:,}{' downloaded' if took['downloaded'] else ''} | {megabytes:.0f}"
        f" | {took['seconds']:.1f} | {took['cpu_seconds']:.1f} | {took['server']:.1f}"
        f" | {took['peak_bytes'] / MEGABYTE:.0f} | {took['files_bytes'] / MEGABYTE:.0f} |",
        flush=True,
    )


def _run(url: str, place: Path, *, downloaded: bool) -> dict[str, Any]:
    """Ingest in a process of its own, and see what grows in its temporary folder meanwhile."""
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        command = [sys.executable, "-m", "benchmarks.large", "--measure", url]
        command += ["--downloaded"] if downloaded else []
        worker = subprocess.Popen(
            command, env={**os.environ, "TMPDIR": temporary}, stdout=subprocess.PIPE, text=True
        )
        most, over = [0], threading.Event()
        watch = threading.Thread(target=_watch, args=(Path(temporary), most, over))
        watch.start()
        said, _ = worker.communicate()
        over.set()
        watch.join()
    if worker.returncode:
        raise RuntimeError(f"the worker ended with {worker.returncode}")
    return {**json.loads(said.splitlines()[-1]), "files_bytes": most[0]}


def _watch(folder: Path, most: list[int], over: threading.Event) -> None:
    """Keep the most bytes that the files below a folder take on the disk: holes take none."""
    while not over.wait(SAMPLE_SECONDS):
        total = 0
        for path in folder.rglob("*"):
            try:
                total += path.lstat().st_blocks * 512
            except OSError:
                continue
        most[0] = max(most[0], total)


def _made(recipe: layers.Recipe, rows: int, objects: Path) -> int:
    """Make a bundle and one of a few rows, as files that are called like objects."""
    size_bytes = 0
    for name, length in (("few", WARM_ROWS), ("all", rows)):
        folder = layers.write(recipe, length, objects / name)
        size_bytes = sum(path.stat().st_size for path in folder.iterdir())
        for path in folder.iterdir():
            path.rename(objects / f"{name}{path.suffix}")
        folder.rmdir()
    return size_bytes


# --- the server -------------------------------------------------------------------


@contextmanager
def _server(place: Path) -> Iterator[tuple[str, int]]:
    """Run fake-gcs-server over the files in `place`; give its URL and its process."""
    from gate.local.tools import bare_tools

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [bare_tools().storage_server, "-scheme", "http", "-data", str(place / "objects")]
    command += ["-backend", "filesystem", "-filesystem-root", str(place / "server")]
    command += ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    command += ["-external-url", url]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _create_bucket(url, DATASETS)
        shutil.rmtree(place / "objects")
        yield url, server.pid
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(place / "server")


def _cpu_seconds(process: int) -> float:
    """Return what a process has used of all processors so far (proc(5))."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _create_bucket(url: str, bucket: str) -> None:
    """Create a bucket, once the server has taken in what it begins with."""
    for _ in range(START_SECONDS * 10):
        try:
            requests.post(f"{url}/storage/v1/b", json={"name": bucket}, timeout=START_SECONDS)
            return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise RuntimeError("fake-gcs-server does not answer")


def _client(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    return storage.Client(
        project="bench",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": url},
    )


# --- the worker -------------------------------------------------------------------


def _measured(url: str, *, downloaded: bool) -> dict[str, float]:
    """Ingest a bundle of a few rows, so that everything is imported, and then the large one."""
    deployment = _Deployment(url, downloaded=downloaded)
    deployment.ingest("few")
    started, before = time.perf_counter(), os.times()
    deployment.ingest("all")
    seconds, after = time.perf_counter() - started, os.times()
    return {
        "downloaded": downloaded,
        "seconds": seconds,
        "cpu_seconds": sum(after[:2]) - sum(before[:2]),
        "peak_bytes": _peak_bytes(),
    }


def _peak_bytes() -> int:
    """Return the most memory that this process has had, as the kernel has seen it (proc(5))."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if "VmHWM" in line)


class _Deployment:
    """The use cases over Cloud Storage, with the state in memory."""

    def __init__(self, url: str, *, downloaded: bool) -> None:
        from gate import settings, wiring
        from gate.cloud_storage import CloudStorage
        from gate.dead_letters import LoggedDeadLetters
        from gate.heartbeat import heartbeat, shutting_down
        from gate.ingest import Ingest
        from gate.intake import Intake
        from gate.sinks.factory import open_sink
        from gate.source.cloud_storage import CloudStorageSource
        from gate.store.memory import MemoryStore

        sink = f"gs://{DATASETS}/{'downloaded' if downloaded else 'in-parts'}"
        stated = settings.load({"SINK": sink, "FUNCTION_TIMEOUT_SECONDS": "3600"})
        self._cloud = CloudStorage(_client(url))
        store = MemoryStore(stated.retention, lambda: datetime.now(UTC))
        source = CloudStorageSource(self._cloud)
        capacity = wiring.capacity(stated, 1 << 62)
        self._intake = Intake(store, stated, lambda _component: (), _token)
        self._ingest = Ingest(
            store=store,
            source=source,
            sink=open_sink(stated.sink, self._cloud),
            open_layer=wiring.opener(stated.policies),
            unpack=wiring.unpacker(stated),
            letters=LoggedDeadLetters(),
            settings=stated,
            capacity=replace(capacity, whole_bytes=1 << 62) if downloaded else capacity,
            product="benchmark",
            new_token=_token,
            monotonic=time.monotonic,
            heartbeat=heartbeat,
            shutting_down=shutting_down,
        )

    def ingest(self, name: str) -> None:
        """Take in the events of a bundle, and run the job that they make."""
        from gate.events import ObjectFinalized

        for extension in EXTENSIONS:
            path = f"in/{name}{extension}"
            facts = self._cloud.stat(UPLOADS, path)
            if facts is None:
                raise RuntimeError(f"{path} is not there")
            receipt = self._intake(ObjectFinalized(UPLOADS, path, facts.generation, path))
            if receipt.work:
                ending = self._ingest(receipt.work)
                if ending.decision != "done":
                    raise RuntimeError(f"{ending.decision}: {ending.detail}")
                return
        raise RuntimeError(f"{name} was never dispatched")


def _token() -> str:
    return uuid.uuid4().hex


if __name__ == "__main__":
    raise SystemExit(main())
