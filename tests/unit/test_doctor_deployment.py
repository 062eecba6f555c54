"""The doctor's checks of what a function needs: Firestore, dead letters, grants, the sweep."""

from __future__ import annotations

from typing import Any

import pytest

from gate.doctor import examination
from gate.doctor.finding import Finding, Verdict, worst
from gate.doctor.function import parse
from gate.store.documents import QUERIED, UNINDEXED
from tests.deployments import (
    AGENT,
    ANSWERS,
    ENVIRONMENT,
    PROJECT,
    RUNTIME,
    SCHEDULER,
    SWEEP_URI,
    TOPIC,
    TRIGGER,
    Cloud,
    description,
    fields,
    policy,
    sweep,
)

DATABASE = "firestore databases describe --database=gate"
TTLS = "firestore fields ttls list --database=gate"
FIELDS = "firestore indexes fields list --database=gate"
SUBSCRIPTIONS = f"pubsub topics list-subscriptions {TOPIC}"
SUBSCRIPTION = f"pubsub subscriptions describe projects/{PROJECT}/subscriptions/kept"
EVERYWHERE = f"projects get-iam-policy {PROJECT}"
SWEEP = "functions describe gate-sweep --gen2 --region=europe-west1"
JOBS = "scheduler jobs list --location=europe-west1"


def unwelcome(changes: dict[str, Any], **described: Any) -> list[Finding]:
    """Return what is not in order in a deployment that is sound but for these answers."""
    project = examination.Project(Cloud(changes), PROJECT)
    findings = examination.examine(parse(description(**described)), project)
    return [each for each in findings if each.verdict is not Verdict.OK]


def only(findings: list[Finding]) -> tuple[Verdict, str, str]:
    """Return verdict, check and text of the only finding."""
    [found] = findings
    assert found.todo
    return found.verdict, found.check, str(found)


def test_nothing_is_unwelcome_in_a_sound_deployment() -> None:
    """I8: the made-up deployment that the other tests change passes every check."""
    assert unwelcome({}) == []


def test_a_topic_that_nobody_subscribed_to_fails() -> None:
    """I8: dead letters to a topic without a subscription would be lost."""
    verdict, check, said = only(unwelcome({SUBSCRIPTIONS: []}))
    assert (verdict, check) == (Verdict.FAILED, "dead_letters")
    assert said.startswith(f"topic {TOPIC}: nobody has subscribed to it: every dead letter is lost")
    assert said.endswith(f" --project={PROJECT}")


def test_a_subscription_that_vanishes_is_warned_of() -> None:
    """I8: by default a subscription that nobody asks for a month is deleted."""
    vanishing = {
        "name": "projects/acme/subscriptions/kept",
        "expirationPolicy": {"ttl": "2678400s"},
    }
    verdict, check, said = only(unwelcome({SUBSCRIPTION: vanishing}))
    assert (verdict, check) == (Verdict.WARNING, "dead_letters")
    assert said.startswith("subscription kept: it vanishes")
    assert " update projects/acme/subscriptions/kept --expiration-period=never" in said


def test_no_topic_is_warned_of() -> None:
    """I8: a deployment that keeps its letters in the log alone is told so."""
    untold = {**ENVIRONMENT, "DEAD_LETTER_TOPIC": ""}
    changed = {"environmentVariables": untold}
    verdict, check, _ = only(unwelcome({SWEEP: sweep(service=changed)}, service=changed))
    assert (verdict, check) == (Verdict.WARNING, "dead_letters")


