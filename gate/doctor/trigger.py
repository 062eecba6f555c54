"""Checks of the function that takes events: what calls it, and how it is run.

Everything here is a function of values. What each check guards against:

- Without `RETRY_POLICY_RETRY` an event is dropped after one failed delivery
  (Eventarc, "Retry events"), and the bundle waits for ever.
- A trigger away from its bucket never fires (Eventarc, "Understand locations").
- GDAL keeps state for the process, so two requests in one instance share it.
- A job that outlives its call is begun anew by the next delivery, again and
  again; its time is told by `FUNCTION_TIMEOUT_SECONDS`.
- An event function is ended after 540 s whatever it was given (Cloud Run
  functions, "Quotas").
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from gate.doctor.finding import Finding, failed, ok, warning
from gate.doctor.function import Function, Trigger

FINALIZED = "google.cloud.storage.object.v1.finalized"
THROUGH_PUBSUB = "google.cloud.pubsub.topic.v1.messagePublished"
RETRY = "RETRY_POLICY_RETRY"
MOST_TIMEOUT_SECONDS = 540


def function_checks(function: Function) -> Iterator[Finding]:
    """Yield what is found about the function that takes events, its bucket left aside."""
    yield running(function)
    if function.trigger is None:
        yield failed(
            "trigger",
            function.where,
            "nothing triggers it",
            f"deploy it with --trigger-event-filters=type={FINALIZED}",
        )
    else:
        yield _event_type(function, function.trigger)
        yield _retry(function, function.trigger)
    yield concurrency(function)
    yield _instances(function)
    yield _timeout(function)
    yield _ingress(function)


def running(function: Function) -> Finding:
    """Return whether it is deployed, as a function of the second generation."""
    if function.generation != "GEN_2":
        return failed(
            "state",
            function.where,
            f"it is of generation {function.generation or 'unknown'}",
            "delete it, and deploy it with --gen2",
        )
    if function.state != "ACTIVE":
        return failed(
            "state",
            function.where,
            f"its state is {function.state or 'unknown'}",
            "see the log of its last build, and deploy it again",
        )
    return ok("state", function.where, "it is deployed")


def _event_type(function: Function, trigger: Trigger) -> Finding:
    if trigger.event_type == FINALIZED and trigger.bucket:
        return ok("event_type", function.where, f"triggered by uploads to gs://{trigger.bucket}")
    if trigger.event_type == FINALIZED:
        return failed(
            "event_type",
            function.where,
            "its trigger names no bucket",
            "deploy it with --trigger-event-filters=bucket=BUCKET",
        )
    if trigger.event_type == THROUGH_PUBSUB:
        bucket = function.environment.get("SOURCE_BUCKET") or "BUCKET"
        return warning(
            "event_type",
            function.where,
            "triggered through Pub/Sub, so which bucket notifies the topic is not known here",
            f"see that `gcloud storage buckets notifications list gs://{bucket}` has"
            " OBJECT_FINALIZE",
        )
    return failed(
        "event_type",
        function.where,
        f"triggered by {trigger.event_type or 'no type of event'}, so that uploads go unseen",
        f"deploy it with --trigger-event-filters=type={FINALIZED}",
    )


def _retry(function: Function, trigger: Trigger) -> Finding:
    if trigger.retry_policy == RETRY:
        return ok("retry_policy", function.where, "an event that is refused comes again")
    return failed(
        "retry_policy",
        function.where,
        f"its retry policy is {trigger.retry_policy or 'not set'}: an event that is refused once"
        " is lost, and its bundle with it",
        "deploy it with --retry",
    )


def concurrency(function: Function) -> Finding:
    """Return whether an instance takes one call at a time."""
    if function.concurrency == 1:
        return ok("concurrency", function.where, "an instance takes one call at a time")
    return failed(
        "concurrency",
        function.where,
        f"an instance takes {function.concurrency} calls at a time, which share its memory and"
        " the state of GDAL",
        "deploy it with --concurrency=1",
    )


def _instances(function: Function) -> Finding:
    if function.instances:
        return ok("instances", function.where, f"at most {function.instances} instances run")
    return warning(
        "instances",
        function.where,
        "the number of instances has no limit of its own",
        "deploy it with --max-instances=20, or what the sink can bear",
    )


def _timeout(function: Function) -> Finding:
    if function.timeout_seconds <= MOST_TIMEOUT_SECONDS:
        return ok("timeout", function.where, f"a call may take {function.timeout_seconds} s")
    return failed(
        "timeout",
        function.where,
        f"its timeout is {function.timeout_seconds} s, of which an event gets no more than"
        f" {MOST_TIMEOUT_SECONDS} s",
        f"deploy it with --timeout={MOST_TIMEOUT_SECONDS}s",
    )


def run_time(function: Function, run: timedelta) -> Finding:
    """Return whether a job, which stops by itself after `run`, does so before the platform acts."""
    if run.total_seconds() <= function.timeout_seconds:
        return ok("run_time", function.where, "a job that takes too long stops by itself")
    return failed(
        "run_time",
        function.where,
        f"a job may run for {run.total_seconds():.0f} s, and a call ends after"
        f" {function.timeout_seconds} s",
        f"deploy it with FUNCTION_TIMEOUT_SECONDS={function.timeout_seconds}",
    )


def _ingress(function: Function) -> Finding:
    if function.ingress == "ALLOW_INTERNAL_ONLY":
        return ok("ingress", function.where, "it cannot be called from outside")
    return warning(
        "ingress",
        function.where,
        "it can be reached from the internet, with nothing but IAM in front of it",
        "deploy it with --ingress-settings=internal-only",
    )


def location(function: Function, trigger: Trigger, bucket_location: str) -> Finding:
    """Return whether the trigger is where its bucket is.

    A trigger without a location of its own is where the function is.
    """
    at = (trigger.location or function.location).lower()
    if at == bucket_location.lower():
        return ok("trigger_location", function.where, f"its trigger is where its bucket is, {at}")
    return failed(
        "trigger_location",
        function.where,
        f"its trigger is in {at} and gs://{trigger.bucket} in {bucket_location.lower()}, so that"
        " uploads go unseen",
        f"deploy it with --trigger-location={bucket_location.lower()}",
    )


def source(function: Function, trigger: Trigger) -> Finding:
    """Return whether the function takes the events that its trigger sends."""
    stated = function.environment.get("SOURCE_BUCKET", "")
    if stated == trigger.bucket:
        return ok("source_bucket", function.where, f"it takes the events of gs://{stated}")
    if stated:
        return failed(
            "source_bucket",
            function.where,
            f"it ignores every upload: SOURCE_BUCKET={stated}, and its trigger is on"
            f" gs://{trigger.bucket}",
            f"deploy it with SOURCE_BUCKET={trigger.bucket}",
        )
    return warning(
        "source_bucket",
        function.where,
        "SOURCE_BUCKET is not set, so that a sink inside the trigger is found at the first event"
        " only",
        f"deploy it with SOURCE_BUCKET={trigger.bucket}",
    )
