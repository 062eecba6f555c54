"""A deployed function as `gcloud functions describe --format=json` prints it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gate.errors import ConfigurationError

# The platform's own, where the description says nothing (Cloud Run functions, v2 API).
DEFAULT_CONCURRENCY = 1
DEFAULT_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Trigger:
    """What calls a function: events of one type, those that pass every filter."""

    event_type: str
    filters: Mapping[str, str]
    location: str
    retry_policy: str
    service_account: str

    @property
    def bucket(self) -> str:
        """Return the bucket whose objects are meant, empty if the filters name none."""
        return self.filters.get("bucket", "")


@dataclass(frozen=True, slots=True)
class Function:
    """The parts of a description that a check looks at. Absent texts are empty."""

    name: str
    project: str
    location: str
    generation: str
    state: str
    trigger: Trigger | None
    concurrency: int = DEFAULT_CONCURRENCY
    instances: int = 0
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    ingress: str = ""
    service_account: str = ""
    uri: str = ""
    secrets: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """Return how findings name the function."""
        return f"function {self.name}"


def read(text: str | bytes) -> Function:
    """Return the function that a text describes; raises as `parse` does."""
    try:
        return parse(json.loads(text))
    except ValueError as error:
        raise _undescribed("it is no JSON") from error


def parse(description: Any) -> Function:
    """Return the function that a description, decoded from JSON, is of.

    Raises `ConfigurationError` if it describes none.
    """
    try:
        _, project, _, location, _, name = description["name"].split("/")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _undescribed("it describes no function") from error
    service = description.get("serviceConfig", {})
    return Function(
        name=name,
        project=project,
        location=location,
        generation=description.get("environment", ""),
        state=description.get("state", ""),
        trigger=_trigger(description.get("eventTrigger")),
        concurrency=int(service.get("maxInstanceRequestConcurrency", DEFAULT_CONCURRENCY)),
        instances=int(service.get("maxInstanceCount", 0)),
        timeout_seconds=int(service.get("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS)),
        ingress=service.get("ingressSettings", ""),
        service_account=service.get("serviceAccountEmail", ""),
        uri=service.get("uri", ""),
        secrets=tuple(each["key"] for each in service.get("secretEnvironmentVariables", ())),
        environment=dict(service.get("environmentVariables", {})),
    )


def _undescribed(what: str) -> ConfigurationError:
    cure = "give what `gcloud functions describe NAME --gen2 --format=json` prints"
    return ConfigurationError(what, where="description of the function", cure=cure)


def _trigger(described: Mapping[str, Any] | None) -> Trigger | None:
    if not described:
        return None
    return Trigger(
        event_type=described.get("eventType", ""),
        filters={each["attribute"]: each["value"] for each in described.get("eventFilters", ())},
        location=described.get("triggerRegion", ""),
        retry_policy=described.get("retryPolicy", ""),
        service_account=described.get("serviceAccountEmail", ""),
    )
