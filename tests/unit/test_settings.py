"""Settings: defaults, every problem at once, and the rules between variables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gate.environment import SettingsError
from gate.errors import ConfigurationError
from gate.gating import GateKind, Gating
from gate.next_look import Patience
from gate.settings import Sweeping, for_asking, for_reading, load
from gate.sinks.address import SinkAddress
from gate.variables import ASKING, READING, VARIABLES
from tests.scenarios.gates import ENVIRONMENTS

LEAST = {"SINK": "gs://datasets/out"}


def problems(**environment: str) -> tuple[str, ...]:
    """Return what is wrong with an environment; fails if nothing is."""
    with pytest.raises(SettingsError) as caught:
        load({**LEAST, **environment})
    return caught.value.problems


def test_defaults_are_the_documented_ones() -> None:
    """Case 54: only the sink has to be set; everything else has the design's default."""
    settings = load(LEAST)
    assert settings.sink == SinkAddress("datasets", "out")
    assert settings.required == (".shp", ".shx", ".dbf")
    assert (settings.source_bucket, settings.source_prefix) == ("", "")
    assert settings.retention.settle == timedelta(seconds=30)
    assert settings.retention.claims == timedelta(days=7)
    assert settings.retention.manifests == timedelta(days=1)
    assert settings.limits.lease == timedelta(seconds=60)
    assert settings.limits.max_attempts == 5
    assert settings.limits.run == timedelta(seconds=486)
    assert settings.limits.retry == timedelta(seconds=10)
    assert settings.limits.retry_most == timedelta(minutes=10)
    patience = Patience(timedelta(seconds=30), timedelta(hours=1), timedelta(days=1))
    assert settings.sweep == Sweeping(45, 50, patience, timedelta(hours=1))
    assert settings.sweep_collection == "sweep"
    assert (settings.claim_collection, settings.manifest_collection, settings.job_collection) == (
        "claims",
        "manifests",
        "jobs",
    )
    assert settings.firestore_database == "(default)"
    assert settings.dead_letter_topic == ""
    assert settings.max_bundle_bytes == 8 * 1024**3


def test_every_variable_is_read() -> None:
    """Case 54: each variable reaches the field that is named for it."""
    settings = load(
        {
            "SINK": "gs://datasets/out?keep=2",
            "SOURCE_BUCKET": "uploads",
            "SOURCE_PREFIX": "in/",
            "REQUIRED_EXTS": " .SHP, .prj ,.shx,.dbf,.prj",
            "SETTLE_SECONDS": "1",
            "DEDUP_TTL_SECONDS": "86401",
            "MANIFEST_TTL_SECONDS": "3",
            "STALLED_AFTER_SECONDS": "2",
            "SWEEP_SECONDS": "2",
            "SWEEP_JOBS": "5",
            "RECONCILE_EVERY_SECONDS": "8",
            "CLAIM_COLLECTION": "c",
            "MANIFEST_COLLECTION": "m",
            "JOB_COLLECTION": "j",
            "SWEEP_COLLECTION": "s",
            "FIRESTORE_DATABASE": "gate",
            "DEAD_LETTER_TOPIC": "projects/p/topics/t",
            "MAX_ATTEMPTS": "6",
            "LEASE_SECONDS": "7",
            "FUNCTION_TIMEOUT_SECONDS": "20",
            "RETRY_SECONDS": "0",
            "MAX_BUNDLE_BYTES": "9",
        }
    )
    assert settings.sink.keep == 2
    assert (settings.source_bucket, settings.source_prefix) == ("uploads", "in/")
    assert settings.required == (".shp", ".prj", ".shx", ".dbf")
    retention, limits = settings.retention, settings.limits
    assert (retention.settle, retention.claims, retention.manifests) == tuple(
        timedelta(seconds=seconds) for seconds in (1, 86401, 3)
    )
    assert (limits.max_attempts, limits.lease, limits.run, limits.retry) == (
        6,
        timedelta(seconds=7),
        timedelta(seconds=18),
        timedelta(0),
    )
    patience = Patience(timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=3))
    assert settings.sweep == Sweeping(2, 5, patience, timedelta(seconds=8))
    assert settings.sweep_collection == "s"
    assert (settings.claim_collection, settings.manifest_collection, settings.job_collection) == (
        "c",
        "m",
        "j",
    )
    assert settings.firestore_database == "gate"
    assert settings.dead_letter_topic == "projects/p/topics/t"
    assert settings.max_bundle_bytes == 9


