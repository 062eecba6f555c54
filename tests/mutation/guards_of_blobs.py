"""The guards of the store on small objects, where no transaction stands behind a step."""

from __future__ import annotations

from tests.mutation.guard import guards_of

_merged = guards_of("store/merging", "unit/test_blobs", "contract/test_store")
_stored = guards_of("store/blobs", "unit/test_blobs", "contract/test_store")
_due = guards_of("store/blobs_agenda", "unit/test_blobs", "contract/test_agenda")

MERGING = (
    _merged(
        "a claim that its manifest does not reflect is merged again",
        "if told and held >= claim.generation:",
        "if told:",
    ),
    _merged(
        "a merge that has landed is not made again",
        'told = not created or document.get("latest_claim") == claim.id',
        "told = not created",
    ),
    _merged(
        "a dispatch makes the objects of its job known",
        "pins = (*found, *(pin for _, pin in job.revision.pins))",
        "pins = found",
    ),
    _merged(
        "a fence never runs back",
        "fence=max(job.fence, before.fence),",
        "fence=job.fence,",
    ),
    _merged(
        "a running job keeps its manifest, one that has ended does not",
        "return None if job.ended else kept(document, wake_at=wake_at)",
        "return None",
    ),
    _merged(
        "a manifest that was put to rest in the middle of a take-over is woken",
        'if document.get("fence", 0) >= job.fence:\n        return kept(document, wake_at=wake_at)',
        'if document.get("fence", 0) >= job.fence:\n        return None',
    ),
    _merged(
        "a note that is there is left as it is",
        "if job.id in jobs and not always:",
        "if False:",
    ),
    _merged(
        "a read is not before what it found",
        "*(each + datetime.resolution for each in dated)",
        "*()",
    ),
)
BLOBS = (
    _stored(
        "whoever finds the job marks the manifest",
        "        self._mark(stored.job, found)\n",
        "        if wrote:\n            self._mark(stored.job, found)\n",
    ),
    _stored(
        "whoever finds the job notes it in its claim",
        "        self._note(stored.job, always=wrote is not None)\n",
        "        if wrote:\n            self._note(stored.job, always=True)\n",
    ),
    _stored(
        "a fence is in the manifest before it is in the job",
        "taken_up = job.fence > held.job.fence\n"
        "        if taken_up:\n"
        "            self._raise_fence(job)",
        "taken_up = job.fence > held.job.fence",
    ),
    _stored(
        "a job that another has is not taken for one's own",
        "return stored if stored.job.token == job.token else None",
        "return stored",
    ),
    _stored(
        "a move that was refused is compared before it is believed",
        "if stored is None or stored.job != job:",
        "if stored is None:",
    ),
    _stored(
        "a claim whose answer was lost is one's own",
        'first=stored.get("token") == claim.token,',
        "first=created,",
    ),
)
AGENDA = (
    _due(
        "what is not due yet is left out",
        "            if due_at <= now\n",
        "",
    ),
    _due(
        "what somebody moved is not put off",
        "                listed.generation,",
        "                found.generation,",
    ),
    _due(
        "what is put off expires when it would have",
        "expires_at=listed.expires_at,",
        "expires_at=None,",
    ),
    _due(
        "a rest whose answer was lost is found out",
        "return stored is not None and stored.manifest == after",
        "return False",
    ),
)
