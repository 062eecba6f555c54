"""A layer that is read where it lies, on a server that speaks the protocol of Cloud Storage."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa

from gate.shapefile.reader import Layer, open_layer
from gate.source.ranges import Ranges
from tests.contract.sources import SourceBench
from tests.reading import MAIN
from tests.shapefiles import parcels, without, write

NAMES = "in/a b+c%20#"


def test_a_layer_on_the_server_is_the_layer_on_the_disk(
    source_bench: SourceBench, tmp_path: Path
) -> None:
    """Issue 4: rows that were fetched in parts are those of the files, whatever they are called."""
    bundle = parcels(400)
    with open_layer(write(bundle, tmp_path / "whole"), name="roads") as layer:
        expected = rows(layer)
    folder = write(without(bundle, *MAIN), tmp_path / "sidecars")
    remote = {
        known: Ranges(
            source_bench.source,
            source_bench.bucket,
            source_bench.put(f"{NAMES}{known}", bundle[known]),
            block_bytes=10_000,
        )
        for known in MAIN
    }
    with (
        closing(remote[".shp"]),
        closing(remote[".shx"]),
        closing(remote[".dbf"]),
        open_layer(folder, name="roads", remote=remote) as layer,
    ):
        assert rows(layer) == expected


def rows(layer: Layer) -> pa.Table:
    """Return all rows of a layer, which account for themselves."""
    found = pa.Table.from_batches(list(layer.batches()), layer.schema)
    assert layer.report().rows.loaded == found.num_rows
    return found
