"""What both ways to deploy make of terraform/monitoring: the same alerts, and one dashboard."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.deployment.conftest import EMAIL, ROOT, Planned, Simulated

# Blocks of which Terraform has a list, and the API one object.
SINGLE = {"documentation", "conditionThreshold", "conditionAbsent", "metricDescriptor"}


def stated(value: Any) -> Any:
    """Return a value of a plan as the API spells it, without what is not stated."""
    if isinstance(value, list):
        return [stated(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, each in value.items():
        spelt = re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)
        if each not in (None, "", [], {}):
            found[spelt] = stated(each[0] if spelt in SINGLE else each)
    return found


def sent(deployed: Simulated, api: str, path: str) -> list[dict[str, Any]]:
    """Return the bodies that gcloud sent to one collection of an API."""
    calls = deployed.others()["calls"][api]
    return [call["body"] for call in calls if call["path"].endswith(path)]


def by_name(policies: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the policies by what they are called; who is written to is known after the call."""
    return {each["displayName"]: {**each, "notificationChannels": None} for each in policies}


def test_both_paths_make_the_same_alerts(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: each alert has the same conditions, thresholds and text."""
    policies = sent(deployed, "mon", "/alertPolicies")
    plan = [stated(each) for each in planned.of("google_monitoring_alert_policy")]
    for each in plan:
        del each["project"]
    assert len(policies) == len(list((ROOT / "terraform" / "monitoring" / "alerts").iterdir()))
    assert by_name(policies) == by_name(plan)
    assert "${" not in json.dumps(policies)


def test_both_paths_write_to_the_same_people(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: who is written to when an alert opens is the same."""
    [channel] = sent(deployed, "mon", "/notificationChannels")
    [plan] = planned.of("google_monitoring_notification_channel")
    assert channel["labels"] == plan["labels"] == {"email_address": EMAIL}
    assert channel["type"] == plan["type"]


def test_both_paths_count_stalled_bundles_alike(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the metric of stalled bundles is the same, and an alert is on it."""
    [metric] = sent(deployed, "log", "/metrics")
    [plan] = [stated(each) for each in planned.of("google_logging_metric")]
    assert metric.items() <= plan.items()
    assert f"user/{metric['name']}" in json.dumps(sent(deployed, "mon", "/alertPolicies"))


def test_both_paths_draw_the_same_dashboard(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: the dashboard has the same charts in the same order."""
    [dashboard] = sent(deployed, "mon", "/dashboards")
    [plan] = planned.of("google_monitoring_dashboard")
    assert dashboard == json.loads(plan["dashboard_json"])
    assert "${" not in json.dumps(dashboard)
