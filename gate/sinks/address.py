"""The address of a sink: `gs://bucket/prefix?format=geoparquet&keep=1`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl

from gate.errors import ConfigurationError

FORMATS = ("geoparquet",)
MAX_KEEP = 100
MAX_PREFIX_BYTES = 400
_SCHEME = "gs://"
_EXAMPLE = "gs://bucket/prefix?format=geoparquet&keep=1"

# Cloud Storage, bucket naming requirements; names with dots may be longer.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class SinkAddress:
    """Where datasets go, and in which form.

    `prefix` holds no slash at either end and may be empty. `keep` is how many
    superseded datasets stay behind the current one, so that a reader that has
    just followed the pointer still finds what it points to.
    """

    bucket: str
    prefix: str = ""
    format: str = "geoparquet"
    keep: int = 1

    @property
    def output_prefix(self) -> str:
        """Return what the name of every object written here begins with."""
        return f"{self.prefix}/" if self.prefix else ""

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.output_prefix}"


def parse(uri: str) -> SinkAddress:
    """Return the address that `uri` spells.

    Nothing in it is unquoted but the values of parameters. Raises
    `ConfigurationError`, naming everything that is wrong with it.
    """
    path, _, query = uri.partition("?")
    bucket, _, prefix = path.removeprefix(_SCHEME).partition("/")
    prefix = prefix.removesuffix("/")
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    problems = [*_place_problems(path, bucket, prefix), *_parameter_problems(pairs)]
    if problems:
        raise ConfigurationError(
            "; ".join(problems), where=f"SINK={uri}", cure=f"write it like {_EXAMPLE}"
        )
    return SinkAddress(
        bucket,
        prefix,
        parameters.get("format", FORMATS[0]),
        int(parameters.get("keep", SinkAddress("").keep)),
    )


def _place_problems(path: str, bucket: str, prefix: str) -> Iterator[str]:
    if not path.startswith(_SCHEME):
        yield f"does not begin with {_SCHEME}"
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
                yield f"format {text!r} is unknown, there is {', '.join(FORMATS)}"
        elif name == "keep":
            if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= MAX_KEEP):
                yield f"keep {text!r} is no number from 0 to {MAX_KEEP}"
        else:
            yield f"parameter {name} is unknown, there are format and keep"
