"""What the Cloud Storage sink promises beyond the port: objects, pointer, clean-up, faults."""

from __future__ import annotations

import io
import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import requests
import shapely

from gate import cloud_storage
from gate.cloud_storage import CloudStorage
from gate.errors import (
    ChecksumError,
    ConfigurationError,
    CorruptError,
    PermissionDeniedError,
)
from gate.identity import Revision, bundle_id
from gate.sinks import geoparquet, layout
from gate.sinks.address import SinkAddress
from gate.sinks.cloud_storage import GRACE
from gate.sinks.factory import open_sink
from gate.sinks.port import Outdated, Published
from tests.contract.network import Send, answer
from tests.contract.sinks import PUBLISHED_AT, CloudSinkBench
from tests.layers import Layer, batch, points, publication, revision

OLDEST = revision(shp=5)
OLD = revision(shp=10, shx=10, dbf=10)
NEW = revision(shp=20, shx=20, dbf=20)
NEWEST = revision(shp=30, shx=30, dbf=30)
FOLDER = "out/in/roads/"


def dataset(of: Any, fence: int, token: int) -> str:
    """Return the name of the dataset that the call with this token made."""
    return FOLDER + layout.Attempt.of(of, fence, f"{token:08x}").dataset


def publish_an_hour_apart(bench: CloudSinkBench, *revisions: Revision) -> None:
    """Publish each revision when nobody reads those before the last any more."""
    for of in revisions:
        bench.now += timedelta(hours=1)
        bench.publish(of, points(1))


def previous(bench: CloudSinkBench) -> list[str]:
    """Return the superseded datasets that the pointer names."""
    pointer = bench.pointer(OLD.bundle)
    assert pointer is not None
    return [each["dataset"] for each in pointer["previous"]]


def test_the_pointer_says_what_is_current(cloud_sink_bench: CloudSinkBench) -> None:
    """Design 6: the pointer names revision, job, dataset and report, order as a string."""
    outcome = cloud_sink_bench.publish(OLD, points(3), fence=7)

    name = dataset(OLD, 7, 1)
    stored = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket).get_blob(name)
    assert cloud_sink_bench.pointer(OLD.bundle) == {
        "format_version": 1,
        "bundle_id": bundle_id(OLD.bundle),
        "bucket": "uploads",
        "basename": "in/roads",
        "layer": "",
        "revision_id": OLD.id,
        "order": "30",
        "job_id": "b" * 32,
        "fence": 7,
        "location": f"gs://{cloud_sink_bench.bucket}/{name}",
        "dataset": name.removeprefix(FOLDER),
        "report": name.removeprefix(FOLDER).replace(".parquet", ".report.json"),
        "metadata": "",
        "rejects": "",
        "rows": 3,
        "size_bytes": stored.size,
        "crc32c": stored.crc32c,
        "published_at": PUBLISHED_AT.isoformat(),
        "previous": [],
    }
    assert outcome == Published(f"gs://{cloud_sink_bench.bucket}/{name}", 3)


def test_objects_carry_their_media_types(cloud_sink_bench: CloudSinkBench) -> None:
    """Dataset, report and pointer say what they are, and the pointer is not cached."""
    cloud_sink_bench.publish(OLD, points(3))

    bucket = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket)
    pointer = bucket.get_blob(f"{FOLDER}latest.json")
    kinds = {blob.name.split(".", 1)[1]: blob.content_type for blob in bucket.list_blobs()}
    assert kinds == {
        "parquet": "application/vnd.apache.parquet",
        "report.json": "application/json",
        "json": "application/json",
    }
    assert pointer.cache_control == "no-cache"


def test_the_report_stands_beside_the_dataset(cloud_sink_bench: CloudSinkBench) -> None:
    """Design 11: the report keeps what the reader said and adds what was published."""
    cloud_sink_bench.publish(OLD, points(3))

    (name,) = cloud_sink_bench.objects(".report.json")
    report = json.loads(cloud_sink_bench.content(name))
    assert report["layer"] == "roads"
    assert report["publication"] == cloud_sink_bench.pointer(OLD.bundle)


