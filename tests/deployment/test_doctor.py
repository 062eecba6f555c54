"""The doctor after real deployments by gcloud."""

from __future__ import annotations

import json
from pathlib import Path

from tests.deployment.conftest import REGION, Simulated, simulate

# A plain deployment, as somebody makes it who has not read the page.
DEPLOY = """
gcloud functions deploy plain --gen2 --entry-point=ingest --region="$REGION" --source=. \
  --runtime=python311 --trigger-event-filters=type=google.cloud.storage.object.v1.finalized \
  --trigger-event-filters=bucket="$SOURCE" --trigger-location="$LOCATION" \
  --trigger-service-account=trigger@sim.iam.gserviceaccount.com \
  --run-service-account=runtime@sim.iam.gserviceaccount.com \
  --build-service-account=projects/sim/serviceAccounts/build@sim.iam.gserviceaccount.com \
  --set-env-vars="SINK=gs://$OUTPUT/layers,SOURCE_BUCKET=$SOURCE" >&2
"""
DESCRIBE = f"gcloud functions describe plain --gen2 --region={REGION} --format=json"


def test_a_deployment_without_retry_fails(tmp_path: Path) -> None:
    """A12: what gcloud deploys without `--retry` fails, and the line says what to do."""
    ended = simulate(f"{DEPLOY}{DESCRIBE} | python -m gate doctor --function-json -", tmp_path)
    assert ended.code == 1, ended.err
    assert (
        "failed     function plain: its retry policy is not set: an event that is refused once is"
        " lost, and its bundle with it; deploy it with --retry"
    ) in ended.out.splitlines()


def test_the_documented_deployment_passes(deployed: Simulated) -> None:
    """A12, I8: after the documented commands every check passes.

    Only the clock of this machine has no server to be compared with.
    """
    findings = json.loads(deployed.out)["findings"]
    assert {each["check"] for each in findings if each["verdict"] != "ok"} <= {"clock"}
    passed = [each["check"] for each in findings if each["verdict"] == "ok"]
    assert passed.count("grants") == 8
    assert passed.count("ttl") == passed.count("indexes") == 3
    assert {"dead_letters", "retry_policy", "schedule", "sweep_settings"} <= set(passed)
