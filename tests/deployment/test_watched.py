"""What both ways to deploy make of terraform/monitoring: the same alerts, and one dashboard."""

from __future__ import annotations

import json

from tests.deployment.compared import alerts, sent, stated
from tests.deployment.conftest import EMAIL, ROOT, Planned, Simulated


def test_both_paths_make_the_same_alerts(deployed: Simulated, planned: Planned) -> None:
    """Issue 6: each alert has the same conditions, thresholds and text."""
    made, plan = alerts(deployed, planned)
    assert made == plan
    assert len(made) == len(list((ROOT / "terraform" / "monitoring" / "alerts").iterdir()))
    assert "${" not in json.dumps(made)


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
