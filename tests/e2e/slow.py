"""The function, with a reader that waits `SLOW_ROW_SECONDS` before each row.

It is served in the place of `main.py`, so that a job lasts long enough for what
a test does to its process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import flask
import functions_framework
import pyarrow as pa

import main
from gate.shapefile.port import Layer, LayerReport, OpenLayer

ROW_SECONDS = float(os.environ.get("SLOW_ROW_SECONDS", "0"))
ingest = main.ingest
work = main.work


@functions_framework.http
def sweep(request: flask.Request) -> tuple[str, int]:
    """Take nothing over: what is tested is that a redelivery does."""
    return "", 204 if request.method == "POST" else 405


@dataclass(frozen=True, slots=True)
class Slow:
    """A layer whose rows come one by one, each after a pause."""

    layer: Layer

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the layer."""
        return self.layer.schema

    @property
    def geo_crs(self) -> Mapping[str, Any] | None:
        """Return the CRS of the layer."""
        return self.layer.geo_crs

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of one row."""
        for batch in self.layer.batches():
            for row in range(batch.num_rows):
                time.sleep(ROW_SECONDS)
                yield batch.slice(row, 1)

    def rejects(self) -> Path | None:
        """Return the rejected rows of the layer."""
        return self.layer.rejects()

    def report(self) -> LayerReport:
        """Return the report of the layer."""
        return self.layer.report()


def slowed(open_layer: OpenLayer) -> OpenLayer:
    """Return what opens layers that take their time."""

    @contextmanager
    def opened(*positional: Any, **named: Any) -> Iterator[Layer]:
        with open_layer(*positional, **named) as layer:
            yield Slow(layer)

    return opened


built = main.gate.ingest
main.gate.ingest = replace(built, open_layer=slowed(built.open_layer))
