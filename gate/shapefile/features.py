"""A layer as Fiona gives it: what it says of it, and its features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import fiona
from fiona.crs import CRS

from gate.errors import CorruptError, GateError, UnreadableError
from gate.shapefile.excerpt import exhibited
from gate.shapefile.files import STEM
from gate.shapefile.findings import Findings
from gate.shapefile.gdal_log import GdalLog
from gate.shapefile.geometry import Feature
from gate.shapefile.headers import Structure
from gate.shapefile.report import Judgement

DRIVER = "ESRI Shapefile"

# Every byte means something in it, so Fiona cannot stumble over a field name
# that is cut inside a character, and the bytes can be had back.
NEUTRAL_ENCODING = "ISO-8859-1"

# The driver's own choice trusts the winding of rings; this one compares the
# rings themselves, so that reversed shells and holes come out right.
GDAL_OPTIONS = {"OGR_ORGANIZE_POLYGONS": "DEFAULT"}


class Features:
    """The features of one layer, opened on first use.

    GDAL's options and the ear on its log belong to a thread, so they are set for
    each stretch of reading and never across a `yield`: a generator may be
    resumed by another thread. `on_values`, if given, hears the values of each
    feature; without it none are read. `encoding` is that of the values.
    """

    def __init__(
        self,
        folder: Path,
        where: str,
        findings: Findings,
        *,
        encoding: str = NEUTRAL_ENCODING,
        on_values: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        self._folder = folder
        self._where = where
        self._log = GdalLog(where, findings)
        self._encoding = encoding
        self._on_values = on_values
        self._stack = ExitStack()
        self._layer: fiona.Collection | None = None
        self._all: Iterator[Any] = iter(())
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[Cursor]:
        """Give a cursor over the features that have not been read yet.

        Raises `UnreadableError` if GDAL has reported an error by the end of the
        block, or Fiona raised one in it.
        """
        if self._closed:
            raise RuntimeError("the layer is closed")
        with fiona.Env(**GDAL_OPTIONS), translated(self._where):
            if self._layer is None:
                filters: dict[str, Any] = {} if self._on_values else {"include_fields": []}
                path = self._folder / f"{STEM}.shp"
                context = opened(path, self._log, encoding=self._encoding, **filters)
                self._layer, _ = self._stack.enter_context(context)
                self._all = iter(self._layer)
            with self._log.listening():
                yield Cursor(self._layer, self._all, self._on_values)

    def close(self) -> None:
        """Close the layer; closing twice is harmless."""
        self._closed = True
        self._layer, self._all = None, iter(())
        self._stack.close()


class Cursor:
    """Gives one feature after the other: all that are left, or those of certain rows."""

    def __init__(
        self,
        layer: fiona.Collection,
        left: Iterator[Any],
        on_values: Callable[[Mapping[str, Any]], object] | None,
    ) -> None:
        self._layer = layer
        self._features = left
        self._on_values = on_values

    def __call__(self) -> Feature | None:
        """Return the next (row, geometry), rows counted from 0, or `None` at the end."""
        feature = next(self._features, None)
        if feature is None:
            return None
        if self._on_values is not None:
            self._on_values(feature.properties)
        return int(feature.id), feature.geometry

    def only(self, rows: Iterable[int]) -> None:
        """Give the features of these rows from now on, and no others."""
        layer = self._layer
        self._features = (layer[row] for row in rows)


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