@pytest.mark.parametrize(
    ("command", "account", "what"),
    [
        ("storage buckets get-iam-policy gs://acme-in", RUNTIME, "read uploads"),
        ("storage buckets get-iam-policy gs://acme-out", RUNTIME, "write and remove datasets"),
        (f"pubsub topics get-iam-policy {TOPIC}", RUNTIME, "send dead letters"),
        (
            "run services get-iam-policy gate-ingest --region=europe-west1",
            TRIGGER,
            "call the function",
        ),
        (
            "run services get-iam-policy gate-sweep --region=europe-west1",
            SCHEDULER,
            "call the function",
        ),
        (EVERYWHERE, RUNTIME, "use Firestore"),
        (EVERYWHERE, TRIGGER, "receive events"),
        (EVERYWHERE, AGENT, "publish events"),
    ],
)
def test_a_grant_that_is_missing_fails(command: str, account: str, what: str) -> None:
    """I8: whoever lacks a role is named, with the role that would do."""
    others = [each for each in ANSWERS[command]["bindings"] if account not in str(each)]
    verdict, check, said = only(unwelcome({command: {"bindings": others}}))
    assert (verdict, check) == (Verdict.FAILED, "grants")
    assert f"{account} may not {what}; grant it roles/" in said


def test_grants_on_the_project_suffice() -> None:
    """I8: what is granted on the whole project need not be granted on its parts."""
    whole = policy(
        *((role, RUNTIME) for role in ("roles/datastore.owner", "roles/storage.admin")),
        ("roles/pubsub.editor", RUNTIME),
        *((role, TRIGGER) for role in ("roles/eventarc.admin", "roles/run.invoker")),
        ("roles/run.admin", SCHEDULER),
        ("roles/pubsub.admin", AGENT),
    )
    parts = {command: {"version": 1} for command in ANSWERS if "get-iam-policy" in command}
    assert unwelcome({**parts, EVERYWHERE: whole}) == []


def test_reading_is_not_writing() -> None:
    """I8: a role that may only read does not do for the output."""
    viewer = policy(("roles/storage.objectViewer", RUNTIME))
    verdict, _, said = only(unwelcome({"storage buckets get-iam-policy gs://acme-out": viewer}))
    assert verdict is Verdict.FAILED
    assert "grant it roles/storage.objectUser" in said


def test_what_a_role_of_ones_own_allows_is_not_known() -> None:
    """I8: where only a custom role is found, the grant is neither there nor missing."""
    own = policy(("projects/acme/roles/reader", RUNTIME))
    verdict, _, said = only(unwelcome({"storage buckets get-iam-policy gs://acme-in": own}))
    assert verdict is Verdict.UNCHECKED
    assert "depends on projects/acme/roles/reader" in said


def test_policies_that_may_not_be_seen_are_unchecked() -> None:
    """I8: whoever may not read policies learns what could not be checked, and the rest."""
    commands = [command for command in ANSWERS if "get-iam-policy" in command]
    found = unwelcome(dict.fromkeys(commands))
    assert {(each.verdict, each.check) for each in found} == {(Verdict.UNCHECKED, "grants")}


def test_a_collection_without_a_policy_fails() -> None:
    """Case 54: without a TTL policy documents stay; the command that makes one is named."""
    most = fields("gate", {"ttlConfig": {}}, claims=["expires_at"], manifests=["expires_at"])
    verdict, check, said = only(unwelcome({TTLS: most}))
    assert (verdict, check) == (Verdict.FAILED, "ttl")
    assert said == (
        "collection jobs: finished documents stay for ever; gcloud firestore fields ttls update"
        " expires_at --collection-group=jobs --database=gate --project=acme --enable-ttl"
    )


def test_a_name_with_brackets_is_quoted_for_the_shell() -> None:
    """Case 54: the command for the database `(default)` can be pasted."""
    values = {key: value for key, value in ENVIRONMENT.items() if key != "FIRESTORE_DATABASE"}
    changed = {"environmentVariables": values}
    cloud = Cloud({SWEEP: sweep(service=changed)})
    default = {
        command.replace("--database=gate", "--database=(default)"): answer
        for command, answer in cloud.answers.items()
    }
    cloud.answers = {**default, TTLS.replace("gate", "(default)"): []}
    project = examination.Project(cloud, PROJECT)
    found = examination.examine(parse(description(service=changed)), project)
    todo = [each.todo for each in found if each.check == "ttl"]
    assert len(todo) == 3
    assert all(" '--database=(default)' --project=acme --enable-ttl" in each for each in todo)


