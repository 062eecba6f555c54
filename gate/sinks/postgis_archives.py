"""The indexes of archives in a PostGIS sink: a row for each, beside the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate.sinks.index import Index
from gate.sinks.port import Publication
from gate.sinks.postgis_database import Session
from gate.sinks.postgis_ledger import as_json
from gate.sinks.postgis_names import ARCHIVES


def read(session: Session, basename: str) -> Index | None:
    """Return whose the index of an archive is, `None` if there is none."""
    found = session.rows(
        """
        select bundle_id, bucket, basename, revision_id, revision_order
          from {archives} where basename = %s and revision_id <> ''
        """,
        (basename,),
        archives=(session.schema, ARCHIVES),
    )
    if not found:
        return None
    owner, bucket, name, revision_id, order = found[0]
    return Index(owner, bucket, name, revision_id, int(order))


def lock(session: Session, basename: str) -> Index | None:
    """Keep all others from an index until the transaction ends; return what stands."""
    session.run(
        """
        insert into {archives} values (%s, '', '', '', 0, '', 0, now(), null)
            on conflict do nothing
        """,
        (basename,),
        archives=(session.schema, ARCHIVES),
    )
    session.rows(
        "select from {archives} where basename = %s for update",
        (basename,),
        archives=(session.schema, ARCHIVES),
    )
    return read(session, basename)


def write(session: Session, publication: Publication, index: Mapping[str, Any]) -> None:
    """Store an index in its row, which must be locked."""
    mine = Index.of(publication)
    session.run(
        """
        update {archives} set
            bundle_id = %s, bucket = %s, revision_id = %s, revision_order = %s, job_id = %s,
            fence = %s, published_at = clock_timestamp(), content = %s
          where basename = %s
        """,
        (
            mine.bundle_id,
            mine.bucket,
            mine.revision_id,
            mine.order,
            publication.job_id,
            publication.fence,
            as_json(index),
            mine.basename,
        ),
        archives=(session.schema, ARCHIVES),
    )
