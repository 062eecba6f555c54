"""What the commands for a deployment print, for a person or for a machine. Pure text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gate.dead_letters import REDRIVE_COMMAND, facts_of, of_job
from gate.explain import Overview, Story, code_of
from gate.ingest import Ending
from gate.job import Job, State
from gate.outcomes import Outcome
from gate.redrive import Redriven
from gate.terminal import columns, safe


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one job, and how it ended if it was run at once."""

    redriven: Redriven
    ending: Ending | None

    @property
    def well(self) -> bool:
        """Tell whether the job has its attempts, and has not failed again."""
        good = (State.DONE, State.SUPERSEDED)
        return self.redriven.verdict.granted and (self.ending is None or self.ending.state in good)


def overview(told: Overview) -> str:
    """Return how many jobs stand in each state, and a table of those on their way."""
    counts = columns([(state.value, f"{count:>6}") for state, count in told.counts.items()])
    if not told.active:
        return "\n".join([*counts, "", "no job is on its way"])
    rows = [("JOB", "STATE", "ATTEMPT", "DUE", "BUNDLE")]
    rows += [
        (
            one.id,
            one.state.value,
            str(one.attempts),
            _when(one.next_attempt_at or one.lease_expires_at),
            str(one.revision.bundle),
        )
        for one in told.active
    ]
    return "\n".join([*counts, "", *columns(rows)])


def overview_json(told: Overview) -> str:
    """Return the counts, and the jobs on their way."""
    counts = {state.value: count for state, count in told.counts.items()}
    return _json({"jobs": counts, "active": [_job(one) for one in told.active]})


def standing(told: Story) -> str:
    """Return how a bundle stands: its components, what is current, and its jobs."""
    return "\n".join([*_heading(told), "", *_components(told), "", *_jobs(told.jobs)])


def standing_json(told: Story) -> str:
    """Return how a bundle stands."""
    return _json(_standing(told))


def story(told: Story) -> str:
    """Return how a bundle stands, and everything that happened to it, one line each."""
    rows = [("TIME (UTC)", "WHAT", "OF", "HOW")]
    rows += [(_when(step.at), step.kind, step.subject, step.text) for step in told.steps]
    return "\n".join([*_heading(told), "", *columns(rows)])


def story_json(told: Story) -> str:
    """Return how a bundle stands, every claim, and everything that happened to it."""
    claims = [
        {
            "claim": one.id,
            "name": one.name,
            "generation": str(one.generation),
            "event": one.event_id,
            "claimed_at": one.claimed_at,
            "jobs": one.jobs,
        }
        for one in told.claims
    ]
    steps = [
        {"at": step.at, "kind": step.kind, "of": step.subject, "how": step.text}
        for step in told.steps
    ]
    return _json({**_standing(told), "claims": claims, "steps": steps})


def letters(jobs: Sequence[Job]) -> str:
    """Return a block for each dead letter: what, why, and what to do."""
    if not jobs:
        return "no job waits for a person"
    blocks = ["\n".join(_letter(one)) for one in jobs]
    noun = "dead letter" if len(jobs) == 1 else "dead letters"
    last = f"{len(jobs)} {noun}; once the cause has passed: {REDRIVE_COMMAND} JOB"
    return "\n\n".join([*blocks, last])


def letters_json(jobs: Sequence[Job]) -> str:
    """Return the letters as they are sent, each with when and whether it was."""
    told = [
        {**of_job(one).body, "ended_at": one.ended_at, "notified": one.notified} for one in jobs
    ]
    return _json({"dead_letters": told})


def result(told: Result) -> str:
    """Return one line for the verdict on a job, and one for its run if there was one."""
    one = told.redriven
    lines = [f"{one.job_id}  {one.verdict.value}: {one.detail}"]
    if told.ending:
        lines.append(f"{one.job_id}  {_ended(told.ending)}: {told.ending.detail}")
    return "\n".join(map(safe, lines))


def results_json(told: Sequence[Result]) -> str:
    """Return the verdict on each job, and how its run ended if there was one."""
    return _json({"redriven": [_result(each) for each in told]})


def _result(told: Result) -> dict[str, Any]:
    one = told.redriven
    content: dict[str, Any] = {
        "job": one.job_id,
        "verdict": one.verdict.value,
        "detail": one.detail,
    }
    if one.stored:
        content["bundle"] = str(one.stored.job.revision.bundle)
    if told.ending:
        content["ended"] = {"state": _ended(told.ending), "detail": told.ending.detail}
    return content


def _ended(ending: Ending) -> str:
    return ending.state.value if ending.state else Outcome.FENCED_OUT.value


def _heading(told: Story) -> Iterator[str]:
    yield safe(f"{told.bundle}: {told.standing}")
    published = told.known and told.known.published
    current = f"revision {published.revision_id} as {published.location}" if published else ""
    yield safe(f"published: {current or 'nothing known'}")


def _components(told: Story) -> list[str]:
    if not (told.known and told.known.components):
        return ["no component is remembered"]
    known = sorted(told.known.components.items())
    return columns([("COMPONENT", "GENERATION"), *((name, str(one)) for name, one in known)])


def _jobs(jobs: Sequence[Job]) -> list[str]:
    if not jobs:
        return ["no job is remembered"]
    rows = [("JOB", "STATE", "FENCE", "ATTEMPTS", "SINCE (UTC)", "CODE")]
    rows += [
        (
            one.id,
            one.state.value,
            str(one.fence),
            str(one.attempts),
            _when(one.ended_at or one.created_at),
            code_of(one),
        )
        for one in jobs
    ]
    return columns(rows)


def _letter(one: Job) -> Iterator[str]:
    body = of_job(one).body
    sent = "" if one.notified else ", letter still to be sent"
    yield f"{one.id}  {one.state.value} since {_when(one.ended_at)} UTC{sent}"
    yield safe(f"  {one.revision.bundle}")
    yield safe(f"  {body['code']}: {body['cause']}")
    yield safe(f"  → {body['cure']}")


def _standing(told: Story) -> dict[str, Any]:
    published = told.known and told.known.published
    return {
        "bundle": str(told.bundle),
        "standing": told.standing,
        "components": {
            name: str(generation)
            for name, generation in sorted((told.known.components if told.known else {}).items())
        },
        "published": published
        and {"revision": published.revision_id, "location": published.location},
        "jobs": [_job(one) for one in told.jobs],
    }


def _job(one: Job) -> dict[str, Any]:
    return {
        **facts_of(one),
        "created_at": one.created_at,
        "next_attempt_at": one.next_attempt_at,
        "lease_expires_at": one.lease_expires_at,
        "ended_at": one.ended_at,
        "notified": one.notified,
        "summary": dict(one.summary),
    }


def _when(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else ""


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, default=_plain)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
