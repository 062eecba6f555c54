"""What an object name says: a component of a bundle, or nothing of ours.

Object names are taken as they are: Cloud Storage does not URL-encode them in
events, so `a%20b+c.shp` is that very name and is never unquoted.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import Enum

PRIMARY_EXTENSIONS = (".shp", ".shx", ".dbf")
SIDECAR_EXTENSIONS = (
    ".prj",
    ".cpg",
    ".cst",
    ".qpj",
    ".sbn",
    ".sbx",
    ".qix",
    ".fix",
    ".ain",
    ".aih",
    ".atx",
    ".ixs",
    ".mxs",
    ".fbn",
    ".fbx",
    ".shp.xml",
)
ARCHIVE_EXTENSIONS = (".zip", ".shz")
KNOWN_EXTENSIONS = PRIMARY_EXTENSIONS + SIDECAR_EXTENSIONS + ARCHIVE_EXTENSIONS

# gcloud and gsutil put the parts of a composite upload here by default; with a
# prefix of the user's own the parts still have no known extension.
TEMPORARY_PREFIXES = (
    "gcloud/tmp/parallel_composite_uploads/",
    "gsutil/tmp/parallel_composite_uploads/",
)


class Reason(Enum):
    """Why an object is no component."""

    TYPE = "ignored_type"
    PLACEHOLDER = "ignored_placeholder"
    TEMPORARY = "ignored_temp"
    DECOY = "ignored_decoy"
    EXTENSION = "ignored_extension"
    OUTPUT = "ignored_output"
    PREFIX = "ignored_prefix"
    BUCKET = "ignored_bucket"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The set of objects that make one shapefile, or one archive.

    `folder` is the object name up to and including its last `/`, as it is;
    `stem` is case-folded and NFC-normalised, so that `Roads.shp` and
    `ROADS.DBF` meet, while `a/roads` and `b/roads` never do. The folder is not
    folded: it must remain something that can be listed.
    `archive` is the extension of an archive that is a bundle by itself, else
    empty: `parcels.zip` and `parcels.shp` are two bundles.
    """

    bucket: str
    folder: str
    stem: str
    archive: str = ""

    @property
    def basename(self) -> str:
        """Return the folded name without the bucket: `folder/stem`, `folder/stem.zip`."""
        return f"{self.folder}{self.stem}{self.archive}"

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.basename}"


@dataclass(frozen=True, slots=True)
class Component:
    """An object name that belongs to a bundle, with its folded extension."""

    bundle: Bundle
    name: str
    extension: str

    @property
    def sibling_start(self) -> str:
        """Return how its siblings begin, spelt as this name is: `Roads.` of `in/Roads.shp`.

        The dot keeps `roads_2.shp`, and a thousand like it, out of a listing.
        """
        base = self.name.rpartition("/")[2]
        return base.rsplit(".", self.extension.count("."))[0] + "."


def fold(text: str) -> str:
    """Return `text` case-folded and NFC-normalised, so that spellings meet.

    Folding can undo normalisation (U+0345, U+1E9E …), hence NFC on both sides.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def extension_of(name: str) -> str:
    """Return the longest known extension that `name` ends in, folded; empty if none."""
    folded = fold(name)
    return max((known for known in KNOWN_EXTENSIONS if folded.endswith(known)), key=len, default="")


def parse(
    bucket: str,
    name: str,
    *,
    source_prefix: str = "",
    output_prefix: str | None = None,
) -> Component | Reason:
    """Tell which component of which bundle `name` is, or why it is none.

    `output_prefix` is where the sink writes inside this same bucket, `None`
    where it writes elsewhere. An extension is the longest known one, so
    `parcels.shp.xml` is a sidecar of `parcels`, and `parcels.v2.shp` has the
    stem `parcels.v2`.
    """
    if name.endswith("/"):
        return Reason.PLACEHOLDER
    if output_prefix is not None and name.startswith(output_prefix):
        return Reason.OUTPUT
    if name.lstrip("/").startswith(TEMPORARY_PREFIXES):
        return Reason.TEMPORARY
    if not name.startswith(source_prefix):
        return Reason.PREFIX
    cut = name.rfind("/") + 1
    folder, base = name[:cut], name[cut:]
    if base.startswith("._") or "__MACOSX" in folder.split("/"):
        return Reason.DECOY
    extension = extension_of(base)
    stem = fold(base).removesuffix(extension)
    if not extension or not stem:
        return Reason.EXTENSION
    archive = extension if extension in ARCHIVE_EXTENSIONS else ""
    return Component(Bundle(bucket, folder, stem, archive), name, extension)


def named(bucket: str, name: str) -> Bundle:
    """Return the bundle of a component's name; any other name is a stem."""
    component = parse(bucket, name)
    if isinstance(component, Component):
        return component.bundle
    cut = name.rfind("/") + 1
    return Bundle(bucket, name[:cut], fold(name[cut:]))
