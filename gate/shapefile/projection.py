"""Coordinates from the CRS of a layer to the one that the deployment wants, x first.

All coordinates of a batch are transformed at once. A way whose accuracy nobody
states ("ballpark") is not taken: better no dataset than one that is off by
hundreds of metres without a word.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from gate.errors import ConfigurationError, MissingCrsError, NoTransformationError
from gate.shapefile import antimeridian
from gate.shapefile.crs import LayerCrs, known_crs
from gate.shapefile.findings import Findings
from gate.shapefile.report import TransformationFacts

if TYPE_CHECKING:
    from pyproj import Transformer

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Geometries = npt.NDArray[np.object_]

_HEAD_BYTES = 9
_POINTS = (1, 1001)
_MULTI = {2: 5, 3: 6, 1002: 1005, 1003: 1006}


class Transformation:
    """The transformation of one layer; remembers how it was done.

    `target` is the CRS of the result as PROJJSON. Where the target is geographic,
    lines and polygons become their multi types, since any of them may have to
    be split at the antimeridian and a layer has one type.
    """

    def __init__(
        self,
        source: LayerCrs,
        target: Mapping[str, Any],
        transformer: Transformer,
        findings: Findings,
    ) -> None:
        self.target = target
        self._source = source
        self._transformer = transformer
        self._findings = findings
        self._split = 0
        self._operation = ""
        self._accuracy_metres: float | None = None
        self._wraps = target["type"] == "GeographicCRS"

    @classmethod
    def between(
        cls, source: LayerCrs, target: str, where: str, findings: Findings
    ) -> Transformation | None:
        """Return the transformation from a layer's CRS to `target` (`EPSG:n`).

        `None` if there is nothing to do: no target, or the same CRS. Raises
        `NoTransformationError` (a local CRS, or no way of stated accuracy),
        `MissingCrsError`, and `ConfigurationError` if the target does not exist.
        """
        if not target or source.authority == target:
            return None
        wanted = known_crs(target)
        if wanted is None:
            cure = "name a CRS that exists"
            raise ConfigurationError(f"PROJ does not know {target}", where="TARGET_CRS", cure=cure)
        if source.projjson is None:
            raise MissingCrsError(f"there is no CRS to transform to {target} from", where=where)
        from pyproj import CRS, Transformer
        from pyproj.exceptions import CRSError, ProjError

        try:
            transformer = Transformer.from_crs(
                CRS.from_json_dict(dict(source.projjson)),
                CRS.from_json_dict(dict(wanted)),
                always_xy=True,
                allow_ballpark=False,
            )
        except (CRSError, ProjError) as error:
            what = f"there is no way from {source.authority or source.name!r} to {target}"
            raise NoTransformationError(what, where=where) from error
        return cls(source, wanted, transformer, findings)

    def apply(self, column: pa.Array, numbers: Numbers) -> tuple[pa.Array, Mask]:
        """Return the rows of a WKB column that have a place in the target, and which they are.

        A row with a position outside the domain of the transformation is left
        out and noted as rejected under its number, and so is one that GEOS makes
        no geometry of (a ring that begins at NaN). Null rows, empty geometries and
        other coordinates that were not finite before pass as they are.
        """
        codes = self._codes(column)
        filled = pc.greater(pc.binary_length(column), _HEAD_BYTES).fill_null(False)
        filled = filled.to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            geometries = shapely.from_wkb(
                column.filter(pa.array(filled)).to_numpy(False), on_invalid="ignore"
            )
        moved, good = self._moved(geometries)
        for row, geometry in zip(numbers[filled][~good], geometries[~good], strict=True):
            reason = "no_geometry" if geometry is None else "outside_domain"
            self._findings.reject(reason, int(row), _beginning(geometry))
        inside = np.ones(len(column), np.bool_)
        inside[filled] = good
        moved = self._settled(moved[good])
        wkb = np.full(len(column), None, dtype=object)
        wkb[filled & inside] = shapely.to_wkb(moved, flavor="iso", byte_order=1)
        for row in np.flatnonzero(~filled & column.is_valid().to_numpy(False)):
            wkb[row] = struct.pack("<BII", 1, self._code(codes[row]), 0)
        return pa.array(wkb[inside], pa.binary()), inside

    def facts(self) -> TransformationFacts:
        """Return what was done so far."""
        identity = self.target["id"]
        return TransformationFacts(
            source=self._source.authority or self._source.name,
            target=f"{identity['authority']}:{identity['code']}",
            operation=self._operation,
            accuracy_metres=self._accuracy_metres,
            split=self._split,
        )

    def _moved(self, geometries: Geometries) -> tuple[Geometries, Mask]:
        """Return the geometries in the target CRS, and which of them have a place in it."""
        known = ~shapely.is_missing(geometries)
        has_z = bool(shapely.has_z(geometries).any())
        before, owners = shapely.get_coordinates(geometries, include_z=has_z, return_index=True)
        if not len(before):
            return geometries, known
        axes = [np.ascontiguousarray(before[:, axis]) for axis in range(before.shape[1])]
        transform: Any = self._transformer.transform
        after = np.stack(transform(*axes, errcheck=False), axis=1)
        used = self._transformer.get_last_used_operation()
        self._operation = used.description
        self._accuracy_metres = used.accuracy if used.accuracy >= 0 else None
        lost = np.isfinite(before[:, :2]).all(axis=1) & ~np.isfinite(after).all(axis=1)
        good = known.copy()
        good[owners[lost]] = False
        return shapely.set_coordinates(geometries.copy(), after), good

    def _settled(self, geometries: Geometries) -> Geometries:
        """Split what crosses the antimeridian, and keep shells counter-clockwise."""
        if not len(geometries):
            return geometries
        if self._wraps:
            geometries, split = antimeridian.split(geometries)
            if split:
                what = "geometries cross the antimeridian and were split there"
                self._findings.notice("split_at_antimeridian", what, split)
                self._split += split
        first = shapely.get_exterior_ring(shapely.get_geometry(geometries, 0))
        clockwise = ~shapely.is_missing(first) & ~shapely.is_ccw(first)
        geometries[clockwise] = shapely.reverse(geometries[clockwise])
        return geometries

    def _code(self, code: int) -> int:
        return _MULTI.get(code, code) if self._wraps else code

    def _codes(self, column: pa.Array) -> list[int]:
        heads = pc.binary_slice(column, 1, 5).to_pylist()
        return [0 if head is None else int.from_bytes(head, "little") for head in heads]


def located(source: str, target: str, x: float, y: float) -> tuple[float, float] | None:
    """Return where a position of one CRS is in another, x first, `None` if PROJ fails."""
    from pyproj import Transformer
    from pyproj.exceptions import ProjError

    try:
        east, north = Transformer.from_crs(source, target, always_xy=True).transform(x, y)
    except ProjError:
        return None
    return float(east), float(north)


def _beginning(geometry: Any) -> str:
    """Return the first position of a geometry, for the list of rejected rows."""
    if geometry is None:
        return "GEOS makes no geometry of it"
    x, y = shapely.get_coordinates(geometry)[0].tolist()
    return f"{geometry.geom_type} at ({x:g} {y:g})"
