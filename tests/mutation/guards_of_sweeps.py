"""The guards of what finishes the work: sweeps, passes over the bucket, redrives."""

from __future__ import annotations

from tests.mutation.guard import NOTHING, guards_of

_swept = guards_of("sweep", "scenarios/test_sweep", "scenarios/test_reconcile")

SWEEP = (
    _swept(
        "half of the time is for what is known to be due",
        "until_seconds = begun_seconds + bounds.seconds / 2",
        "until_seconds = begun_seconds + bounds.seconds",
    ),
    _swept(
        "a pass leaves off when its time is over",
        "if self.monotonic() >= until_seconds:",
        "if False:",
    ),
    _swept(
        "the longest due goes first",
        "due.sort(key=lambda one: one.due_at)",
        "pass",
    ),
    _swept(
        "a sweep ends when its time is over",
        "late = self.monotonic() >= begun_seconds + bounds.seconds",
        "late = False",
    ),
    _swept(
        "a sweep runs no more jobs than it may",
        "if late or counts.jobs >= bounds.jobs:",
        "if late:",
    ),
    _swept(
        "a sweep that could do nothing says so",
        "if faults and len(faults) == len(ends):",
        "if False:",
    ),
    _swept(
        "a fault at one is no fault of the sweep",
        "if faults and len(faults) == len(ends):",
        "if faults:",
    ),
    _swept(
        "a bucket that does not answer keeps no job waiting",
        "except GateError as error:\n            counts.failed",
        f"{NOTHING} as error:\n            counts.failed",
    ),
    _swept(
        "poison stops no sweep",
        "except Exception as error:",
        f"{NOTHING} as error:",
    ),
    _swept(
        "what cannot be treated is put behind the others",
        "self.store.postpone(due, due.now + pause)",
        "pass",
    ),
    _swept(
        "a job that is not due any more is left alone",
        "if stored is None or stored.job.due_at is None or stored.job.due_at > stored.now:",
        "if stored is None:",
    ),
    _swept(
        "a letter that somebody else has sent is not sent again",
        "if stored is None or stored.job.due_at is None or stored.job.due_at > stored.now:",
        "if stored is None or (stored.job.due_at and stored.job.due_at > stored.now):",
    ),
    _swept(
        "a sweep tells that jobs are left",
        "self.store.due_jobs(bounds.jobs + 1)",
        "self.store.due_jobs(bounds.jobs)",
    ),
    _swept(
        "what cannot even be put off stops no sweep",
        "with suppress(GateError):",
        "with suppress():",
    ),
    _swept(
        "poison is put off for longer than what may pass",
        "pause = limits.retry if isinstance(error, TransientError) else limits.retry_most",
        "pause = limits.retry",
    ),
    _swept(
        "a job that has ended has its letter sent, and is not claimed",
        "if stored.job.ended:",
        "if False:",
    ),
)

_looked = guards_of("look", "scenarios/test_sweep")

LOOK = (
    _looked(
        "a manifest that somebody else has looked at is left alone",
        "if stored is None or not _is_due(stored):",
        "if stored is None:",
    ),
    _looked(
        "only what is newer than what is known is recorded",
        "            if pin.generation > stored.manifest.components.get(pin.name, 0)\n",
        "",
    ),
    _looked(
        "what was recorded is decided on",
        "if lost:\n            stored = self.store.woken(due)",
        "if False:\n            stored = self.store.woken(due)",
    ),
    _looked(
        "a manifest that was found again learns of its job",
        "known_by_job = revision if standing and isinstance(decision, Dispatch) else None",
        "known_by_job = None",
    ),
    _looked(
        "a stalled bundle is told of by the one who has written it",
        "if written:\n                    log",
        "if True:\n                    log",
    ),
    _looked(
        "a bundle is given up once its letter is sent, not before",
        "                self.letters.send(dead_letters.of_incomplete(stored.manifest, missing))\n"
        "                written = self.store.rest(stored, wake_at=None, finished=True)\n",
        "                written = self.store.rest(stored, wake_at=None, finished=True)\n"
        "                self.letters.send(dead_letters.of_incomplete(stored.manifest, missing))\n",
    ),
    _looked(
        "a bundle that was taken back is dropped quietly",
        "present=bool(live)",
        "present=True",
    ),
)

