"""A made-up deployment, sound unless a test says otherwise, and what gcloud says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gate.errors import ConfigurationError
from gate.store.documents import UNINDEXED

SOURCE = "acme-in"
LOCATION = "europe-west1"
PROJECT = "acme"
TOPIC = f"projects/{PROJECT}/topics/gate-dead-letters"
ENVIRONMENT = {
    "SINK": "gs://acme-out/layers",
    "SOURCE_BUCKET": SOURCE,
    "FIRESTORE_DATABASE": "gate",
    "DEAD_LETTER_TOPIC": TOPIC,
}
RUNTIME = "gate-runtime@acme.iam.gserviceaccount.com"
TRIGGER = "gate-trigger@acme.iam.gserviceaccount.com"
SCHEDULER = "gate-scheduler@acme.iam.gserviceaccount.com"
AGENT = "service-123@gs-project-accounts.iam.gserviceaccount.com"
SWEEP_URI = "https://gate-sweep-abc.run.app"
WORK_URI = "https://gate-work-abc.run.app"
CALLER = "gate-tasks@acme.iam.gserviceaccount.com"
TASKING = {
    **ENVIRONMENT,
    "EXECUTOR": "tasks",
    "TASK_QUEUE": f"projects/{PROJECT}/locations/{LOCATION}/queues/gate-work",
    "TASK_SERVICE_ACCOUNT": CALLER,
    "WORK_URL": f"https://gate-work-123.{LOCATION}.run.app",
}


def _merged(whole: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**whole, **changes}.items() if value is not None}


def description(
    trigger: Mapping[str, Any] | None = None,
    service: Mapping[str, Any] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return a description as the API gives it; a value of None takes a field away."""
    whole = {
        "name": f"projects/acme/locations/{LOCATION}/functions/gate-ingest",
        "environment": "GEN_2",
        "state": "ACTIVE",
        "eventTrigger": _merged(
            {
                "eventType": "google.cloud.storage.object.v1.finalized",
                "eventFilters": [{"attribute": "bucket", "value": SOURCE}],
                "triggerRegion": LOCATION,
                "retryPolicy": "RETRY_POLICY_RETRY",
                "serviceAccountEmail": TRIGGER,
            },
            trigger or {},
        ),
        "serviceConfig": _merged(
            {
                "maxInstanceRequestConcurrency": 1,
                "maxInstanceCount": 20,
                "timeoutSeconds": 540,
                "ingressSettings": "ALLOW_INTERNAL_ONLY",
                "serviceAccountEmail": RUNTIME,
                "environmentVariables": ENVIRONMENT,
            },
            service or {},
        ),
    }
    return _merged(whole, others)