def test_the_list_of_variables_is_whole() -> None:
    """Case 54: the variables that are documented are those that are read, each once."""

    class Recorder(dict[str, str]):
        def get(self, key: str, default: str = "") -> str:  # type: ignore[override]
            asked.add(key)
            return super().get(key, default)

    asked: set[str] = set()
    load(Recorder(LEAST))
    names = [variable.name for variable in VARIABLES]
    assert asked == set(names)
    assert len(names) == len(asked)
    assert all(variable.meaning for variable in VARIABLES)


def test_blank_is_unset_and_the_rest_is_not_ours() -> None:
    """Case 54: blank values mean the default, and unknown variables are left alone."""
    assert load({**LEAST, "SETTLE_SECONDS": "  ", "JOB_COLLECTION": "", "PORT": "x"}) == load(LEAST)
    assert load({"SINK": "  gs://datasets/out\n"}) == load(LEAST)


def test_all_problems_are_told_at_once() -> None:
    """Case 64: a deployment is told everything that is wrong with it in one message."""
    broken = {
        "SINK": "s3://x",
        "REQUIRED_EXTS": ".dbf",
        "SETTLE_SECONDS": "soon",
        "DEDUP_TTL_SECONDS": "60",
        "MANIFEST_TTL_SECONDS": "-1",
        "MAX_ATTEMPTS": "0",
        "LEASE_SECONDS": "0",
        "RETRY_SECONDS": "1.5",
        "MAX_BUNDLE_BYTES": "256MB",
        "JOB_COLLECTION": "a/b",
        "DEAD_LETTER_TOPIC": "topics/t",
    }
    with pytest.raises(SettingsError) as caught:
        load(broken)
    assert {problem.partition(":")[0] for problem in caught.value.problems} == set(broken)
    message = str(caught.value)
    first, *rest = message.split("\n")
    assert first == (
        "settings: 11 problems in the environment; correct the environment and deploy again:"
    )
    assert rest == [f"  - {problem}" for problem in caught.value.problems]
    assert isinstance(caught.value, ConfigurationError)


def test_one_problem_is_one_problem() -> None:
    """Case 64: the message counts in words that a person would use."""
    with pytest.raises(SettingsError, match="1 problem in the environment"):
        load({})


@pytest.mark.parametrize("variable", ["SINK", "OTHER"])
def test_a_missing_sink_is_told_with_its_cure(variable: str) -> None:
    """Case 64: without a sink nothing starts, and the form it has is told."""
    with pytest.raises(SettingsError) as caught:
        load({variable: " "})
    assert caught.value.problems == ("SINK: is not set; set it to gs://BUCKET/PREFIX",)


@pytest.mark.parametrize(
    "variable",
    [
        "SETTLE_SECONDS",
        "DEDUP_TTL_SECONDS",
        "MANIFEST_TTL_SECONDS",
        "MAX_ATTEMPTS",
        "LEASE_SECONDS",
        "RETRY_SECONDS",
        "MAX_BUNDLE_BYTES",
        "STALLED_AFTER_SECONDS",
        "SWEEP_SECONDS",
        "SWEEP_JOBS",
        "RECONCILE_EVERY_SECONDS",
    ],
)
@pytest.mark.parametrize("text", ["x", "-1", "1.5", "1e3", "\u0661", "9" * 16, "1_0", "+1"])
def test_numbers_are_whole_and_plain(variable: str, text: str) -> None:
    """Case 64: words, signs, fractions, foreign digits and absurd lengths are refused."""
    assert [problem for problem in problems(**{variable: text}) if problem.startswith(variable)]


