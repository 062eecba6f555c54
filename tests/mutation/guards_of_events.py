"""The guards between an event and its dataset."""

from __future__ import annotations

from tests.mutation.guard import NOTHING, guards_of

_names = guards_of("intake", "scenarios/test_names")
_overtaken = guards_of("intake", "unit/test_intake_overtaken", "scenarios/test_overwrites")
_ready = guards_of("intake", "scenarios/test_readiness", "scenarios/test_held")
_followed = guards_of("intake", "scenarios/test_ownership", "scenarios/test_failures")
_delivered = guards_of("intake", "scenarios/test_delivery", "scenarios/test_overwrites")

_listed = guards_of("intake", "scenarios/test_verify")

INTAKE = (
    _listed(
        "what a listing has shown whole is read, whatever is recorded of it",
        "whole = live is not None or component.bundle.archive",
        "whole = component.bundle.archive",
    ),
    _listed(
        "what was listed and never heard of has not rested",
        "        if unheard:\n",
        "        if False:\n",
    ),
    _listed(
        "what was listed and is not taken yet is recorded",
        "                self.note(component, pin.generation)\n",
        "                pass\n",
    ),
    _listed(
        "what was listed counts for an event recorded before, too",
        "(unheard or newest == claim.generation > done)",
        "(newest == claim.generation > done)",
    ),
    _listed(
        "an event whose bundle lacks something comes back",
        ", Outcome.LACKING})",
        "})",
    ),
    _names(
        "another bucket is none of ours",
        "if event.bucket != (self.settings.source_bucket or event.bucket):",
        "if False:",
    ),
    _names(
        "output must not trigger us, and not everything may count as output",
        "if self.settings.swallows(event.bucket):",
        "if False:",
    ),
    _overtaken(
        "of events that see a whole bundle, one dispatches",
        "if self._left_to_another(recorded):",
        "if False:",
    ),
    _overtaken(
        "the event recorded last leaves the dispatch to nobody",
        "return not (recorded.latest or resting or joined)",
        "return not (resting or joined)",
    ),
    _overtaken(
        "after the rest, whoever comes dispatches",
        "return not (recorded.latest or resting or joined)",
        "return not (recorded.latest or joined)",
    ),
    _overtaken(
        "a join of two dispatches has no event that would dispatch it",
        "return not (recorded.latest or resting or joined)",
        "return not (recorded.latest or resting)",
    ),
    _ready(
        "a process that can run nothing dispatches nothing",
        "self.ready()\n        known = recorded.manifest",
        "pass\n        known = recorded.manifest",
    ),
    _ready(
        "a process that can run nothing takes nothing over",
        "self.ready()\n        taken = claimed.job",
        "taken = claimed.job",
    ),
    _followed(
        "a job that is made again does not repeat a fence",
        "fence_floor=known.fence,",
        "fence_floor=0,",
    ),
    _overtaken(
        "a listing adds only what no event has told",
        "for pin in _newer(self.siblings(component), known)",
        "for pin in self.siblings(component)",
    ),
    _overtaken(
        "neighbours are no siblings",
        "and component.bundle == bundle\n            and component.extension",
        "and component.extension",
    ),
    _overtaken(
        "a required component that the listing shows would tear the bundle",
        "            and component.extension not in self.settings.required\n",
        "",
    ),
    _overtaken(
        "a listing that fails holds no dispatch up",
        'except GateError as error:\n            log.write("siblings',
        f'{NOTHING} as error:\n            log.write("siblings',
    ),
    _delivered(
        "a job without a worker is finished by the redelivery of its event",
        "for revision_id in recorded.unended:",
        "for revision_id in ():",
    ),
    _followed(
        "an event whose job is in progress comes back",
        "UNSETTLED = frozenset({Outcome.IN_PROGRESS, ",
        "UNSETTLED = frozenset({",
    ),
    _followed(
        "a letter that is still to be sent is sent by the redelivery",
        "if stored.job.ended and not stored.job.notified:",
        "if False:",
    ),
    _followed(
        "of two that take a job over, the slower runs nothing",
        "if work is None:\n            return Receipt(Outcome.IN_PROGRESS",
        "if False:\n            return Receipt(Outcome.IN_PROGRESS",
    ),
    _overtaken(
        "what another event has dispatched is not run twice",
        "if work is None:\n            return Receipt(\n",
        "if False:\n            return Receipt(\n",
    ),
    _delivered(
        "a duplicate of what settles changes nothing and says so",
        "if isinstance(decision, Settling) and (unheard or newest == claim.generation > done):",
        "if isinstance(decision, Settling):",
    ),
    _delivered(
        "a duplicate is told as such",
        "if not recorded.first:",
        "if False:",
    ),
    _followed(
        "a job that is gone is not followed",
        "        if stored is None:\n            return None\n        if stored.job.ended",
        "        if stored.job.ended",
    ),
    _followed(
        "a take-over beyond the last attempt is told as such",
        "buried = job.exhausted(taken, self.settings.limits)",
        "buried = None",
    ),
    guards_of("intake", "scenarios/test_archives", "scenarios/test_overwrites")(
        "an archive is whole as it is",
        "whole = live is not None or component.bundle.archive",
        "whole = live is not None",
    ),
    guards_of("intake", "scenarios/test_archives", "scenarios/test_reads")(
        "an archive has no siblings to list",
        "if component.bundle.archive:\n            return ()",
        "if False:\n            return ()",
    ),
    _delivered(
        "an older generation is stale",
        "if newest > claim.generation:",
        "if False:",
    ),
)

