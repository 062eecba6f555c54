"""Checks of what calls the function that sweeps.

Cloud Scheduler's token is for one audience, the address of the service; for any
other Cloud Run answers 401 (Cloud Scheduler, "Use authentication with HTTP
targets").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gate.doctor.finding import Finding, failed, ok
from gate.doctor.function import Function


def schedule(found: Function, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield whether one of the jobs of Cloud Scheduler calls the sweep, as one that may."""
    calling = _calling(found, jobs)
    if not calling:
        yield failed(
            "schedule",
            found.where,
            "nothing calls it: what events do not finish stays unfinished",
            "create a job: see docs/deploy.md",
        )
    for job in calling:
        yield from _job(found, job)


def callers(found: Function, jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the accounts as which the jobs of Cloud Scheduler call the sweep."""
    tokens = [job["httpTarget"].get("oidcToken", {}) for job in _calling(found, jobs)]
    return sorted({token.get("serviceAccountEmail", "") for token in tokens} - {""})


def _calling(found: Function, jobs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [job for job in jobs if found.uri and _uri(job).startswith(found.uri)]


def _job(found: Function, job: Mapping[str, Any]) -> Iterator[Finding]:
    name = str(job.get("name", "")).rpartition("/")[2]
    where = f"scheduler job {name}"
    if job.get("state") != "ENABLED":
        yield failed(
            "schedule",
            where,
            f"its state is {job.get('state') or 'unknown'}",
            f"gcloud scheduler jobs resume {name} --location={found.location}"
            f" --project={found.project}",
        )
        return
    target = job["httpTarget"]
    token = target.get("oidcToken", {})
    if not token.get("serviceAccountEmail"):
        yield failed(
            "schedule",
            where,
            "it calls as nobody, and is refused",
            "update it with --oidc-service-account-email, an account that may call the function",
        )
    elif token.get("audience", _uri(job)).rstrip("/") != found.uri.rstrip("/"):
        yield failed(
            "schedule",
            where,
            "its token is not for the address of the function, which then refuses it",
            f"update it with --oidc-token-audience={found.uri}",
        )
    elif target.get("httpMethod", "POST") != "POST":
        yield failed("schedule", where, "it does not POST", "update it with --http-method=POST")
    else:
        yield ok("schedule", where, f"it calls {found.name}: {job.get('schedule')}")


def _uri(job: Mapping[str, Any]) -> str:
    return str(job.get("httpTarget", {}).get("uri", ""))
