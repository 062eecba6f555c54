"""The doctor's checks of the bucket that keeps claims, manifests and jobs."""

from __future__ import annotations

from typing import Any

import pytest

from gate.doctor import examination
from gate.doctor.finding import Finding, Verdict
from gate.doctor.function import parse
from tests.deployments import ANSWERS, ENVIRONMENT, PROJECT, RUNTIME, Cloud, description, policy

BUCKET = "storage buckets describe gs://acme-state"
POLICY = "storage buckets get-iam-policy gs://acme-state"


def delete(**condition: Any) -> dict[str, Any]:
    """Return a rule that deletes."""
    return {"action": {"type": "Delete"}, "condition": condition}


def described(*rules: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return a bucket as gcloud describes it."""
    return {"name": "acme-state", "lifecycle_config": {"rule": list(rules)}, **others}


SOUND = described(delete(daysSinceCustomTime=1))


def findings(bucket: dict[str, Any] | None, prefix: str = "gate") -> list[Finding]:
    """Return what is found about a deployment that keeps its state in a bucket."""
    cloud = Cloud()
    allowed = policy(("roles/storage.objectUser", RUNTIME))
    cloud.answers = {**ANSWERS, POLICY: allowed, **({BUCKET: bucket} if bucket else {})}
    told = {**ENVIRONMENT, "STATE": "blobs", "STATE_URI": f"gs://acme-state/{prefix}"}
    function = parse(description(service={"environmentVariables": told}))
    found = list(examination.examine(function, examination.Project(cloud, PROJECT)))
    assert not [words for words in cloud.asked if words.startswith("firestore")]
    return [each for each in found if each.check in ("lifecycle", "replaced", "state", "grants")]


def unwelcome(bucket: dict[str, Any] | None) -> list[tuple[Verdict, str]]:
    """Return verdict and text of what is not in order."""
    return [
        (each.verdict, str(each)) for each in findings(bucket) if each.verdict is not Verdict.OK
    ]


def test_a_sound_bucket_passes_and_firestore_is_not_asked() -> None:
    """I8: the rule is there, nothing is kept of what is replaced, and the function may write."""
    said = [str(each) for each in findings(SOUND)]
    assert unwelcome(SOUND) == []
    assert "bucket acme-state: finished documents are removed by daysSinceCustomTime" in said
    assert any(
        "may keep claims, manifests and jobs, by roles/storage.objectUser" in each for each in said
    )


@pytest.mark.parametrize(
    "bucket",
    [
        {"name": "acme-state"},
        described(delete(daysSinceCustomTime=1, matchesPrefix=["other/"])),
        described({"action": {"type": "SetStorageClass"}, "condition": {"age": 1}}),
        described(delete(numNewerVersions=3)),
        described(delete(daysSinceCustomTime=1, isLive=False)),
        described(delete(daysSinceCustomTime=1, numNewerVersions=1)),
        described(delete(daysSinceCustomTime=1, matchesSuffix=["0"])),
        described(delete(daysSinceCustomTime=1, matchesStorageClass=["NEARLINE"])),
        described(delete(daysSinceCustomTime=1, matchesPrefix=["gate/claims/0"])),
    ],
)
def test_without_a_rule_for_it_finished_documents_stay(bucket: dict[str, Any]) -> None:
    """I8, H7: a rule for other objects, or one that deletes nothing live, is none."""
    [(verdict, said)] = unwelcome(bucket)
    assert verdict is Verdict.FAILED
    assert "finished documents stay for ever: claims, manifests, jobs; add a rule" in said
    assert "--lifecycle-file=FILE" in said


@pytest.mark.parametrize(
    "rules",
    [
        [delete(daysSinceCustomTime=1, age=7, isLive=True)],
        [delete(daysSinceCustomTime=1, matchesPrefix=["other/", "gate"])],
        [delete(daysSinceCustomTime=1, matchesStorageClass=["STANDARD", "NEARLINE"])],
        [
            delete(daysSinceCustomTime=days, matchesPrefix=[f"gate/{folder}"])
            for days, folder in enumerate(("claims", "manifests", "jobs"))
        ],
    ],
)
def test_whatever_removes_all_that_is_finished_will_do(rules: list[dict[str, Any]]) -> None:
    """I8, H7: a rule may wait longer, name the folders, or be one of several."""
    assert unwelcome(described(*rules, default_storage_class="STANDARD")) == []


def test_each_folder_without_a_rule_is_named() -> None:
    """I8, H7: a rule for claims alone leaves manifests and jobs."""
    [(verdict, said)] = unwelcome(
        described(delete(daysSinceCustomTime=1, matchesPrefix=["gate/claims/"]))
    )
    assert verdict is Verdict.FAILED
    assert said.startswith("bucket acme-state: finished documents stay for ever: manifests, jobs;")


@pytest.mark.parametrize(
    "condition",
    [
        {"age": 7, "isLive": False},
        {"age": 7, "numNewerVersions": 1},
        {"age": 7, "customTimeBefore": "2026-01-01"},
        {"age": 7, "matchesSuffix": [".tmp", "/jobs.json"]},
        {"age": 7, "matchesPrefix": ["gate/other/", "cafe", "gate/jobs/x"]},
    ],
)
def test_a_rule_that_spares_what_is_pending_is_left_alone(condition: dict[str, Any]) -> None:
    """I8, H7: what no pending document can meet, or be named like, removes none."""
    assert unwelcome(described(delete(daysSinceCustomTime=1), delete(**condition))) == []


@pytest.mark.parametrize(
    "condition",
    [
        {"age": 30},
        {"matchesPrefix": ["gate/jobs/"], "age": 30},
        {"matchesPrefix": ["gate/jobs/0a"], "age": 30},
        {"matchesPrefix": ["gat"], "age": 30},
        {"matchesSuffix": [".tmp", "0a"], "age": 30},
        {"matchesStorageClass": ["NEARLINE"], "age": 30},
        {"isLive": True, "numNewerVersions": 0},
        {},
    ],
)
def test_a_rule_that_removes_what_is_pending_fails(condition: dict[str, Any]) -> None:
    """I8, H7: by age alone, a job that waits for a person would be removed."""
    [(verdict, said)] = unwelcome(described(delete(daysSinceCustomTime=1), delete(**condition)))
    assert verdict is Verdict.FAILED
    assert said.startswith("bucket acme-state: a rule removes what is pending too")


def test_a_bucket_that_keeps_what_is_replaced_is_told_of() -> None:
    """I8: some ten writes of each bundle would each stay for days, as versions or deleted ones."""
    kept = {
        "versioning_enabled": True,
        "soft_delete_policy": {"retentionDurationSeconds": "604800"},
        "retention_policy": {"retentionPeriod": "1"},
    }
    found = unwelcome(described(delete(daysSinceCustomTime=1), **kept))
    assert [verdict for verdict, _ in found] == [Verdict.FAILED, Verdict.WARNING, Verdict.WARNING]
    assert "refuses every change" in found[0][1]
    assert found[1][1].endswith("update gs://acme-state --no-versioning")
    assert found[2][1].endswith("update gs://acme-state --clear-soft-delete")


def test_a_bucket_that_cannot_be_asked_is_unchecked() -> None:
    """I8: what gcloud refuses is told, and the other checks go on."""
    [(verdict, said)] = unwelcome(None)
    assert verdict is Verdict.UNCHECKED
    assert "403" in said