RANGES = [
    ("SETTLE_SECONDS", 0, 43_200),
    ("DEDUP_TTL_SECONDS", 86_401, 315_360_000),
    ("MANIFEST_TTL_SECONDS", 1, 315_360_000),
    ("VERIFY_MAX_AGE_SECONDS", 1, 82_800),
    ("POLL_DELAY_SECONDS", 1, 3_600),
    ("POLL_MAX_ATTEMPTS", 1, 1_000),
    ("MAX_ATTEMPTS", 1, 1_000),
    ("LEASE_SECONDS", 1, 3_600),
    ("FUNCTION_TIMEOUT_SECONDS", 1, 3_600),
    ("RETRY_SECONDS", 0, 600),
    ("MAX_BUNDLE_BYTES", 1, 1 << 40),
    ("MAX_UNPACKED_BYTES", 1, 1 << 40),
    ("MAX_ENTRIES", 1, 10_000_000),
    ("STALLED_AFTER_SECONDS", 0, 315_359_999),
    ("SWEEP_SECONDS", 1, 360),
    ("SWEEP_JOBS", 1, 1_000),
    ("RECONCILE_EVERY_SECONDS", 1, 315_360_000),
]


@pytest.mark.parametrize(("variable", "least", "most"), RANGES)
def test_numbers_are_bounded_at_both_ends(variable: str, least: int, most: int) -> None:
    """Case 64: each number may be its least and its greatest value, and nothing beyond."""
    others = {"SETTLE_SECONDS": "0", "STALLED_AFTER_SECONDS": "0"}
    if variable == "STALLED_AFTER_SECONDS":
        others["MANIFEST_TTL_SECONDS"] = str(most + 1)
    if variable == "SWEEP_SECONDS":
        others["FUNCTION_TIMEOUT_SECONDS"] = "3600"
    for bound in (least, most):
        assert load({**LEAST, **others, variable: str(bound)})
    beyond = problems(**{**others, variable: str(most + 1)})
    assert len(beyond) == 1
    assert beyond[0].startswith(f"{variable}: '{most + 1}' is no whole number from ")
    assert f"to {most}; use " in beyond[0]
    if least:
        assert problems(**{**others, variable: str(least - 1)})[0].startswith(f"{variable}: ")


def test_every_number_is_bounded() -> None:
    """Case 64: the variables whose default is a number are those whose bounds are tested."""
    numbers = {variable.name for variable in VARIABLES if variable.default.isdigit()}
    assert numbers == {variable for variable, _, _ in RANGES}


def test_the_gate_is_the_manifest_unless_another_is_named() -> None:
    """Issue 7: `GATE` names the gate, and a name that is none is refused with those there are."""
    assert load(LEAST).gate.kind is GateKind.MANIFEST
    assert load({**LEAST, "GATE": "verify", "SOURCE_BUCKET": "uploads"}).gate == Gating(
        GateKind.VERIFY, timedelta(hours=20), timedelta(seconds=30), 30
    )
    with pytest.raises(SettingsError) as caught:
        load({**LEAST, "GATE": "listing"})
    assert caught.value.problems == (
        "GATE: 'listing' is no gate; use one of manifest, verify, poll",
    )


def test_the_verifying_gate_needs_the_name_of_its_bucket() -> None:
    """Issue 7: what `GATE=verify` cannot see only a pass over the bucket finds."""
    with pytest.raises(SettingsError, match="nothing but the pass over it sees") as caught:
        load({**LEAST, "GATE": "verify"})
    assert len(caught.value.problems) == 1
    with pytest.raises(SettingsError) as caught:
        load({**LEAST, "GATE": "verify", "SOURCE_BUCKET": "gs://uploads"})
    assert [problem[:30] for problem in caught.value.problems] == ["SOURCE_BUCKET: 'gs://uploads' "]
    assert for_reading({"GATE": "verify"}).gate.kind is GateKind.MANIFEST


def test_the_polling_gate_needs_a_queue() -> None:
    """Issue 7: `GATE=poll` without a queue, an address and an account does not start."""
    with pytest.raises(SettingsError) as caught:
        load({**LEAST, "GATE": "poll"})
    assert caught.value.problems == tuple(
        f"{variable}: is not set, and GATE=poll needs it"
        for variable in ("TASK_QUEUE", "WORK_URL", "TASK_SERVICE_ACCOUNT")
    )
    assert load({**LEAST, **ENVIRONMENTS["poll"]}).gate.kind is GateKind.POLL


def test_a_function_that_runs_what_it_looks_at_ends_before_its_task_gives_up() -> None:
    """Issue 7: `work` runs jobs with `GATE=poll` too, so that its time is bounded by its task's."""
    with pytest.raises(SettingsError, match="longer than a task waits"):
        load({**LEAST, **ENVIRONMENTS["poll"], "FUNCTION_TIMEOUT_SECONDS": "1801"})