def sweep(service: Mapping[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """Return a description of the function that sweeps."""
    changes = {"uri": SWEEP_URI, "maxInstanceCount": 1, **(service or {})}
    name = {"name": f"projects/{PROJECT}/locations/{LOCATION}/functions/gate-sweep"}
    return description(service=changes, **{**name, "eventTrigger": None, **others})


def work(service: Mapping[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """Return a description of the function that tasks call."""
    values = {**TASKING, "FUNCTION_TIMEOUT_SECONDS": "1800"}
    stated = {"uri": WORK_URI, "timeoutSeconds": 1800, "environmentVariables": values}
    name = {"name": f"projects/{PROJECT}/locations/{LOCATION}/functions/gate-work"}
    changes = {**stated, **(service or {})}
    return description(service=changes, **{**name, "eventTrigger": None, **others})


def policy(*grants: tuple[str, str]) -> dict[str, Any]:
    """Return an IAM policy that gives each account its role."""
    bindings = [
        {"role": role, "members": [f"serviceAccount:{account}"]} for role, account in grants
    ]
    return {"version": 1, "bindings": bindings}


def fields(database: str, config: Mapping[str, Any], **collections: Sequence[str]) -> Any:
    """Return how gcloud lists fields, each with the same configuration."""
    start = f"projects/{PROJECT}/databases/{database}/collectionGroups"
    return [
        {"name": f"{start}/{collection}/fields/{field}", **config}
        for collection, names in collections.items()
        for field in names
    ]


ANSWERS = {
    f"storage buckets describe gs://{SOURCE}": {"name": SOURCE, "location": LOCATION.upper()},
    "firestore databases describe --database=gate": {
        "type": "FIRESTORE_NATIVE",
        "locationId": LOCATION,
    },
    "firestore fields ttls list --database=gate": fields(
        "gate",
        {"ttlConfig": {"state": "ACTIVE"}},
        claims=["expires_at"],
        manifests=["expires_at"],
        jobs=["expires_at"],
    ),
    "firestore indexes fields list --database=gate": fields(
        "gate", {"indexConfig": {}}, **UNINDEXED
    ),
    f"pubsub topics list-subscriptions {TOPIC}": [f"projects/{PROJECT}/subscriptions/kept"],
    f"pubsub subscriptions describe projects/{PROJECT}/subscriptions/kept": {
        "name": f"projects/{PROJECT}/subscriptions/kept",
        "expirationPolicy": {},
    },
    f"storage buckets get-iam-policy gs://{SOURCE}": policy(
        ("roles/storage.objectViewer", RUNTIME)
    ),
    "storage buckets get-iam-policy gs://acme-out": policy(("roles/storage.objectUser", RUNTIME)),
    f"pubsub topics get-iam-policy {TOPIC}": policy(("roles/pubsub.publisher", RUNTIME)),
    f"projects get-iam-policy {PROJECT}": policy(
        ("roles/datastore.user", RUNTIME),
        ("roles/eventarc.eventReceiver", TRIGGER),
        ("roles/pubsub.publisher", AGENT),
    ),
    f"projects describe {PROJECT}": {"projectId": PROJECT, "projectNumber": "123"},
    f"run services get-iam-policy gate-ingest --region={LOCATION}": policy(
        ("roles/run.invoker", TRIGGER)
    ),
    f"run services get-iam-policy gate-sweep --region={LOCATION}": policy(
        ("roles/run.invoker", SCHEDULER)
    ),
    f"functions describe gate-ingest --gen2 --region={LOCATION}": description(),
    f"functions describe gate-sweep --gen2 --region={LOCATION}": sweep(),
    f"functions describe gate-work --gen2 --region={LOCATION}": work(),
    f"run services get-iam-policy gate-work --region={LOCATION}": policy(
        ("roles/run.invoker", CALLER)
    ),
    f"tasks queues describe gate-work --location={LOCATION}": {
        "state": "RUNNING",
        "retryConfig": {"maxAttempts": 10, "maxRetryDuration": "86400s"},
    },
    f"tasks queues get-iam-policy gate-work --location={LOCATION}": policy(
        ("roles/cloudtasks.enqueuer", RUNTIME)
    ),
    f"iam service-accounts get-iam-policy {CALLER}": policy(
        ("roles/iam.serviceAccountUser", RUNTIME)
    ),
    f"scheduler jobs list --location={LOCATION}": [
        {
            "name": f"projects/{PROJECT}/locations/{LOCATION}/jobs/gate-sweep",
            "state": "ENABLED",
            "schedule": "* * * * *",
            "httpTarget": {
                "uri": SWEEP_URI,
                "httpMethod": "POST",
                "oidcToken": {"audience": SWEEP_URI, "serviceAccountEmail": SCHEDULER},
            },
        }
    ],
}


class Cloud:
    """What gcloud answers for a project: as for a sound deployment, but for `changes`.

    A change of None makes gcloud refuse the command. `asked` are the commands so far;
    one about another project ends in its `--project`.
    """

    def __init__(self, changes: Mapping[str, Any] | None = None) -> None:
        unknown = (changes or {}).keys() - ANSWERS.keys()
        assert not unknown
        self.answers = {**ANSWERS, **(changes or {})}
        self.asked: list[str] = []

    def __call__(self, *words: str) -> Any:
        """Answer one command; see `gate.doctor.gcloud.ask`."""
        assert words[-1].startswith("--project=")
        command = " ".join(words).removesuffix(f" --project={PROJECT}")
        self.asked.append(command)
        answer = self.answers.get(command)
        if answer is None:
            raise ConfigurationError("403", where="gcloud", cure="try it by hand")
        return answer


def text(**changes: Any) -> str:
    """Return a description as gcloud prints it."""
    return json.dumps(description(**changes))
