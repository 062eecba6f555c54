"""The CRS of a layer, as PROJJSON, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fiona.crs import CRS
from fiona.errors import CRSError

from gate.shapefile.findings import Findings, shown


class Source(Enum):
    """Where a CRS came from, or why there is none."""

    PRJ = "prj"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class LayerCrs:
    """A CRS; `projjson` is `None` unless the source is the `.prj`."""

    source: Source
    projjson: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """Return what the CRS calls itself, empty if there is none."""
        return str((self.projjson or {}).get("name", ""))

    @property
    def authority(self) -> str:
        """Return `EPSG:4326` and the like, empty if the CRS has no such id."""
        identity = (self.projjson or {}).get("id", {})
        return f"{identity['authority']}:{identity['code']}" if identity else ""


def layer_crs(prj: bytes | None, judged: CRS | None, findings: Findings) -> LayerCrs:
    """Return the CRS that GDAL found in the `.prj`.

    GDAL is silent about a `.prj` that it cannot read: that becomes a notice
    here, and so does a missing or blank one. The layer then has no CRS.
    """
    text = (prj or b"").strip(b" \t\r\n\0")
    if not text:
        findings.notice("missing_crs", "there is no .prj, so the layer has no CRS")
        return LayerCrs(Source.MISSING)
    try:
        projjson = judged.to_dict(projjson=True) if judged else None
    except CRSError:
        projjson = None
    if not projjson:
        begins = shown(text.decode("latin-1").split("\n")[0])
        findings.notice("unreadable_crs", f"the .prj is no CRS that GDAL knows: {begins!r}")
        return LayerCrs(Source.UNREADABLE)
    return LayerCrs(Source.PRJ, projjson)
