"""The environment as one frozen value; every problem is reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from gate import gating, policies, state, tasking
from gate.environment import Environment, SettingsError
from gate.errors import GateError
from gate.gating import GateKind, Gating
from gate.job import Limits
from gate.names import PRIMARY_EXTENSIONS, SIDECAR_EXTENSIONS
from gate.next_look import Patience
from gate.policies import (
    Heights,
    Measures,
    MissingCrs,
    Multi,
    Policies,
    Reader,
    RowPolicy,
    Validity,
)
from gate.sinks import postgis_address
from gate.sinks.address import SinkAddress
from gate.sinks.address import parse as parse_sink
from gate.sinks.postgis_address import DatabaseAddress
from gate.state import BlobAddress
from gate.store.port import Retention
from gate.tasking import Tasking
from gate.variables import ASKING, READING

# Eventarc and Pub/Sub push redeliver an unacknowledged event for 24 hours
# (Eventarc, "Retry events"). A claim must outlive that.
REDELIVERY_WINDOW_SECONDS = 86_400

# Half a day: a bundle that is told to rest for longer is a mistake in the unit.
MOST_SETTLE_SECONDS = 43_200

# A tenth of the longest time of a function: see `MOST_FUNCTION_SECONDS`.
MOST_SWEEP_SECONDS = 360
MOST_SWEEP_JOBS = 1_000

# Ten years: beyond any use, and far from the end of the calendar.
MOST_TTL_SECONDS = 315_360_000

# No function runs for longer than an hour (Cloud Run functions, "Quotas").
MOST_FUNCTION_SECONDS = 3_600

# What is left is for the event before the run and, after it, for the last batch
# and the release of the job.
RUN_SHARE = 0.9

# An attempt without a pause needs a delivery; there are fewer than this in a day.
MOST_ATTEMPTS = 1_000

# More than any function has of memory, where its files lie.
MOST_BYTES = 1 << 40
MOST_ENTRIES = 10_000_000

# The pause that `RETRY_SECONDS` doubles up to: a longer first one would be cut to it.
MOST_RETRY_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Sweeping:
    """How long one sweep goes on, how many jobs it runs, how often it reads the whole bucket."""

    seconds: int
    jobs: int
    patience: Patience
    reconcile_every: timedelta


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the deployment decides. Extensions are folded; durations are checked.

    `state` is `None` where claims, manifests and jobs are in Firestore.
    """

    sink: SinkAddress | DatabaseAddress
    source_bucket: str
    source_prefix: str
    required: tuple[str, ...]
    retention: Retention
    limits: Limits
    claim_collection: str
    manifest_collection: str
    job_collection: str
    sweep_collection: str
    sweep: Sweeping
    gate: Gating
    tasks: Tasking
    firestore_database: str
    state: BlobAddress | None
    dead_letter_topic: str
    max_bundle_bytes: int
    max_unpacked_bytes: int
    max_entries: int
    policies: Policies

    def output_prefix(self, bucket: str) -> str | None:
        """Return the prefix under which the sink writes inside `bucket`, `None` if it does not."""
        if not isinstance(self.sink, SinkAddress) or bucket != self.sink.bucket:
            return None
        return self.sink.output_prefix

    def swallows(self, bucket: str) -> bool:
        """Tell whether all that could trigger us in `bucket` counts as output of the sink."""
        output = self.output_prefix(bucket)
        return output is not None and self.source_prefix.startswith(output)


def load(environment: Mapping[str, str]) -> Settings:
    """Return the settings that `environment` states; unknown variables are not ours.

    Raises `SettingsError` with every problem found, each naming the variable
    and the cure.
    """
    return _Loader(environment).load()


def for_reading(environment: Mapping[str, str]) -> Settings:
    """Return the settings as far as they say how to read; nothing needs to be set.

    Whatever else is set, and however wrong, is left aside. Raises `SettingsError`
    as `load` does.
    """
    return load(_only(READING, environment))


def for_asking(environment: Mapping[str, str]) -> Settings:
    """Return the settings as far as asking for jobs, and giving them new attempts, needs them.

    A state in a bucket needs its `STATE_URI` and `SOURCE_BUCKET`. Whatever else is
    set, and however wrong, is left aside. Raises `SettingsError` as `load` does.
    """
    in_bucket = environment.get("STATE", "").strip() not in ("", state.STORES[0])
    return load(_only((*ASKING, *(("SOURCE_BUCKET",) if in_bucket else ())), environment))


