"""The doctor's checks of the function that takes events, on its description alone."""

from __future__ import annotations

from typing import Any

import pytest

from gate.doctor import examination
from gate.doctor.finding import Finding, Verdict, worst
from gate.doctor.function import parse
from gate.errors import ConfigurationError
from tests.deployments import ENVIRONMENT, bucket, description


def examined(
    description: dict[str, Any], location: dict[str, Any] | None = None
) -> dict[str, Finding]:
    """Return check → finding for a description and the bucket that gcloud would describe."""

    def ask(*words: str) -> Any:
        assert words == ("storage", "buckets", "describe", "gs://acme-in")
        return location or bucket()

    found = examination.examine(parse(description), ask)
    return {each.check: each for each in found}


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
        f"function ingest: its retry policy is {policy or 'not set'}: an event that is refused"
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
        ({"service": {"environmentVariables": {"SINK": "gs://acme-out/x"}}}, "source_bucket"),
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
    found = examined(description(trigger={"triggerRegion": trigger}), bucket(location))
    assert found["trigger_location"].verdict is Verdict.OK


def test_a_trigger_without_a_location_is_where_its_function_is() -> None:
    """A12: a trigger that states no location is compared by that of the function."""
    found = examined(description(trigger={"triggerRegion": None}), bucket("us"))
    assert faults(found) == ["trigger_location"]
    assert found["trigger_location"].todo == "deploy it with --trigger-location=us"


def test_output_inside_the_trigger_fails() -> None:
    """B8, case 43: a sink in the trigger's bucket fails, even if SOURCE_BUCKET is not set."""
    found = examined(description(service={"environmentVariables": {"SINK": "gs://acme-in/layers"}}))
    assert faults(found) == ["settings"]
    assert "lies inside gs://acme-in/, which triggers us" in found["settings"].what
    assert found["settings"].todo.startswith("use another bucket")


def test_output_beside_the_source_prefix_passes() -> None:
    """B8: a sink in the trigger's bucket is sound where SOURCE_PREFIX keeps it out."""
    apart = {**ENVIRONMENT, "SINK": "gs://acme-in/out", "SOURCE_PREFIX": "in/"}
    found = examined(description(service={"environmentVariables": apart}))
    assert worst(found.values()) is Verdict.OK


def test_a_bucket_that_may_not_be_seen_is_unchecked() -> None:
    """A12: where the bucket cannot be asked for, the location is neither sound nor wrong."""

    def ask(*words: str) -> Any:
        raise ConfigurationError("403", where="gcloud storage", cure="try it by hand")

    findings = tuple(examination.examine(parse(description()), ask))
    assert worst(findings) is Verdict.UNCHECKED
    assert "unchecked" not in {each.verdict.value for each in findings if each.check == "settings"}
    [found] = [each for each in findings if each.verdict is Verdict.UNCHECKED]
    assert str(found) == "gcloud storage: 403; try it by hand"
