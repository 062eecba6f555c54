"""What no event will finish: jobs whose worker is gone, bundles whose event was lost.

    some pages of the bucket, if a pass over it is open or due
    then, the longest due first, until time or jobs run out:
      a job without a living worker, or whose pause is over   → taken over and run
      a job whose dead letter was not sent                    → sent again
      (where jobs are given to tasks, both                    → given to another task)
      a manifest whose time has come                          → looked at, see `gate.look`

Whatever is treated is due later afterwards, or not at all, so nothing keeps others
waiting for good; what cannot be treated is put behind the others. Every write is
conditional: sweeps may overlap, and one that dies anywhere is followed by the next.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

from gate import job, log
from gate.errors import GateError, TransientError
from gate.handover import Handover
from gate.job import Claimed, Job
from gate.look import Look
from gate.reconcile import Reconcile
from gate.settings import Settings
from gate.store.port import Agenda, Due, Kind, StoredJob

# A look costs a few calls: no sweep gets through more of them.
MOST_LOOKS = 500


@dataclass(slots=True)
class Counts:
    """What one sweep did.

    `jobs` were taken over or dispatched, and run or given to tasks; `letters` were
    tried again, `manifests` looked at; `recorded` objects had been lost, and `stalled` and
    `incomplete` bundles were told of. `objects` of the bucket were compared
    with the manifests. `failed` items were put off, and `left` were still due
    when time or jobs ran out.
    """

    jobs: int = 0
    letters: int = 0
    manifests: int = 0
    recorded: int = 0
    stalled: int = 0
    incomplete: int = 0
    objects: int = 0
    failed: int = 0
    left: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sweeps of one deployment.

    `run` runs a job that was claimed, or sends the letter of one that has
    ended. With a `handover` the sweep runs nothing, for it has less time than a task.
    `reconcile` is `None` where no bucket is named. `monotonic` gives seconds, to measure
    how long a sweep has gone on.
    """

    store: Agenda
    look: Look
    run: Callable[[StoredJob], object]
    reconcile: Reconcile | None
    settings: Settings
    new_token: Callable[[], str]
    monotonic: Callable[[], float]
    handover: Handover | None = None

    def __call__(self) -> Counts:
        """Do what is due, within bounds, and return what that was.

        Raises what the store raises when asked what is due, and the last
        `GateError` if there was something to do and nothing of it could be done.
        """
        bounds = self.settings.sweep
        begun_seconds = self.monotonic()
        counts = Counts()
        ends: list[GateError | None] = []
        if self.reconcile:
            # The other half of the time is for what is known to be due.
            until_seconds = begun_seconds + bounds.seconds / 2
            ends.append(self._pages(self.reconcile, counts, until_seconds))
        # One more than may be run, to tell whether any is left.
        jobs = self.store.due_jobs(bounds.jobs + 1)
        due = [*jobs, *self.store.due_manifests(MOST_LOOKS)]
        due.sort(key=lambda one: one.due_at)
        for number, one in enumerate(due):
            late = self.monotonic() >= begun_seconds + bounds.seconds
            if late or counts.jobs >= bounds.jobs:
                counts.left = len(due) - number
                break
            ends.append(self._treated(one, counts))
        log.write("sweep", counts=counts.as_json())
        faults = [error for error in ends if error]
        if faults and len(faults) == len(ends):
            raise faults[-1]
        return counts

    def _pages(
        self, reconcile: Reconcile, counts: Counts, until_seconds: float
    ) -> GateError | None:
        """Go through the next pages of the bucket; return what kept us from it."""
        try:
            held = reconcile.due(self.settings.sweep.reconcile_every)
            for page in reconcile.steps(held) if held else ():
                counts.objects += page.objects
                counts.recorded += len(page.unknown)
                if self.monotonic() >= until_seconds:
                    break
        except GateError as error:
            counts.failed += 1
            log.crash("bucket not compared", error)
            return error
        return None

    def _treated(self, due: Due, counts: Counts) -> GateError | None:
        """Treat one document; put it off if that fails, and return the error if it is ours."""
        try:
            (self._job if due.kind is Kind.JOB else self._manifest)(due, counts)
        except Exception as error:  # noqa: BLE001  whatever one document holds, others are due too
            counts.failed += 1
            log.crash("put off by the sweep", error, kind=due.kind.value, id=due.id)
            limits = self.settings.limits
            pause = limits.retry if isinstance(error, TransientError) else limits.retry_most
            with suppress(GateError):
                self.store.postpone(due, due.now + pause)
            return error if isinstance(error, GateError) else None
        return None

    def _job(self, due: Due, counts: Counts) -> None:
        """Take over a job, or send its letter, unless somebody else has meanwhile."""
        stored = self.store.job(due.id)
        if stored is None or stored.job.due_at is None or stored.job.due_at > stored.now:
            return
        counts.letters += stored.job.ended
        if self.handover:
            counts.jobs += not stored.job.ended
            self._handed_over(self.handover, due, stored.job)
            return
        if stored.job.ended:
            self.run(stored)
            return
        limits = self.settings.limits
        claimed = job.claim(stored.job, token=self.new_token(), now=stored.now, limits=limits)
        work = self.store.replace(stored, claimed.job) if isinstance(claimed, Claimed) else None
        if work:
            counts.jobs += 1
            bundle = str(work.job.revision.bundle)
            log.write("take-over", decision="resumed", bundle=bundle, job=work.job.id)
            self.run(work)

    def _handed_over(self, handover: Handover, due: Due, known: Job) -> None:
        """Give the job to a task, and wait for that: the next sweep means another task.

        A task that was made before may be waiting for its turn, or be lost; which
        of the two shows the job itself, when it is due again.
        """
        made = handover.give(known, due.due_at)
        self.store.postpone(due, due.now + self.settings.limits.retry_most)
        log.write(
            "hand-over",
            decision="queued",
            detail="a new task" if made else "its task was made before",
            bundle=str(known.revision.bundle),
            job=known.id,
        )

    def _manifest(self, due: Due, counts: Counts) -> None:
        looked = self.look(due)
        counts.manifests += 1
        counts.jobs += looked.ran
        counts.recorded += looked.recorded
        counts.stalled += looked.stalled
        counts.incomplete += looked.incomplete