def _only(names: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """Return these variables, and a sink, which goes unused."""
    return {name: environment.get(name, "") for name in names} | {"SINK": "gs://nowhere"}


class _Loader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._stated = Environment(environment)

    def load(self) -> Settings:
        sink = self._sink()
        required = self._stated.checked("REQUIRED_EXTS", _extensions, tuple[str, ...]())
        settle = self._stated.whole("SETTLE_SECONDS", 0, MOST_SETTLE_SECONDS)
        dedup = self._stated.whole("DEDUP_TTL_SECONDS", 1, MOST_TTL_SECONDS)
        manifest_ttl = self._stated.whole("MANIFEST_TTL_SECONDS", 1, MOST_TTL_SECONDS)
        attempts = self._stated.whole("MAX_ATTEMPTS", 1, MOST_ATTEMPTS)
        lease = self._stated.whole("LEASE_SECONDS", 1, MOST_FUNCTION_SECONDS)
        retry = self._stated.whole("RETRY_SECONDS", 0, MOST_RETRY_SECONDS)
        max_bytes = self._stated.whole("MAX_BUNDLE_BYTES", 1, MOST_BYTES)
        max_unpacked = self._stated.whole("MAX_UNPACKED_BYTES", 1, MOST_BYTES)
        max_entries = self._stated.whole("MAX_ENTRIES", 1, MOST_ENTRIES)
        names = [
            self._stated.checked(variable, _collection, "")
            for variable in (
                "CLAIM_COLLECTION",
                "MANIFEST_COLLECTION",
                "JOB_COLLECTION",
                "SWEEP_COLLECTION",
            )
        ]
        if len(set(names)) < len(names):
            self._stated.problem("CLAIM_COLLECTION", "the four collections must have four names")
        if dedup <= REDELIVERY_WINDOW_SECONDS:
            self._stated.problem(
                "DEDUP_TTL_SECONDS",
                f"{dedup} is not longer than the redelivery window of"
                f" {REDELIVERY_WINDOW_SECONDS} s, so that a redelivered event could be taken for a"
                " new one; use 604800",
            )
        if settle >= manifest_ttl:
            self._stated.problem(
                "SETTLE_SECONDS",
                f"{settle} is not shorter than MANIFEST_TTL_SECONDS={manifest_ttl}",
            )
        timeout = timedelta(
            seconds=self._stated.whole("FUNCTION_TIMEOUT_SECONDS", 1, MOST_FUNCTION_SECONDS)
        )
        sweeping = self._sweeping(
            timedelta(seconds=settle), timedelta(seconds=manifest_ttl), timeout
        )
        topic = self._stated.checked("DEAD_LETTER_TOPIC", _topic, "")
        rows = self._policies(sink.required_crs if isinstance(sink, SinkAddress) else "")
        source_bucket = self._stated.checked("SOURCE_BUCKET", _bucket, "")
        source_prefix = self._stated.text("SOURCE_PREFIX")
        gate = gating.load(self._stated)
        tasks = tasking.load(
            self._stated,
            polled=gate.kind is GateKind.POLL,
            timeout_seconds=timeout // timedelta(seconds=1),
        )
        if isinstance(sink, SinkAddress) and source_bucket == sink.bucket:
            self._apart(sink, source_prefix)
        kept = state.read(self._stated, source_bucket, sink)
        if self._stated.problems or sink is None:
            raise SettingsError(tuple(self._stated.problems))
        return Settings(
            sink=sink,
            source_bucket=source_bucket,
            source_prefix=source_prefix,
            required=required,
            retention=Retention(
                settle=timedelta(seconds=settle),
                claims=timedelta(seconds=dedup),
                manifests=timedelta(seconds=manifest_ttl),
            ),
            limits=Limits(
                lease=timedelta(seconds=lease),
                max_attempts=attempts,
                retry=timedelta(seconds=retry),
                run=timeout * RUN_SHARE,
            ),
            claim_collection=names[0],
            manifest_collection=names[1],
            job_collection=names[2],
            sweep_collection=names[3],
            sweep=sweeping,
            gate=gate,
            tasks=tasks,
            firestore_database=self._stated.text("FIRESTORE_DATABASE"),
            state=kept,
            dead_letter_topic=topic,
            max_bundle_bytes=max_bytes,
            max_unpacked_bytes=max_unpacked,
            max_entries=max_entries,
            policies=rows,
        )

    def _sweeping(self, settle: timedelta, give_up: timedelta, timeout: timedelta) -> Sweeping:
        stalled_seconds = self._stated.whole("STALLED_AFTER_SECONDS", 0, MOST_TTL_SECONDS - 1)
        stalled_after = timedelta(seconds=stalled_seconds)
        if stalled_after >= give_up:
            self._stated.problem(
                "STALLED_AFTER_SECONDS",
                f"{stalled_seconds} is not shorter than MANIFEST_TTL_SECONDS="
                f"{give_up // timedelta(seconds=1)}, when the bundle is given up",
            )
        every = self._stated.whole("RECONCILE_EVERY_SECONDS", 1, MOST_TTL_SECONDS)
        return Sweeping(
            seconds=self._sweep_seconds(timeout),
            jobs=self._stated.whole("SWEEP_JOBS", 1, MOST_SWEEP_JOBS),
            patience=Patience(settle, stalled_after, give_up),
            reconcile_every=timedelta(seconds=every),
        )

    def _sweep_seconds(self, timeout: timedelta) -> int:
        """Return how long a sweep goes on, so that a job it begins last has the time of a run."""
        seconds = self._stated.whole("SWEEP_SECONDS", 1, MOST_SWEEP_SECONDS)
        most_seconds = max(1, (timeout - timeout * RUN_SHARE) // timedelta(seconds=1))
        if not self._stated.states("SWEEP_SECONDS"):
            return min(seconds, most_seconds)
        if seconds > most_seconds:
            self._stated.problem(
                "SWEEP_SECONDS",
                f"{seconds} is more than a tenth of FUNCTION_TIMEOUT_SECONDS="
                f"{timeout // timedelta(seconds=1)}, so that a job that the sweep begins last could"
                f" be cut off by the timeout; use {most_seconds}",
            )
        return seconds

    def _policies(self, required_crs: str) -> Policies:
        accept: MissingCrs | str = MissingCrs.ACCEPT
        stated = Policies(
            missing_crs=self._stated.checked("MISSING_CRS", policies.missing_crs, accept),
            target_crs=self._stated.checked("TARGET_CRS", policies.target_crs, "") or required_crs,
            null_geometry=self._row_policy("NULL_GEOMETRY"),
            empty_geometry=self._row_policy("EMPTY_GEOMETRY"),
            nan_coordinates=self._row_policy("NAN_COORDINATES"),
            collapsed_geometry=self._row_policy("COLLAPSED_GEOMETRY"),
            multi_geometry=self._stated.checked("MULTI_GEOMETRY", policies.multi, Multi.MIXED),
            z_values=self._stated.checked("Z_VALUES", policies.heights, Heights.KEEP),
            m_values=self._stated.checked("M_VALUES", policies.measures, Measures.DROP),
            reader=self._stated.checked("READER", policies.reader, Reader.AUTO),
            validity=self._stated.checked("VALIDITY", policies.validity, Validity.FLAG),
        )
        if stated.target_crs and stated.missing_crs is MissingCrs.ACCEPT:
            self._stated.problem(
                "MISSING_CRS",
                f"a layer without a CRS cannot be transformed to {stated.target_crs}; set it to"
                " hold or EPSG:NUMBER",
            )
        if required_crs and stated.target_crs != required_crs:
            self._stated.problem(
                "TARGET_CRS",
                f"{stated.target_crs} is not {required_crs}, the one CRS of the sink's format;"
                " leave it empty",
            )
        return stated

    def _apart(self, sink: SinkAddress, source_prefix: str) -> None:
        source = f"gs://{sink.bucket}/{source_prefix}"
        if sink.output_prefix.startswith(source_prefix):
            self._stated.problem(
                "SINK",
                f"{sink} lies inside {source},"
                " which triggers us; use another bucket, or set SOURCE_PREFIX to a folder that"
                " does not hold the output",
            )
        elif source_prefix.startswith(sink.output_prefix):
            self._stated.problem(
                "SOURCE_PREFIX",
                f"{source} lies inside {sink}, where everything counts as our own output; use"
                " another bucket, or folders of which neither holds the other",
            )

    def _row_policy(self, variable: str) -> RowPolicy:
        return self._stated.checked(variable, policies.row_policy, RowPolicy.KEEP)

    def _sink(self) -> SinkAddress | DatabaseAddress | None:
        uri = self._stated.text("SINK")
        if not uri:
            self._stated.problem("SINK", "is not set; set it to gs://BUCKET/PREFIX")
            return None
        try:
            if uri.startswith(postgis_address.SCHEMES):
                return postgis_address.parse(uri)
            return parse_sink(uri)
        except GateError as error:
            self._stated.problem("SINK", f"{error.what}; {error.todo}")
            return None


def _extensions(text: str) -> tuple[str, ...]:
    stated = (part.strip().lower() for part in text.split(",") if part.strip())
    extensions = tuple(dict.fromkeys(stated))
    known = PRIMARY_EXTENSIONS + SIDECAR_EXTENSIONS
    unknown = [extension for extension in extensions if extension not in known]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is unknown; known are {', '.join(known)}")
    lacking = [extension for extension in PRIMARY_EXTENSIONS if extension not in extensions]
    if lacking:
        needed = dict.fromkeys((*PRIMARY_EXTENSIONS, *extensions))
        raise ValueError(
            f"{' '.join(lacking)} must be among them, for no layer can be read without;"
            f" use {','.join(needed)}"
        )
    return extensions


def _bucket(text: str) -> str:
    if "/" in text:
        raise ValueError(f"{text!r} is no name of a bucket; write it without gs:// and slashes")
    return text


def _collection(text: str) -> str:
    if "/" in text or text in {".", ".."} or (text.startswith("__") and text.endswith("__")):
        raise ValueError(f"{text!r} is no name for a collection; use letters and digits")
    return text


def _topic(text: str) -> str:
    parts = text.split("/")
    full = len(parts) == 4 and parts[0] == "projects" and parts[2] == "topics" and all(parts)
    if text and len(parts) > 1 and not full:
        raise ValueError(f"{text!r} is no topic; use projects/PROJECT/topics/TOPIC or TOPIC")
    return text