def test_a_topic_of_another_project_is_granted_there() -> None:
    """I8: a role on the whole project of the topic does, and none on that of the function."""
    topic = "projects/other/topics/letters"
    values = {"environmentVariables": {**ENVIRONMENT, "DEAD_LETTER_TOPIC": topic}}
    cloud = Cloud({SWEEP: sweep(service=values)})
    cloud.answers |= {
        f"pubsub topics list-subscriptions {topic}": ANSWERS[SUBSCRIPTIONS],
        f"pubsub topics get-iam-policy {topic}": {"version": 1},
        "projects get-iam-policy other": policy(("roles/pubsub.publisher", RUNTIME)),
    }
    project = examination.Project(cloud, PROJECT)
    found = examination.examine(parse(description(service=values)), project)
    assert [each for each in found if each.verdict is not Verdict.OK] == []


def test_a_policy_on_another_field_fails() -> None:
    """Case 54: a collection takes one TTL policy, and it has to be on the right field."""
    wrong = fields("gate", {"ttlConfig": {}}, jobs=["ended_at"])
    [found] = unwelcome({TTLS: ANSWERS[TTLS][:2] + wrong})
    assert found.verdict is Verdict.FAILED
    assert found.what == "its TTL policy is on ended_at"


def test_a_policy_in_the_making_is_a_warning() -> None:
    """Case 54: a policy that is still being put in force needs only time."""
    making = fields("gate", {"ttlConfig": {"state": "CREATING"}}, jobs=["expires_at"])
    verdict, check, _ = only(unwelcome({TTLS: ANSWERS[TTLS][:2] + making}))
    assert (verdict, check) == (Verdict.WARNING, "ttl")


def test_a_field_that_is_asked_for_must_be_indexed() -> None:
    """F12: an exemption of what the sweep asks for fails, and names the field."""
    asked = QUERIED["jobs"][0]
    exempt = fields(
        "gate", {"indexConfig": {}}, **{**UNINDEXED, "jobs": [*UNINDEXED["jobs"], asked]}
    )
    verdict, check, said = only(unwelcome({FIELDS: exempt}))
    assert (verdict, check) == (Verdict.FAILED, "indexes")
    assert f"{asked} is not indexed" in said


def test_an_index_that_nobody_asks_for_is_warned_of() -> None:
    """Issue 6: fields that are indexed for nobody are named, once for each collection."""
    found = unwelcome({FIELDS: []})
    assert [(each.verdict, each.check) for each in found] == [(Verdict.WARNING, "exemptions")] * 3
    assert all(field in found[0].what for field in UNINDEXED["claims"])
    at = "--collection-group=claims --database=gate --project=acme --disable-indexes"
    commands = found[0].todo.split(" && ")
    update = "gcloud firestore indexes fields update"
    assert commands == [f"{update} {field} {at}" for field in UNINDEXED["claims"]]


def test_a_database_in_datastore_mode_fails() -> None:
    """Issue 6: the gate needs Native mode."""
    verdict, check, _ = only(unwelcome({DATABASE: {"type": "DATASTORE_MODE"}}))
    assert (verdict, check) == (Verdict.FAILED, "database")