def test_the_dataset_says_where_it_comes_from(cloud_sink_bench: CloudSinkBench) -> None:
    """Issue 2: bundle, revision, job and pins are in the dataset, generations as strings."""
    cloud_sink_bench.publish(OLD, points(3))

    table = cloud_sink_bench.table(dataset(OLD, 1, 1))
    lineage = json.loads(table.schema.metadata[b"shapefile_gate"])
    assert lineage["bundle"] == "gs://uploads/in/roads"
    assert lineage["bundle_id"] == bundle_id(OLD.bundle)
    assert (lineage["revision"], lineage["order"], lineage["job"]) == (OLD.id, "30", "b" * 32)
    assert lineage["pins"][".dbf"] == {"name": "in/roads.dbf", "generation": "10"}


def test_names_sort_as_revisions_do(cloud_sink_bench: CloudSinkBench) -> None:
    """A listing shows datasets in the order of their revisions."""
    sink = cloud_sink_bench.sink = cloud_sink_bench.open(keep=9)
    for shp in (9, 10, 2**53, 2**63):
        sink.publish(publication(revision(shp=shp)), points(1), dict, lambda: True)

    orders = [
        int(name.split("/")[-1].split("-")[0]) for name in cloud_sink_bench.objects("parquet")
    ]
    assert orders == [9, 10, 2**53, 2**63]


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_newest_superseded_datasets_are_kept(
    cloud_sink_bench: CloudSinkBench, keep: int
) -> None:
    """Design 6: `keep` superseded datasets stay, with their reports, and the older ones go."""
    cloud_sink_bench.sink = cloud_sink_bench.open(keep=keep)
    publish_an_hour_apart(cloud_sink_bench, OLDEST, OLD, NEW, NEWEST)

    names = [dataset(of, 1, token) for token, of in enumerate((OLDEST, OLD, NEW, NEWEST), 1)]
    left = names[3 - max(keep, 1) :]
    assert cloud_sink_bench.objects(".parquet") == left
    assert len(cloud_sink_bench.objects(".report.json")) == len(left)
    assert previous(cloud_sink_bench) == [name.removeprefix(FOLDER) for name in left[-2::-1]]


def test_whoever_follows_the_pointer_finds_its_dataset(cloud_sink_bench: CloudSinkBench) -> None:
    """Design 6: whatever the pointer led to stays for its time, however often it is replaced."""
    cloud_sink_bench.sink = cloud_sink_bench.open(keep=0)
    followed = []
    for of in (OLDEST, OLD, NEW, NEWEST):
        cloud_sink_bench.publish(of, points(of.order))
        pointer = cloud_sink_bench.pointer(of.bundle)
        assert pointer is not None
        followed.append((pointer["dataset"], of.order))
        cloud_sink_bench.now += GRACE / 4
        for name, rows in followed:
            assert cloud_sink_bench.table(FOLDER + name).num_rows == rows


def test_a_superseded_dataset_goes_when_its_time_is_over(cloud_sink_bench: CloudSinkBench) -> None:
    """Design 6: the first publication after the time is over removes it, and none before."""
    cloud_sink_bench.sink = cloud_sink_bench.open(keep=0)
    cloud_sink_bench.publish(OLDEST, points(1))
    cloud_sink_bench.publish(OLD, points(1))
    cloud_sink_bench.now += GRACE - timedelta(seconds=1)
    cloud_sink_bench.publish(NEW, points(1))
    assert len(cloud_sink_bench.objects(".parquet")) == 3

    cloud_sink_bench.now += timedelta(seconds=1)
    cloud_sink_bench.publish(NEWEST, points(1))

    assert cloud_sink_bench.objects(".parquet") == [
        dataset(OLD, 1, 2),
        dataset(NEW, 1, 3),
        dataset(NEWEST, 1, 4),
    ]


