"""The guards of jobs that are given to tasks, and of the tasks that run them."""

from __future__ import annotations

from tests.mutation.guard import guards_of

_revived = guards_of("job", "scenarios/test_readiness", "scenarios/test_held")
_given = guards_of("intake", "scenarios/test_tasks")
_named = guards_of("handover", "scenarios/test_tasks")
_swept = guards_of("sweep", "scenarios/test_tasks")
_worked = guards_of("work", "scenarios/test_tasks", "unit/test_work")

HANDED_OVER = (
    _revived(
        "a held job is revived, not claimed",
        "take = revive if job.state is State.HELD else claim",
        "take = claim",
    ),
    _given(
        "a job in progress is nothing for another task",
        "due = isinstance(claimed, job.Claimed)",
        "due = True",
    ),
    _named(
        "a job that was claimed since has a task of another name",
        'f"{job.id}-{job.fence}-{due}"',
        'f"{job.id}"',
    ),
    _named(
        "a task that was waited for in vain is followed by one of another name",
        'f"{job.id}-{job.fence}-{due}"',
        'f"{job.id}-{job.fence}"',
    ),
    _swept(
        "what was given to a task makes room for others",
        "self.store.postpone(due, due.now + self.settings.limits.retry_most)\n        log",
        "log",
    ),
    _swept(
        "a sweep runs nothing that a task is to run",
        "if self.handover:",
        "if False:",
    ),
)

WORK = (
    _worked(
        "a job in progress comes again",
        "return self.receipt.redeliver or bool(self.ending and self.ending.redeliver)",
        "return bool(self.ending and self.ending.redeliver)",
    ),
    _worked(
        "a failed attempt comes again",
        "return self.receipt.redeliver or bool(self.ending and self.ending.redeliver)",
        "return self.receipt.redeliver",
    ),
    _worked(
        "only ids reach the store",
        "if not (isinstance(revision_id, str) and is_id(revision_id)):",
        "if not isinstance(revision_id, str):",
    ),
    _worked(
        "a task that nobody can carry out is kept",
        "self.letters.send(dead_letters.of_event(Malformed(reason, call.raw, call.task)))",
        "pass",
    ),
    _worked(
        "a process that can run nothing claims nothing",
        "self.ready()\n        work",
        "work",
    ),
    _worked(
        "a job that somebody has touched is read again",
        "for _ in range(CLAIM_ROUNDS):",
        "for _ in range(1):",
    ),
    _worked(
        "a letter that is still to be sent is sent",
        "if known.ended and not known.notified:",
        "if False:",
    ),
)