def test_looks_pause_for_an_hour_at_most() -> None:
    """Issue 7: the pause after a look doubles, and no number of looks leads beyond an hour."""
    gate = load(LEAST).gate
    pauses = [gate.pause_after(looks).total_seconds() for looks in (1, 2, 3, 7, 8, 1000)]
    assert pauses == [30, 60, 120, 1920, 3600, 3600]
    whole_seconds = sum(gate.pause_after(looks).total_seconds() for looks in range(1, 30))
    assert 22 * 3600 < whole_seconds < 24 * 3600


def test_the_greatest_values_are_usable_together() -> None:
    """Case 64: no setting that is accepted leads beyond the calendar or the range of a duration."""
    greatest = load({**LEAST, **{variable: str(most) for variable, _, most in RANGES}})
    now = datetime(2026, 3, 1, tzinfo=UTC)
    longest = greatest.retention.claims + greatest.retention.manifests + greatest.limits.lease
    assert (now + longest).year < 2100
    assert greatest.limits.wait_after(greatest.limits.max_attempts) <= timedelta(seconds=600)


def test_a_long_value_is_not_told_whole() -> None:
    """Case 64: of a number with thousands of digits the message shows the beginning."""
    assert len(problems(MAX_ENTRIES="9" * 5000)[0]) < 200


def test_claims_must_outlive_the_redelivery_window() -> None:
    """Case 54: a dedup TTL of one day is refused, a second more is not."""
    assert "not longer than the redelivery window" in problems(DEDUP_TTL_SECONDS="86400")[0]
    assert load({**LEAST, "DEDUP_TTL_SECONDS": "86401"})


def test_the_last_job_of_a_sweep_must_fit_into_the_timeout() -> None:
    """H11: a job that a sweep begins at its end has the whole time of a run before the timeout."""
    assert problems(SWEEP_SECONDS="31", FUNCTION_TIMEOUT_SECONDS="300") == (
        "SWEEP_SECONDS: 31 is more than a tenth of FUNCTION_TIMEOUT_SECONDS=300, so that a job"
        " that the sweep begins last could be cut off by the timeout; use 30",
    )
    for stated in ({"SWEEP_SECONDS": "30"}, {}):
        fitting = load({**LEAST, **stated, "FUNCTION_TIMEOUT_SECONDS": "300"})
        assert fitting.sweep.seconds == 30
        assert timedelta(seconds=30) + fitting.limits.run == timedelta(seconds=300)
    assert load({**LEAST, "FUNCTION_TIMEOUT_SECONDS": "3600"}).sweep.seconds == 45


def test_settling_must_end_before_a_manifest_may_expire() -> None:
    """Case 54: a rest as long as the manifest's life is refused; a moment less is fine."""
    assert problems(SETTLE_SECONDS="60", STALLED_AFTER_SECONDS="60", MANIFEST_TTL_SECONDS="60") == (
        "SETTLE_SECONDS: 60 is not shorter than MANIFEST_TTL_SECONDS=60",
        "STALLED_AFTER_SECONDS: 60 is not shorter than MANIFEST_TTL_SECONDS=60, when the bundle is"
        " given up",
    )
    longest = {"SETTLE_SECONDS": "59", "STALLED_AFTER_SECONDS": "59", "MANIFEST_TTL_SECONDS": "60"}
    assert load({**LEAST, **longest})


@pytest.mark.parametrize("variable", ["CLAIM_COLLECTION", "MANIFEST_COLLECTION", "JOB_COLLECTION"])
@pytest.mark.parametrize("name", ["a/b", ".", "..", "__x__"])
def test_collections_have_names_that_firestore_takes(variable: str, name: str) -> None:
    """Case 50: a slash, dots alone and double underscores are no collection."""
    assert problems(**{variable: name})[0].startswith(f"{variable}: ")


@pytest.mark.parametrize("name", ["__x", "x__", "a.b"])
def test_other_names_of_collections_are_taken(name: str) -> None:
    """Case 50: underscores at one end and dots between letters are allowed."""
    assert load({**LEAST, "JOB_COLLECTION": name}).job_collection == name


