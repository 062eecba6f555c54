"""The doctor's checks of the function that takes events, on its description alone."""

from __future__ import annotations

from typing import Any

import pytest

from gate.doctor import examination
from gate.doctor.finding import Finding, Verdict, worst
from gate.doctor.function import parse
from tests.deployments import ANSWERS, ENVIRONMENT, PROJECT, SOURCE, Cloud, description, sweep

BUCKET = f"storage buckets describe gs://{SOURCE}"
SWEEP = next(command for command in ANSWERS if "gate-sweep --gen2" in command)


def examined(described: dict[str, Any], location: str = "europe-west1") -> dict[str, Finding]:
    """Return check → worst finding for a description, in a deployment that is sound otherwise."""
    changes: dict[str, Any] = {BUCKET: {"location": location.upper()}}
    if environment := described["serviceConfig"].get("environmentVariables"):
        changes[SWEEP] = sweep(service={"environmentVariables": environment})
    project = examination.Project(Cloud(changes), PROJECT)
    order = list(Verdict)
    findings: dict[str, Finding] = {}
    for each in examination.examine(parse(described), project):
        known = findings.get(each.check, each)
        findings[each.check] = max(known, each, key=lambda one: order.index(one.verdict))
    return findings


def faults(findings: dict[str, Finding], verdict: Verdict = Verdict.FAILED) -> list[str]:
    """Return the checks that ended with this verdict."""
    return [check for check, each in findings.items() if each.verdict is verdict]


def test_a_sound_deployment_is_found_sound() -> None:
    """A deployment as documented passes every check, without a warning."""
    assert worst(examined(description()).values()) is Verdict.OK


@pytest.mark.parametrize("policy", [None, "RETRY_POLICY_DO_NOT_RETRY", "RETRY_POLICY_UNSPECIFIED"])
def test_a_trigger_without_retries_fails(policy: str | None) -> None:
    """A12: whatever stands there instead of RETRY_POLICY_RETRY fails, and says what to do."""
    found = examined(description(trigger={"retryPolicy": policy}))
    assert faults(found) == ["retry_policy"]
    assert str(found["retry_policy"]) == (
        f"function gate-ingest: its retry policy is {policy or 'not set'}: an event that is refused"
        " once is lost, and its bundle with it; deploy it with --retry"
    )


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"environment": "GEN_1"}, "state"),
        ({"state": "FAILED"}, "state"),
        ({"eventTrigger": None}, "trigger"),
        ({"trigger": {"eventType": "google.cloud.storage.object.v1.deleted"}}, "event_type"),
        ({"trigger": {"eventFilters": []}}, "event_type"),
        ({"trigger": {"triggerRegion": "us-east1"}}, "trigger_location"),
        ({"service": {"maxInstanceRequestConcurrency": 80}}, "concurrency"),
        ({"service": {"timeoutSeconds": 3600}}, "timeout"),
        ({"service": {"timeoutSeconds": 485}}, "run_time"),
        (
            {"service": {"environmentVariables": {**ENVIRONMENT, "SOURCE_BUCKET": "other"}}},
            "source_bucket",
        ),
        ({"service": {"environmentVariables": {"SOURCE_BUCKET": "acme-in"}}}, "settings"),
        *(
            ({"service": {"environmentVariables": {**ENVIRONMENT, name: "/elsewhere"}}}, "paths")
            for name in ("PROJ_LIB", "PROJ_DATA", "GDAL_DATA")
        ),
    ],
)
def test_what_loses_uploads_fails(changes: dict[str, Any], check: str) -> None:
    """A12: each way to deploy a function that loses uploads or cannot run is one failure."""
    found = examined(description(**changes))
    assert faults(found) == [check]
    assert found[check].todo


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"service": {"maxInstanceCount": None}}, "instances"),
        ({"service": {"ingressSettings": "ALLOW_ALL"}}, "ingress"),
        (
            {"service": {"environmentVariables": {**ENVIRONMENT, "SOURCE_BUCKET": ""}}},
            "source_bucket",
        ),
        (
            {
                "trigger": {
                    "eventType": "google.cloud.pubsub.topic.v1.messagePublished",
                    "eventFilters": [],
                }
            },
            "event_type",
        ),
    ],
)
def test_what_is_only_unwise_is_a_warning(changes: dict[str, Any], check: str) -> None:
    """What loses nothing but is not as recommended is warned of, and does not fail."""
    found = examined(description(**changes))
    assert faults(found, Verdict.WARNING) == [check]
    assert not faults(found)


@pytest.mark.parametrize(("location", "trigger"), [("EU", "eu"), ("NAM4", "nam4"), ("US", "US")])
def test_a_trigger_is_where_its_bucket_is_in_any_spelling(location: str, trigger: str) -> None:
    """A12: a bucket of several regions wants a trigger of the same name, whatever its case."""
    found = examined(description(trigger={"triggerRegion": trigger}), location)
    assert found["trigger_location"].verdict is Verdict.OK


def test_a_trigger_without_a_location_is_where_its_function_is() -> None:
    """A12: a trigger that states no location is compared by that of the function."""
    found = examined(description(trigger={"triggerRegion": None}), "us")
    assert faults(found) == ["trigger_location"]
    assert found["trigger_location"].todo == "deploy it with --trigger-location=us"


def test_output_inside_the_trigger_fails() -> None:
    """B8, case 43: a sink in the trigger's bucket fails, even if SOURCE_BUCKET is not set."""
    found = examined(description(service={"environmentVariables": {"SINK": "gs://acme-in/layers"}}))
    assert faults(found) == ["settings"]
    assert "lies inside gs://acme-in/, which triggers us" in found["settings"].what
    assert found["settings"].todo.startswith("use another bucket")


@pytest.mark.parametrize(
    ("gate", "lacking"),
    [
        ("verify", ["is not set, and with GATE=verify"]),
        ("poll", ["is not set, and GATE=poll needs it"] * 3),
        ("listing", ["'listing' is no gate"]),
    ],
)
def test_a_gate_without_what_it_needs_fails(gate: str, lacking: list[str]) -> None:
    """Issue 7: a function that cannot start for want of its gate's settings is found, by each."""
    values = {**ENVIRONMENT, "GATE": gate, "SOURCE_BUCKET": ""}
    described = description(service={"environmentVariables": values})
    project = examination.Project(Cloud({BUCKET: {"location": "EUROPE-WEST1"}}), PROJECT)
    found = examination.examine(parse(described), project)
    told = [one.what for one in found if one.check == "settings" and "gate-sweep" not in one.where]
    assert len(told) == len(lacking)
    assert all(part in what for part, what in zip(lacking, told, strict=True))


def test_output_beside_the_source_prefix_passes() -> None:
    """B8: a sink in the trigger's bucket is sound where SOURCE_PREFIX keeps it out."""
    apart = {**ENVIRONMENT, "SINK": "gs://acme-in/out", "SOURCE_PREFIX": "in/"}
    found = examined(description(service={"environmentVariables": apart}))
    assert found["settings"].verdict is Verdict.OK


def test_a_bucket_that_may_not_be_seen_is_unchecked() -> None:
    """A12: where the bucket cannot be asked for, the location is neither sound nor wrong."""
    project = examination.Project(Cloud({BUCKET: None}), PROJECT)
    findings = tuple(examination.examine(parse(description()), project))
    assert worst(findings) is Verdict.UNCHECKED
    [found] = [each for each in findings if each.verdict is Verdict.UNCHECKED]
    assert (found.check, str(found)) == ("trigger_location", "gcloud: 403; try it by hand")
