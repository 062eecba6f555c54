"""Where claims, manifests and jobs are kept, as the environment states it."""

from __future__ import annotations

import pytest

from gate.environment import SettingsError
from gate.settings import for_asking, for_reading, load
from gate.state import BlobAddress

BLOBS = {
    "SINK": "gs://datasets/out",
    "SOURCE_BUCKET": "uploads",
    "STATE": "blobs",
    "STATE_URI": "gs://state/gate/",
}


def problem(**environment: str) -> str:
    """Return the one thing that is wrong with an environment."""
    with pytest.raises(SettingsError) as caught:
        load({**BLOBS, **environment})
    [told] = caught.value.problems
    return told


def test_firestore_is_the_default_whatever_else_is_set() -> None:
    """Case 54: a place for objects is not looked at unless it is chosen."""
    assert load({"SINK": "gs://datasets/out"}).state is None
    assert load({**BLOBS, "STATE": "firestore", "STATE_URI": "nonsense"}).state is None


def test_a_place_for_objects_is_a_bucket_and_a_prefix() -> None:
    """Case 54: names begin with the prefix and a slash, or with nothing."""
    state = load(BLOBS).state
    assert state == BlobAddress("state", "gate")
    assert (state.object_prefix, str(state)) == ("gate/", "gs://state/gate/")
    whole = load({**BLOBS, "STATE_URI": "gs://state"}).state
    assert whole
    assert (whole.object_prefix, str(whole)) == ("", "gs://state/")


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"STATE": "redis"}, "STATE: 'redis' is unknown; use firestore or blobs"),
        ({"STATE_URI": ""}, "STATE_URI: begins with no gs://; with STATE=blobs, write it like"),
        (
            {"STATE_URI": "gs://state/b//c"},
            "STATE_URI: prefix 'b//c' has an empty or dotted segment",
        ),
        ({"STATE_URI": "gs://A"}, "STATE_URI: 'A' is no bucket name; write it like"),
        ({"SOURCE_BUCKET": ""}, "SOURCE_BUCKET: must be set with STATE=blobs"),
        (
            {"STATE_URI": "gs://uploads/state"},
            "STATE_URI: gs://uploads/state/ lies in SOURCE_BUCKET",
        ),
        (
            {"STATE_URI": "gs://datasets/out/state"},
            "STATE_URI: gs://datasets/out/state/ and the sink",
        ),
        (
            {"SOURCE_BUCKET": "gs://uploads"},
            "SOURCE_BUCKET: 'gs://uploads' is no name of a bucket",
        ),
        (
            {"STATE_URI": "gs://datasets"},
            "STATE_URI: gs://datasets/ and the sink gs://datasets/out/",
        ),
    ],
)
def test_what_is_wrong_with_it_is_told(environment: dict[str, str], told: str) -> None:
    """Case 64: no write of ours may trigger us, and none may lie where the sink writes."""
    assert problem(**environment).startswith(told)


def test_it_may_share_a_bucket_with_the_sink() -> None:
    """Case 64: folders of which neither holds the other are apart; a database is elsewhere."""
    assert load({**BLOBS, "STATE_URI": "gs://datasets/state"}).state
    assert load({**BLOBS, "SINK": "postgresql://user@host/database"}).state


def test_to_read_a_file_nothing_has_to_be_kept() -> None:
    """Case 54: an inspection under the settings of such a deployment needs no bucket."""
    assert for_reading(BLOBS).state is None


def test_whoever_asks_is_told_of_the_bucket() -> None:
    """Case 54: to ask for jobs that are kept in a bucket, no sink, gate or executor is needed."""
    asking = {**BLOBS, "SINK": "", "GATE": "poll", "EXECUTOR": "tasks"}
    assert for_asking(asking).state == load(BLOBS).state
    assert for_asking({"SOURCE_BUCKET": "Not A Bucket"}).state is None
