"""The ledger of a PostGIS sink: which revision each table, or part of one, holds.

It stands in the schema of the tables, and its rows change in the transaction
that changes them. Whoever publishes locks the row first and compares it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate.errors import DatasetTakenError
from gate.identity import Revision, bundle_id
from gate.sinks.port import Outdated, Publication, Published
from gate.sinks.postgis_database import Session, storable
from gate.sinks.postgis_names import ARCHIVES, LEDGER, REJECTS

# One ledger in a database is made at a time: creating if absent is no lock by itself.
_MAKING = 0x67617465


@dataclass(frozen=True, slots=True)
class Place:
    """A table, and whose rows in it: all of them if `source` is empty."""

    table: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger says of a place. `location` names the table; `holder` its bundle."""

    bundle_id: str
    layer: str
    holder: str
    revision_id: str
    order: int
    rows: int
    location: str

    def verdict(self, revision: Revision, layer: str) -> Published | Outdated | None:
        """Tell what this entry means for a publication of `layer` at `revision`.

        `None`: it is older and may be replaced. Raises `DatasetTakenError` if
        the place is another bundle's or another layer's.
        """
        if (self.bundle_id, self.layer) != (bundle_id(revision.bundle), storable(layer)):
            raise DatasetTakenError(
                f"{self.holder} already publishes as {self.location}", where=str(revision.bundle)
            )
        if self.revision_id == revision.id:
            return Published(self.location, self.rows, already=True)
        return Outdated(self.order) if self.order >= revision.order else None


def prepare(session: Session) -> None:
    """Make the ledger, unless it is there."""
    schema = session.schema
    session.run("select pg_advisory_xact_lock(%s)", (_MAKING,))
    there = "select from pg_tables where schemaname = %s and tablename = %s"
    if session.rows(there, (schema, ARCHIVES)):
        return
    session.run(
        """
        create table {ledger} (
            table_name text not null,
            source text not null,
            bundle_id text not null,
            bucket text not null,
            basename text not null,
            layer text not null,
            revision_id text not null,
            revision_order numeric not null,
            job_id text not null,
            fence bigint not null,
            row_count bigint not null,
            location text not null,
            published_at timestamptz not null,
            crs jsonb,
            report jsonb,
            metadata bytea,
            primary key (table_name, source)
        );
        create table {rejects} (
            table_name text not null,
            source text not null,
            row_number bigint not null,
            reason text not null,
            content text not null
        );
        create index on {rejects} (table_name, source);
        create table {archives} (
            basename text primary key,
            bundle_id text not null,
            bucket text not null,
            revision_id text not null,
            revision_order numeric not null,
            job_id text not null,
            fence bigint not null,
            published_at timestamptz not null,
            content jsonb
        )
        """,
        ledger=(schema, LEDGER),
        rejects=(schema, REJECTS),
        archives=(schema, ARCHIVES),
    )


def read(session: Session, place: Place) -> Entry | None:
    """Return what stands, `None` if nothing was published there."""
    found = session.rows(
        """
        select bundle_id, layer, bucket, basename, revision_id, revision_order, row_count, location
          from {ledger} where table_name = %s and source = %s and revision_id <> ''
        """,
        (place.table, place.source),
        ledger=(session.schema, LEDGER),
    )
    if not found:
        return None
    owner, layer, bucket, basename, revision_id, order, rows, location = found[0]
    holder = f"gs://{bucket}/{basename}" + (f"/{layer}" if layer else "")
    return Entry(owner, layer, holder, revision_id, int(order), rows, location)


def lock(session: Session, place: Place) -> Entry | None:
    """Keep all others from a place until the transaction ends; return what stands there.

    A place that nobody has published to yet is locked by its key.
    """
    session.run(
        """
        insert into {ledger} values
            (%s, %s, '', '', '', '', '', 0, '', 0, 0, '', now(), null, null, null)
            on conflict do nothing
        """,
        (place.table, place.source),
        ledger=(session.schema, LEDGER),
    )
    session.rows(
        "select from {ledger} where table_name = %s and source = %s for update",
        (place.table, place.source),
        ledger=(session.schema, LEDGER),
    )
    return read(session, place)


def write(
    session: Session,
    place: Place,
    publication: Publication,
    published: Published,
    crs: Mapping[str, Any] | None,
    report: Mapping[str, Any],
) -> None:
    """Say what is published at a place, which must be locked."""
    revision = publication.revision
    bundle = revision.bundle
    session.run(
        """
        update {ledger} set
            bundle_id = %s, bucket = %s, basename = %s, layer = %s, revision_id = %s,
            revision_order = %s, job_id = %s, fence = %s, row_count = %s, location = %s,
            published_at = clock_timestamp(), crs = %s, report = %s, metadata = %s
          where table_name = %s and source = %s
        """,
        (
            bundle_id(bundle),
            bundle.bucket,
            bundle.basename,
            publication.layer,
            revision.id,
            revision.order,
            publication.job_id,
            publication.fence,
            published.rows,
            published.location,
            None if crs is None else as_json(crs),
            as_json(report),
            publication.metadata or None,
            place.table,
            place.source,
        ),
        ledger=(session.schema, LEDGER),
    )


def write_rejects(session: Session, place: Place, listed: Path | None) -> None:
    """Replace the rejected rows of a place by those listed."""
    session.run(
        "delete from {rejects} where table_name = %s and source = %s",
        (place.table, place.source),
        rejects=(session.schema, REJECTS),
    )
    if listed:
        session.copy_rows(
            (session.schema, REJECTS),
            ["table_name", "source", "row_number", "reason", "content"],
            ((place.table, place.source, *row) for row in _rejects(listed)),
        )


def _rejects(listed: Path) -> Iterator[tuple[int, str, str]]:
    with listed.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["row"], row["reason"], row["text"]


def as_json(content: Mapping[str, Any]) -> str:
    """Return strict JSON that `jsonb` takes. Raises `ValueError` for NaN and infinity."""
    return json.dumps(_storable(dict(content)), ensure_ascii=False, allow_nan=False)


def _storable(content: Any) -> Any:
    if isinstance(content, dict):
        return {storable(key): _storable(each) for key, each in content.items()}
    if isinstance(content, (list, tuple)):
        return [_storable(each) for each in content]
    return storable(content)
