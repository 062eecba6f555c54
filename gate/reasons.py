"""The catalogue of what a report may say of rows, values and layers that went through.

None of these ends a job: what does is an error (`gate.errors`). Each code is
stable, and stands in the report under `rejects`, `values` or `notices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """What a code means, and what to do about it, if anything."""

    code: str
    meaning: str
    cure: str


REJECTS = (
    Reason(
        "null_geometry",
        "The shape is null, and `NULL_GEOMETRY` leaves such rows out.",
        "give the row a shape, or set `NULL_GEOMETRY` to `keep`",
    ),
    Reason(
        "empty_geometry",
        "The shape has no positions, and `EMPTY_GEOMETRY` leaves such rows out.",
        "give the row positions, or set `EMPTY_GEOMETRY` to `keep`",
    ),
    Reason(
        "nan_coordinates",
        "An x or y is no finite number, and `NAN_COORDINATES` leaves such rows out.",
        "correct the position, or set `NAN_COORDINATES` to `keep`",
    ),
    Reason(
        "collapsed_geometry",
        "A ring or line has too few positions, and `COLLAPSED_GEOMETRY` leaves such rows out.",
        "give the shape its positions, or set `COLLAPSED_GEOMETRY` to `keep`",
    ),
    Reason(
        "m_values",
        "The shape has M values, and `M_VALUES` leaves such rows out rather than lose them.",
        "write the measures to a field of the table, or set `M_VALUES` to `drop`",
    ),
    Reason(
        "unsupported_geometry",
        "A multipatch of several surfaces, for which WKB has no plain type.",
        "split the multipatch, or convert the layer to polygons",
    ),
    Reason(
        "not_repaired",
        "The polygon is invalid, and no repair is certain to be what was meant.",
        "repair the polygon, or set `VALIDITY` to `flag`",
    ),
    Reason(
        "outside_domain",
        "A position has no place in `TARGET_CRS`.",
        "correct the position, or the CRS if the `.prj` is wrong",
    ),
    Reason(
        "no_geometry",
        "No reader makes a geometry of the positions.",
        "correct the shape: a ring has no x and y that are numbers",
    ),
)

VALUES = (
    Reason(
        "not_a_number",
        "A numeric field holds something else; it is null.",
        "write a plain number, with a point",
    ),
    Reason(
        "overflow",
        "A numeric field holds asterisks: the number did not fit it; it is null.",
        "widen the field and export again",
    ),
    Reason(
        "out_of_range",
        "A number is beyond what its type can hold; it is null.",
        "correct the number",
    ),
    Reason("not_a_date", "A date does not exist; it is null.", "write YYYYMMDD, or leave it blank"),
    Reason("not_a_time", "A time does not exist; it is null.", "correct the time"),
    Reason(
        "not_a_logical",
        "A logical is none of T, F, Y, N, ? and blank; it is null.",
        "write T or F",
    ),
    Reason(
        "cut_at_nul",
        "A text goes on after a NUL; what follows is left out.",
        "remove the NUL from the text",
    ),
    Reason(
        "undecodable_text",
        "Bytes mean nothing in the encoding, or a control character; U+FFFD stands for them.",
        "state the right encoding, or widen the field that cut a character",
    ),
)

NOTICES = (
    Reason("no_rows", "The layer has no rows.", "nothing, if that is meant"),
    Reason(
        "declared_length",
        "The `.shp` declares another length than it has; every record is whole.",
        "nothing; the program that wrote it miscounts",
    ),
    Reason(
        "index_tail",
        "Bytes follow the end that the `.shx` declares; they are not read.",
        "nothing; the program that wrote it left them",
    ),
    Reason(
        "unused_bytes",
        "Bytes of the `.shp` belong to no record of the index.",
        "nothing; edited files often have such gaps",
    ),
    Reason(
        "table_tail",
        "Bytes follow the declared rows of the `.dbf`; they are not read.",
        "export the layer again if rows are missing",
    ),
    Reason(
        "foreign_type",
        "A field is of a type that shapefiles lack; it is read as text.",
        "convert the field if it should be something else",
    ),
    Reason(
        "renamed_field",
        "Two fields have one name, or a field that of the geometry; the later is renamed.",
        "rename the field in the source, if readers rely on it",
    ),
    Reason(
        "undecodable_name",
        "The name of a field is cut inside a character, or in another encoding.",
        "shorten the name, or state the right encoding",
    ),
    Reason("gdal_warning", "GDAL said something while it read.", "see what it said"),
    Reason(
        "missing_crs",
        "There is no `.prj`, so the dataset has no CRS.",
        "upload the `.prj`, or set the metadata `crs`",
    ),
    Reason(
        "unreadable_crs",
        "The `.prj` is no CRS that PROJ knows, so the dataset has none.",
        "upload a sound `.prj`, or set the metadata `crs`",
    ),
    Reason(
        "assumed_crs",
        "The CRS is the one that `MISSING_CRS` assumes.",
        "upload the `.prj`, or set the metadata `crs`, if it is another",
    ),
    Reason(
        "overridden_crs",
        "The metadata `crs` has replaced another CRS that the `.prj` states.",
        "take the metadata away if the `.prj` is right; on an archive it holds for every layer",
    ),
    Reason(
        "near_match",
        "The `.prj` is nearly a CRS of a registry; nothing is shifted.",
        "set the metadata `crs`, if that one is meant",
    ),
    Reason(
        "local_crs",
        "The CRS is local: nothing says where on Earth it is.",
        "set the metadata `crs`, if the layer has a real one",
    ),
    Reason(
        "outside_crs",
        "Coordinates are no degrees, and the stated CRS is geographic.",
        "upload the right `.prj`, or set the metadata `crs`",
    ),
    Reason(
        "split_at_antimeridian",
        "Geometries cross the antimeridian and were split there.",
        "nothing; no part of them crosses it now",
    ),
    Reason(
        "unknown_cpg",
        "The `.cpg` names no encoding; the next source was asked.",
        "write UTF-8, or whatever it is, into the `.cpg`",
    ),
    Reason(
        "unknown_cst",
        "The `.cst` names no encoding; the next source was asked.",
        "write UTF-8, or whatever it is, into the `.cst`",
    ),
    Reason(
        "unknown_language",
        "The language byte of the `.dbf` is none that is documented.",
        "add a `.cpg`",
    ),
    Reason(
        "encoding_guessed",
        "Nobody says for certain which encoding the text is in, and it is not UTF-8.",
        "add a `.cpg`, or set the metadata `encoding`",
    ),
    Reason(
        "looks_like_utf8",
        "The text is UTF-8 throughout, though another encoding is stated, and believed.",
        "correct the `.cpg`, or set the metadata `encoding`, if letters are garbled",
    ),
    Reason(
        "unflagged_names",
        "Names in the archive are UTF-8 and do not say so.",
        "nothing; they were read as UTF-8",
    ),
    Reason(
        "old_names",
        "Names in the archive are in a code page that nothing names; they were read as cp437.",
        "pack the archive again with UTF-8 names, if a layer's name is garbled",
    ),
    Reason(
        "lone_table",
        "A `.dbf` in the archive has no `.shp` beside it; it is left out.",
        "pack the missing files, if it is a layer",
    ),
    Reason(
        "metadata_too_large",
        "A `.shp.xml` is larger than 1 MiB; it is not stored.",
        "shorten it, if readers need it",
    ),
    Reason(
        "no_layer_inside",
        "An archive inside the archive holds no layer.",
        "nothing, if that is meant",
    ),
    Reason(
        "beyond_max_bundle_bytes",
        "What was inspected is larger than a deployment takes by default.",
        "split the layer, or raise `MAX_BUNDLE_BYTES`",
    ),
)

LOSSES = (
    Reason(
        "number_as_null",
        "A number is not finite, for which JSON has no word, or NaN, for which SQLite has none; it"
        " is null.",
        "correct the number",
    ),
    Reason(
        "integer_as_text",
        "An integer is beyond 2^53, which many readers of JSON round; it is text.",
        "nothing; its digits are exact",
    ),
    Reason(
        "decimal_as_text",
        "An integer has more than 18 digits, for which the form has no number; it is text.",
        "nothing; its digits are exact",
    ),
    Reason(
        "date_as_time",
        "FlatGeobuf has no dates; a date is a time, at midnight.",
        "nothing; the day is exact",
    ),
    Reason(
        "renamed_column",
        "GDAL takes a field of this name for row numbers; it has another name in the dataset.",
        "rename the field in the source, if readers rely on it",
    ),
    Reason(
        "empty_as_null",
        "A shape without positions has no sound form in GeoJSON; the row has no geometry.",
        "give the row positions",
    ),
    Reason(
        "position_as_null",
        "A position is not finite, for which JSON has no word; the row has no geometry.",
        "correct the position",
    ),
    Reason(
        "shape_as_null",
        "A ring is open or has too few positions for GeoJSON; the row has no geometry.",
        "correct the shape, or set `VALIDITY` to `repair`",
    ),
    Reason(
        "no_spatial_index",
        "A row without extent has no place in the index of FlatGeobuf; the file has none.",
        "set `NULL_GEOMETRY`, `EMPTY_GEOMETRY` and `NAN_COORDINATES` to `skip` or `reject`",
    ),
)

_CURES: Mapping[str, str] = {
    reason.code: reason.cure for reason in (*REJECTS, *VALUES, *NOTICES, *LOSSES)
}


def cure(code: str) -> str:
    """Return what to do about a code of the catalogue, empty for one that is not in it."""
    return _CURES.get(code, "")
