"""What was sent by gcloud, and what Terraform plans, in the same words."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from tests.deployment.conftest import Planned, Simulated

# Blocks of which Terraform has a list, and the API one object.
SINGLE = {"documentation", "conditionThreshold", "conditionAbsent", "metricDescriptor"}


def files(archive: Path) -> dict[str, bytes]:
    """Return name → content of the files in an archive; folders are no files."""
    with zipfile.ZipFile(archive) as opened:
        names = [each.filename for each in opened.infolist() if not each.is_dir()]
        assert len(names) == len(set(names))
        return {name: opened.read(name) for name in names}


def by_gcloud(function: dict[str, Any]) -> dict[str, Any]:
    """Return what a function is, from what gcloud sent, in plain words."""
    build, service = function["buildConfig"], function["serviceConfig"]
    trigger = function.get("eventTrigger", {})
    return {
        "runtime": build["runtime"],
        "entry": build["entryPoint"],
        "cpu": service["availableCpu"],
        "memory": service["availableMemory"],
        "concurrency": service["maxInstanceRequestConcurrency"],
        "instances": service["maxInstanceCount"],
        "seconds": service["timeoutSeconds"],
        "ingress": service["ingressSettings"],
        "account": service["serviceAccountEmail"].partition("@")[0],
        "builder": build["serviceAccount"].rpartition("/")[2].partition("@")[0],
        "images": build["dockerRepository"].rpartition("/")[2],
        "variables": service["environmentVariables"],
        "event": trigger.get("eventType"),
        "filters": trigger.get("eventFilters"),
        "retry": trigger.get("retryPolicy"),
        "at": trigger.get("triggerRegion"),
        "caller": trigger.get("serviceAccountEmail", "").partition("@")[0],
    }


def by_terraform(function: dict[str, Any]) -> dict[str, Any]:
    """Return the same from what Terraform plans; what it knows at apply only is left out."""
    [build], [service] = function["build_config"], function["service_config"]
    trigger = (function["event_trigger"] or [{}])[0]
    return {
        "runtime": build["runtime"],
        "entry": build["entry_point"],
        "cpu": service["available_cpu"],
        "memory": service["available_memory"],
        "concurrency": service["max_instance_request_concurrency"],
        "instances": service["max_instance_count"],
        "seconds": service["timeout_seconds"],
        "ingress": service["ingress_settings"],
        "account": service["service_account_email"].partition("@")[0],
        "event": trigger.get("event_type"),
        "filters": [
            {key: each[key] for key in ("attribute", "value")} for each in trigger["event_filters"]
        ]
        if trigger
        else None,
        "retry": trigger.get("retry_policy"),
        "at": trigger.get("trigger_region"),
        "caller": trigger.get("service_account_email", "").partition("@")[0],
    }


def buckets(deployed: Simulated, method: str) -> dict[str, Any]:
    """Return what gcloud sent about each bucket by one method."""
    calls = deployed.others()["calls"]["storage"]
    return {
        call["body"].get("name") or call["path"].rpartition("/")[2]: call["body"]
        for call in calls
        if call["method"] == method and not call["path"].endswith("/iam")
    }


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


def roles_sent(deployed: Simulated) -> set[tuple[str, str]]:
    """Return each role that gcloud gave, with the name of who has it."""
    return {
        (binding["role"], member.partition(":")[2].partition("@")[0])
        for policy in deployed.others()["policies"].values()
        for binding in policy["bindings"]
        for member in binding["members"]
    }


def roles_planned(planned: Planned) -> set[tuple[str, str]]:
    """Return the same of a plan; the agent's name is known to Terraform when it applies."""
    agents = {("roles/pubsub.publisher", "service-123456789012")}
    return agents | {
        (values["role"], values["member"].partition(":")[2].partition("@")[0])
        for address, values in planned.resources.items()
        if "_iam_member." in address and values.get("member")
    }


def services_sent(deployed: Simulated) -> set[str]:
    """Return the APIs that gcloud enabled."""
    lines = (deployed.sent / "requests.jsonl").read_text().splitlines()
    calls = [call for call in map(json.loads, lines) if call["path"].startswith("/su/")]
    enabling = [call for call in calls if re.search(r":(batchE|e)nable", call["path"])]
    return {
        name
        for call in enabling
        for name in re.findall(r"[a-z]+\.googleapis\.com", call["path"] + call["body"])
    }


def alerts(deployed: Simulated, planned: Planned) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the alerts that gcloud made, and those that Terraform plans."""
    plan = [stated(each) for each in planned.of("google_monitoring_alert_policy")]
    for each in plan:
        del each["project"]
    return by_name(sent(deployed, "mon", "/alertPolicies")), by_name(plan)
