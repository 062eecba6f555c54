"""What must hold in every run: at every write, and once all is quiet.

`Watch` sees every document as it is written. `faults_of` looks at the end. Both
return sentences, not exceptions: the code under test catches what is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from gate.gating import GateKind
from gate.identity import Pin, Revision
from gate.job import ENDED, FINISHED, State
from gate.manifest import Dispatched, Manifest, Waiting, decide
from gate.names import Bundle
from gate.store.documents import bundle_from, manifest_from
from tests.simulation.bucket import Bucket
from tests.simulation.database import Document
from tests.simulation.deployment import Deployment
from tests.simulation.story import TORN_ROWS, WHOLE_ROWS, Message, Story
from tests.world import PARTS, bundle_of

Rows = list[tuple[str, str, str | None]]


@dataclass
class Watch:
    """What was wrong at the moment it was written."""

    deployment: Deployment
    wrong: list[str] = field(default_factory=list)
    _fences: dict[str, int] = field(default_factory=dict)
    _components: dict[str, dict[str, int]] = field(default_factory=dict)

    def __call__(self, collection: str, key: str, document: Document | None) -> None:
        """See a document that was written, `None` for one that its time-to-live has removed."""
        if document is None:
            self._fences.pop(key, None)
            self._components.pop(key, None)
        else:
            found = {"claims": self._claim, "manifests": self._manifest, "jobs": self._job}
            if collection not in found:
                return
            self.wrong.extend(found[collection](key, document))

    def _claim(self, key: str, claim: Document) -> Iterator[str]:
        if not isinstance(claim.get("expires_at"), datetime):
            yield f"claim {key} has no expiry"

    def _job(self, key: str, job: Document) -> Iterator[str]:
        if job["fence"] < self._fences.get(key, 0):
            yield f"the fence of job {key} ran back to {job['fence']}"
        self._fences[key] = job["fence"]
        if isinstance(job.get("expires_at"), datetime) is not (State(job["state"]) in FINISHED):
            yield f"job {key} is {job['state']} and its expiry is {job.get('expires_at')}"

    def _manifest(self, key: str, document: Document) -> Iterator[str]:
        components = document["components"]
        for name, generation in self._components.get(key, {}).items():
            if components.get(name, 0) < generation:
                yield f"manifest {key} has forgotten generation {generation} of {name}"
        self._components[key] = dict(components)
        if "expires_at" in document and not self._is_finished(document):
            yield f"manifest {key} expires with something pending"

    def _is_finished(self, document: Document) -> bool:
        settings = self.deployment.settings
        decision = decide(
            manifest_from(bundle_from(document), document),
            now := self.deployment.schedule.now,
            required=settings.required,
            settle=settings.retention.settle,
        )
        if isinstance(decision, Waiting):
            patience = settings.sweep.patience.give_up
            return now - document["updated_at"] >= patience or not self._live(document)
        if not isinstance(decision, Dispatched):
            return False
        job = self.deployment.database.all_of("jobs").get(decision.revision.id)
        if job is None or State(job["state"]) in FINISHED:
            return True
        # Objects are written one after the other: a look may put a manifest to rest while its
        # job is given new attempts. The job is due then, and whoever takes it up takes the
        # expiry, which is a day away, from the manifest.
        return isinstance(self.deployment.database, Bucket) and bool(job.get("due_at"))

    def _live(self, document: Document) -> bool:
        names = (name for _, name in self.deployment.source._live)
        return any(bundle_of(name).basename == document["basename"] for name in names)


def faults_of(story: Story, heard_only: bool) -> Iterator[str]:
    """Yield what is wrong once all is quiet.

    With `heard_only`, nothing is expected of a bundle whose last event was lost, or
    of which a whole spelling was never heard of: the sweep lists under those it knows.
    """
    deployment = story.deployment
    yield from _effects(deployment)
    for key, job in deployment.database.all_of("jobs").items():
        if State(job["state"]) not in ENDED:
            yield f"job {key} is left {job['state']}"
        elif not job["notified"]:
            yield f"job {key} is {job['state']} and nobody was told"
    gate = deployment.settings.gate.kind
    # By the other gates nobody remembers what waits until a pass has found it. By one,
    # nothing but the `.shp` is heard of; by the other, nothing whose task was lost.
    if gate is GateKind.MANIFEST or not heard_only:
        yield from _acknowledged(story)
    deaf = gate is GateKind.VERIFY or (gate is GateKind.POLL and deployment.queue.loses)
    for base in story.bases:
        bundle = bundle_of(f"{base}.shp")
        told = [message for message in story.messages if bundle_of(message.event.name) == bundle]
        if not (heard_only and (deaf or _beyond_hearing(told))):
            yield from _convergence(story, bundle)


def _beyond_hearing(messages: list[Message]) -> bool:
    """Tell whether only a pass over the whole bucket finds what was uploaded of a bundle."""
    newest = max(messages, key=lambda message: message.event.generation)
    spelt = {message.event.name.rpartition(".")[0] for message in messages}
    heard = {message.event.name.rpartition(".")[0] for message in messages if not message.lost}
    return newest.lost or spelt != heard


def _effects(deployment: Deployment) -> Iterator[str]:
    orders: dict[Bundle, list[int]] = {}
    for revision in deployment.sink.effects:
        orders.setdefault(revision.bundle, []).append(revision.order)
    for bundle, taken in orders.items():
        for before, after in pairwise(taken):
            if after == before:
                yield f"{bundle}: a revision took effect twice"
            if after < before:
                yield f"{bundle}: an older revision has replaced a newer one"


def _acknowledged(story: Story) -> Iterator[str]:
    manifests = story.deployment.database.all_of("manifests").values()
    known = {document["bucket"] + "/" + document["basename"]: document for document in manifests}
    # What was deleted before it could be listed, nobody but the manifest has heard of.
    listed = story.deployment.settings.gate.kind is not GateKind.MANIFEST
    for message in story.messages:
        event = message.event
        if not message.acknowledged or message.collected:
            continue
        if listed and (event.bucket, event.name) not in story.deployment.source._live:
            continue
        bundle = bundle_of(event.name)
        document = known.get(f"{bundle.bucket}/{bundle.basename}")
        if document and document["components"].get(event.name, 0) < event.generation:
            yield f"{event.name}@{event.generation} was acknowledged and is not reflected"


def _convergence(story: Story, bundle: Bundle) -> Iterator[str]:
    """Tell what is wrong with what readers see of one bundle.

    Nothing is expected of a bundle whose newest files were deleted, for nobody
    can say whether they were read before, nor of one that is mixed of two spellings.
    """
    deployment = story.deployment
    live = {
        stored.facts.pin: stored.payload.decode() for stored in deployment.source._live.values()
    }
    events = (message.event for message in story.messages)
    pins = (Pin(event.name, event.generation) for event in events)
    known = Manifest(bundle).joined(pin for pin in pins if bundle_of(pin.name) == bundle)
    current = known.current()
    if not current.keys() >= set(PARTS) or any(pin not in live for pin in current.values()):
        return
    revision = Revision.of(bundle, current)
    if known.mixes(revision, PARTS):
        return
    rows = _rows({extension: live[pin] for extension, pin in current.items()})
    job = deployment.database.all_of("jobs").get(revision.id, {})
    dataset = deployment.sink.datasets.get(bundle.basename)
    if rows is None:
        if job.get("state") != "dead" or job["history"][-1]["code"] != "torn_bundle":
            yield f"{bundle}: is torn and its job is {job.get('state')}"
    elif dataset is None:
        yield f"{bundle}: is complete and not in the sink"
    elif [tuple(row.values()) for one in dataset.batches for row in one.to_pylist()] != rows:
        yield f"{bundle}: the sink does not hold the newest version"


def _rows(found: dict[str, str]) -> Rows | None:
    """Return the rows that these files make, `None` if they do not belong together."""
    shapes, records = (found[part].splitlines() for part in (".shp", ".dbf"))
    assert {len(shapes), len(records)} <= {WHOLE_ROWS, TORN_ROWS}
    if len(shapes) != len(records):
        return None
    return [(*pair, found.get(".prj")) for pair in zip(shapes, records, strict=True)]
