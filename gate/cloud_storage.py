"""Cloud Storage, as few operations as the gate needs, with its errors translated.

The only module that imports google-cloud-storage. An object that is not there
and a precondition that does not hold are values (`None`, `False`); everything
else that the library raises becomes an error of `gate.errors`.

Names are handed over as they are: the library quotes them once for the wire,
and nothing here unquotes them.
"""

from __future__ import annotations

import http.client
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import requests
import urllib3
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY

from gate import crc32c
from gate.errors import (
    ChecksumError,
    ConfigurationError,
    GateError,
    PermissionDeniedError,
    StorageBusyError,
    UnexpectedError,
)
from gate.identity import Pin
from gate.source.port import ObjectFacts

# Otherwise the library asks for every bucket it meets, in a thread of its own, to
# label traces that nobody collects: a request more, and a 403 in the audit log of
# a service account that may only read objects.
os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")

ABSENT = 0
"""The generation to expect of an object that must not exist yet."""

CHUNK_BYTES = 8 << 20
"""How much of an upload is sent in one request: a multiple of 256 KiB."""

_READ_ATTEMPTS = 5
_MESSAGE_CHARACTERS = 300

_BUSY = (
    api.TooManyRequests,
    api.ServerError,
    api.Conflict,
    api.RetryError,
    auth.TransportError,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
)
_RAISED = (*_BUSY, api.GoogleAPIError, auth.GoogleAuthError, DataCorruption, InvalidResponse)


class CloudStorage:
    """Objects in buckets, read and written under a pinned generation.

    Requests that fail with 429, 5xx or a lost connection are repeated for
    `retry_seconds` (0: never) before `StorageBusyError` is raised.
    """

    def __init__(
        self,
        client: storage.Client,
        *,
        retry_seconds: float = 60.0,
        timeout_seconds: float = 60.0,
    ) -> None:
        self._client = client
        retry = DEFAULT_RETRY.with_timeout(retry_seconds) if retry_seconds else None
        self._patience: dict[str, Any] = {"retry": retry, "timeout": timeout_seconds}

    def stat(self, bucket: str, name: str, generation: int | None = None) -> ObjectFacts | None:
        """Return the facts of one generation, or of the live one; `None` if it is not there."""
        with translated(bucket, name):
            blob = self._bucket(bucket).get_blob(name, generation=generation, **self._patience)
        return None if blob is None else _facts(blob)

    def download(self, bucket: str, pin: Pin, path: Path) -> bool:
        """Write the stored bytes of exactly this generation to `path`, unproven.

        Return whether the generation is there. The blob is made afresh: one
        that has been read from the server downloads by its media link, and the
        link of fake-gcs-server carries no generation. The bytes are taken raw,
        for the checksum is of what is stored, before any `Content-Encoding`.
        """
        blob = self._bucket(bucket).blob(pin.name, generation=pin.generation)
        with translated(bucket, pin.name), path.open("wb") as file:
            try:
                blob.download_to_file(file, raw_download=True, checksum=None, **self._patience)
            except (api.NotFound, api.PreconditionFailed):
                return False
        return True

    def download_range(self, bucket: str, pin: Pin, start: int, stop: int) -> bytes | None:
        """Return the stored bytes from `start` to before `stop` of exactly this generation.

        `None` if the generation is not there. Unproven, as those of `download`.
        """
        blob = self._bucket(bucket).blob(pin.name, generation=pin.generation)
        part: dict[str, Any] = {"start": start, "end": stop - 1, "raw_download": True}
        with translated(bucket, pin.name):
            try:
                content: bytes = blob.download_as_bytes(**part, checksum=None, **self._patience)
            except (api.NotFound, api.PreconditionFailed):
                return None
        return content

    def read(self, bucket: str, name: str) -> tuple[bytes, int] | None:
        """Return the bytes of the live object with their generation, `None` if there is none.

        The facts tell the generation and the download is pinned to it, so the
        two belong together; a swap in between is followed.
        """
        for _ in range(_READ_ATTEMPTS):
            facts = self.stat(bucket, name)
            if facts is None:
                return None
            blob = self._bucket(bucket).blob(name, generation=facts.generation)
            with translated(bucket, name):
                try:
                    return blob.download_as_bytes(**self._patience), facts.generation
                except api.NotFound:
                    continue
        raise StorageBusyError("changed during every read", where=f"gs://{bucket}/{name}")

    def names(self, bucket: str, prefix: str) -> Iterator[Pin]:
        """Yield the live objects that begin with `prefix` and hold no `/` after it."""
        with translated(bucket, prefix):
            for blob in self._client.list_blobs(
                bucket,
                prefix=prefix,
                delimiter="/",
                fields="items(name,generation),nextPageToken",
                **self._patience,
            ):
                yield Pin(blob.name, int(blob.generation))

    def page(self, bucket: str, prefix: str, after: str, limit: int) -> tuple[Pin, ...]:
        """Return up to `limit` live objects below `prefix` whose names come after `after`.

        The service can only begin at a name, so one more is asked for.
        """
        with translated(bucket, prefix):
            found = self._client.list_blobs(
                bucket,
                prefix=prefix,
                start_offset=after or None,
                max_results=limit + 1,
                fields="items(name,generation),nextPageToken",
                **self._patience,
            )
            pins = tuple(Pin(blob.name, int(blob.generation)) for blob in found)
        return tuple(pin for pin in pins if pin.name != after)[:limit]

    def create(self, bucket: str, name: str, media_type: str) -> Upload:
        """Begin a new object, which exists from its `finish` on. Never overwrites."""
        return Upload(self, self._bucket(bucket).blob(name), media_type, self._patience)

    def swap(
        self, bucket: str, name: str, payload: bytes, media_type: str, expected: int
    ) -> int | None:
        """Replace the live object if it is still at generation `expected` (or `ABSENT`).

        Return the new generation, or `None` if the precondition did not hold.
        A `None` may hide one's own write: its answer can be lost, and the
        repeated request then fails on it. Read again before believing it.
        Readers are told not to cache.
        """
        blob = self._bucket(bucket).blob(name)
        blob.cache_control = "no-cache"
        with translated(bucket, name):
            try:
                blob.upload_from_string(
                    payload,
                    content_type=media_type,
                    if_generation_match=expected,
                    checksum="crc32c",
                    **self._patience,
                )
            except api.PreconditionFailed:
                return None
        return int(blob.generation)

    def delete(self, bucket: str, pin: Pin) -> None:
        """Remove exactly this generation; one that is gone already is no error."""
        blob = self._bucket(bucket).blob(pin.name, generation=pin.generation)
        with translated(bucket, pin.name):
            try:
                blob.delete(**self._patience)
            except api.NotFound:
                return

    def _bucket(self, name: str) -> storage.Bucket:
        bucket: storage.Bucket = self._client.bucket(name)
        return bucket


