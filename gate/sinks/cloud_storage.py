"""Datasets on Cloud Storage: uploaded whole, then made current by one swap.

Readers follow `latest.json`. A publication uploads a dataset and its report
under names of its own, which nobody can see through the pointer, and then
replaces the pointer on condition that it is still the one that was compared.
Whatever the pointer has led to stays for a while after that, for readers that
have just followed it.
So nothing that readers see is ever half-written, and an older revision never
replaces a newer one, however late a zombie wakes up: whoever moved the pointer
first makes the other compare again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gate import log
from gate.cloud_storage import ABSENT, CloudStorage, Upload
from gate.errors import GateError, StorageBusyError
from gate.identity import Pin, Revision, bundle_id
from gate.sinks import formats, layout, pointer
from gate.sinks import index as archive_index
from gate.sinks.address import SinkAddress
from gate.sinks.formats import Origin
from gate.sinks.layout import Attempt
from gate.sinks.pointer import Pointer, Superseded
from gate.sinks.port import Outdated, Publication, Published, Table
from gate.workspace import workspace

_JSON = "application/json"
_NDJSON = "application/x-ndjson"
_XML = "application/xml"
_SWAPS = 10

GRACE = timedelta(minutes=10)
"""How long a superseded dataset stays, for readers that are at it."""


class CloudStorageSink:
    """The `gate.sinks.port.Sink` over a bucket, in the form that its address asks for.

    `now` stamps the pointer, nothing is decided by it. `token` returns hex
    digits that no other call gets: they make the names of each call its own.
    """

    def __init__(
        self,
        storage: CloudStorage,
        address: SinkAddress,
        *,
        now: Callable[[], datetime],
        token: Callable[[], str],
    ) -> None:
        self._storage = storage
        self._address = address
        self._format = formats.chosen(address)
        self._now = now
        self._token = token

    def current(self, revision: Revision, layer: str = "") -> Published | Outdated | None:
        """Tell what the pointer says of this revision; reads nothing else."""
        held, _ = self._place(revision, layer).read()
        return held.verdict(revision, layer) if held else None

    def publish(
        self,
        publication: Publication,
        table: Table,
        report: Callable[[], Mapping[str, Any]],
        still_owner: Callable[[], bool],
    ) -> Published | Outdated | None:
        """Store the table and make it current, all or nothing: see the port.

        Raises `ConfigurationError` if the bucket does not exist or the pointer
        is not one of ours, `ChecksumError` if what is stored is not what was
        sent.
        """
        place = self._place(publication.revision, publication.layer)
        settled = self.current(publication.revision, publication.layer)
        if settled:
            return settled
        attempt = Attempt.of(
            publication.revision, publication.fence, self._token(), self._format.extension
        )
        upload = _Uploads(place, attempt)
        try:
            with workspace() as workdir:
                mine = self._store(publication, table, report, upload, workdir)
            outcome = self._make_current(publication, mine, upload, still_owner)
        except BaseException:
            upload.discard()
            raise
        if isinstance(outcome, Pointer):
            self._clean_up(place, attempt, outcome)
            return Published(outcome.location, outcome.rows)
        upload.discard()
        return outcome

    def publish_index(
        self,
        publication: Publication,
        index: Mapping[str, Any],
        still_owner: Callable[[], bool],
    ) -> str | Outdated | None:
        """Swap the index of an archive: see the port.

        Raises `ConfigurationError` if the index there is not one of ours.
        """
        place = self._place(publication.revision)
        content = archive_index.content_of(publication, index)
        for _ in range(_SWAPS):
            held, generation = place.read_index()
            if held == content:
                return place.uri(layout.INDEX)
            if held is not None:
                standing = archive_index.parse(held, place.uri(layout.INDEX))
                verdict = standing.verdict(publication.revision)
                if verdict:
                    return verdict
            if not still_owner():
                return None
            if place.swap(layout.INDEX, content, generation):
                return place.uri(layout.INDEX)
        raise StorageBusyError("the index moved in every round", where=place.uri(layout.INDEX))

    def _place(self, revision: Revision, layer: str = "") -> _Place:
        folder = layout.folder(self._address.output_prefix, revision.bundle, layer)
        return _Place(self._storage, self._address.bucket, folder)

    def _store(
        self,
        publication: Publication,
        table: Table,
        report: Callable[[], Mapping[str, Any]],
        upload: _Uploads,
        folder: Path,
    ) -> Pointer:
        """Upload and prove dataset and report; return the pointer to them, not yet set.

        The dataset is finished once the report is there, which may refuse it.
        """
        revision, attempt, place = publication.revision, upload.attempt, upload.place
        origin = Origin(publication.layer or revision.bundle.stem, _lineage(publication))
        with upload.begun(attempt.dataset, self._format.media_type) as file:
            written = self._format.write(file, table, origin, folder)
            rejects = table.rejects()
            mine = Pointer(
                bundle_id=bundle_id(revision.bundle),
                bucket=revision.bundle.bucket,
                basename=revision.bundle.basename,
                layer=publication.layer,
                revision_id=revision.id,
                order=revision.order,
                job_id=publication.job_id,
                fence=publication.fence,
                location=place.uri(attempt.dataset),
                dataset=attempt.dataset,
                report=attempt.report,
                metadata=attempt.metadata if publication.metadata else "",
                rejects=attempt.rejects if rejects else "",
                rows=written.rows,
                size_bytes=file.written.size_bytes,
                crc32c=file.written.checksum,
                published_at=self._now().isoformat(),
            )
            content = {
                **report(),
                "losses": [asdict(loss) for loss in written.losses],
                "publication": json.loads(mine.as_json()),
            }
            reported = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
        with upload.begun(attempt.report, _JSON) as file:
            file.write(reported.encode())
        if mine.metadata:
            with upload.begun(mine.metadata, _XML) as file:
                file.write(publication.metadata)
        if rejects:
            with upload.begun(mine.rejects, _NDJSON) as file, rejects.open("rb") as listed:
                shutil.copyfileobj(listed, file)
        return mine

    def _make_current(
        self,
        publication: Publication,
        mine: Pointer,
        upload: _Uploads,
        still_owner: Callable[[], bool],
    ) -> Pointer | Published | Outdated | None:
        """Swap the pointer; return the one that stands if it is ours, else why not.

        A refused swap is no answer yet: it may have been refused because our
        own earlier request had been applied and its answer lost. So each round
        begins with reading the pointer again. While it is unknown whether a
        swap was applied, or if one was and has been superseded since,
        `upload.exposed` keeps the upload from being removed.
        """
        place = upload.place
        for _ in range(_SWAPS):
            held, generation = place.read()
            if held and held.dataset == mine.dataset:
                return held
            verdict = held.verdict(publication.revision, publication.layer) if held else None
            upload.exposed = held is not None and mine.dataset in held.standing
            if verdict:
                return verdict
            if not still_owner():
                return None
            successor = replace(mine, previous=self._previous(held))
            upload.exposed = True
            try:
                if place.swap(layout.POINTER, successor.as_json(), generation):
                    return successor
            except StorageBusyError:
                if place.read()[1] == generation:
                    raise
        raise StorageBusyError("the pointer moved in every round", where=place.uri(layout.POINTER))

    def _previous(self, held: Pointer | None) -> tuple[Superseded, ...]:
        """Return what stays behind the pointer that replaces `held`: what is kept or is young."""
        if held is None:
            return ()
        now, keep = self._now(), self._address.keep
        chain = (Superseded(held.dataset, now), *held.previous)
        young = [now - each.superseded_at < GRACE for each in chain]
        return tuple(each for place, each in enumerate(chain) if place < keep or young[place])

    def _clean_up(self, place: _Place, attempt: Attempt, standing: Pointer) -> None:
        """Remove what the publication has superseded, and what crashed attempts left.

        It is not part of the publication: what goes wrong is logged, and the
        next publication of the bundle tries again.
        """
        try:
            found = {pin.name.removeprefix(place.folder): pin for pin in place.objects()}
            for name in layout.removable(found, attempt, standing.standing):
                place.remove(found[name])
        except GateError as error:
            folder = place.folder
            log.write("clean-up failed", severity="WARNING", folder=folder, detail=str(error))


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder of one bundle in the bucket of the sink."""

    storage: CloudStorage
    bucket: str
    folder: str

    def uri(self, name: str) -> str:
        return f"gs://{self.bucket}/{self.folder}{name}"

    def read(self) -> tuple[Pointer | None, int]:
        """Return the pointer and its generation, or `None` and `ABSENT`."""
        found = self.storage.read(self.bucket, f"{self.folder}{layout.POINTER}")
        if found is None:
            return None, ABSENT
        content, generation = found
        return pointer.parse(content, self.uri(layout.POINTER)), generation

    def read_index(self) -> tuple[bytes | None, int]:
        """Return the index and its generation, or `None` and `ABSENT`."""
        return self.storage.read(self.bucket, f"{self.folder}{layout.INDEX}") or (None, ABSENT)

    def swap(self, name: str, content: bytes, expected: int) -> int | None:
        return self.storage.swap(self.bucket, f"{self.folder}{name}", content, _JSON, expected)

    def objects(self) -> Iterator[Pin]:
        return self.storage.names(self.bucket, self.folder)

    def remove(self, pin: Pin) -> None:
        self.storage.delete(self.bucket, pin)


