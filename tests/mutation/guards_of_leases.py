"""The guards of a worker: its lease, what it downloads, what it publishes."""

from __future__ import annotations

from tests.mutation.guard import NOTHING, guards_of

_owned = guards_of("ownership", "unit/test_ownership")

OWNERSHIP = (
    _owned(
        "a lease is kept between batches",
        "yield step\n            self.beat()",
        "yield step",
    ),
    _owned(
        "what a pulse has learnt stops the worker",
        "if self._stop:\n            raise Stopped(self._stop)\n        if self.shutting_down():",
        "if self.shutting_down():",
    ),
    _owned(
        "the work stops before the function does",
        "if self._late:",
        "if False:",
    ),
    _owned(
        "a store out of reach stops the work at the end of the lease",
        "if self._failure and self.now >= self.job.lease_expires_at:",
        "if False:",
    ),
    _owned(
        "a store out of reach stops nothing before the end of the lease",
        "if self._failure and self.now >= self.job.lease_expires_at:",
        "if self._failure:",
    ),
    _owned(
        "a pulse after the end writes nothing",
        "if self._stop or self.job.state is not job.State.RUNNING:",
        "if self._stop:",
    ),
    _owned(
        "a pulse after a take-over writes nothing",
        "if self._stop or self.job.state is not job.State.RUNNING:",
        "if self.job.state is not job.State.RUNNING:",
    ),
    _owned(
        "time goes on from the store's last word",
        "self._told = (clock.now, self.monotonic())",
        "pass",
    ),
    _owned(
        "a worker that has been told to stop proves nothing",
        "if self._stop:\n                raise Stopped(self._stop)\n            self._renew()",
        "self._renew()",
    ),
    _owned(
        "a job that is gone is lost",
        "if standing is None:\n                self._end(Stop.VANISHED)",
        "if standing is None:\n                self._end(Stop.FENCED_OUT)",
    ),
    _owned(
        "a shutdown gives the job back",
        "self._give_back()\n            elif",
        "pass\n            elif",
    ),
    _owned(
        "a lease is renewed when that is due, not at every batch",
        "elif self._due:",
        "else:",
    ),
    _owned(
        "a pulse raises nothing",
        "except GateError as error:\n            self._failure",
        f"{NOTHING} as error:\n            self._failure",
    ),
    _owned(
        "a proof renews at once",
        "raise Stopped(self._stop)\n            self._renew()",
        "raise Stopped(self._stop)",
    ),
    _owned(
        "a worker that lost its job writes nothing more",
        "if self._stop in LOST:",
        "if False:",
    ),
    _owned(
        "a write waits for a pulse and follows on it",
        "with self._lock:\n            if self._stop in LOST:",
        "if True:\n            if self._stop in LOST:",
    ),
    _owned(
        "a lease is not renewed beyond the time of the function",
        "if self._late or self.monotonic() - self._failed_seconds < pause_seconds:",
        "if self.monotonic() - self._failed_seconds < pause_seconds:",
    ),
    _owned(
        "a store out of reach is not asked at every batch",
        "if self._late or self.monotonic() - self._failed_seconds < pause_seconds:",
        "if self._late:",
    ),
    _owned(
        "a newer revision stops the worker",
        "if manifest and manifest.manifest.dispatched_order > self.job.revision.order:",
        "if False:",
    ),
    _owned(
        "a job without a manifest is still owned",
        "clock = manifest or self.store.job(self.job.id)",
        "clock = manifest",
    ),
    _owned(
        "a store that is back in time is forgiven",
        "        self._failure = None\n\n",
        "\n",
    ),
    _owned(
        "a renewal of our own that landed unheard is no take-over",
        "if standing.job.state is job.State.RUNNING and standing.job.token == self.job.token:",
        "if False:",
    ),
    _owned(
        "a take-over is no renewal of our own",
        "if standing.job.state is job.State.RUNNING and standing.job.token == self.job.token:",
        "if standing.job.state is job.State.RUNNING:",
    ),
    _owned(
        "an end that landed unheard is not undone",
        "if standing.job.state is job.State.RUNNING and standing.job.token == self.job.token:",
        "if standing.job.token == self.job.token:",
    ),
    _owned(
        "a worker that has to leave off is told again at its next step",
        "self._stop = stop\n        raise",
        "raise",
    ),
)

_beating = guards_of("heartbeat", "unit/test_heartbeat")

HEARTBEAT = (
    _beating(
        "a pulse that fails is not the last",
        "except Exception as error:",
        f"{NOTHING} as error:",
    ),
    _beating(
        "no pulse is under way once the work has been left",
        "thread.join()",
        "pass",
    ),
    _beating(
        "a pulse logs under the trace of its request",
        "target=copy_context().run, args=(beat,)",
        "target=beat",
    ),
    _beating(
        "what handles the signal otherwise does not shut us down",
        'return not getattr(worker, "alive", True)',
        'return not getattr(worker, "alive", False)',
    ),
)

_published = guards_of("publishing", "scenarios/test_ownership", "scenarios/test_archives")

PUBLISHING = (
    _published(
        "the owner is proven directly before a layer becomes visible",
        "complete, owner.still)",
        "complete, lambda: True)",
    ),
    _published(
        "the owner is proven directly before an index becomes visible",
        "index, owner.still)",
        "index, lambda: True)",
    ),
    _published(
        "an owner that has been fenced out is told so to the sink",
        "return not self.stops",
        "return True",
    ),
    _published(
        "the lease is kept while a layer is read",
        "return self.own.over(self.layer.batches())",
        "return self.layer.batches()",
    ),
    guards_of("publishing", "unit/test_publishing")(
        "a layer is not taken for one whose name goes on",
        "if layer and inside.removeprefix(layer.name) in _ENDS:",
        "if layer:",
    ),
)

_fetched = guards_of(
    "fetching", "unit/test_fetching", "scenarios/test_overwrites", "scenarios/test_archives"
)
_pinned = guards_of("fetching", "scenarios/test_publishing", "scenarios/test_reads")

FETCHING = (
    guards_of("fetching", "scenarios/test_stopping")(
        "a bundle beyond the limit is held before a download",
        "if self.capacity is None:",
        "if True:",
    ),
    _fetched(
        "the lease is looked after before each download",
        "beat()\n            path",
        "path",
    ),
    _fetched(
        "what was overwritten ends the job, whatever else is there",
        "elif found.live and found.live.generation > pin.generation:",
        "elif False:",
    ),
    _fetched(
        "an archive that was deleted is dead",
        "elif extension in (*self.required, revision.bundle.archive):",
        "elif extension in self.required:",
    ),
    guards_of("fetching", "scenarios/test_redrive", "scenarios/test_reads")(
        "a layer whose required file was deleted is dead",
        "elif extension in (*self.required, revision.bundle.archive):",
        "elif extension == revision.bundle.archive:",
    ),
    _fetched(
        "metadata beyond all bounds stays where it is",
        "if metadata is None or metadata.size_bytes <= METADATA_LIMIT_BYTES:",
        "if True:",
    ),
    _pinned(
        "what would change nothing is not downloaded",
        "            if extension not in FETCHED_EXTENSIONS:\n                continue\n",
        "",
    ),
    _pinned(
        "what vanishes between the look and the download is looked at afresh",
        "if self.source.fetch(bucket, fact, path) is not None:",
        "if self.source.fetch(revision.bundle.bucket, fact, path) is self:",
    ),
)
