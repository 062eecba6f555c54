"""The doctor after a real `gcloud functions deploy`."""

from __future__ import annotations

from tests.deployment.conftest import Simulate

DEPLOY = """
gcloud functions deploy ingest --gen2 --region=europe-west1 --runtime=python311 --source=. \
  --entry-point=ingest --trigger-event-filters=type=google.cloud.storage.object.v1.finalized \
  --trigger-event-filters=bucket=acme-in --trigger-location=europe-west1 \
  --trigger-service-account=trigger@sim.iam.gserviceaccount.com $RETRY \
  --run-service-account=runtime@sim.iam.gserviceaccount.com \
  --build-service-account=projects/sim/serviceAccounts/build@sim.iam.gserviceaccount.com \
  --docker-repository=projects/sim/locations/europe-west1/repositories/gate \
  --memory=1Gi --cpu=1 --concurrency=1 --max-instances=20 --timeout=540s \
  --ingress-settings=internal-only --no-allow-unauthenticated \
  --set-env-vars=SINK=gs://acme-out/layers,SOURCE_BUCKET=acme-in >&2
"""
BY_NAME = "python -m gate doctor ingest --region=europe-west1\n"
BY_DESCRIPTION = (
    "gcloud functions describe ingest --gen2 --region=europe-west1 --format=json"
    " | python -m gate doctor --function-json -\n"
)


def test_a_deployment_without_retry_fails(simulate: Simulate) -> None:
    """A12: what gcloud deploys without `--retry` fails for that alone, by name and described."""
    ended = simulate(
        f"{DEPLOY}{BY_NAME.rstrip()} && exit 9 || echo ended with $?\n{BY_DESCRIPTION}", RETRY=""
    )
    assert ended.returncode == 1, ended.stderr
    told = [line for line in ended.stdout.splitlines() if not line.startswith("ok ")]
    failure = (
        "failed     function ingest: its retry policy is not set: an event that is refused once"
        " is lost, and its bundle with it; deploy it with --retry"
    )
    assert told == [failure, "ended with 1", failure]


def test_a_deployment_with_retry_passes(simulate: Simulate) -> None:
    """A12: the same command with `--retry` passes every check, that of the location too."""
    ended = simulate(f"{DEPLOY}{BY_NAME}{BY_DESCRIPTION}", RETRY="--retry")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("its trigger is where its bucket is, europe-west1") == 2
