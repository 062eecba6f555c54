"""The address of a sink: `gs://bucket/prefix?format=geoparquet&order=hilbert&keep=1`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl

from gate.errors import ConfigurationError

FORMATS = ("geoparquet", "geojsonseq", "flatgeobuf", "gpkg")
ORDERS = ("file", "hilbert")
PARAMETERS = ("format", "order", "keep")
# Not among the requirements of every deployment; `needed` is the line that adds it.
WRITER = "pyogrio"
WRITER_NEEDED = "pyogrio==0.13.0"
WRITTEN_BY_GDAL = ("flatgeobuf", "gpkg")
MAX_KEEP = 100
MAX_PREFIX_BYTES = 400
_WHERE = "SINK"
_SCHEME = "gs://"
_EXAMPLE = "gs://bucket/prefix?format=geoparquet&keep=1"

# Cloud Storage, bucket naming requirements; names with dots may be longer.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class SinkAddress:
    """Where datasets go, and in which form.

    `prefix` holds no slash at either end and may be empty. `keep` is how many
    superseded datasets stay behind the current one. `order` is that of the rows:
    as in the file, or along a Hilbert curve.
    """

    bucket: str
    prefix: str = ""
    format: str = "geoparquet"
    keep: int = 1
    order: str = "file"

    @property
    def required_crs(self) -> str:
        """Return the one CRS that the form allows, as `EPSG:n`; empty if it allows any."""
        return "EPSG:4326" if self.format == "geojsonseq" else ""

    @property
    def copies(self) -> int:
        """Return how many copies of a dataset wait in the temporary folder until it is whole."""
        if self.format == "flatgeobuf":
            return 2
        return int(self.format == "gpkg" or self.order == "hilbert")

    @property
    def output_prefix(self) -> str:
        """Return what the name of every object written here begins with."""
        return f"{self.prefix}/" if self.prefix else ""

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.output_prefix}"


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def parse(uri: str, installed: Callable[[str], bool] = _installed) -> SinkAddress:
    """Return the address that `uri` spells.

    Nothing in it is unquoted but the values of parameters. Raises
    `ConfigurationError`, naming everything that is wrong with it, and what a
    form needs that is not `installed`. What was meant for another kind of sink
    may hold a password, so nothing is repeated of it.
    """
    if not uri.startswith(_SCHEME):
        raise ConfigurationError(
            "begins with neither gs:// nor postgresql://",
            where=_WHERE,
            cure=f"write it like {_EXAMPLE} or postgresql://user@host/database",
        )
    path, _, query = uri.partition("?")
    bucket, _, prefix = path.removeprefix(_SCHEME).partition("/")
    prefix = prefix.removesuffix("/")
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    problems = [*place_problems(bucket, prefix), *_parameter_problems(pairs)]
    form = parameters.get("format", FORMATS[0])
    if "order" in parameters and form in FORMATS[1:]:
        problems.append(f"order is for geoparquet, {form} has none to choose")
    if form in WRITTEN_BY_GDAL and not installed(WRITER):
        problems.append(
            f"format {form} needs {WRITER}, which is not installed; add the line"
            f" {WRITER_NEEDED} to requirements.txt and deploy again"
        )
    if problems:
        raise ConfigurationError(
            "; ".join(problems), where=_WHERE, cure=f"write it like {_EXAMPLE}"
        )
    return SinkAddress(
        bucket,
        prefix,
        form,
        int(parameters.get("keep", SinkAddress("").keep)),
        parameters.get("order", ORDERS[0]),
    )


def place_problems(bucket: str, prefix: str) -> Iterator[str]:
    """Yield what is wrong with a place for objects."""
    if "@" in bucket:
        yield "no user stands before a bucket"
    elif not _BUCKET.fullmatch(bucket):
        yield f"{bucket!r} is no bucket name"
    if prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")):
        yield f"prefix {prefix!r} has an empty or dotted segment"
    if len(prefix.encode()) > MAX_PREFIX_BYTES:
        yield f"prefix is longer than {MAX_PREFIX_BYTES} bytes"


def _parameter_problems(pairs: list[tuple[str, str]]) -> Iterator[str]:
    names = [name for name, _ in pairs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"parameter {name} is given twice"
    for name, text in pairs:
        if name == "format":
            if text not in FORMATS:
                yield f"format {text!r} is unknown, there are {', '.join(FORMATS)}"
        elif name == "order":
            if text not in ORDERS:
                yield f"order {text!r} is unknown, there are {', '.join(ORDERS)}"
        elif name == "keep":
            if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= MAX_KEEP):
                yield f"keep {text!r} is no number from 0 to {MAX_KEEP}"
        else:
            yield f"parameter {name} is unknown, there are {', '.join(PARAMETERS)}"