def test_orphans_of_crashed_attempts_are_removed(cloud_sink_bench: CloudSinkBench) -> None:
    """What attempts left that never became current goes, older or of the same revision."""
    orphans = [dataset(OLDEST, 9, 0xA), dataset(OLD, 1, 0xB), dataset(OLD, 2, 0xC)]
    bucket = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket)
    for name in orphans:
        bucket.blob(name).upload_from_string("")
        bucket.blob(name.replace(".parquet", ".report.json")).upload_from_string("")

    cloud_sink_bench.publish(OLD, points(1), fence=2)

    assert cloud_sink_bench.objects(".parquet") == [dataset(OLD, 2, 1)]
    assert len(cloud_sink_bench.objects(".report.json")) == 1


def test_an_orphan_does_not_push_out_what_readers_saw(cloud_sink_bench: CloudSinkBench) -> None:
    """The superseded dataset is kept by name: a newer orphan does not take its place."""
    cloud_sink_bench.publish(OLDEST, points(1))
    orphan = dataset(OLD, 1, 0xA)
    cloud_sink_bench.client.bucket(cloud_sink_bench.bucket).blob(orphan).upload_from_string("")

    cloud_sink_bench.publish(NEW, points(1))

    assert cloud_sink_bench.objects(".parquet") == [dataset(OLDEST, 1, 1), dataset(NEW, 1, 2)]


def test_nothing_newer_or_foreign_is_removed(cloud_sink_bench: CloudSinkBench) -> None:
    """Clean-up spares newer uploads, higher fences, other folders and names not of a sink."""
    spared = [
        dataset(NEW, 1, 0xA),
        dataset(OLD, 3, 0xB),
        f"{FOLDER}notes.parquet",
        f"{FOLDER}deeper/{dataset(OLDEST, 1, 0xC).removeprefix(FOLDER)}",
        f"{FOLDER}x{dataset(OLDEST, 1, 0xD).removeprefix(FOLDER)}",
        f"{dataset(OLDEST, 1, 0xE)}.bak",
    ]
    for name in spared:
        cloud_sink_bench.client.bucket(cloud_sink_bench.bucket).blob(name).upload_from_string("")

    cloud_sink_bench.publish(OLD, points(1), fence=2)

    assert set(spared) <= set(cloud_sink_bench.objects())


