"""From the address of a sink to the sink."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from gate.cloud_storage import CloudStorage
from gate.sinks.address import SinkAddress
from gate.sinks.cloud_storage import CloudStorageSink
from gate.sinks.port import Sink
from gate.sinks.postgis_address import DatabaseAddress

_TOKEN_BYTES = 4


def open_sink(address: SinkAddress | DatabaseAddress, storage: CloudStorage) -> Sink:
    """Return the sink at `address`, with the machine's clock and randomness."""
    if isinstance(address, DatabaseAddress):
        from gate.sinks.postgis import PostgisSink
        from gate.sinks.postgis_database import Database

        return PostgisSink(Database(address), token=_token)
    return CloudStorageSink(storage, address, now=lambda: datetime.now(UTC), token=_token)


def _token() -> str:
    return secrets.token_hex(_TOKEN_BYTES)