@pytest.mark.parametrize(
    ("changes", "check", "said"),
    [
        ({SWEEP: sweep(eventTrigger=description()["eventTrigger"])}, "sweep", "events trigger it"),
        (
            {SWEEP: sweep(service={"environmentVariables": {**ENVIRONMENT, "SINK": "gs://b/c"}})},
            "sweep_settings",
            "its settings differ from those of gate-ingest: SINK",
        ),
        ({JOBS: []}, "schedule", "nothing calls it"),
        (
            {JOBS: [{**ANSWERS[JOBS][0], "state": "PAUSED"}]},
            "schedule",
            "its state is PAUSED; gcloud scheduler jobs resume gate-sweep --location=europe-west1"
            " --project=acme",
        ),
        (
            {
                JOBS: [
                    {
                        **ANSWERS[JOBS][0],
                        "httpTarget": {
                            "uri": f"{SWEEP_URI}/",
                            "oidcToken": {
                                "audience": "https://other",
                                "serviceAccountEmail": SCHEDULER,
                            },
                        },
                    }
                ]
            },
            "schedule",
            "its token is not for the address of the function",
        ),
        (
            {
                JOBS: [
                    {
                        **ANSWERS[JOBS][0],
                        "httpTarget": {
                            "uri": SWEEP_URI,
                            "httpMethod": "GET",
                            "oidcToken": {"serviceAccountEmail": SCHEDULER},
                        },
                    }
                ]
            },
            "schedule",
            "it does not POST",
        ),
        (
            {JOBS: [{**ANSWERS[JOBS][0], "httpTarget": {"uri": SWEEP_URI}}]},
            "schedule",
            "it calls as nobody, and is refused",
        ),
    ],
)
def test_a_sweep_that_does_not_run_fails(changes: dict[str, Any], check: str, said: str) -> None:
    """H6: what keeps the sweep from running, or makes it sweep elsewhere, is one failure."""
    verdict, told, text = only(unwelcome(changes))
    assert (verdict, told) == (Verdict.FAILED, check)
    assert said in text


def test_no_sweep_at_all_is_unchecked() -> None:
    """H6: a sweep that gcloud does not find may have another name."""
    verdict, check, _ = only(unwelcome({SWEEP: None}))
    assert (verdict, check) == (Verdict.UNCHECKED, "sweep")


@pytest.mark.parametrize("emulator", ["FIRESTORE_EMULATOR_HOST", "CLOUD_TASKS_EMULATOR_HOST"])
def test_a_deployment_that_talks_to_an_emulator_fails(emulator: str) -> None:
    """Issue 6: an address of an emulator has no place in a deployment."""
    environment = {"environmentVariables": {**ENVIRONMENT, emulator: "localhost:8080"}}
    verdict, check, _ = only(unwelcome({SWEEP: sweep(service=environment)}, service=environment))
    assert (verdict, check) == (Verdict.FAILED, "addressed")


def test_without_a_bucket_nothing_is_asked_of_it() -> None:
    """I8: behind Pub/Sub and without SOURCE_BUCKET, no grant on a source can be asked for.

    Who publishes to the topic is not known either, so the agent of Cloud Storage is left alone.
    """
    values = {"environmentVariables": {**ENVIRONMENT, "SOURCE_BUCKET": ""}}
    trigger = {
        "eventType": "google.cloud.pubsub.topic.v1.messagePublished",
        "eventFilters": [],
    }
    others = [each for each in ANSWERS[EVERYWHERE]["bindings"] if AGENT not in str(each)]
    answers = {SWEEP: sweep(service=values), EVERYWHERE: {"bindings": others}}
    verdict, check, said = only(unwelcome(answers, service=values, trigger=trigger))
    assert (verdict, check) == (Verdict.WARNING, "event_type")
    assert "list gs://BUCKET` has OBJECT_FINALIZE" in said


def test_a_database_as_sink_needs_no_bucket() -> None:
    """I8: with tables as datasets, no grant on an output bucket is asked for."""
    values = {**ENVIRONMENT, "SINK": "postgresql://loader@10.1.2.3/gis"}
    changed = {"environmentVariables": values}
    answers = {
        SWEEP: sweep(service=changed),
        "storage buckets get-iam-policy gs://acme-out": None,
    }
    assert unwelcome(answers, service=changed) == []


def test_a_sink_in_a_secret_is_unchecked() -> None:
    """Issue 6: settings that cannot be seen are not judged, nor what follows from them."""
    secret = {
        "environmentVariables": {},
        "secretEnvironmentVariables": [{"key": "SINK", "secret": "sink"}],
    }
    found = unwelcome({SWEEP: sweep(service=secret)}, service=secret)
    assert ("settings", Verdict.UNCHECKED) in {(each.check, each.verdict) for each in found}
    assert worst(found) is Verdict.UNCHECKED
