"""The CRS of a layer, as PROJJSON, and where it came from.

Order of trust: a person's override, the `.prj`, what the deployment assumes.
A `.prj` that means a known CRS in all but its name is used as it is written,
and the report says which one it nearly is: nothing is shifted on a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any

import fiona
from fiona.crs import CRS
from fiona.errors import FionaError
from fiona.transform import transform

from gate.errors import (
    ConfigurationError,
    MissingCrsError,
    OutsideCrsError,
    UnknownOverrideError,
    UnreadableCrsError,
)
from gate.policies import MissingCrs
from gate.shapefile.extent import Bounds
from gate.shapefile.findings import Findings, shown
from gate.shapefile.report import NearMatch

# How sure PROJ can be that a CRS is one it knows, in percent (proj_identify):
# 100 the name and all parameters, 90 the name differs slightly, 70 all
# parameters under another name, 25 little more than the kind.
CONFIDENCES = (100, 90, 70)

# How far outside the area of an assumed CRS the middle of a layer may lie.
MARGIN_DEGREES = 5.0

KINDS = {
    "GeographicCRS": "geographic",
    "DerivedGeographicCRS": "geographic",
    "GeodeticCRS": "geographic",
    "ProjectedCRS": "projected",
    "DerivedProjectedCRS": "projected",
    "CompoundCRS": "compound",
    "BoundCRS": "bound",
    "EngineeringCRS": "local",
}
_NAMED = re.compile(r"\s*([A-Za-z]{2,10})\s*:{1,2}\s*([A-Za-z0-9_.]{1,20})\s*", re.ASCII)


class Source(Enum):
    """Where a CRS came from, or why there is none."""

    OVERRIDE = "override"
    PRJ = "prj"
    ASSUMED = "assumed"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class LayerCrs:
    """A CRS; `projjson` is `None` if the source says that there is none.

    `match` is what PROJ recognised a `.prj` as that names no authority, `None`
    if nothing was recognised or nothing had to be.
    """

    source: Source
    projjson: Mapping[str, Any] | None = None
    match: NearMatch | None = None

    @property
    def name(self) -> str:
        """Return what the CRS calls itself, empty if there is none."""
        return str((self.projjson or {}).get("name", ""))

    @property
    def authority(self) -> str:
        """Return `EPSG:4326` and the like, empty if the CRS has no such id."""
        identity = (self.projjson or {}).get("id", {})
        return f"{identity['authority']}:{identity['code']}" if identity else ""

    @property
    def kind(self) -> str:
        """Return `geographic`, `projected`, `compound`, `bound` or `local`; empty if none."""
        return KINDS.get((self.projjson or {}).get("type", ""), "")


def layer_crs(
    prj: bytes | None,
    judged: CRS | None,
    findings: Findings,
    *,
    where: str,
    override: str = "",
    missing: MissingCrs | str = MissingCrs.ACCEPT,
) -> LayerCrs:
    """Return the CRS of a layer; `judged` is what GDAL found in its `.prj`.

    GDAL is silent about a `.prj` that it cannot read: that becomes a notice
    here, and so does a missing or blank one, and one that is only recognised.
    `missing` says what becomes of a layer without a CRS. Raises
    `UnknownOverrideError`, `MissingCrsError` or `UnreadableCrsError`, and
    `ConfigurationError` if the CRS to assume does not exist or PROJ has no database.
    """
    prove_proj()
    text = (prj or b"").strip(b" \t\r\n\0")
    if override:
        known = known_crs(override)
        if known is None:
            cure = "use a form such as EPSG:25832, and redrive the job"
            what = f"the metadata says crs={shown(override)!r}, which PROJ does not know"
            raise UnknownOverrideError(what, where=where, cure=cure)
        chosen = LayerCrs(Source.OVERRIDE, known)
        _note_contradiction(chosen, _stated(text, judged, Findings()), findings)
        return chosen
    found = _stated(text, judged, findings)
    if found.projjson is not None or missing is MissingCrs.ACCEPT:
        return found
    if missing is MissingCrs.HOLD:
        if found.source is Source.UNREADABLE:
            raise UnreadableCrsError("the .prj is no CRS that PROJ knows", where=where)
        raise MissingCrsError("there is no .prj", where=where)
    assumed = known_crs(missing)
    if assumed is None:
        raise ConfigurationError(
            f"PROJ does not know {missing}", where="MISSING_CRS", cure="name a CRS that exists"
        )
    findings.notice("assumed_crs", f"the CRS is assumed to be {missing}, as the deployment says")
    return LayerCrs(Source.ASSUMED, assumed)


@lru_cache(maxsize=1)
def prove_proj() -> None:
    """Prove that PROJ has its database; raise `ConfigurationError` if it has not.

    Without it every `.prj` would still parse, and lose its identity in silence.
    """
    if known_crs("EPSG:4326") is None:
        raise ConfigurationError(
            "PROJ finds no database of CRSs",
            where="PROJ_DATA",
            cure="do not set PROJ_LIB, PROJ_DATA and GDAL_DATA, and deploy again",
        )


def known_crs(text: str) -> Mapping[str, Any] | None:
    """Return the CRS of a registry as PROJJSON (`EPSG:4326`, `ESRI:102100`), `None` if unknown."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return None
    try:
        with fiona.Env():
            projjson = CRS.from_authority(match[1].upper(), match[2]).to_dict(projjson=True)
    except FionaError:
        return None
    return projjson if projjson.get("type") in KINDS else None