@dataclass(slots=True)
class _Uploads:
    """What one call has uploaded, and whether the pointer might lead to it."""

    place: _Place
    attempt: Attempt
    exposed: bool = False
    sent: list[str] = field(default_factory=list)

    @contextmanager
    def begun(self, name: str, media_type: str) -> Iterator[Upload]:
        """Yield what becomes the object once the block has ended well, and is cancelled else."""
        self.sent.append(name)
        place = self.place
        file = place.storage.create(place.bucket, f"{place.folder}{name}", media_type)
        try:
            yield file
            file.finish()
        except BaseException:
            file.cancel()
            raise

    def discard(self) -> None:
        """Remove what was uploaded, unless readers might see it.

        As best it can: what remains is removed by the next publication.
        """
        if self.exposed:
            return
        try:
            for name in self.sent:
                stored = self.place.storage.stat(self.place.bucket, f"{self.place.folder}{name}")
                if stored:
                    self.place.remove(stored.pin)
        except GateError as error:
            folder = self.place.folder
            log.write("discard failed", severity="WARNING", folder=folder, detail=str(error))


def _lineage(publication: Publication) -> dict[str, Any]:
    """Return where a dataset comes from; generations are strings, as in the API."""
    revision = publication.revision
    return {
        "bundle": str(revision.bundle),
        "bundle_id": bundle_id(revision.bundle),
        **({"layer": publication.layer} if publication.layer else {}),
        "revision": revision.id,
        "order": str(revision.order),
        "job": publication.job_id,
        "pins": {
            extension: {"name": pin.name, "generation": str(pin.generation)}
            for extension, pin in revision.pins
        },
    }
