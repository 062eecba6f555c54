"""Tables of layers: filled where nobody looks, then put in place by one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gate.errors import DatasetTakenError, SchemaMismatchError, UnexpectedError
from gate.sinks.port import Table
from gate.sinks.postgis_columns import GEOMETRY, Columns
from gate.sinks.postgis_database import Name, Session
from gate.sinks.postgis_names import SOURCE, STAGING

# An SRID of PostGIS is a key of its own table; 0 is an unknown CRS.
UNKNOWN_SRID = 0
_TOLD = 10


@dataclass(frozen=True, slots=True)
class Staged:
    """A layer that is stored, and seen by nobody else."""

    table: Name
    columns: Columns
    rows: int


def stage(
    session: Session, table: Table, token: str, comment: str, *, temporary: bool = False
) -> Staged:
    """Store a layer under a name that `token` makes its own.

    One that is not `temporary` is complete: indexed, analysed, and described by
    comments. Whatever the table raises passes through.
    """
    columns = Columns.of(table.schema)
    srid = _srid(session, table.geo_crs)
    name = ("pg_temp" if temporary else session.schema, f"{STAGING}{token}")
    session.create(
        "create temporary table {table} ({columns}) on commit drop"
        if temporary
        else "create table {table} ({columns})",
        name,
        [(column.name, column.type) for column in columns.attributes],
        (GEOMETRY, columns.geometry_type, srid),
    )
    rows = session.copy(name, columns.names, table.schema, columns.batches(table))
    if not temporary:
        _finish(session, name, columns, _described(comment, srid, table.geo_crs))
    return Staged(name, columns, rows)


def replace(session: Session, staged: Staged, target: Name, *, ours: bool) -> None:
    """Put a stored layer in the place of the table `target`, if there is one.

    Privileges stay. A table that views depend on stays too, and is refilled.
    Raises `DatasetTakenError` if there is a table that is not `ours`, and
    `SchemaMismatchError` if views keep a table whose columns differ.
    """
    if _exists(session, target):
        if not ours:
            raise DatasetTakenError(
                "there is a table or type of this name that the gate has not made",
                where=".".join(target),
                cure="rename it or the bundle, or give SINK another schema or table",
            )
        _copy_privileges(session, target, staged.table)
        if not session.drop(target):
            _require_same(session, staged, target, shared=False)
            session.run("delete from {table}", table=target)
            _move(session, staged, target)
            session.run("drop table {table}", table=staged.table)
            return
    session.run("alter table {table} rename to {name}", table=staged.table, name=(target[-1],))


def append(session: Session, staged: Staged, target: Name, source: str) -> None:
    """Replace the rows of `source` in a shared table by a stored layer.

    The first layer makes the table. Raises `SchemaMismatchError` if its columns
    are not those of the layer.
    """
    session.run("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (".".join(target),))
    if not _exists(session, target):
        session.run(
            "create table {table} as select null::text as {source}, * from {staged} limit 0",
            table=target,
            source=(SOURCE,),
            staged=staged.table,
        )
        session.run(
            "alter table {table} alter {source} set not null", table=target, source=(SOURCE,)
        )
        session.run("create index on {table} ({source})", table=target, source=(SOURCE,))
        _finish(session, target, staged.columns, "the rows of many layers: see the ledger")
    _require_same(session, staged, target, shared=True)
    session.run(
        "delete from {table} where {source} = %s", (source,), table=target, source=(SOURCE,)
    )
    _move(session, staged, target, source)
    session.run("analyze {table}", table=target)


def _move(session: Session, staged: Staged, target: Name, source: str = "") -> None:
    names = staged.columns.names
    if source:
        moved = session.run(
            "insert into {table} ({source}, {columns}) select %s, {columns} from {staged}",
            (source,),
            table=target,
            columns=names,
            source=(SOURCE,),
            staged=staged.table,
        )
    else:
        moved = session.run(
            "insert into {table} ({columns}) select {columns} from {staged}",
            table=target,
            columns=names,
            staged=staged.table,
        )
    if moved != staged.rows:
        raise UnexpectedError(f"{moved} of {staged.rows} rows were moved", where=".".join(target))


def _exists(session: Session, table: Name) -> bool:
    """Tell whether a table, or anything else that would be in its way, has this name.

    A type is in its way too, for a table is one; PostGIS has `geometry` and more.
    """
    statement = """
        select from pg_namespace n where nspname = %s and (
            exists (select from pg_class where relnamespace = n.oid and relname = %s)
            or exists (select from pg_type where typnamespace = n.oid and typname = %s))
    """
    return bool(session.rows(statement, (*table, table[-1])))


def _finish(session: Session, table: Name, columns: Columns, comment: str) -> None:
    """Index, analyse and describe a table."""
    session.run("create index on {table} using gist ({column})", table=table, column=(GEOMETRY,))
    session.comment("comment on table {table} is {text}", comment, table=table)
    for column in columns.attributes:
        session.comment(
            "comment on column {column} is {text}", column.original, column=(*table, column.name)
        )
    session.run("analyze {table}", table=table)


def _srid(session: Session, crs: Mapping[str, Any] | None) -> int:
    """Return the SRID that PostGIS knows a CRS of an authority by."""
    stated = (crs or {}).get("id", {})
    found = session.rows(
        "select srid from {reference} where auth_name = %s and auth_srid::text = %s",
        (str(stated.get("authority", "")), str(stated.get("code", ""))),
        reference=(session.geometry_schema, "spatial_ref_sys"),
    )
    return int(found[0][0]) if found else UNKNOWN_SRID


def _described(comment: str, srid: int, crs: Mapping[str, Any] | None) -> str:
    if srid != UNKNOWN_SRID:
        return comment
    named = f"CRS {crs.get('name', '')}, which has no SRID: see the ledger" if crs else "no CRS"
    return f"{comment}; {named}"


def _copy_privileges(session: Session, before: Name, after: Name) -> None:
    """Grant on one table what was granted on another; the owner has everything anyway."""
    granted = session.rows(
        """
        select coalesce(rolname, 'public'), grantee = 0, privilege_type, is_grantable
          from pg_class join pg_namespace n on n.oid = relnamespace,
               aclexplode(relacl) left join pg_roles r on r.oid = grantee
          where nspname = %s and relname = %s and grantee <> relowner
        """,
        before,
    )
    for role, everybody, privilege, grantable in granted:
        session.grant(privilege, after, None if everybody else role, grantable=grantable)


def _require_same(session: Session, staged: Staged, target: Name, *, shared: bool) -> None:
    """Compare the columns of a table with those of a layer, to which a shared one adds a column."""
    there, arriving = _columns(session, target), _columns(session, staged.table)
    if shared:
        arriving[SOURCE] = "text"
    differing = sorted({name for name, _ in there.items() ^ arriving.items()})
    if differing:
        told = ", ".join(
            f"{name} is {there.get(name, 'absent')} there and {arriving.get(name, 'absent')} here"
            for name in differing[:_TOLD]
        )
        raise SchemaMismatchError(
            f"{len(differing)} columns differ: {told}", where=".".join(target)
        )


def _columns(session: Session, table: Name) -> dict[str, str]:
    found = session.rows(
        """
        select attname, format_type(atttypid, atttypmod) from pg_attribute
          where attrelid = format('%%I.%%I', %s::text, %s::text)::regclass
            and attnum > 0 and not attisdropped
        """,
        table,
    )
    return {str(name): str(of) for name, of in found}
