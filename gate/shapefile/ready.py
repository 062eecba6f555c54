"""Proof that this process can read shapefiles, before one of them is blamed for it."""

from __future__ import annotations

from functools import lru_cache

import fiona

from gate.errors import ConfigurationError
from gate.policies import MissingCrs, Policies
from gate.shapefile import crs, projection

# The middle meridian of a UTM zone at the equator, which is where it is by
# definition: no grid is in it.
DEGREES = (9.0, 0.0)
METRES = (500_000.0, 0.0)
GEOGRAPHIC, PROJECTED = "EPSG:4326", "EPSG:32632"
MOST_METRES = 0.001
DRIVER = "ESRI Shapefile"


@lru_cache(maxsize=1)
def prove_ready(policies: Policies) -> str:
    """Prove that the driver is there, that PROJ finds its data, and that stated CRSs exist.

    Returns by what layers will be read, for a person. Raises
    `ConfigurationError`; then no job may be begun, for each of them would fail.
    """
    if "r" not in fiona.supported_drivers.get(DRIVER, ""):
        cure = "install Fiona from its own wheel, as requirements.txt has it"
        raise ConfigurationError(f"GDAL has no driver {DRIVER!r}", where="Fiona", cure=cure)
    crs.prove_proj()
    _prove("Fiona", crs.located(GEOGRAPHIC, PROJECTED, *DEGREES))
    if policies.target_crs:
        _prove("pyproj", projection.located(GEOGRAPHIC, PROJECTED, *DEGREES))
    stated = {"TARGET_CRS": policies.target_crs}
    if not isinstance(policies.missing_crs, MissingCrs):
        stated["MISSING_CRS"] = policies.missing_crs
    for variable, name in stated.items():
        if name and crs.known_crs(name) is None:
            cure = "name a CRS that exists"
            raise ConfigurationError(f"PROJ does not know {name}", where=variable, cure=cure)
    return f"Fiona {fiona.__version__} with GDAL {fiona.__gdal_version__}"


def _prove(library: str, found: tuple[float, float] | None) -> None:
    if found is None or max(abs(a - b) for a, b in zip(found, METRES, strict=True)) > MOST_METRES:
        raise ConfigurationError(
            f"PROJ puts the position {DEGREES} of {GEOGRAPHIC} at {found} of {PROJECTED}",
            where=library,
            cure="do not set PROJ_LIB, PROJ_DATA and GDAL_DATA, and deploy again",
        )
