"""Descriptions of deployed functions, sound unless a test says otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SOURCE = "acme-in"
LOCATION = "europe-west1"
ENVIRONMENT = {"SINK": "gs://acme-out/layers", "SOURCE_BUCKET": SOURCE}


def description(
    trigger: Mapping[str, Any] | None = None,
    service: Mapping[str, Any] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return a description as the API gives it; a value of None takes a field away."""
    whole = {
        "name": f"projects/acme/locations/{LOCATION}/functions/ingest",
        "environment": "GEN_2",
        "state": "ACTIVE",
        "eventTrigger": _merged(
            {
                "eventType": "google.cloud.storage.object.v1.finalized",
                "eventFilters": [{"attribute": "bucket", "value": SOURCE}],
                "triggerRegion": LOCATION,
                "retryPolicy": "RETRY_POLICY_RETRY",
            },
            trigger or {},
        ),
        "serviceConfig": _merged(
            {
                "maxInstanceRequestConcurrency": 1,
                "maxInstanceCount": 20,
                "timeoutSeconds": 540,
                "ingressSettings": "ALLOW_INTERNAL_ONLY",
                "serviceAccountEmail": "runtime@acme.iam.gserviceaccount.com",
                "environmentVariables": ENVIRONMENT,
            },
            service or {},
        ),
    }
    return _merged(whole, others)


def bucket(location: str = LOCATION) -> dict[str, Any]:
    """Return what gcloud says of the bucket that triggers."""
    return {"name": SOURCE, "location": location.upper()}


def text(**changes: Any) -> str:
    """Return a description as gcloud prints it."""
    return json.dumps(description(**changes))


def _merged(whole: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**whole, **changes}.items() if value is not None}
