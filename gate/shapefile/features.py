"""A layer as Fiona gives it: what it says of it, and its features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fiona
from fiona.crs import CRS

from gate.errors import CorruptError, GateError, UnreadableError
from gate.gather import Bytes
from gate.shapefile.excerpt import exhibited, first_shape, record_of, write_records
from gate.shapefile.files import STEM
from gate.shapefile.findings import Findings
from gate.shapefile.gdal_log import GdalLog
from gate.shapefile.geometry import Feature, NextFeature
from gate.shapefile.headers import Structure
from gate.shapefile.records import Block
from gate.shapefile.report import Judgement

DRIVER = "ESRI Shapefile"

# Every byte means something in it, so Fiona cannot stumble over a field name
# that is cut inside a character, and the bytes can be had back.
NEUTRAL_ENCODING = "ISO-8859-1"

# The driver's own choice trusts the winding of rings; this one compares the
# rings themselves, so that reversed shells and holes come out right.
GDAL_OPTIONS = {"OGR_ORGANIZE_POLYGONS": "DEFAULT"}


class Features:
    """All features of one layer that lies in a folder, opened on first use.

    GDAL's options and the ear on its log belong to a thread, so they are set for
    each stretch of reading and never across a `yield`: a generator may be
    resumed by another thread. `on_values` hears the values of each feature, which
    are text in `encoding`.
    """

    def __init__(
        self,
        folder: Path,
        where: str,
        findings: Findings,
        encoding: str,
        on_values: Callable[[Mapping[str, Any]], object],
    ) -> None:
        self._folder = folder
        self._where = where
        self._log = GdalLog(where, findings)
        self._encoding = encoding
        self._on_values = on_values
        self._stack = ExitStack()
        self._all: Iterator[Any] | None = None
        self._closed = False

    @contextmanager
    def reading(self, _block: Block) -> Iterator[NextFeature]:
        """Give what returns the features that have not been read yet, and then `None`.

        Raises `UnreadableError` if GDAL has reported an error by the end of the
        block, or Fiona raised one in it.
        """
        if self._closed:
            raise RuntimeError("the layer is closed")
        with fiona.Env(**GDAL_OPTIONS), translated(self._where):
            if self._all is None:
                path = self._folder / f"{STEM}.shp"
                context = opened(path, self._log, encoding=self._encoding)
                layer, _ = self._stack.enter_context(context)
                self._all = iter(layer)
            with self._log.listening():
                yield partial(self._next, self._all)

    def close(self) -> None:
        """Close the layer; closing twice is harmless."""
        self._closed = True
        self._all = iter(())
        self._stack.close()

    def _next(self, left: Iterator[Any]) -> Feature | None:
        """Return the next (row, geometry), rows counted from 0, or `None` at the end."""
        feature = next(left, None)
        if feature is None:
            return None
        self._on_values(feature.properties)
        return int(feature.id), feature.geometry


class Picked:
    """The features of single rows, without their values, for which no layer needs to lie here.

    GDAL is shown the records of these rows, written to a temporary folder, behind
    the first shape of the layer, which decides whether there are measures.
    """

    def __init__(self, structure: Structure, where: str, findings: Findings) -> None:
        self._structure = structure
        self._where = where
        self._log = GdalLog(where, findings)

    @contextmanager
    def reading(self, block: Block) -> Iterator[Selection]:
        """Give a selection among the rows of `block`. Raises as `Features.reading` does."""
        with (
            fiona.Env(**GDAL_OPTIONS),
            translated(self._where),
            TemporaryDirectory(prefix="excerpt-", dir=self._structure.files.folder) as place,
            ExitStack() as stack,
        ):

            def shown(rows: Sequence[int]) -> fiona.Collection:
                row, shape = self._first
                records = (record_of(block, each - block.start) for each in rows)
                path = write_records(Path(place), self._structure, [shape, *records])
                self._log.rows = [row, *rows]
                layer, _ = stack.enter_context(opened(path, self._log, include_fields=[]))
                stack.enter_context(self._log.listening())
                return layer

            yield Selection(shown)

    def close(self) -> None:
        """Do nothing, for nothing stays open."""

    @cached_property
    def _first(self) -> tuple[int, Bytes]:
        return first_shape(self._structure)


class Selection:
    """Gives one feature after the other: those of the rows that it is told, once."""

    def __init__(self, shown: Callable[[Sequence[int]], fiona.Collection]) -> None:
        self._shown = shown
        self._features: Iterator[Feature] = iter(())

    def __call__(self) -> Feature | None:
        """Return the next (row, geometry), rows counted from 0, or `None` at the end."""
        return next(self._features, None)

    def only(self, rows: Sequence[int]) -> None:
        """Give the features of these rows of the block, and no others."""
        layer = self._shown(rows)
        self._features = ((row, layer[place].geometry) for place, row in enumerate(rows, start=1))


def judge(structure: Structure, text: str, findings: Findings) -> tuple[Judgement, CRS | None]:
    """Record what Fiona says of the layer before any row is read; return its CRS too.

    `text` is the encoding of the field names. Raises `UnreadableError`, and
    `CorruptError` if GDAL counts other rows than the files hold.
    """
    where = structure.files.where(".shp")
    log = GdalLog(where, findings)
    with ExitStack() as stack:
        stack.enter_context(translated(where))
        exhibit = stack.enter_context(exhibited(structure))
        layer, crs = stack.enter_context(opened(exhibit.layer, log))
        table = layer
        if exhibit.table != exhibit.layer:
            table, _ = stack.enter_context(opened(exhibit.table, log))
        stack.enter_context(log.listening())
        schema = layer.schema
        fields = {
            name.encode(NEUTRAL_ENCODING).decode(text, "replace"): kind
            for name, kind in schema["properties"].items()
        }
        judgement = Judgement(schema["geometry"], len(table), fields)
    if judgement.rows != structure.rows:
        what = f"GDAL counts {judgement.rows} rows, the files hold {structure.rows}"
        raise CorruptError(what, where=where)
    return judgement, crs


@contextmanager
def opened(
    path: Path, log: GdalLog, *, encoding: str = NEUTRAL_ENCODING, **filters: Any
) -> Iterator[tuple[fiona.Collection, CRS | None]]:
    """Open a layer and make GDAL parse the .prj at once, rather than at the first row.

    A .prj that cannot be parsed is an error in GDAL's log, and in some versions
    an exception. It costs the CRS, not the layer, so nobody listens meanwhile.
    """
    with log.listening():
        layer = fiona.open(
            path,
            driver=DRIVER,
            encoding=encoding,
            **filters,
        )
    with layer:
        try:
            crs = layer.crs
        except Exception:  # noqa: BLE001 - whatever it is, there is no CRS
            crs = None
        yield layer, crs


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise `UnreadableError` for whatever Fiona raises; its exceptions have no common root."""
    try:
        yield
    except (GateError, MemoryError):
        raise
    except Exception as error:
        raise UnreadableError(f"GDAL refused it: {error}", where=where) from error
