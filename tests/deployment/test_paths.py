"""The two ways to deploy lead to the same place, with the same files."""

from __future__ import annotations

import pytest

from tests.deployment.compared import (
    buckets,
    by_gcloud,
    by_terraform,
    files,
    roles_planned,
    roles_sent,
    services_sent,
)
from tests.deployment.conftest import OUTPUT, REGION, ROOT, SOURCE, Planned, Simulated
from tests.deployment.standin import PROJECT

PLANNED = f"{PROJECT}-project"


def test_both_paths_put_the_same_files_up(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the archive of gcloud and that of Terraform hold the same files, byte for byte."""
    by_gcloud = files(deployed.sent / "gate-ingest.zip")
    assert by_gcloud == files(planned.archive)
    assert by_gcloud == files(deployed.sent / "gate-sweep.zip")
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "gate").rglob("*.py")}
    assert set(by_gcloud) == {"main.py", "requirements.txt", *sources}


@pytest.mark.parametrize("name", ["ingest", "sweep"])
def test_both_paths_make_the_same_functions(
    deployed: Simulated, planned: Planned, name: str
) -> None:
    """Issue 6: each function has the same resources, identity and events."""
    sent = by_gcloud(deployed.functions()[f"gate-{name}"])
    plan = by_terraform(planned.resources[f'google_cloudfunctions2_function.gate["{name}"]'])
    assert {key: sent[key] for key in plan} == plan
    assert sent["variables"] == {
        "SINK": f"gs://{OUTPUT}/layers",
        "SOURCE_BUCKET": "acme-in",
        "FIRESTORE_DATABASE": "gate",
        "FUNCTION_TIMEOUT_SECONDS": "540",
        "DEAD_LETTER_TOPIC": f"projects/{PROJECT}/topics/gate-dead-letters",
    }


def test_both_paths_give_the_same_roles(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the same identities hold the same roles, and no identity holds more."""
    assert roles_sent(deployed) == roles_planned(planned)


def test_both_paths_make_the_same_database(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the same fields expire, and the same are not indexed."""
    calls = deployed.others()["calls"]["fs"]
    fields = [call for call in calls if "/collectionGroups/" in call["path"]]
    parts = [call["path"].split("/") for call in fields]
    sent = {(path[-3], path[-1]) for path in parts}
    plan = {(each["collection"], each["field"]) for each in planned.of("google_firestore_field")}
    assert sent == plan
    expiring = {
        (path[-3], path[-1])
        for call, path in zip(fields, parts, strict=True)
        if "ttlConfig" in call["body"]
    }
    assert expiring == {
        (each["collection"], each["field"])
        for each in planned.of("google_firestore_field")
        if each["ttl_config"]
    }
    [made] = planned.of("google_firestore_database")
    [asked] = [call["body"] for call in calls if call["path"].endswith("/databases")]
    assert (asked["locationId"], asked["type"]) == (made["location_id"], made["type"])
    assert asked["deleteProtectionState"] == made["delete_protection_state"]
    assert asked["locationId"] == REGION


def test_both_paths_make_the_same_buckets(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the same buckets are closed to the public, and the same one keeps versions."""
    made, changed = buckets(deployed, "POST"), buckets(deployed, "PATCH")
    plan = {each["name"]: each for each in planned.of("google_storage_bucket")}
    # gcloud puts the code into a bucket of the platform's.
    del plan[f"{PLANNED}-gate-code"]
    assert made.keys() == plan.keys() == {SOURCE, OUTPUT}
    for name, sent in made.items():
        access = sent["iamConfiguration"]
        assert access["publicAccessPrevention"] == plan[name]["public_access_prevention"]
        assert access["uniformBucketLevelAccess"]["enabled"]
        assert sent["location"].lower() == plan[name]["location"].lower()
    [versioning], [rule] = plan[OUTPUT]["versioning"], plan[OUTPUT]["lifecycle_rule"]
    assert changed[OUTPUT]["versioning"] == versioning
    [sent_rule] = changed[OUTPUT]["lifecycle"]["rule"]
    assert sent_rule["action"]["type"] == rule["action"][0]["type"]
    [condition] = rule["condition"]
    assert sent_rule["condition"] == {
        "daysSinceNoncurrentTime": condition["days_since_noncurrent_time"]
    }
    assert not plan[SOURCE]["lifecycle_rule"]


def test_both_paths_keep_dead_letters_alike(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: topic and subscription keep what they get for as long."""
    sent = {call["path"].split("/")[-2]: call["body"] for call in deployed.others()["calls"]["ps"]}
    [topic] = planned.of("google_pubsub_topic")
    [subscription] = planned.of("google_pubsub_subscription")
    assert sent["topics"]["messageRetentionDuration"] == topic["message_retention_duration"]
    kept = sent["subscriptions"]
    assert kept["messageRetentionDuration"] == subscription["message_retention_duration"]
    assert kept["ackDeadlineSeconds"] == subscription["ack_deadline_seconds"]
    # An empty policy is one that never ends.
    assert kept["expirationPolicy"] == {}
    assert subscription["expiration_policy"] == [{"ttl": ""}]


def test_both_paths_call_the_sweep_alike(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the sweep is called as often, and waited for as long."""
    [sent] = [call["body"] for call in deployed.others()["calls"]["cs"]]
    [plan] = planned.of("google_cloud_scheduler_job")
    assert sent["schedule"] == plan["schedule"]
    assert sent["timeZone"] == plan["time_zone"]
    assert sent["attemptDeadline"] == plan["attempt_deadline"]
    assert sent["httpTarget"]["httpMethod"] == plan["http_target"][0]["http_method"]


def test_both_paths_enable_the_same_services(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the same APIs are enabled."""
    enabled = {each["service"] for each in planned.of("google_project_service")}
    assert services_sent(deployed) == enabled
