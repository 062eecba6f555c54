"""The contract of `gate.sinks.port.Sink`, held against every implementation."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gate.errors import CorruptError, DatasetTakenError, LostRowsError, StorageBusyError
from gate.sinks.port import Outdated, Published
from tests.contract.sinks import Seen, SinkBench
from tests.layers import WGS84, Layer, points, publication, revision

OLD = revision(shp=10, shx=10, dbf=10)
NEW = revision(shp=20, shx=20, dbf=20)
NEWEST = revision(shp=30, shx=30, dbf=30)
BUNDLE = OLD.bundle


def names(rows: int, label: str = "row") -> list[str]:
    """Return the names that `points` gives its rows."""
    return [f"{label} {number}" for number in range(rows)]


def test_a_published_layer_is_seen_whole(sink_bench: SinkBench) -> None:
    """A publication stores rows, CRS and report, and says how many rows it stored."""
    outcome = sink_bench.publish(OLD, points(3, geo_crs=WGS84))

    assert isinstance(outcome, Published)
    assert (outcome.rows, outcome.already) == (3, False)
    seen = sink_bench.seen(BUNDLE)
    assert isinstance(seen, Seen)
    assert seen.revision_id == OLD.id
    assert seen.names == names(3)
    assert seen.geo_crs == WGS84
    assert seen.report["layer"] == "roads"


def test_nothing_is_current_before_the_first_publication(sink_bench: SinkBench) -> None:
    """An empty sink knows of no revision."""
    assert sink_bench.sink.current(OLD) is None
    assert sink_bench.seen(BUNDLE) is None


def test_current_tells_mine_newer_and_older_apart(sink_bench: SinkBench) -> None:
    """One read tells whether the sink holds this revision, a newer one, or an older one."""
    outcome = sink_bench.publish(NEW, points(3))

    assert isinstance(outcome, Published)
    assert sink_bench.sink.current(NEW) == Published(outcome.location, 3, already=True)
    assert sink_bench.sink.current(OLD) == Outdated(NEW.order)
    assert sink_bench.sink.current(NEWEST) is None


def test_publishing_again_changes_nothing(sink_bench: SinkBench) -> None:
    """A revision that is current already is `already`, whatever table comes with it."""
    first = sink_bench.publish(OLD, points(3))
    again = sink_bench.publish(OLD, points(2, "other"), fence=2)

    assert isinstance(first, Published)
    assert again == Published(first.location, 3, already=True)
    assert sink_bench.seen(BUNDLE).names == names(3)  # type: ignore[union-attr]


def test_what_is_settled_costs_no_reading(sink_bench: SinkBench) -> None:
    """A revision that is current or outdated already is answered without reading its table."""
    sink_bench.publish(NEW, points(3))
    unread = points(1, error=CorruptError("was read"))

    assert isinstance(sink_bench.publish(NEW, unread), Published)
    assert sink_bench.publish(OLD, unread) == Outdated(NEW.order)


def test_an_older_revision_never_replaces_a_newer_one(sink_bench: SinkBench) -> None:
    """C2, C5: a revision that comes late is outdated and changes nothing."""
    sink_bench.publish(NEW, points(3))

    assert sink_bench.publish(OLD, points(2, "other")) == Outdated(NEW.order)
    assert sink_bench.seen(BUNDLE).names == names(3)  # type: ignore[union-attr]


def test_orders_are_compared_as_numbers(sink_bench: SinkBench) -> None:
    """Design 2: 9 is older than 10, and sums beyond 2^53 differ by one."""
    large = 2**53
    sink_bench.publish(revision(shp=9), points(1, "9"))
    sink_bench.publish(revision(shp=10), points(1, "10"))
    assert sink_bench.seen(BUNDLE).names == names(1, "10")  # type: ignore[union-attr]

    sink_bench.publish(revision(shp=large + 1), points(1, "odd"))
    assert sink_bench.publish(revision(shp=large), points(1)) == Outdated(large + 1)


def test_a_tie_stays_with_the_first(sink_bench: SinkBench) -> None:
    """Two revisions of the same order are not ordered: the published one stays."""
    sink_bench.publish(revision(shp=10, dbf=20), points(1, "first"))

    assert sink_bench.publish(revision(shp=20, dbf=10), points(1, "second")) == Outdated(30)
    assert sink_bench.seen(BUNDLE).names == names(1, "first")  # type: ignore[union-attr]


def test_a_newer_revision_replaces_all_rows(sink_bench: SinkBench) -> None:
    """C6: a version with fewer rows leaves none of the old ones behind."""
    sink_bench.publish(OLD, points(5, "old"))
    outcome = sink_bench.publish(NEW, points(2, "new"))

    assert isinstance(outcome, Published)
    assert outcome.rows == 2
    assert sink_bench.seen(BUNDLE).names == names(2, "new")  # type: ignore[union-attr]


def test_an_empty_layer_is_published(sink_bench: SinkBench) -> None:
    """Case 7: a layer without rows is a dataset without rows, and again `already`."""
    outcome = sink_bench.publish(OLD, Layer([]))

    assert isinstance(outcome, Published)
    assert outcome.rows == 0
    assert sink_bench.seen(BUNDLE).names == []  # type: ignore[union-attr]
    assert sink_bench.publish(OLD, Layer([])) == Published(outcome.location, 0, already=True)


def test_a_table_that_fails_half_way_changes_nothing(sink_bench: SinkBench) -> None:
    """Issue 2: an error of the table passes through and readers see the old dataset."""
    sink_bench.publish(OLD, points(3))
    broken = points(2, "new", error=CorruptError("row 3"))

    with pytest.raises(CorruptError, match="row 3"):
        sink_bench.publish(NEW, broken)
    assert sink_bench.seen(BUNDLE).revision_id == OLD.id  # type: ignore[union-attr]
    assert sink_bench.sink.current(NEW) is None


def test_a_report_that_fails_changes_nothing(sink_bench: SinkBench) -> None:
    """Promise 3: if the sums do not add up at the end, nothing becomes visible."""

    def report() -> Mapping[str, Any]:
        raise LostRowsError("2 of 3")

    with pytest.raises(LostRowsError):
        sink_bench.sink.publish(publication(OLD), points(3), report, lambda: True)
    assert sink_bench.seen(BUNDLE) is None


def test_the_report_is_asked_once_after_the_last_batch(sink_bench: SinkBench) -> None:
    """The report can rely on the table being exhausted, and is not asked again."""
    events: list[str] = []

    class Watched(Layer):
        def batches(self) -> Any:
            yield from super().batches()
            events.append("exhausted")

    def report() -> Mapping[str, Any]:
        events.append("report")
        return {}

    def still_owner() -> bool:
        events.append("owner")
        return True

    layer = points(2)
    sink_bench.sink.publish(publication(OLD), Watched(layer.pieces), report, still_owner)

    assert events == ["exhausted", "report", "owner"]


def test_who_lost_the_job_publishes_nothing(sink_bench: SinkBench) -> None:
    """E4, E9: if the owner says no, the answer is `None` and nothing becomes visible."""
    assert sink_bench.publish(OLD, points(3), owner=False) is None
    assert sink_bench.seen(BUNDLE) is None


def test_an_owner_that_cannot_be_asked_publishes_nothing(sink_bench: SinkBench) -> None:
    """E9: an error of the question passes through, nothing becomes visible."""

    def still_owner() -> bool:
        raise StorageBusyError("no answer")

    with pytest.raises(StorageBusyError):
        sink_bench.sink.publish(publication(OLD), points(3), dict, still_owner)
    assert sink_bench.seen(BUNDLE) is None


def test_a_failed_upload_can_be_repeated(sink_bench: SinkBench) -> None:
    """D6, G1: a lost connection on the upload changes nothing; the next attempt publishes."""
    sink_bench.cut_upload()
    with pytest.raises(StorageBusyError):
        sink_bench.publish(OLD, points(3))
    assert sink_bench.seen(BUNDLE) is None

    outcome = sink_bench.publish(OLD, points(3), fence=2)
    assert isinstance(outcome, Published)
    assert not outcome.already


def test_a_lost_answer_is_found_out_by_the_next_attempt(sink_bench: SinkBench) -> None:
    """E13: if it cannot be told whether the swap was applied, the next attempt sees that it was."""
    sink_bench.cut_answer()
    with pytest.raises(StorageBusyError):
        sink_bench.publish(OLD, points(3))

    outcome = sink_bench.publish(OLD, points(2, "other"), fence=2)
    assert isinstance(outcome, Published)
    assert outcome.already
    assert sink_bench.seen(BUNDLE).names == names(3)  # type: ignore[union-attr]


def test_a_zombie_finds_its_revision_published(sink_bench: SinkBench) -> None:
    """E8: the taker-over publishes between the zombie's last question and its swap."""
    sink_bench.before_swap(lambda: sink_bench.publish(OLD, points(3), fence=2))

    outcome = sink_bench.publish(OLD, points(2, "zombie"), fence=1)

    assert isinstance(outcome, Published)
    assert (outcome.already, outcome.rows) == (True, 3)
    assert sink_bench.seen(BUNDLE).names == names(3)  # type: ignore[union-attr]