def test_a_clean_up_that_fails_is_logged_only(
    cloud_sink_bench: CloudSinkBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A publication stands though what it superseded cannot be removed."""
    cloud_sink_bench.sink = cloud_sink_bench.open(keep=0)
    publish_an_hour_apart(cloud_sink_bench, OLDEST, OLD)
    cloud_sink_bench.now += timedelta(hours=1)
    cloud_sink_bench.network.on("DELETE", "", answer(403))

    outcome = cloud_sink_bench.publish(NEW, points(2))

    assert isinstance(outcome, Published)
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["severity"], line["message"]) == ("WARNING", "clean-up failed")
    assert line["folder"]
    assert line["detail"]
    assert cloud_sink_bench.pointer(OLD.bundle)["revision_id"] == NEW.id  # type: ignore[index]
    publish_an_hour_apart(cloud_sink_bench, NEWEST)
    assert cloud_sink_bench.objects(".parquet") == [dataset(NEW, 1, 3), dataset(NEWEST, 1, 4)]


def test_an_attempt_that_is_not_published_leaves_nothing(cloud_sink_bench: CloudSinkBench) -> None:
    """E10: whoever is not the owner any more removes what was uploaded."""
    assert cloud_sink_bench.publish(OLD, points(1), owner=False) is None
    assert cloud_sink_bench.objects() == []


def test_a_small_table_that_fails_costs_no_upload(cloud_sink_bench: CloudSinkBench) -> None:
    """What fits in one request is sent when table and report are whole."""
    with pytest.raises(CorruptError):
        cloud_sink_bench.publish(OLD, points(1, error=CorruptError("row 1")))
    assert not any("POST" in request for request in cloud_sink_bench.network.requests)


def test_a_large_table_that_fails_is_cancelled(
    cloud_sink_bench: CloudSinkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4: an upload on its way when the table fails leaves nothing, visible or not."""
    monkeypatch.setattr(cloud_storage, "CHUNK_BYTES", 256 << 10)
    monkeypatch.setattr(geoparquet, "ROW_GROUP_BYTES", 1 << 10)
    pieces = [points(20_000).pieces[0]] * 3

    with pytest.raises(CorruptError):
        cloud_sink_bench.publish(OLD, Layer(pieces, error=CorruptError("row 60001")))

    methods = [request.partition(" ")[0] for request in cloud_sink_bench.network.requests]
    assert "PUT" in methods
    assert methods[-2:] == ["DELETE", "GET"]
    assert cloud_sink_bench.objects() == []


def test_a_failed_second_upload_removes_the_first(cloud_sink_bench: CloudSinkBench) -> None:
    """If the report cannot be uploaded, the dataset is removed and the error passes through."""
    cloud_sink_bench.network.on("POST", "report.json", answer(403))

    with pytest.raises(PermissionDeniedError):
        cloud_sink_bench.publish(OLD, points(1))
    assert cloud_sink_bench.objects() == []


def test_what_cannot_be_removed_does_not_hide_the_error(
    cloud_sink_bench: CloudSinkBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of the publication passes through though the removal fails too."""
    cloud_sink_bench.network.on("POST", "report.json", answer(403))
    cloud_sink_bench.network.on("DELETE", "", answer(503))

    with pytest.raises(PermissionDeniedError):
        cloud_sink_bench.publish(OLD, points(1))
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["severity"], line["message"]) == ("WARNING", "discard failed")
    assert line["folder"]
    assert line["detail"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_no_report_is_stored_that_is_not_json(
    cloud_sink_bench: CloudSinkBench, number: float
) -> None:
    """Readers of JSON refuse NaN and Infinity, so a report with one is never published."""
    with pytest.raises(ValueError, match="JSON"):
        cloud_sink_bench.sink.publish(
            publication(OLD), points(1), lambda: {"number": number}, lambda: True
        )
    assert cloud_sink_bench.objects() == []


def test_an_overtaken_attempt_leaves_nothing(cloud_sink_bench: CloudSinkBench) -> None:
    """An outdated publication removes its own upload and touches no other."""
    cloud_sink_bench.before_swap(lambda: cloud_sink_bench.publish(NEW, points(2)))

    assert cloud_sink_bench.publish(OLD, points(1)) == Outdated(NEW.order)
    assert cloud_sink_bench.objects(".parquet") == [dataset(NEW, 1, 2)]


def test_a_zombie_leaves_nothing(cloud_sink_bench: CloudSinkBench) -> None:
    """E8: a zombie that finds its revision published removes its own upload only."""
    cloud_sink_bench.before_swap(lambda: cloud_sink_bench.publish(OLD, points(1), fence=2))

    cloud_sink_bench.publish(OLD, points(1), fence=1)

    assert cloud_sink_bench.objects(".parquet") == [dataset(OLD, 2, 2)]


def test_a_missing_bucket_is_a_matter_of_configuration(cloud: CloudStorage) -> None:
    """A sink whose bucket does not exist says so when it publishes."""
    sink = open_sink(SinkAddress("no-such-bucket"), cloud)

    with pytest.raises(ConfigurationError, match="no such bucket"):
        sink.publish(publication(OLD), points(1), dict, lambda: True)


def test_the_sink_of_the_factory_publishes(cloud: CloudStorage, bucket: str) -> None:
    """The sink that wiring opens has a clock and tokens of its own."""
    sink = open_sink(SinkAddress(bucket), cloud)

    assert isinstance(sink.publish(publication(OLD), points(1), dict, lambda: True), Published)
    assert sink.publish(publication(OLDEST), points(1), dict, lambda: True) == Outdated(30)


def test_stored_bytes_that_differ_are_never_made_current(
    cloud_sink_bench: CloudSinkBench,
) -> None:
    """D5: an upload whose crc32c is not that of what was written raises, and is removed."""

    def damage(request: requests.PreparedRequest, send: Send) -> requests.Response:
        response = send()
        response._content = response.content.replace(b'"crc32c":"', b'"crc32c":"A')
        return response

    cloud_sink_bench.network.on("POST", ".parquet", damage)

    with pytest.raises(ChecksumError):
        cloud_sink_bench.publish(OLD, points(1))
    assert cloud_sink_bench.objects() == []


def test_concurrent_publications_share_no_file(
    cloud_sink_bench: CloudSinkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E20: two calls in one process write to folders of their own, which are gone afterwards."""
    written: list[Path] = []
    meeting = threading.Barrier(2, timeout=20)
    real = geoparquet.GeoParquet.write

    def write(self: Any, target: Any, table: Any, origin: Any, folder: Path) -> Any:
        rows = real(self, target, table, origin, folder)
        written.append(folder / "dataset")
        written[-1].write_bytes(b"")
        meeting.wait()
        return rows

    monkeypatch.setattr(geoparquet.GeoParquet, "write", write)
    both = [revision("in/roads.shp"), revision("in/rivers.shp")]
    threads = [
        threading.Thread(target=cloud_sink_bench.publish, args=(of, points(rows)))
        for rows, of in enumerate(both, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert len({path.parent for path in written}) == 2
    assert not any(path.parent.exists() for path in written)
    seen = [cloud_sink_bench.seen(of.bundle) for of in both]
    assert [len(each.names) for each in seen if each] == [1, 2]


@pytest.mark.parametrize(
    "name",
    [
        "in/UNESCO Global [2024] (final).shp",
        "in/a b+c%20d#1.shp",
        "../../etc/roads.shp",
        "in/../roads.shp",
        "in/./roads.shp",
        "in//roads.shp",
        "/roads.shp",
        "%2F..%2Froads.shp",
        "in/\U0001f5fa.shp",
        "é" * 510 + ".shp",
        "in/latest.json.shp",
    ],
)
def test_no_name_leaves_the_prefix(cloud_sink_bench: CloudSinkBench, name: str) -> None:
    """Cases 36, 38, 65, B5: whatever a bundle is called, all its objects stand below the prefix."""
    of = revision(name)

    assert isinstance(cloud_sink_bench.publish(of, points(2)), Published)

    names = cloud_sink_bench.objects()
    assert len(names) == 3
    for written in names:
        assert written.startswith("out/")
        assert not {"", ".", ".."} & set(written.split("/"))
        assert len(written.encode()) <= 1024
    assert cloud_sink_bench.seen(of.bundle).names == ["row 0", "row 1"]  # type: ignore[union-attr]


def test_current_costs_two_requests(cloud_sink_bench: CloudSinkBench) -> None:
    """Asking what is current reads the pointer and nothing else."""
    cloud_sink_bench.publish(OLD, points(3))
    cloud_sink_bench.network.requests.clear()

    cloud_sink_bench.sink.current(OLD)

    assert len(cloud_sink_bench.network.requests) == 2
    assert all("latest.json" in request for request in cloud_sink_bench.network.requests)


def test_a_large_dataset_is_stored_whole(cloud_sink_bench: CloudSinkBench) -> None:
    """A dataset beyond the library's single request goes up in a resumable one, and is proven."""
    random = np.random.default_rng(1).random((300_000, 2))
    column = shapely.to_wkb(shapely.points(random))
    outcome = cloud_sink_bench.publish(OLD, Layer([batch(column)]))

    (name,) = cloud_sink_bench.objects(".parquet")
    content = cloud_sink_bench.content(name)
    assert len(content) > 8 << 20
    assert any("uploadType=resumable" in it for it in cloud_sink_bench.network.requests)
    assert isinstance(outcome, Published)
    assert pq.read_metadata(io.BytesIO(content)).num_rows == outcome.rows == 300_000


def test_metadata_is_stored_and_removed_with_its_report(cloud_sink_bench: CloudSinkBench) -> None:
    """Case 34: it carries its media type, the pointer names it, and it goes when superseded."""
    cloud_sink_bench.sink = cloud_sink_bench.open(keep=0)
    cloud_sink_bench.publish(OLD, points(1), metadata=b"<x/>")

    pointer = cloud_sink_bench.pointer(OLD.bundle)
    assert pointer is not None
    assert pointer["metadata"] == pointer["report"].replace(".report.json", ".shp.xml")
    blob = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket).get_blob(
        FOLDER + pointer["metadata"]
    )
    assert blob.content_type == "application/xml"
    publish_an_hour_apart(cloud_sink_bench, NEW, NEWEST)
    assert cloud_sink_bench.objects(".shp.xml") == []


def test_rejected_rows_are_stored_and_removed_with_their_report(
    cloud_sink_bench: CloudSinkBench, tmp_path: Path
) -> None:
    """Case 51: the list carries its media type, the pointer names it, and it goes in the end."""
    listed = tmp_path / "rejects.ndjson"
    listed.write_text('{"row": 1}\n')
    cloud_sink_bench.sink = cloud_sink_bench.open(keep=0)
    cloud_sink_bench.publish(OLD, points(1, listed=listed))

    pointer = cloud_sink_bench.pointer(OLD.bundle)
    assert pointer is not None
    assert pointer["rejects"] == pointer["report"].replace(".report.json", ".rejects.ndjson")
    bucket = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket)
    assert bucket.get_blob(FOLDER + pointer["rejects"]).content_type == "application/x-ndjson"
    publish_an_hour_apart(cloud_sink_bench, NEW, NEWEST)
    assert cloud_sink_bench.objects(".rejects.ndjson") == []


def test_metadata_of_an_attempt_that_is_not_published_is_removed(
    cloud_sink_bench: CloudSinkBench,
) -> None:
    """E10: whoever is not the owner any more leaves no metadata either."""
    assert cloud_sink_bench.publish(OLD, points(1), metadata=b"<x/>", owner=False) is None
    assert cloud_sink_bench.objects() == []


def test_a_layer_says_where_it_comes_from(cloud_sink_bench: CloudSinkBench) -> None:
    """Case 33: pointer and dataset of a layer name the archive and the layer in it."""
    packed = revision("in/a.zip", zip=10)
    cloud_sink_bench.publish(packed, points(1), name="x/b")

    pointer = cloud_sink_bench.pointer(packed.bundle, "x/b")
    assert pointer is not None
    assert (pointer["basename"], pointer["layer"]) == ("in/a.zip", "x/b")
    assert pointer["location"].startswith(f"gs://{cloud_sink_bench.bucket}/out/in/a.zip/x/b/")
    table = cloud_sink_bench.table(pointer["location"].split("/", 3)[3])
    assert json.loads(table.schema.metadata[b"shapefile_gate"])["layer"] == "x/b"


def test_an_index_is_not_cached_and_stands_beside_the_layers(
    cloud_sink_bench: CloudSinkBench,
) -> None:
    """Case 51: `index.json` lies in the archive's folder and is read afresh."""
    packed = revision("in/a.zip", zip=10)
    location = cloud_sink_bench.publish_index(packed, layers=[])

    assert location == f"gs://{cloud_sink_bench.bucket}/out/in/a.zip/index.json"
    blob = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket).get_blob(
        "out/in/a.zip/index.json"
    )
    assert (blob.content_type, blob.cache_control) == ("application/json", "no-cache")


def test_an_index_that_is_none_stops_everything(cloud_sink_bench: CloudSinkBench) -> None:
    """An `index.json` that cannot be understood is never replaced."""
    bucket = cloud_sink_bench.client.bucket(cloud_sink_bench.bucket)
    bucket.blob("out/in/a.zip/index.json").upload_from_string("<html>")

    with pytest.raises(ConfigurationError, match=r"index\.json: .*; move the object away"):
        cloud_sink_bench.publish_index(revision("in/a.zip", zip=10))
    assert cloud_sink_bench.content("out/in/a.zip/index.json") == b"<html>"