def check_bounds(crs: LayerCrs, bounds: Bounds | None, where: str, findings: Findings) -> None:
    """Compare coordinates with the domain of their CRS.

    An assumed CRS that they do not fit raises `OutsideCrsError`: metres are
    never taken for degrees. One that the files or a person stated is believed;
    the contradiction becomes a notice.
    """
    if crs.projjson is None or bounds is None:
        return
    if crs.source is Source.ASSUMED:
        if fault := _misfit(crs, bounds):
            what = f"{_spelled(bounds)} {fault} {crs.authority}, which was assumed"
            raise OutsideCrsError(what, where=where)
    elif crs.kind == "geographic" and not _are_degrees(bounds):
        what = f"{_spelled(bounds)} are no degrees, and {crs.authority or crs.name} is geographic"
        findings.notice("outside_crs", what)


def _note_contradiction(chosen: LayerCrs, stated: LayerCrs, findings: Findings) -> None:
    """Note that a person's CRS has replaced another that the `.prj` states."""
    said, stands = (crs.authority or crs.name for crs in (chosen, stated))
    if stated.projjson is not None and said != stands:
        findings.notice("overridden_crs", f"the metadata says {said}, the .prj says {stands}")


def _stated(text: bytes, judged: CRS | None, findings: Findings) -> LayerCrs:
    if not text:
        findings.notice("missing_crs", "there is no .prj, so the layer has no CRS")
        return LayerCrs(Source.MISSING)
    try:
        projjson = judged.to_dict(projjson=True) if judged else None
    except FionaError:
        projjson = None
    if not projjson:
        begins = shown(text.decode("latin-1").split("\n")[0])
        findings.notice("unreadable_crs", f"the .prj is no CRS that GDAL knows: {begins!r}")
        return LayerCrs(Source.UNREADABLE)
    found = LayerCrs(Source.PRJ, projjson, recognised(text.decode("utf-8", "replace")))
    if found.kind == "local":
        what = f"the CRS is local: nothing says where on Earth {found.name!r} is"
        findings.notice("local_crs", what)
    if found.match and (found.match.confidence < max(CONFIDENCES) or not found.authority):
        used = "taken for it" if found.authority else "used as it is written"
        what = (
            f"near match: the .prj {shown(found.name)!r} is {found.match.name} with a confidence"
            f" of {found.match.confidence} %; it is {used}"
        )
        findings.notice("near_match", what)
    return found


@lru_cache(maxsize=64)
def recognised(wkt: str) -> NearMatch | None:
    """Return the registered CRS that a WKT means, if PROJ is sure enough to say so."""
    try:
        with fiona.Env():
            crs = CRS.from_wkt(wkt)
            for confidence in CONFIDENCES:
                if found := crs.to_authority(confidence_threshold=confidence):
                    return NearMatch(":".join(found), confidence)
    except FionaError:
        return None
    return None


def _misfit(crs: LayerCrs, bounds: Bounds) -> str:
    """Return what is wrong with coordinates of an assumed CRS, empty if nothing is."""
    if crs.kind == "geographic":
        if not _are_degrees(bounds):
            return "are no degrees, as those of"
    elif _are_degrees(bounds):
        return "look like degrees, unlike those of"
    area = (crs.projjson or {}).get("bbox")
    middle = _middle(crs, bounds) if area else None
    if area and (middle is None or not _within(*middle, area)):
        return "lie outside the area of"
    return ""


def _middle(crs: LayerCrs, bounds: Bounds) -> tuple[float, float] | None:
    """Return longitude and latitude of the middle of a layer, `None` if it has none."""
    west, south, east, north = bounds
    x, y = (west + east) / 2, (south + north) / 2
    if crs.kind == "geographic":
        return x, y
    return located(crs.authority, "EPSG:4326", x, y)


def located(source: str, target: str, x: float, y: float) -> tuple[float, float] | None:
    """Return where a position of one CRS is in another, x first, `None` if nowhere."""
    try:
        with fiona.Env():
            [east], [north] = transform(source, target, [x], [y])
    except FionaError:
        return None
    return (east, north) if isfinite(east) and isfinite(north) else None


def _within(longitude: float, latitude: float, area: Mapping[str, float]) -> bool:
    """Tell whether a position lies in an area of use, which may cross the antimeridian."""
    west = area["west_longitude"] - MARGIN_DEGREES
    width = (area["east_longitude"] - area["west_longitude"]) % 360 or 360
    north = area["north_latitude"] + MARGIN_DEGREES
    south = area["south_latitude"] - MARGIN_DEGREES
    return (longitude - west) % 360 <= width + 2 * MARGIN_DEGREES and south <= latitude <= north


def _are_degrees(bounds: Bounds) -> bool:
    west, south, east, north = bounds
    return west >= -360 and east <= 360 and south >= -90 and north <= 90


def _spelled(bounds: Bounds) -> str:
    west, south, east, north = bounds
    return f"coordinates from ({west:g} {south:g}) to ({east:g} {north:g})"
