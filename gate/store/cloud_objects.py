"""Small objects on Cloud Storage: the `gate.store.objects.Objects` of a deployment.

Each call is one request (a listing one for each thousand objects). The library
repeats what fails with 429, 5xx or a lost connection, with growing and jittered
pauses, for `PATIENCE_SECONDS`; an object that is written more often than about
once per second is refused with 429.

The time of an answer is its `Date` header, in whole seconds, for a read and a
listing; a write answers with the object, whose `updated` is finer.

An object's `Custom-Time` is when what it holds may be removed. Only a lifecycle
rule removes anything, by `daysSinceCustomTime`, which no object without that
time meets (Cloud Storage, "Object Lifecycle Management").
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from google.api_core import exceptions as api
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY

from gate.cloud_storage import client, translated
from gate.errors import (
    ConfigurationError,
    PermissionDeniedError,
    StoreBusyError,
    TransientError,
)
from gate.store.objects import ABSENT, Found, Listed, Wrote

PATIENCE_SECONDS = 10.0
# As many as Cloud Storage gives at most.
PAGE = 1000
MEDIA_TYPE = "application/json"
# Answers that the library does not return, but asks again.
_REPEATED = (408, 429, 500, 502, 503, 504)
_SHOWN = "items(name,generation,metadata,customTime),nextPageToken"


def connect(bucket: str, prefix: str) -> CloudObjects:
    """Open a bucket with the credentials of the environment.

    Raises `ConfigurationError` where there are none and they are needed.
    """
    return CloudObjects(client(), bucket, prefix)


class CloudObjects:
    """The objects of `bucket` whose names begin with `prefix`, which ends in a slash or is empty.

    `patience_seconds` is for how long a request is repeated; 0: never.
    """

    def __init__(
        self,
        client: storage.Client,
        bucket: str,
        prefix: str,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._client = client
        self._bucket = client.bucket(bucket)
        self._prefix = prefix
        retry = DEFAULT_RETRY.with_timeout(patience_seconds) if patience_seconds else None
        self._patience: dict[str, Any] = {"retry": retry, "timeout": PATIENCE_SECONDS}
        self._heard = threading.local()
        # The client tells the headers of its answers nowhere else.
        client._http.hooks["response"].append(self._hear)  # noqa: SLF001

    def read(self, name: str) -> Found:
        """See `Objects.read`."""
        blob = self._bucket.blob(self._prefix + name)
        with self._asked(name):
            try:
                payload: bytes = blob.download_as_bytes(**self._patience)
            except api.NotFound:
                return Found(None, ABSENT, self._now())
        return Found(payload, int(blob.generation), self._now())

    def write(
        self,
        name: str,
        payload: bytes,
        expected: int,
        *,
        labels: Mapping[str, str],
        expires_at: datetime | None,
    ) -> Wrote | None:
        """See `Objects.write`."""
        blob = self._bucket.blob(self._prefix + name)
        blob.metadata = dict(labels)
        # Of a bucket that everybody may read, answers would be an hour old otherwise.
        blob.cache_control = "no-store"
        if expires_at is not None:
            blob.custom_time = expires_at
        with self._asked(name):
            try:
                blob.upload_from_string(
                    payload,
                    content_type=MEDIA_TYPE,
                    if_generation_match=expected,
                    checksum="crc32c",
                    **self._patience,
                )
            except api.PreconditionFailed:
                return None
        return Wrote(int(blob.generation), blob.updated)

    def listed(self, folder: str) -> tuple[tuple[Listed, ...], datetime]:
        """See `Objects.listed`."""
        prefix = f"{self._prefix}{folder}/"
        with self._asked(folder):
            found = self._client.list_blobs(
                self._bucket, prefix=prefix, page_size=PAGE, fields=_SHOWN, **self._patience
            )
            listed = tuple(
                Listed(
                    blob.name.removeprefix(prefix),
                    int(blob.generation),
                    blob.metadata or {},
                    blob.custom_time,
                )
                for blob in found
            )
        return listed, self._now()

    @contextmanager
    def _asked(self, name: str) -> Iterator[None]:
        """Begin a question, whose first answer dates it, and translate what goes wrong."""
        self._heard.dates = []
        where = f"{self._prefix}{name}"
        try:
            with translated(self._bucket.name, where):
                yield
        except PermissionDeniedError as error:
            raise ConfigurationError(
                f"it is refused ({error.what})",
                where=error.where,
                cure="give the function's service account roles/storage.objectUser on the bucket"
                " of STATE_URI",
            ) from error
        except TransientError as error:
            raise StoreBusyError(error.what, where=error.where) from error

    def _hear(self, response: Any, **_: object) -> None:
        if response.status_code not in _REPEATED:
            self._heard.dates = [*getattr(self._heard, "dates", ()), response.headers.get("Date")]

    def _now(self) -> datetime:
        return parsedate_to_datetime(self._heard.dates[0])
