"""Jobs given to tasks, for another function to run: the event function has too little time.

The job is in the store before its task is in the queue. If the process dies
between the two, or the task is lost, the job is due like any other that nobody
looks after, and the sweep makes it another task.

The name of a task says for which stand of the job it is: its fence and the time
at which it was due. So whoever finds the job at the same stand means the same task,
and once somebody has claimed the job, or the sweep has waited for a task in vain, the
next has another name: no tombstone stands in its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from gate.job import Job
from gate.store.port import StoredJob
from gate.tasks.port import Task, Tasks

KIND = "job"


@dataclass(frozen=True, slots=True)
class Handover:
    """Give jobs to the tasks of a queue."""

    tasks: Tasks

    def __call__(self, work: StoredJob) -> None:
        """Give a job that was read or created just now to a task. Raises what the queue raises."""
        self.give(work.job, work.job.due_at or work.now)

    def give(self, job: Job, due_at: datetime) -> bool:
        """Give a job that is due since `due_at` to a task; `False` if that task was made before.

        It may still be to come, may have been called, or may have been lost.
        Raises what the queue raises.
        """
        due = due_at.astimezone(UTC).strftime("%Y%m%d%H%M%S%f")
        name = f"{job.id}-{job.fence}-{due}"
        return self.tasks.enqueue(Task(name, {"kind": KIND, "revision": job.id}))