_passed = guards_of("reconcile", "scenarios/test_reconcile", "unit/test_maintenance")

RECONCILE = (
    _passed(
        "a pass that has ended is not begun again before its time",
        "if cursor and cursor.finished and held.now < cursor.begun_at + every:",
        "if False:",
    ),
    _passed(
        "a pass that is open goes on",
        "if cursor and cursor.finished and held.now < cursor.begun_at + every:",
        "if cursor and held.now < cursor.begun_at + every:",
    ),
    _passed(
        "a pass after one that has ended begins anew",
        "if cursor is None or cursor.finished:",
        "if cursor is None:",
    ),
    _passed(
        "a manifest does not expire while its objects are there",
        "self.store.rest(stored, wake_at=None, finished=True)",
        "pass",
    ),
    _passed(
        "a pass that dies repeats its page, and loses none of it",
        "            (record or self.note)(page.unknown)\n",
        "            self.store.move_cursor(\n"
        "                held, Cursor(cursor.begun_at, page.last, finished=not page.last)\n"
        "            )\n            held = self.store.cursor(held.name)\n"
        "            (record or self.note)(page.unknown)\n",
    ),
    _passed(
        "where somebody else moves the cursor, one leaves off",
        "if held.cursor != cursor:",
        "if False:",
    ),
    _passed(
        "an expiry is put off when it is near, not at every pass",
        "stored.expires_at is not None and stored.expires_at < stored.now + self.keep / 2",
        "stored.expires_at is not None",
    ),
    _passed(
        "a store that does not answer is no document that is poisoned",
        "        except GateError:\n            raise\n",
        "",
    ),
    _passed(
        "a document that is no manifest hides no other",
        "except Exception as error:",
        f"{NOTHING} as error:",
    ),
    _passed(
        "what a manifest knows is not recorded again",
        "return [one for one in found if one[1] > recorded.get(one[0].name, 0)]",
        "return list(found)",
    ),
)

_redriven = guards_of("redrive", "scenarios/test_redrive", "unit/test_operations")

REDRIVE = (
    _redriven(
        "what is no id is not looked up",
        "if not is_id(job_id):",
        "if False:",
    ),
    _redriven(
        "only what has ended badly is redriven",
        "if stored.job.state not in REDRIVABLE:",
        "if False:",
    ),
    _redriven(
        "a job is redriven once",
        "if _is_redriven(stored.job):",
        "if False:",
    ),
    _redriven(
        "a newer revision makes a redrive needless",
        "return self._overtaken(stored, actor) or self._again(stored, actor, reason)",
        "return self._again(stored, actor, reason)",
    ),
    _redriven(
        "a deleted object is said to be gone",
        "except SourceDeletedError as error:",
        f"{NOTHING} as error:",
    ),
    _redriven(
        "who may not look may redrive all the same",
        "except PermissionDeniedError as error:",
        f"{NOTHING} as error:",
    ),
    _redriven(
        "an overwritten object makes a redrive needless",
        "if isinstance(found, Overwritten):",
        "if False:",
    ),
    _redriven(
        "a generation that is found is recorded, for its event may be lost",
        'self.store.record(Claim(by.component, by.generation, "", self.new_token()))',
        "pass",
    ),
    _redriven(
        "of two people at once, one is told that the other was first",
        "if written is None:",
        "if False:",
    ),
    _redriven(
        "only a job with new attempts is run at once",
        "if stored is None or not redriven.verdict.granted:",
        "if stored is None:",
    ),
)
