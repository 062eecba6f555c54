"""The names of tables, made from those of bundles.

    city/roads              city__roads
    city/My Roads           city__my_roads_964eeb47
    north/a.zip, layer b    north__a_zip__b_d4979a20

Each part of the path takes the plain form of `gate.sinks.field_names`, and `__`
stands between them. Where that loses anything, or the name is too long, eight
digits of an id follow, so that no two names meet. No name begins with `_`:
those are the gate's own.
"""

from __future__ import annotations

from gate.identity import digest
from gate.names import Bundle
from gate.sinks.field_names import warehouse_name
from gate.sinks.postgis_address import MAX_NAME_BYTES

LEDGER = "_gate_ledger"
REJECTS = "_gate_rejects"
ARCHIVES = "_gate_archives"
STAGING = "_gate_new_"

# A column of a shared table that says whose a row is.
SOURCE = "gate_source"

_SEPARATOR = "__"
_ID_DIGITS = 8


def table_name(template: str, bundle: Bundle, layer: str = "") -> str:
    """Return the table of a bundle, or of one layer of an archive.

    `{name}` in the template is the whole name: it never meets another's.
    `{stem}` is the last part of it alone: two folders may hold the same, and
    then the second one is refused. The name has 63 bytes at most.
    """
    prefix, brace, rest = template.partition("{")
    if not brace:
        return template
    placeholder, _, suffix = rest.partition("}")
    room = MAX_NAME_BYTES - len(prefix) - len(suffix)
    path = "/".join((bundle.basename, layer)) if layer else bundle.basename
    if placeholder == "stem":
        last = layer.rpartition("/")[2] or bundle.stem
        return f"{prefix}{warehouse_name(last, most=room)}{suffix}"
    parts = path.split("/")
    plain = _SEPARATOR.join(map(warehouse_name, parts))
    if len(plain) > room or layer or plain.split(_SEPARATOR) != parts:
        identity = digest(bundle.basename, bundle.archive, layer)[:_ID_DIGITS]
        plain = f"{plain[: room - _ID_DIGITS - 1].rstrip('_')}_{identity}"
    return f"{prefix}{plain}{suffix}"


def source_name(bundle: Bundle, layer: str = "") -> str:
    """Return what marks the rows of a bundle, or of one layer of it, in a shared table."""
    return f"{bundle}#{layer}" if layer else str(bundle)