@pytest.mark.parametrize("text", ["gs://uploads", "uploads/", "uploads/in"])
def test_the_source_bucket_is_a_name(text: str) -> None:
    """B8: a URI would equal no event's bucket, so that every upload would be ignored."""
    assert problems(SOURCE_BUCKET=text)[0].startswith(f"SOURCE_BUCKET: '{text}' is no name")


def test_the_four_collections_are_four() -> None:
    """A5: no two kinds of document can share a collection, by default name or by setting."""
    assert problems(JOB_COLLECTION="claims") == (
        "CLAIM_COLLECTION: the four collections must have four names",
    )
    assert problems(CLAIM_COLLECTION="x", MANIFEST_COLLECTION="x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (".shp,.tif", ".tif is unknown"),
        (".shp,.zip", ".zip is unknown"),
        ("shp", "shp is unknown"),
        (".dbf,.shx", ".shp must be among them"),
        (".shp", ".shx .dbf must be among them"),
        (".shp,.shx,.prj", "use .shp,.shx,.dbf,.prj"),
        (".shp,.dbf", ".shx must be among them"),
        (",", ".shp .shx .dbf must be among them"),
    ],
)
def test_required_extensions_are_known_and_make_a_layer(text: str, why: str) -> None:
    """B7: an extension nobody knows is refused, and a list without what every reading needs."""
    assert why in problems(REQUIRED_EXTS=text)[0]


@pytest.mark.parametrize(
    "topic", ["a/b", "projects/p/topics/", "projects//topics/t", "projects/p/topics/t/x", "/"]
)
def test_a_topic_is_a_name_or_a_whole_path(topic: str) -> None:
    """G2: half a path is refused, since letters would go nowhere."""
    assert "is no topic" in problems(DEAD_LETTER_TOPIC=topic)[0]


@pytest.mark.parametrize("topic", ["letters", "projects/p/topics/t"])
def test_both_forms_of_a_topic_are_taken(topic: str) -> None:
    """G2: a name in the function's own project, or the path of any."""
    assert load({**LEAST, "DEAD_LETTER_TOPIC": topic}).dead_letter_topic == topic


@pytest.mark.parametrize(
    ("sink", "source", "prefix", "refused"),
    [
        ("gs://uploads/out", "uploads", "", True),
        ("gs://uploads", "uploads", "", True),
        ("gs://uploads/in/out", "uploads", "in/", True),
        ("gs://uploads/in", "uploads", "in/", True),
        ("gs://uploads/out", "uploads", "in/", False),
        ("gs://datasets/out", "uploads", "", False),
        ("gs://datasets", "uploads", "", False),
        ("gs://uploads/out", "", "", False),
    ],
)
def test_output_inside_what_triggers_us_is_refused(
    sink: str, source: str, prefix: str, refused: bool
) -> None:
    """B8, case 43: a sink inside the source prefix of the source bucket does not start."""
    environment = {"SINK": sink, "SOURCE_BUCKET": source, "SOURCE_PREFIX": prefix}
    if refused:
        assert "which triggers us" in problems(**environment)[0]
    else:
        assert load(environment)


@pytest.mark.parametrize(
    ("sink", "prefix"),
    [
        ("gs://uploads/layers", "layers/in/"),
        ("gs://uploads/layers", "layers/i"),
        ("gs://uploads", "in/"),
    ],
)
def test_uploads_inside_the_output_are_refused(sink: str, prefix: str) -> None:
    """B8: a source prefix below that of the sink would have every upload ignored as output."""
    [problem] = problems(SINK=sink, SOURCE_BUCKET="uploads", SOURCE_PREFIX=prefix)
    assert problem.startswith(f"SOURCE_PREFIX: gs://uploads/{prefix} lies inside {sink}/, ")
    assert load({"SINK": sink, "SOURCE_BUCKET": "others", "SOURCE_PREFIX": prefix})
    unknown = load({"SINK": sink, "SOURCE_PREFIX": prefix})
    assert unknown.swallows("uploads")
    assert not unknown.swallows("others")


@pytest.mark.parametrize("prefix", ["layersin/", "out/", "l"])
def test_prefixes_side_by_side_are_taken(prefix: str) -> None:
    """B8: only a whole folder holds another; `layers` does not hold `layersin`."""
    apart = {"SINK": "gs://uploads/layers", "SOURCE_PREFIX": prefix}
    assert not load(apart).swallows("uploads")
    if prefix != "l":
        assert load({**apart, "SOURCE_BUCKET": "uploads"})