def test_a_newer_revision_in_between_wins(sink_bench: SinkBench) -> None:
    """C5, E8: an older publication that is overtaken at the last step is outdated."""
    sink_bench.publish(OLD, points(1, "old"))
    sink_bench.before_swap(lambda: sink_bench.publish(NEWEST, points(3)))

    assert sink_bench.publish(NEW, points(2, "late")) == Outdated(NEWEST.order)
    assert sink_bench.seen(BUNDLE).names == names(3)  # type: ignore[union-attr]


def test_an_older_revision_in_between_is_overtaken(sink_bench: SinkBench) -> None:
    """C5: a newer publication compares again after an older one moved the pointer, and wins."""
    sink_bench.before_swap(lambda: sink_bench.publish(OLD, points(1, "old")))

    outcome = sink_bench.publish(NEW, points(2))

    assert isinstance(outcome, Published)
    assert not outcome.already
    assert sink_bench.seen(BUNDLE).names == names(2)  # type: ignore[union-attr]


def test_the_owner_is_asked_again_before_every_swap(sink_bench: SinkBench) -> None:
    """E9: ownership that is lost while another publication intervenes stops the second swap."""
    sink_bench.before_swap(lambda: sink_bench.publish(OLD, points(1, "old")))
    answers = iter([True, False])

    outcome = sink_bench.sink.publish(publication(NEW), points(2), dict, lambda: next(answers))

    assert outcome is None
    assert sink_bench.seen(BUNDLE).names == names(1, "old")  # type: ignore[union-attr]


