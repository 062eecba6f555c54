"""What the demonstration promises of a bundle, checked against what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gate.job import Job, State
from gate.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the log, the store and the sink say of one bundle.

    `runs` maps job id → how many times its layer was read, with an entry for
    each dispatched revision. `rows_in_file` is what the newest `.dbf` declares,
    `rows_in_dataset` what the dataset's own footer does.
    """

    runs: Mapping[str, int]
    jobs: tuple[Job, ...]
    manifest: Manifest
    pointer: Mapping[str, Any]
    report: Mapping[str, Any]
    rows_in_file: int
    rows_in_dataset: int


def broken(evidence: Evidence) -> Iterator[str]:
    """Yield each promise that was not kept, as a sentence; none if all is well."""
    for job in evidence.jobs:
        count = evidence.runs[job.id]
        once = job.state is State.DONE and count == 1
        overtaken = job.state is State.SUPERSEDED and count <= 1
        if not once and not overtaken:
            yield f"job {job.id} is {job.state.value} and its layer was read {count} times"
    newest = max(evidence.jobs, key=lambda job: job.revision.order)
    if newest.state is not State.DONE or evidence.pointer["revision_id"] != newest.revision.id:
        yield f"revision {newest.revision.id} is the newest, and not current"
    pinned = {pin.name: pin.generation for _, pin in newest.revision.pins}
    if dict(evidence.manifest.components) != pinned:
        yield "the newest revision lacks the newest generation of a component"
    if dict(evidence.manifest.dispatched) != newest.revision.generations:
        yield "the manifest does not say that the newest revision was dispatched"
    if not evidence.rows_in_file == evidence.rows_in_dataset == evidence.pointer["rows"]:
        yield (
            f"the file has {evidence.rows_in_file} rows, the dataset {evidence.rows_in_dataset}, "
            f"and the pointer says {evidence.pointer['rows']}"
        )
    if evidence.report["crs"]["source"] != "prj":
        yield "the dataset has no CRS, though its .prj was uploaded"