class Upload(io.RawIOBase):
    """A new object that is written from its first byte to its last, and kept nowhere else.

    What fits in `CHUNK_BYTES` is sent in one request at the end; anything larger
    in pieces of that size, as a resumable upload, of which each piece is
    repeated by itself if it fails. So no more than two of them are in memory.
    Nothing is visible before `finish`. After an error, every further write
    raises that error again.

    The precondition that the name is free is not heeded by fake-gcs-server for
    resumable uploads. Whoever relies on it there needs names that no other call
    uses.
    """

    def __init__(
        self, storage: CloudStorage, blob: storage.Blob, media_type: str, patience: dict[str, Any]
    ) -> None:
        super().__init__()
        self._storage = storage
        self._blob = blob
        self._settings = {
            "content_type": media_type,
            "if_generation_match": ABSENT,
            **patience,
        }
        self._first = bytearray()
        self._stream: Any = None
        self._begun = False
        self._failure: GateError | None = None
        self.written = crc32c.Running()

    def writable(self) -> bool:
        """Tell that bytes can be written; nothing else can be done with them."""
        return True

    def write(self, piece: Any, /) -> int:
        """Take the next bytes, all of them; raises what `CloudStorage` raises."""
        chunk = bytes(piece)
        with self._guarded():
            self._take(chunk)
        self.written.add(chunk)
        return len(chunk)

    def finish(self) -> ObjectFacts:
        """Make the object visible, prove that it is what was written, and return its facts.

        If the name is taken, the object that holds it is judged: after a lost
        answer that is one's own. Raises `ChecksumError` if it is another.
        """
        bucket, name = self._blob.bucket.name, self._blob.name
        with self._guarded():
            try:
                found = self._send()
            except api.PreconditionFailed:
                found = None
            found = found or self._storage.stat(bucket, name)
            if found is None:
                raise StorageBusyError("was there, then gone", where=f"gs://{bucket}/{name}")
        if (found.size_bytes, found.crc32c) != (self.written.size_bytes, self.written.checksum):
            raise ChecksumError(
                f"{found.size_bytes} bytes with crc32c {found.crc32c} are not what was sent",
                where=f"gs://{bucket}/{name}",
            )
        return found

    def cancel(self) -> None:
        """Give up what was sent, as best it can: unfinished uploads expire after a week."""
        if self._stream is not None:
            with suppress(*_RAISED):
                self._stream.terminate()

    def _take(self, chunk: bytes) -> None:
        if self._stream is None:
            self._first += chunk
            if len(self._first) <= CHUNK_BYTES:
                return
            self._stream = self._blob.open("wb", chunk_size=CHUNK_BYTES, **self._settings)
            chunk, self._first = bytes(self._first), bytearray()
        self._stream.write(chunk)
        self._begun = True

    def _send(self) -> ObjectFacts | None:
        if self._stream is None:
            self._blob.upload_from_string(bytes(self._first), **self._settings)
            return _facts(self._blob)
        self._stream.close()
        return None

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        if self._failure:
            raise self._failure
        try:
            with translated(self._blob.bucket.name, self._blob.name), self._answers():
                yield
        except GateError as error:
            self._failure = error
            raise

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Turn refusals of a piece into the errors of other calls.

        An upload that has begun and is not found any more must begin anew
        (Cloud Storage, resumable uploads, 404 and 410).
        """
        try:
            yield
        except InvalidResponse as error:
            status = error.response.status_code
            if self._begun and status in (404, 410):
                status = 503
            raise api.from_http_status(status, str(error)) from error


def connect(project: str | None = None) -> CloudStorage:
    """Open Cloud Storage with the credentials of the environment.

    `STORAGE_EMULATOR_HOST` leads to an emulator, without credentials. Raises
    `ConfigurationError` where there are none and they are needed.
    """
    return CloudStorage(client(project))


def client(project: str | None = None) -> storage.Client:
    """Return the library's client. Raises `ConfigurationError` as `connect` does."""
    try:
        return storage.Client(project=project)
    except auth.GoogleAuthError as error:
        cure = "give the function a service account, or run: gcloud auth application-default login"
        raise ConfigurationError(_first_line(error), where="Cloud Storage", cure=cure) from error