@pytest.mark.parametrize("last", [OLD, NEW], ids=["older last", "newer last"])
def test_two_threads_end_at_the_newer_revision(sink_bench: SinkBench, last: Any) -> None:
    """C5: two publishers meet before the swap, go on in either order, and the newer one stays."""
    meeting = threading.Barrier(2, timeout=20)
    first_done = threading.Event()
    outcomes: dict[str, Any] = {}

    def publish(which: Any, label: str) -> None:
        met = False

        def still_owner() -> bool:
            nonlocal met
            if not met:
                met = True
                meeting.wait()
                if which is last:
                    first_done.wait(timeout=20)
            return True

        outcomes[label] = sink_bench.sink.publish(
            publication(which), points(1, label), dict, still_owner
        )
        first_done.set()

    threads = [
        threading.Thread(target=publish, args=(OLD, "old")),
        threading.Thread(target=publish, args=(NEW, "new")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert isinstance(outcomes["new"], Published)
    assert isinstance(outcomes["old"], Outdated if last is OLD else Published)
    assert sink_bench.seen(BUNDLE).names == names(1, "new")  # type: ignore[union-attr]


def test_many_threads_end_at_the_newest_revision(sink_bench: SinkBench) -> None:
    """C5: eight publishers at once end at the newest revision, whole."""
    start = threading.Barrier(8, timeout=20)

    def publish(number: int) -> None:
        start.wait()
        sink_bench.publish(revision(shp=number), points(number, f"v{number}"))

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert sink_bench.seen(BUNDLE).names == names(8, "v8")  # type: ignore[union-attr]


def test_bundles_do_not_meet(sink_bench: SinkBench) -> None:
    """Design 2: bundles of one stem in two folders, or with nested names, are two datasets."""
    near, far = revision("in/roads.shp"), revision("in/roads/roads.shp")
    sink_bench.publish(near, points(1, "near"))
    sink_bench.publish(far, points(1, "far"))

    assert sink_bench.seen(near.bundle).names == names(1, "near")  # type: ignore[union-attr]
    assert sink_bench.seen(far.bundle).names == names(1, "far")  # type: ignore[union-attr]


def test_a_name_that_another_bundle_holds_is_refused(sink_bench: SinkBench) -> None:
    """A bundle of another bucket under the same name is refused, in both operations."""
    sink_bench.publish(OLD, points(3))
    other = revision(bucket="elsewhere", shp=99)

    with pytest.raises(DatasetTakenError):
        sink_bench.sink.current(other)
    with pytest.raises(DatasetTakenError):
        sink_bench.publish(other, points(1, "other"))
    assert sink_bench.seen(BUNDLE).names == names(3)  # type: ignore[union-attr]


def test_a_name_taken_in_between_is_refused(sink_bench: SinkBench) -> None:
    """A bundle that takes the name at the last step is not overwritten."""
    other = revision(bucket="elsewhere", shp=1)
    sink_bench.before_swap(lambda: sink_bench.publish(other, points(1, "other")))

    with pytest.raises(DatasetTakenError):
        sink_bench.publish(OLD, points(3))
    assert sink_bench.seen(BUNDLE).names == names(1, "other")  # type: ignore[union-attr]


# --- archives -----------------------------------------------------------------

OLD_ZIP = revision("in/a.zip", zip=10)
NEW_ZIP = revision("in/a.zip", zip=20)
ARCHIVE = OLD_ZIP.bundle


def test_the_layers_of_an_archive_are_datasets_of_their_own(sink_bench: SinkBench) -> None:
    """Case 33: two layers of one revision are published, found and replaced apart."""
    for name, rows in (("a", 1), ("x/b", 2)):
        assert sink_bench.sink.current(OLD_ZIP, name) is None
        outcome = sink_bench.publish(OLD_ZIP, points(rows, name), name=name)
        assert isinstance(outcome, Published)
        standing = sink_bench.sink.current(OLD_ZIP, name)
        assert standing == Published(outcome.location, rows, already=True)
    sink_bench.publish(NEW_ZIP, points(3, "new"), name="a")

    assert sink_bench.seen(ARCHIVE, "a").names == names(3, "new")  # type: ignore[union-attr]
    assert sink_bench.seen(ARCHIVE, "x/b").names == names(2, "x/b")  # type: ignore[union-attr]
    assert sink_bench.sink.current(OLD_ZIP, "a") == Outdated(NEW_ZIP.order)
    assert sink_bench.sink.current(NEW_ZIP, "x/b") is None
    assert sink_bench.seen(ARCHIVE) is None


def test_a_layer_is_published_once(sink_bench: SinkBench) -> None:
    """Case 33: a retry finds the layers that an earlier attempt had published."""
    first = sink_bench.publish(OLD_ZIP, points(2), name="a")
    again = sink_bench.publish(OLD_ZIP, points(1, "other"), 2, name="a")

    assert isinstance(first, Published)
    assert again == Published(first.location, 2, already=True)


def test_an_older_layer_never_replaces_a_newer_one(sink_bench: SinkBench) -> None:
    """C5: the orders of two revisions are compared for every layer, in the atomic step too."""
    sink_bench.before_swap(lambda: sink_bench.publish(NEW_ZIP, points(3, "new"), name="a"))

    assert sink_bench.publish(OLD_ZIP, points(1), name="a") == Outdated(NEW_ZIP.order)
    assert sink_bench.seen(ARCHIVE, "a").names == names(3, "new")  # type: ignore[union-attr]


def test_layers_meet_no_other_bundle(sink_bench: SinkBench) -> None:
    """Design 2: whatever lies in a folder that is called like the archive keeps its own place."""
    others = [
        revision("in/a.zip/b.shp"),
        revision("in/a.zip.shp"),
        revision("in/a.zip/c.zip", zip=1),
        revision("in/a.shp"),
    ]
    sink_bench.publish(OLD_ZIP, points(1, "b"), name="b")
    sink_bench.publish(OLD_ZIP, points(1, "c"), name="c.zip/d")
    for of in others:
        layer = "d" if of.bundle.archive else ""
        outcome = sink_bench.publish(of, points(1, str(of.bundle)), name=layer)
        assert isinstance(outcome, Published)
        assert sink_bench.seen(of.bundle, layer).names == names(1, str(of.bundle))  # type: ignore[union-attr]

    assert sink_bench.seen(ARCHIVE, "b").names == names(1, "b")  # type: ignore[union-attr]
    assert sink_bench.seen(ARCHIVE, "c.zip/d").names == names(1, "c")  # type: ignore[union-attr]


def test_metadata_is_kept_as_it_is(sink_bench: SinkBench) -> None:
    """Case 34: what its user wrote about a layer stands beside the report, byte for byte."""
    written = b"<metadata>\xff not even XML"
    sink_bench.publish(OLD, points(1), metadata=written)
    sink_bench.publish(OLD_ZIP, points(1), name="a", metadata=written)

    assert sink_bench.seen(BUNDLE).metadata == written  # type: ignore[union-attr]
    assert sink_bench.seen(ARCHIVE, "a").metadata == written  # type: ignore[union-attr]
    sink_bench.publish(NEW, points(1))
    assert sink_bench.seen(BUNDLE).metadata == b""  # type: ignore[union-attr]


def test_rejected_rows_are_listed_in_full(sink_bench: SinkBench, tmp_path: Path) -> None:
    """Case 51: all rejected rows stand beside the dataset; without any there is no list."""
    rows = [{"row": row, "reason": "null_geometry", "text": "Größe"} for row in range(1, 51)]
    listed = tmp_path / "rejects.ndjson"
    listed.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    sink_bench.publish(OLD, points(1, listed=listed))
    assert list(sink_bench.seen(BUNDLE).rejects) == rows  # type: ignore[union-attr]
    sink_bench.publish(NEW, points(1))
    assert not sink_bench.seen(BUNDLE).rejects  # type: ignore[union-attr]


def test_an_index_is_seen_and_replaced(sink_bench: SinkBench) -> None:
    """Case 51: the index of an archive is there, and a newer one or a later attempt replaces it."""
    location = sink_bench.publish_index(OLD_ZIP, layers=["a"])
    assert isinstance(location, str)
    assert sink_bench.seen_index(ARCHIVE)["layers"] == ["a"]  # type: ignore[index]

    assert sink_bench.publish_index(OLD_ZIP, 2, layers=["a", "b"]) == location
    assert sink_bench.seen_index(ARCHIVE)["layers"] == ["a", "b"]  # type: ignore[index]
    assert sink_bench.publish_index(OLD_ZIP, 2, layers=["a", "b"]) == location

    assert sink_bench.publish_index(NEW_ZIP, layers=[]) == location
    assert sink_bench.seen_index(ARCHIVE)["layers"] == []  # type: ignore[index]


def test_an_older_index_never_replaces_a_newer_one(sink_bench: SinkBench) -> None:
    """C5: an index that comes late, or is overtaken at the last step, is outdated."""
    sink_bench.before_index(lambda: sink_bench.publish_index(NEW_ZIP, layers=["new"]))

    assert sink_bench.publish_index(OLD_ZIP, layers=["old"]) == Outdated(NEW_ZIP.order)
    assert sink_bench.publish_index(OLD_ZIP, layers=["old"]) == Outdated(NEW_ZIP.order)
    tie = revision("in/a.zip", shp=15, zip=5)
    assert sink_bench.publish_index(tie, layers=["tie"]) == Outdated(NEW_ZIP.order)
    assert sink_bench.seen_index(ARCHIVE)["layers"] == ["new"]  # type: ignore[index]


def test_an_index_in_between_is_overtaken(sink_bench: SinkBench) -> None:
    """C5: a newer index compares again after an older one moved in, and wins."""
    sink_bench.before_index(lambda: sink_bench.publish_index(OLD_ZIP, layers=["old"]))

    assert isinstance(sink_bench.publish_index(NEW_ZIP, layers=["new"]), str)
    assert sink_bench.seen_index(ARCHIVE)["layers"] == ["new"]  # type: ignore[index]


def test_who_lost_the_job_writes_no_index(sink_bench: SinkBench) -> None:
    """E4: if the owner says no, the answer is `None` and the index stays."""
    sink_bench.publish_index(OLD_ZIP, layers=["old"])

    assert sink_bench.publish_index(NEW_ZIP, owner=False, layers=["new"]) is None
    assert sink_bench.seen_index(ARCHIVE)["layers"] == ["old"]  # type: ignore[index]


def test_the_owner_is_asked_again_before_every_index(sink_bench: SinkBench) -> None:
    """E9: ownership that is lost while another index intervenes stops the second step."""
    sink_bench.before_index(lambda: sink_bench.publish_index(OLD_ZIP, layers=["old"]))
    answers = iter([True, False])

    outcome = sink_bench.sink.publish_index(
        publication(NEW_ZIP), {"layers": ["new"]}, lambda: next(answers)
    )

    assert outcome is None
    assert sink_bench.seen_index(ARCHIVE)["layers"] == ["old"]  # type: ignore[index]


def test_an_index_of_another_bundle_is_refused(sink_bench: SinkBench) -> None:
    """An archive of another bucket under the same name does not take the index over."""
    sink_bench.publish_index(OLD_ZIP, layers=["old"])

    with pytest.raises(DatasetTakenError):
        sink_bench.publish_index(revision("in/a.zip", "elsewhere", zip=99), layers=[])
    assert sink_bench.seen_index(ARCHIVE)["layers"] == ["old"]  # type: ignore[index]