_failing = guards_of("ingest", "scenarios/test_failures", "scenarios/test_ownership")
_overwritten = guards_of("ingest", "scenarios/test_overwrites")
_held = guards_of("ingest", "scenarios/test_held")
_noted = guards_of("ingest", "scenarios/test_publishing", "scenarios/test_ownership")
_stopping = guards_of("ingest", "scenarios/test_stopping")
_archived = guards_of("ingest", "scenarios/test_archives")

INGEST = (
    _failing(
        "a job that has ended is not run for its letter",
        "if work.job.ended:",
        "if False:",
    ),
    _stopping(
        "a long call keeps the lease",
        "with self.heartbeat(own.pulse):",
        "with self.heartbeat(lambda: None):",
    ),
    _stopping(
        "a process that is stopping begins nothing",
        "own.beat()\n        revision",
        "revision",
    ),
    _overwritten(
        "a newer revision is dispatched: nothing is downloaded",
        "if newest and newest.manifest.dispatched_order > revision.order:",
        "if False:",
    ),
    _failing(
        "the sink holds it already: nothing is downloaded",
        "standing = None if revision.bundle.archive else self.sink.current(revision)",
        "standing = None",
    ),
    _noted(
        "the sink holds something newer: nothing is downloaded",
        "if isinstance(standing, Outdated):",
        "if False:",
    ),
    _failing(
        "a fault that may pass keeps its code",
        "except (TransientError, ConfigurationError) as error:\n                return",
        f"{NOTHING} as error:\n                return",
    ),
    _failing(
        "a job without attempts is not run again",
        "if exhausted:\n            raise",
        "if False:\n            raise",
    ),
    guards_of("ingest", "scenarios/test_names", "scenarios/test_overwrites")(
        "bundles that differ in case are never mixed",
        "newest.manifest.demand_one_spelling(revision, self.settings.required)",
        "pass",
    ),
    _held(
        "a held job whose metadata is what it was downloads nothing",
        "if SAID in own.job.summary:",
        "if False:",
    ),
    _held(
        "a held job whose metadata has changed is run",
        "if isinstance(looked, Fetched) and looked.said == own.job.summary[SAID]:",
        "if isinstance(looked, Fetched):",
    ),
    _held(
        "a generation that the source shows is recorded, for its event may be lost",
        'self.store.record(Claim(by.component, by.generation, "", self.new_token()))',
        "pass",
    ),
    _failing(
        "a fault of the bundle uses up no attempts",
        "except BundleError as error:\n                return",
        f"{NOTHING} as error:\n                return",
    ),
    _failing(
        "an unforeseen fault uses up an attempt",
        "except Exception as error:",
        f"{NOTHING} as error:",
    ),
    _stopping(
        "a run that got somewhere before its time was up has not failed",
        "progress=own.progress",
        "progress=False",
    ),
    _archived(
        "an unforeseen fault of a layer is tried again",
        "if again and own.job.attempts < self.settings.limits.max_attempts:",
        "if False:",
    ),
    _archived(
        "in the last attempt the other layers count",
        "if again and own.job.attempts < self.settings.limits.max_attempts:",
        "if again:",
    ),
    _archived(
        "an index that the sink refused is not published",
        "if isinstance(location, Outdated):",
        "if False:",
    ),
    _failing(
        "a job whose end is not written is not noted",
        "        own.write(moved)\n        try:\n"
        "            self._note_published(own.job.revision, location)\n",
        "        try:\n            self._note_published(own.job.revision, location)\n"
        "            own.write(moved)\n",
    ),
    _failing(
        "a note that fails does not undo the end",
        'except (TransientError, ConfigurationError) as error:\n            log.crash("pub',
        f'{NOTHING} as error:\n            log.crash("pub',
    ),
    _noted(
        "a late end does not note an older revision",
        "if known.published and known.published.order > revision.order:",
        "if False:",
    ),
    _noted(
        "a manifest with something pending does not expire",
        "finished = standing == manifest.Dispatched(revision) and known.wake_at is None",
        "finished = known.wake_at is None",
    ),
    _noted(
        "a manifest that the sweep has not seen does not expire",
        "finished = standing == manifest.Dispatched(revision) and known.wake_at is None",
        "finished = standing == manifest.Dispatched(revision)",
    ),
    _noted(
        "a note that an event came before is written on what it left",
        "NOTE_ROUNDS = 5",
        "NOTE_ROUNDS = 1",
    ),
    _failing(
        "what was published in the last attempt is no dead letter",
        "if moved.ended and not moved.revision.bundle.archive:",
        "if False:",
    ),
    _failing(
        "a sink that does not answer is no reason to forget the end",
        "with suppress(GateError):",
        "with suppress():",
    ),
    _failing(
        "a job that ends badly has its letter sent",
        "if moved.ended:\n            return self._notify(own)",
        "if False:\n            return self._notify(own)",
    ),
    _noted(
        "a manifest that is gone needs no note",
        "            if stored is None:\n                return\n            known =",
        "            known =",
    ),
    _failing(
        "a letter that cannot be sent stays due",
        "except (TransientError, ConfigurationError) as error:\n            log.write(\n",
        f"{NOTHING} as error:\n            log.write(\n",
    ),
    guards_of("ingest", "scenarios/test_sweep")(
        "letters that cannot be sent keep no job waiting",
        "moved = job.letter_postponed(own.job, now=own.now, limits=self.settings.limits)",
        "moved = own.job",
    ),
    _failing(
        "a letter whose job has moved on is no crash",
        "with suppress(Stopped):",
        "with suppress():",
    ),
)
