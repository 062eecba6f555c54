"""The two ways to deploy polls, tasks and state in a bucket lead to the same place."""

from __future__ import annotations

import json

import pytest

from tests.deployment.compared import (
    alerts,
    buckets,
    by_gcloud,
    by_terraform,
    roles_planned,
    roles_sent,
    sent,
    services_sent,
)
from tests.deployment.conftest import OUTPUT, REGION, Planned, Simulated
from tests.deployment.standin import PROJECT

QUEUE = f"projects/{PROJECT}/locations/{REGION}/queues/gate-work"


@pytest.mark.parametrize("name", ["ingest", "sweep", "work"])
def test_both_paths_make_the_same_functions(
    chosen: Simulated, chosen_plan: Planned, name: str
) -> None:
    """Issue 7: each function is the same, and is told the same choices."""
    made = by_gcloud(chosen.functions()[f"gate-{name}"])
    address = f'google_cloudfunctions2_function.gate["{name}"]'
    plan = by_terraform(chosen_plan.resources[address])
    assert {key: made[key] for key in plan} == plan
    assert made["variables"] == {
        "SINK": f"gs://{OUTPUT}/layers",
        "SOURCE_BUCKET": "acme-in",
        "DEAD_LETTER_TOPIC": f"projects/{PROJECT}/topics/gate-dead-letters",
        "FUNCTION_TIMEOUT_SECONDS": str(made["seconds"]),
        "GATE": "poll",
        "EXECUTOR": "tasks",
        "STATE": "blobs",
        "STATE_URI": f"gs://{PROJECT}-gate-state/state",
        "TASK_QUEUE": QUEUE,
        "TASK_SERVICE_ACCOUNT": f"gate-tasks@{PROJECT}.iam.gserviceaccount.com",
        "WORK_URL": f"https://gate-work-123456789012.{REGION}.run.app",
    }


def test_both_paths_give_the_same_roles(chosen: Simulated, chosen_plan: Planned) -> None:
    """Issue 7: the same identities hold the same roles, none of them in a database."""
    given = roles_sent(chosen)
    assert given == roles_planned(chosen_plan)
    assert ("roles/cloudtasks.enqueuer", "gate-runtime") in given
    assert ("roles/datastore.user", "gate-runtime") not in given


def test_both_paths_enable_the_same_services(chosen: Simulated, chosen_plan: Planned) -> None:
    """Issue 7: the API of Cloud Tasks is enabled, and that of Firestore is not."""
    enabled = services_sent(chosen)
    assert enabled == {each["service"] for each in chosen_plan.of("google_project_service")}
    assert "cloudtasks.googleapis.com" in enabled
    assert "firestore.googleapis.com" not in enabled


def test_both_paths_make_the_same_queue(chosen: Simulated, chosen_plan: Planned) -> None:
    """Issue 7: the queue calls as many tasks at once, and each for as long."""
    [queue] = [call["body"] for call in chosen.others()["calls"]["ct"]]
    [plan] = chosen_plan.of("google_cloud_tasks_queue")
    [retry], [rate] = plan["retry_config"], plan["rate_limits"]
    assert queue["name"] == QUEUE
    assert queue["rateLimits"]["maxConcurrentDispatches"] == rate["max_concurrent_dispatches"]
    assert queue["retryConfig"] == {
        "maxAttempts": retry["max_attempts"],
        "maxRetryDuration": retry["max_retry_duration"],
        "minBackoff": retry["min_backoff"],
        "maxBackoff": retry["max_backoff"],
    }


def test_both_paths_keep_state_alike(chosen: Simulated, chosen_plan: Planned) -> None:
    """Issue 7: finished objects are removed, overwritten ones are not kept, no one may look."""
    name = f"{PROJECT}-gate-state"
    made, changed = buckets(chosen, "POST")[name], buckets(chosen, "PATCH")[name]
    [plan] = [
        each for each in chosen_plan.of("google_storage_bucket") if each["name"].endswith("-state")
    ]
    [rule], [soft] = plan["lifecycle_rule"], plan["soft_delete_policy"]
    assert changed["lifecycle"]["rule"] == [
        {
            "action": {"type": rule["action"][0]["type"]},
            "condition": {"daysSinceCustomTime": rule["condition"][0]["days_since_custom_time"]},
        }
    ]
    kept_seconds = int(made["softDeletePolicy"]["retentionDurationSeconds"])
    assert kept_seconds == soft["retention_duration_seconds"] == 0
    assert not plan["versioning"]
    access = made["iamConfiguration"]
    assert access["publicAccessPrevention"] == plan["public_access_prevention"]
    assert access["uniformBucketLevelAccess"]["enabled"] == plan["uniform_bucket_level_access"]


def test_both_paths_watch_tasks_alike(chosen: Simulated, chosen_plan: Planned) -> None:
    """Issue 7: the calls of tasks have an alert and a dashboard of their own."""
    made, plan = alerts(chosen, chosen_plan)
    assert made == plan
    assert "gate: a fifth of the calls of tasks fail" in made
    [own] = [each for each in sent(chosen, "mon", "/dashboards") if "tasks" in each["displayName"]]
    drawn = chosen_plan.resources["google_monitoring_dashboard.tasks[0]"]["dashboard_json"]
    assert own == json.loads(drawn)


def test_the_doctor_finds_it_sound(chosen: Simulated) -> None:
    """Issue 7: after the documented commands every check passes, but for that of the clock."""
    assert chosen.out, chosen.err
    findings = json.loads(chosen.out)["findings"]
    assert {each["check"] for each in findings if each["verdict"] != "ok"} <= {"clock"}
    passed = {each["check"] for each in findings if each["verdict"] == "ok"}
    assert {"queue", "queue_retry", "work", "work_settings", "work_url"} <= passed