@pytest.mark.parametrize(
    ("bucket", "prefix"), [("uploads", "out/"), ("datasets", None), ("upload", None)]
)
def test_the_output_prefix_is_known_of_its_own_bucket_only(bucket: str, prefix: str | None) -> None:
    """B8: the guard stands in the bucket that the sink writes to, and in no other."""
    settings = load({"SINK": "gs://uploads/out", "SOURCE_PREFIX": "in/"})
    assert settings.output_prefix(bucket) == prefix


def test_the_guard_of_a_whole_bucket_is_not_none() -> None:
    """B8: a sink without a prefix guards its whole bucket."""
    assert load({"SINK": "gs://uploads"}).output_prefix("uploads") == ""


def test_whoever_reads_is_kept_from_it_by_wrong_settings_for_reading_alone() -> None:
    """Case 64: an inspection stops at what says how to read, and at nothing else that is wrong."""
    wrong = {variable.name: "gs://no/such" for variable in VARIABLES}
    with pytest.raises(SettingsError) as caught:
        for_reading(wrong)
    assert {problem.partition(":")[0] for problem in caught.value.problems} == set(READING)
    assert for_reading({name: text for name, text in wrong.items() if name not in READING})


def test_whoever_reads_does_so_as_the_deployment() -> None:
    """Case 54: every setting that says how to read, or what is too large, is taken over."""
    stated = {
        "REQUIRED_EXTS": ".shp,.shx,.dbf,.prj",
        "MAX_BUNDLE_BYTES": "1",
        "MAX_UNPACKED_BYTES": "2",
        "MAX_ENTRIES": "3",
        "MISSING_CRS": "hold",
        "TARGET_CRS": "EPSG:4326",
        "NULL_GEOMETRY": "skip",
        "EMPTY_GEOMETRY": "skip",
        "NAN_COORDINATES": "skip",
        "COLLAPSED_GEOMETRY": "skip",
        "MULTI_GEOMETRY": "always",
        "Z_VALUES": "drop",
        "M_VALUES": "reject",
        "VALIDITY": "repair",
        "READER": "fiona",
    }
    mine, whole = for_reading(stated), load({**LEAST, **stated})
    assert (mine.required, mine.policies) == (whole.required, whole.policies)
    assert (mine.max_bundle_bytes, mine.max_unpacked_bytes, mine.max_entries) == (1, 2, 3)
    assert stated.keys() == set(READING)


def test_whoever_asks_is_kept_from_it_by_wrong_settings_for_asking_alone() -> None:
    """Case 64: `status` and `redrive` do not stop at a wrong queue, lease or reader."""
    wrong = {variable.name: "gs://no/such" for variable in VARIABLES}
    for store in ("", "blobs"):
        needed = {"STATE": store, "STATE_URI": "gs://state", "SOURCE_BUCKET": "uploads"}
        left = {name: text for name, text in wrong.items() if name not in ASKING}
        assert for_asking({**left, **(needed if store else {})})
    with pytest.raises(SettingsError) as caught:
        for_asking(wrong)
    # Any text will do for STATE_URI while STATE is wrong, and for the name of a database.
    told = {problem.partition(":")[0] for problem in caught.value.problems}
    assert told == {*ASKING, "SOURCE_BUCKET"} - {"STATE_URI", "FIRESTORE_DATABASE"}


def test_whoever_asks_does_so_as_the_deployment() -> None:
    """Case 54: what is asked for, and written by `redrive`, is where and what it is deployed as."""
    stated = {
        "FIRESTORE_DATABASE": "gate",
        "CLAIM_COLLECTION": "c",
        "MANIFEST_COLLECTION": "m",
        "JOB_COLLECTION": "j",
        "SWEEP_COLLECTION": "s",
        "SETTLE_SECONDS": "1",
        "DEDUP_TTL_SECONDS": "100000",
        "MANIFEST_TTL_SECONDS": "3",
        "STALLED_AFTER_SECONDS": "2",
        "REQUIRED_EXTS": ".shp,.shx,.dbf,.prj",
        "MAX_BUNDLE_BYTES": "1",
    }
    assert for_asking(stated) == load({"SINK": "gs://nowhere", **stated})
    assert stated.keys() | {"STATE", "STATE_URI"} == set(ASKING)