def project() -> str:
    """Return the project that the environment or the credentials name.

    Raises `ConfigurationError` where neither does.
    """
    try:
        return str(storage.Client().project)
    except (auth.GoogleAuthError, OSError) as error:
        cure = "set GOOGLE_CLOUD_PROJECT, or give the function a service account"
        raise ConfigurationError(_first_line(error), where="Cloud Storage", cure=cure) from error


def _facts(blob: storage.Blob) -> ObjectFacts:
    return ObjectFacts(
        name=blob.name,
        generation=int(blob.generation),
        size_bytes=int(blob.size),
        crc32c=blob.crc32c,
        metadata=dict(blob.metadata or {}),
    )


@contextmanager
def translated(bucket: str, name: str) -> Iterator[None]:
    """Turn what the library raises into the error of ours that says what it means."""
    try:
        yield
    except _RAISED as error:
        raise _meaning(error, f"gs://{bucket}/{name}") from error


def _meaning(error: Exception, where: str) -> GateError:
    """Return the error of ours that says what the library's means for the work."""
    what = _first_line(error)
    if isinstance(error, (api.Forbidden, api.Unauthorized)):
        return PermissionDeniedError(what, where=where)
    if isinstance(error, auth.RefreshError) and not _unreached(error):
        return PermissionDeniedError(what, where=where)
    if isinstance(error, api.NotFound):
        return ConfigurationError("there is no such bucket", where=where)
    if isinstance(error, DataCorruption):
        return ChecksumError(what, where=where)
    # The library raises 408 as a plain call error, without a class of its own.
    if isinstance(error, (*_BUSY, auth.RefreshError)) or getattr(error, "code", None) == 408:
        return StorageBusyError(what, where=where)
    return UnexpectedError(what, where=where)


def _unreached(error: auth.RefreshError) -> bool:
    """Tell whether nobody was asked for the credentials, rather than refused them.

    google-auth wraps an unreachable metadata server (compute_engine) in a
    `RefreshError` that calls itself not retryable, with the lost connection as
    its argument and its cause.
    """
    inside: set[BaseException] = set()
    found: list[object] = [error]
    while found:
        each = found.pop()
        if isinstance(each, BaseException) and each not in inside:
            inside.add(each)
            found += (*each.args, each.__cause__, each.__context__)
    return bool(error.retryable) or any(isinstance(each, auth.TransportError) for each in inside)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:_MESSAGE_CHARACTERS]
