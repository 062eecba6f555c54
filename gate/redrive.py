"""Redrive: a person gives a job new attempts, once its cause has passed.

The job becomes due at once, and the sweep takes it up like any other. Before
that, what a run would find out is found out here, where the person sees it: a
newer revision, an object that was overwritten or deleted. Every write is a
compare-and-set on the job as it was read, so that of two people who ask at the
same time one is told that the other was first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from gate import job
from gate.errors import PermissionDeniedError, SourceDeletedError
from gate.fetching import Fetch, Overwritten
from gate.identity import is_id
from gate.job import REDRIVABLE, REDRIVEN, Claimed, Job, State
from gate.settings import Settings
from gate.source.port import Source
from gate.store.history import History
from gate.store.port import Claim, Store, StoredJob


class Verdict(Enum):
    """What became of the wish to redrive a job."""

    REDRIVEN = "redriven"
    ALREADY = "already_redriven"
    SUPERSEDED = "superseded"
    SOURCE_DELETED = "source_deleted"
    NOT_NEEDED = "not_needed"
    TAKEN = "taken"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"

    @property
    def granted(self) -> bool:
        """Tell whether the job has the new attempts that were asked for."""
        return self in (Verdict.REDRIVEN, Verdict.ALREADY)


@dataclass(frozen=True, slots=True)
class Redriven:
    """The verdict on one job, why, and the job as it stands now, if that is known."""

    job_id: str
    verdict: Verdict
    detail: str
    stored: StoredJob | None = None


@dataclass(frozen=True, slots=True)
class Redrive:
    """Redrive jobs over a store and the source of their objects.

    `new_token` returns a new random text for each call.
    """

    store: Store
    history: History
    source: Source
    settings: Settings
    new_token: Callable[[], str]

    def __call__(self, job_id: str, *, actor: str, reason: str) -> Redriven:
        """Make a job due at once, with all its attempts; who asked and why stay in its history.

        Raises `StorageBusyError` if the objects cannot be looked at now, and
        what the store raises.
        """
        if not is_id(job_id):
            cure = "`dead-letters` lists jobs, `status gs://BUCKET/NAME` those of a bundle"
            return Redriven(job_id, Verdict.UNKNOWN, f"that is no id of a job; {cure}")
        stored = self.store.job(job_id)
        if stored is None:
            cure = "it may have expired, or be of another deployment; upload the bundle again"
            return Redriven(job_id, Verdict.UNKNOWN, f"there is no such job; {cure}")
        if stored.job.state not in REDRIVABLE:
            detail = f"it is {stored.job.state.value}"
            return Redriven(job_id, Verdict.NOT_NEEDED, detail, stored)
        if _is_redriven(stored.job):
            return Redriven(job_id, Verdict.ALREADY, "it is due already", stored)
        return self._overtaken(stored, actor) or self._again(stored, actor, reason)

    def with_code(self, code: str) -> Iterator[str]:
        """Yield the ids of the jobs that ended with an error code, or some layer of which did.

        One that has been redriven and not run yet is not among them.
        """
        for known in self.history.jobs_in(REDRIVABLE):
            if code in codes(known):
                yield known.id

    def claimed(self, redriven: Redriven) -> StoredJob | None:
        """Claim a job that got its attempts, for the caller to run; `None` if that is not so.

        It is not, too, if somebody else was faster.
        """
        stored = redriven.stored
        if stored is None or not redriven.verdict.granted:
            return None
        claimed = job.claim(
            stored.job, token=self.new_token(), now=stored.now, limits=self.settings.limits
        )
        return self.store.replace(stored, claimed.job) if isinstance(claimed, Claimed) else None

    def _again(self, stored: StoredJob, actor: str, reason: str) -> Redriven:
        detail = "it is due now"
        try:
            found = self._fetch.look(stored.job.revision)
        except SourceDeletedError as error:
            return Redriven(stored.job.id, Verdict.SOURCE_DELETED, str(error), stored)
        except PermissionDeniedError as error:
            # The function may look where this person may not.
            detail = f"{detail}; its objects could not be looked at from here ({error.what})"
        else:
            if isinstance(found, Overwritten):
                return self._overwritten(stored, found, actor)
        again = job.redriven(
            stored.job, actor=actor, reason=reason, token=self.new_token(), now=stored.now
        )
        return self._written(stored, again, Verdict.REDRIVEN, detail)

    def _overtaken(self, stored: StoredJob, actor: str) -> Redriven | None:
        """End a job whose bundle has gone on; `None` if it has not."""
        revision = stored.job.revision
        newest = self.store.manifest(revision.bundle)
        if newest is None or newest.manifest.dispatched_order <= revision.order:
            return None
        return self._superseded(stored, "a newer revision was dispatched", actor)

    def _overwritten(self, stored: StoredJob, by: Overwritten, actor: str) -> Redriven:
        """Record the newer generation as if its event had come, and end the job."""
        self.store.record(Claim(by.component, by.generation, "", self.new_token()))
        why = f"generation {by.generation} of {by.component.name} has replaced the pinned one"
        return self._superseded(stored, why, actor)

    def _superseded(self, stored: StoredJob, why: str, actor: str) -> Redriven:
        ended = job.superseded(stored.job, now=stored.now, why=f"{why}, as {actor} was told")
        return self._written(stored, ended, Verdict.SUPERSEDED, why)

    def _written(self, stored: StoredJob, moved: Job, verdict: Verdict, detail: str) -> Redriven:
        written = self.store.replace(stored, moved)
        if written is None:
            detail = "somebody else has just moved it; look at it again"
            return Redriven(stored.job.id, Verdict.TAKEN, detail)
        return Redriven(stored.job.id, verdict, detail, written)

    @property
    def _fetch(self) -> Fetch:
        return Fetch(self.source, self.settings.required)


def codes(known: Job) -> frozenset[str]:
    """Return the code of a job's latest error, and those of the failed layers it names."""
    layers = {layer["code"] for layer in known.summary.get("failed_layers", ())}
    latest = {known.history[-1].code} if known.history else set()
    return frozenset(layers | latest)


def _is_redriven(known: Job) -> bool:
    return known.state is State.FAILED and known.history[-1].code == REDRIVEN
