"""What the three required files say of each other, before GDAL is asked anything.

GDAL hides damage (a cut .shp reads as null geometries, a cut .dbf ends the
iteration early), so whatever can be proven from the bytes is proven here.
"""

from __future__ import annotations

from dataclasses import dataclass

from gate.errors import (
    CorruptError,
    EmptyComponentError,
    NotAShapefileError,
    TornBundleError,
    TruncatedError,
)
from gate.shapefile import dbf
from gate.shapefile.files import Files
from gate.shapefile.findings import Findings
from gate.shapefile.port import Content
from gate.shapefile.records import (
    HEADER_BYTES,
    KINDS,
    LINES,
    MULTIPATCH,
    MULTIPOINTS,
    POINTS,
    POLYGONS,
    WITH_Z,
    Records,
)

ANY_MEMORY = 1 << 62
FILE_CODE = (9994).to_bytes(4, "big")
NAMES = {0: "Null", MULTIPATCH: "MultiPatch"} | {
    kind: f"{name}{suffix}"
    for kinds, name in (
        (POINTS, "Point"),
        (LINES, "PolyLine"),
        (POLYGONS, "Polygon"),
        (MULTIPOINTS, "MultiPoint"),
    )
    for kind, suffix in zip(kinds, ("", "Z", "M"), strict=True)
}

_COLUMN_TYPES = (
    (POINTS, "Point"),
    (LINES, "MultiLineString"),
    ((*POLYGONS, MULTIPATCH), "MultiPolygon"),
    (MULTIPOINTS, "MultiPoint"),
)


def column_type(kind: int, *, flat: bool = False) -> str:
    """Return the one geometry type that holds all shapes of a kind; empty for null shapes.

    With `flat` it is that of shapes whose Z values were left out.
    """
    simple = next((name for kinds, name in _COLUMN_TYPES if kind in kinds), "")
    return f"{simple} Z" if kind in WITH_Z and not flat else simple


@dataclass(frozen=True, slots=True)
class Structure:
    """A bundle whose files agree: the same number of rows in each, all whole.

    `several_parts` tells whether any record has more than one part.
    """

    files: Files
    records: Records
    table: dbf.Table
    deleted: int
    several_parts: bool

    @property
    def rows(self) -> int:
        """Return the rows in the file, deleted ones included."""
        return self.table.rows


def check(files: Files, findings: Findings, memory_bytes: int = ANY_MEMORY) -> Structure:
    """Prove that the files are whole and belong together.

    What is odd but harmless becomes a notice in `findings`. `memory_bytes` are
    those of the process. Raises `TooLargeError` for a record that they do not
    suffice for, or
    `NotAShapefileError`, `EmptyComponentError`, `TruncatedError`,
    `CorruptError`, `UnsupportedError`, `RecordTooLargeError` or `TornBundleError`.
    """
    kind, declared = _geometry_header(files.shp, files.where(".shp"))
    index_kind, index_bytes = _geometry_header(files.shx, files.where(".shx"))
    table = dbf.parse_table(files.dbf, files.where(".dbf"))
    entries = _entries(files, index_bytes, findings)
    _check_counts(files, table, entries)
    if kind != index_kind:
        what = f"announces {NAMES[index_kind]}, the .shp announces {NAMES[kind]}"
        raise TornBundleError(what, where=files.where(".shx"))
    records = Records(files.shp, files.shx, kind, entries, files.stem)
    unused, several_parts = records.check(memory_bytes)
    _check_leftovers(files, records, table, unused, findings)
    if declared != files.shp.size:
        what = f"the .shp declares {declared} bytes and has {files.shp.size}; every record is whole"
        findings.notice("declared_length", what)
    if not entries:
        findings.notice("no_rows", "the layer has no rows")
    deleted = dbf.count_deleted(table, files.where(".dbf"))
    return Structure(files, records, table, deleted, several_parts)


def _entries(files: Files, declared: int, findings: Findings) -> int:
    """Return how many records the index declares."""
    size = int(files.shx.size)
    if size == HEADER_BYTES < declared:
        what = "holds a header and no entries, though it declares some"
        raise EmptyComponentError(what, where=files.where(".shx"))
    if size < declared:
        what = f"holds {size} of {declared} declared bytes"
        raise TruncatedError(what, where=files.where(".shx"))
    if declared < HEADER_BYTES or (declared - HEADER_BYTES) % 8:
        what = f"declares {declared} bytes, which is no whole number of entries"
        raise CorruptError(what, where=files.where(".shx"))
    if size > declared:
        findings.notice("index_tail", f"{size - declared} bytes follow the end of the .shx")
    return (declared - HEADER_BYTES) // 8


def _check_counts(files: Files, table: dbf.Table, entries: int) -> None:
    shapes = "no shapes" if files.shp.size == HEADER_BYTES else ""
    if shapes and (entries or table.rows):
        what = f"holds a header and {shapes}, the others have rows"
        raise EmptyComponentError(what, where=files.where(".shp"))
    if not entries and table.rows:
        what = f"holds no entries, the table has {table.rows} rows"
        raise EmptyComponentError(what, where=files.where(".shx"))
    if entries and not table.rows_by_size:
        what = f"holds no rows, the .shx has {entries} records"
        raise EmptyComponentError(what, where=files.where(".dbf"))
    if table.rows == entries:
        return
    if table.rows_by_size == entries:
        what = f"its header says {table.rows} rows while it holds {entries}"
        raise CorruptError(what, where=files.where(".dbf"))
    what = f"has {table.rows} rows while the .shx has {entries} records"
    raise TornBundleError(what, where=files.where(".dbf"))


def _check_leftovers(
    files: Files, records: Records, table: dbf.Table, unused: int, findings: Findings
) -> None:
    if unused and records.numbered_beyond():
        what = f"goes on after the {records.rows} records that the .shx and .dbf know"
        raise TornBundleError(what, where=files.where(".shp"))
    if unused:
        findings.notice("unused_bytes", f"{unused} bytes of the .shp belong to no record")
    if table.trailing_bytes > 1:
        what = f"{table.trailing_bytes} bytes follow the declared rows of the .dbf"
        findings.notice("table_tail", what)


def _geometry_header(content: Content, where: str) -> tuple[int, int]:
    """Return the shape type and the declared length in bytes of a .shp or .shx.

    Raises `NotAShapefileError`, or `EmptyComponentError` if the header is not
    whole, or `CorruptError` for a version or type that the format does not have.
    """
    if not FILE_CODE.startswith(content[:4].tobytes()):
        raise NotAShapefileError("does not begin with the file code 9994", where=where)
    if content.size < HEADER_BYTES:
        what = f"holds {content.size} bytes, fewer than its header"
        raise EmptyComponentError(what, where=where)
    words = int(content[24:28].view(">i4")[0])
    version, kind = content[28:36].view("<i4").tolist()
    if version != 1000:
        raise CorruptError(f"states version {version}, not 1000", where=where)
    if kind not in KINDS:
        raise CorruptError(f"states shape type {kind}, which does not exist", where=where)
    return kind, words * 2
