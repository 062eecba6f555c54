"""What is fuzzed: bytes in, and either a result that adds up or a coded error out.

Each target takes the bytes of one input. Whatever they are, it must come back:
a `GateError` is a good answer, any other exception, a crash, a hang or growing
memory is a find. `SEEDS` are inputs that mean something, for the fuzzer to start
from.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from gate.errors import GateError
from gate.shapefile import dbf, headers
from gate.shapefile.archive import Archives
from gate.shapefile.files import map_files
from gate.shapefile.findings import Findings
from gate.shapefile.reader import open_layer
from tests.archives import archive, files
from tests.reading import read_options
from tests.shapefiles import (
    LINE,
    MULTIPOINT,
    POLYGON,
    WGS84,
    Bundle,
    Field,
    M,
    Z,
    layer,
    line,
    multipoint,
    null,
    parcels,
    point,
    points,
    polygon,
    square,
    write,
)

PARTS = (".shp", ".shx", ".dbf")
SIDECARS = (".prj", ".cpg", ".cst")
MAX_UNPACKED_BYTES = 1 << 20


def joined(contents: list[bytes]) -> bytes:
    """Return several contents as one input: the length of each but the last, then all of them."""
    lengths = [len(content) for content in contents[:-1]]
    return struct.pack(f"<{len(lengths)}H", *lengths) + b"".join(contents)


def parted(data: bytes, count: int) -> list[bytes]:
    """Return the contents of an input, however short it is; the last one takes the rest."""
    head = 2 * (count - 1)
    lengths = struct.unpack(f"<{count - 1}H", data[:head].ljust(head, b"\0"))
    contents, rest = [], data[head:]
    for length in lengths:
        contents.append(rest[:length])
        rest = rest[length:]
    return [*contents, rest]


def fuzz_headers(data: bytes) -> None:
    """Check the three files of a bundle against each other, in plain Python."""
    with _folder(dict(zip(PARTS, parted(data, 3), strict=True))) as folder, suppress(GateError):
        headers.check(map_files(folder, "fuzz"), Findings())


def fuzz_table(data: bytes) -> None:
    """Read the header of a table and count its deleted rows."""
    if data:
        with suppress(GateError):
            table = dbf.parse_table(np.frombuffer(data, np.uint8), "fuzz.dbf")
            dbf.count_deleted(table, "fuzz.dbf")


def fuzz_layer(data: bytes) -> None:
    """Read a whole bundle with Fiona; rows do not depend on how many are read at once."""
    bundle = dict(zip(PARTS, parted(data, 3), strict=True))
    outcomes = [_rows(bundle, batch_bytes) for batch_bytes in (1, 4 << 20)]
    if outcomes[0] != outcomes[1]:
        raise AssertionError(f"in batches {outcomes[0]}, at once {outcomes[1]}")


def fuzz_sidecars(data: bytes) -> None:
    """Read a sound bundle beside whatever stands in its text sidecars."""
    sidecars = dict(zip(SIDECARS, parted(data, 3), strict=True))
    outcome = _rows({**_TEXTS, **sidecars}, 4 << 20)
    if outcome != 2:
        raise AssertionError(f"of 2 rows {outcome} were loaded")


def fuzz_archive(data: bytes) -> None:
    """Unpack an archive, and find everything that was unpacked below its folder."""
    with tempfile.TemporaryDirectory() as temporary:
        packed, folder = Path(temporary, "in", "layer.zip"), Path(temporary, "out")
        packed.parent.mkdir()
        folder.mkdir()
        packed.write_bytes(data)
        with suppress(GateError):
            Archives(100, MAX_UNPACKED_BYTES)(packed, folder, "fuzz.zip", lambda: None)
        found = [path for path in Path(temporary).rglob("*") if path.is_file() and path != packed]
        if any(folder not in path.parents for path in found):
            raise AssertionError("something was written outside the folder")
        if sum(path.stat().st_size for path in found) > MAX_UNPACKED_BYTES:
            raise AssertionError("more was written than is allowed")


class _folder:  # noqa: N801  used like a function
    """A temporary folder that holds a bundle."""

    def __init__(self, bundle: Mapping[str, bytes]) -> None:
        self._temporary = tempfile.TemporaryDirectory()
        self._bundle = bundle

    def __enter__(self) -> Path:
        return write(self._bundle, Path(self._temporary.name))

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()


def _rows(bundle: Mapping[str, bytes], batch_bytes: int) -> int | str:
    """Return how many rows are loaded, or the code of the error."""
    options = read_options(batch_bytes=batch_bytes)
    with _folder(bundle) as folder:
        try:
            with open_layer(folder, name="fuzz", options=options) as opened:
                loaded = sum(batch.num_rows for batch in opened.batches())
                rows = opened.report().rows
        except GateError as error:
            return error.code
    if rows.unaccounted or rows.loaded != loaded:
        raise AssertionError(f"{loaded} rows came, the report has {rows}")
    return loaded


_TEXTS = layer([point(0, 0), point(1, 1)], (Field("T", "C", 8),), [("é",), ("x",)], prj=None)
_FIELDS = (
    Field("ID", "N", 4),
    Field("NAME", "C", 6),
    Field("DAY", "D", 8),
    Field("OK", "L", 1),
    Field("AREA", "F", 7, 2),
    Field("AT", "@", 8),
)


def _bundles() -> Iterator[Bundle]:
    shapes = [
        [point(0, 0), null(), point(2, 2)],
        [point(0, 0, 1, kind=11), point(1, 1, 1, 2, kind=11)],
        [line(((0, 0), (1, 1)), ((2, 2), (3, 3))), null()],
        [line(((0, 0, 1, 2), (1, 1, 1, 3)), kind=LINE + Z)],
        [polygon(square(0, 0, 4), tuple(reversed(square(1, 1)))), polygon(square(5, 5))],
        [polygon(square(0, 0, 1, 1.0), square(5, 5, 1, 1.0), kind=POLYGON + Z), null()],
        [multipoint((0, 0, 5), (1, 1, 6), kind=MULTIPOINT + M), multipoint(kind=MULTIPOINT + M)],
        [polygon(), polygon(tuple(reversed(square(0, 0))))],
    ]
    for number, each in enumerate(shapes):
        yield layer(each, _FIELDS, deleted=[number % 2] if len(each) > 2 else [])
    yield layer([], kind=POLYGON)
    yield parcels(3)


def _joined_bundles() -> list[bytes]:
    return [joined([bundle[part] for part in PARTS]) for bundle in _bundles()]


def _archives() -> list[bytes]:
    inner = archive(files("b", points(1)))
    return [
        archive(files("a", points(2))),
        archive(files("x/A", points(1)), files("y/a", points(1)), {"readme.pdf": b"x"}),
        archive(files("a", points(1)), {"__MACOSX/._a.shp": b"\0\5\x16\7"}, folders=("x/",)),
        archive({"inner.zip": inner}, method=0),
        archive({"../a.shp": b"x"}),
        archive(links={"a.shp": "/etc/passwd"}),
        archive(),
    ]


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "headers": fuzz_headers,
    "table": fuzz_table,
    "layer": fuzz_layer,
    "sidecars": fuzz_sidecars,
    "archive": fuzz_archive,
}

SEEDS: Mapping[str, Callable[[], list[bytes]]] = {
    "headers": _joined_bundles,
    "table": lambda: [bundle[".dbf"] for bundle in _bundles()],
    "layer": _joined_bundles,
    "sidecars": lambda: [
        joined([WGS84.encode(), b"UTF-8", b"1252"]),
        joined([b"", b"", b"ISO 8859-1"]),
        joined([b"LOCAL_CS[]", b"LDID/87", b""]),
    ],
    "archive": _archives,
}
