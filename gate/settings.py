"""The environment as one frozen value; every problem is reported at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from gate import policies
from gate.errors import ConfigurationError, GateError
from gate.job import Limits
from gate.names import PRIMARY_EXTENSIONS, SIDECAR_EXTENSIONS
from gate.next_look import Patience
from gate.policies import MissingCrs, Policies, Reader, RowPolicy, Validity
from gate.sinks import postgis_address
from gate.sinks.address import SinkAddress
from gate.sinks.address import parse as parse_sink
from gate.sinks.postgis_address import DatabaseAddress
from gate.store.port import Retention

T = TypeVar("T")

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
_SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: its default, what it means, how it is checked."""

    name: str
    default: str
    meaning: str


VARIABLES = (
    Variable(
        "SINK",
        "",
        "Where datasets go, as a URI: `gs://bucket/prefix?format=geoparquet&keep=1`, see"
        " [sinks.md](sinks.md), or `postgresql://user@host/database?schema=gis`, see"
        " [postgis.md](postgis.md). Required.",
    ),
    Variable(
        "SOURCE_BUCKET",
        "",
        "The bucket whose events trigger the function. Empty: any. When set, events of other"
        " buckets are ignored, and a sink that cannot share the bucket is refused at start-up"
        " instead of at the first event.",
    ),
    Variable(
        "SOURCE_PREFIX",
        "",
        "Only objects whose names begin with this are components. Empty: all.",
    ),
    Variable(
        "REQUIRED_EXTS",
        ".shp,.shx,.dbf",
        "The extensions without which a bundle waits: `.shp`, `.shx`, `.dbf`, and any sidecars that"
        " a deployment insists on, such as `.prj`.",
    ),
    Variable(
        "SETTLE_SECONDS",
        "30",
        "How long uploads must have rested before a partly replaced bundle is dispatched.",
    ),
    Variable(
        "DEDUP_TTL_SECONDS",
        "604800",
        "How long claims and finished jobs are kept. Must exceed the redelivery window of 86400 s.",
    ),
    Variable(
        "MANIFEST_TTL_SECONDS",
        "86400",
        "How long a bundle may lack a required file before it is given up as a dead letter, and"
        " how long a manifest is kept once the sweep has found nothing pending.",
    ),
    Variable(
        "STALLED_AFTER_SECONDS",
        "3600",
        "How long a bundle may lack a required file before that is logged, once, as the error"
        " `bundle stalled`.",
    ),
    Variable(
        "SWEEP_SECONDS",
        "45",
        "How long a sweep goes on to take up what is due. One that it has begun is finished."
        " No more than a tenth of `FUNCTION_TIMEOUT_SECONDS`, to which the default is cut, for a"
        " job that is begun last may take the other nine.",
    ),
    Variable("SWEEP_JOBS", "50", "How many jobs a sweep runs at most."),
    Variable(
        "RECONCILE_EVERY_SECONDS",
        "3600",
        "How often the sweep begins to go through all of `SOURCE_PREFIX` in `SOURCE_BUCKET`, for"
        " objects whose events were lost. Without a `SOURCE_BUCKET` it never does.",
    ),
    Variable("CLAIM_COLLECTION", "claims", "The Firestore collection of claims."),
    Variable("MANIFEST_COLLECTION", "manifests", "The Firestore collection of manifests."),
    Variable("JOB_COLLECTION", "jobs", "The Firestore collection of jobs."),
    Variable("SWEEP_COLLECTION", "sweep", "The Firestore collection of the sweep's cursors."),
    Variable("FIRESTORE_DATABASE", "(default)", "The Firestore database, in Native mode."),
    Variable(
        "DEAD_LETTER_TOPIC",
        "",
        "The Pub/Sub topic for dead letters: `projects/P/topics/T`, or `T` in the function's own"
        " project. Empty: they stand in the log and in the job only.",
    ),
    Variable("MAX_ATTEMPTS", "5", "How often a job is claimed before it is a dead letter."),
    Variable(
        "FUNCTION_TIMEOUT_SECONDS",
        "540",
        "The timeout that the function is deployed with. A job is stopped when nine tenths of it"
        " have passed, and goes on, or begins anew, in the next delivery.",
    ),
    Variable("LEASE_SECONDS", "60", "How long a claim on a job holds without being renewed."),
    Variable(
        "RETRY_SECONDS",
        "10",
        "The pause after a first failed attempt; it doubles each time, up to 600 s.",
    ),
    Variable(
        "MAX_BUNDLE_BYTES",
        "268435456",
        "The largest bundle that is downloaded. Counted are the bytes of what is read of it, as"
        " they are stored: `.shp`, `.shx`, `.dbf`, `.prj`, `.cpg`, `.cst`, a `.shp.xml` of up to"
        " 1 MiB, or the `.zip` or `.shz` itself. Other sidecars are not downloaded. The temporary"
        " folder of a function is memory. Reading takes memory beside it: about 25 times the"
        " largest record, of which none may have more than 32 MiB (2 million positions).",
    ),
    Variable(
        "MAX_UNPACKED_BYTES",
        "536870912",
        "The most, in bytes, that the layers of one archive may unpack to. They lie in the"
        " temporary folder too.",
    ),
    Variable(
        "MAX_ENTRIES",
        "40000",
        "The most entries that one archive may list, those of the archives inside it included.",
    ),
    Variable(
        "MISSING_CRS",
        "accept",
        "What becomes of a layer without a readable CRS: `accept` publishes it without one, so"
        " that a `.prj` that comes late finds its dataset there and makes a second revision;"
        " `hold` waits for a `.prj` or an override; `EPSG:NUMBER` is assumed, and the layer is held"
        " if its coordinates lie outside that CRS.",
    ),
    Variable(
        "TARGET_CRS",
        "",
        "The CRS, as `EPSG:NUMBER`, that every layer is transformed into, x first. Empty:"
        " coordinates stay as they are. With it, `MISSING_CRS` must not be `accept`.",
    ),
    Variable(
        "NULL_GEOMETRY",
        "keep",
        "What becomes of a row whose shape is null: `keep` loads it without geometry, `skip`"
        " leaves it out and counts it, `reject` also lists it with its row number.",
    ),
    Variable(
        "EMPTY_GEOMETRY",
        "keep",
        "The same for a shape without positions, and for a point whose x and y are both NaN.",
    ),
    Variable(
        "NAN_COORDINATES",
        "keep",
        "The same for a shape with positions whose x or y is NaN or infinite.",
    ),
    Variable(
        "VALIDITY",
        "flag",
        "What becomes of invalid polygons: `off` does not look, `flag` counts them with row numbers"
        " and reasons, `repair` makes them valid, or rejects the row where nobody can know what was"
        " meant.",
    ),
    Variable(
        "READER",
        "auto",
        "How rows are decoded: `auto` takes values and plain geometry from the bytes and asks"
        " Fiona for the rest; `fiona` takes everything from Fiona, slowly, and loses"
        " [what GDAL loses](differences.md).",
    ),
)

_DEFAULTS = {variable.name: variable.default for variable in VARIABLES}


@dataclass(frozen=True, slots=True)
class Sweeping:
    """How long one sweep goes on, how many jobs it runs, how often it reads the whole bucket."""

    seconds: int
    jobs: int
    patience: Patience
    reconcile_every: timedelta


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the deployment decides. Extensions are folded; durations are checked."""

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
    firestore_database: str
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


class SettingsError(ConfigurationError):
    """The environment is not usable; `problems` lists everything that is wrong.

    The message is a line with the cure, then a line for each problem: whoever
    shows only one end of it, as a log does of a crash, shows something of use.
    """

    code = "settings"
    cure = "correct the environment and deploy again"

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the environment"
        super().__init__(count, where="settings")
        self.args = ("\n  - ".join((f"{self}:", *problems)),)


def load(environment: Mapping[str, str]) -> Settings:
    """Return the settings that `environment` states; unknown variables are not ours.

    Raises `SettingsError` with every problem found, each naming the variable
    and the cure.
    """
    return _Loader(environment).load()


def for_reading(environment: Mapping[str, str]) -> Settings:
    """Return the settings as far as they say how to read; nothing needs to be set.

    Where datasets go is left open. Raises `SettingsError` as `load` does.
    """
    return load({**environment, "SINK": "gs://nowhere", "SOURCE_BUCKET": ""})


class _Loader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._problems: list[str] = []

    def load(self) -> Settings:
        sink = self._sink()
        required = self._checked("REQUIRED_EXTS", _extensions, tuple[str, ...]())
        settle = self._whole("SETTLE_SECONDS", 0, MOST_SETTLE_SECONDS)
        dedup = self._whole("DEDUP_TTL_SECONDS", 1, MOST_TTL_SECONDS)
        manifest_ttl = self._whole("MANIFEST_TTL_SECONDS", 1, MOST_TTL_SECONDS)
        attempts = self._whole("MAX_ATTEMPTS", 1, MOST_ATTEMPTS)
        lease = self._whole("LEASE_SECONDS", 1, MOST_FUNCTION_SECONDS)
        retry = self._whole("RETRY_SECONDS", 0, MOST_RETRY_SECONDS)
        max_bytes = self._whole("MAX_BUNDLE_BYTES", 1, MOST_BYTES)
        max_unpacked = self._whole("MAX_UNPACKED_BYTES", 1, MOST_BYTES)
        max_entries = self._whole("MAX_ENTRIES", 1, MOST_ENTRIES)
        names = [
            self._checked(variable, _collection, "")
            for variable in (
                "CLAIM_COLLECTION",
                "MANIFEST_COLLECTION",
                "JOB_COLLECTION",
                "SWEEP_COLLECTION",
            )
        ]
        if len(set(names)) < len(names):
            self._problem("CLAIM_COLLECTION", "the four collections must have four names")
        if dedup <= REDELIVERY_WINDOW_SECONDS:
            self._problem(
                "DEDUP_TTL_SECONDS",
                f"{dedup} is not longer than the redelivery window of"
                f" {REDELIVERY_WINDOW_SECONDS} s, so that a redelivered event could be taken for a"
                " new one; use 604800",
            )
        if settle >= manifest_ttl:
            self._problem(
                "SETTLE_SECONDS",
                f"{settle} is not shorter than MANIFEST_TTL_SECONDS={manifest_ttl}",
            )
        timeout = timedelta(
            seconds=self._whole("FUNCTION_TIMEOUT_SECONDS", 1, MOST_FUNCTION_SECONDS)
        )
        sweeping = self._sweeping(
            timedelta(seconds=settle), timedelta(seconds=manifest_ttl), timeout
        )
        topic = self._checked("DEAD_LETTER_TOPIC", _topic, "")
        rows = self._policies(sink.required_crs if isinstance(sink, SinkAddress) else "")
        source_bucket = self._checked("SOURCE_BUCKET", _bucket, "")
        source_prefix = self._text("SOURCE_PREFIX")
        if isinstance(sink, SinkAddress) and source_bucket == sink.bucket:
            self._apart(sink, source_prefix)
        if self._problems or sink is None:
            raise SettingsError(tuple(self._problems))
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
            firestore_database=self._text("FIRESTORE_DATABASE"),
            dead_letter_topic=topic,
            max_bundle_bytes=max_bytes,
            max_unpacked_bytes=max_unpacked,
            max_entries=max_entries,
            policies=rows,
        )

    def _sweeping(self, settle: timedelta, give_up: timedelta, timeout: timedelta) -> Sweeping:
        stalled_seconds = self._whole("STALLED_AFTER_SECONDS", 0, MOST_TTL_SECONDS - 1)
        stalled_after = timedelta(seconds=stalled_seconds)
        if stalled_after >= give_up:
            self._problem(
                "STALLED_AFTER_SECONDS",
                f"{stalled_seconds} is not shorter than MANIFEST_TTL_SECONDS="
                f"{give_up // timedelta(seconds=1)}, when the bundle is given up",
            )
        every = self._whole("RECONCILE_EVERY_SECONDS", 1, MOST_TTL_SECONDS)
        return Sweeping(
            seconds=self._sweep_seconds(timeout),
            jobs=self._whole("SWEEP_JOBS", 1, MOST_SWEEP_JOBS),
            patience=Patience(settle, stalled_after, give_up),
            reconcile_every=timedelta(seconds=every),
        )

    def _sweep_seconds(self, timeout: timedelta) -> int:
        """Return how long a sweep goes on, so that a job it begins last has the time of a run."""
        seconds = self._whole("SWEEP_SECONDS", 1, MOST_SWEEP_SECONDS)
        most_seconds = max(1, (timeout - timeout * RUN_SHARE) // timedelta(seconds=1))
        if not self._environment.get("SWEEP_SECONDS", "").strip():
            return min(seconds, most_seconds)
        if seconds > most_seconds:
            self._problem(
                "SWEEP_SECONDS",
                f"{seconds} is more than a tenth of FUNCTION_TIMEOUT_SECONDS="
                f"{timeout // timedelta(seconds=1)}, so that a job that the sweep begins last could"
                f" be cut off by the timeout; use {most_seconds}",
            )
        return seconds

    def _policies(self, required_crs: str) -> Policies:
        accept: MissingCrs | str = MissingCrs.ACCEPT
        stated = Policies(
            missing_crs=self._checked("MISSING_CRS", policies.missing_crs, accept),
            target_crs=self._checked("TARGET_CRS", policies.target_crs, "") or required_crs,
            null_geometry=self._row_policy("NULL_GEOMETRY"),
            empty_geometry=self._row_policy("EMPTY_GEOMETRY"),
            nan_coordinates=self._row_policy("NAN_COORDINATES"),
            reader=self._checked("READER", policies.reader, Reader.AUTO),
            validity=self._checked("VALIDITY", policies.validity, Validity.FLAG),
        )
        if stated.target_crs and stated.missing_crs is MissingCrs.ACCEPT:
            self._problem(
                "MISSING_CRS",
                f"a layer without a CRS cannot be transformed to {stated.target_crs}; set it to"
                " hold or EPSG:NUMBER",
            )
        if required_crs and stated.target_crs != required_crs:
            self._problem(
                "TARGET_CRS",
                f"{stated.target_crs} is not {required_crs}, the one CRS of the sink's format;"
                " leave it empty",
            )
        return stated

    def _apart(self, sink: SinkAddress, source_prefix: str) -> None:
        source = f"gs://{sink.bucket}/{source_prefix}"
        if sink.output_prefix.startswith(source_prefix):
            self._problem(
                "SINK",
                f"{sink} lies inside {source},"
                " which triggers us; use another bucket, or set SOURCE_PREFIX to a folder that"
                " does not hold the output",
            )
        elif source_prefix.startswith(sink.output_prefix):
            self._problem(
                "SOURCE_PREFIX",
                f"{source} lies inside {sink}, where everything counts as our own output; use"
                " another bucket, or folders of which neither holds the other",
            )

    def _row_policy(self, variable: str) -> RowPolicy:
        return self._checked(variable, policies.row_policy, RowPolicy.KEEP)

    def _sink(self) -> SinkAddress | DatabaseAddress | None:
        uri = self._text("SINK")
        if not uri:
            self._problem("SINK", "is not set; set it to gs://BUCKET/PREFIX")
            return None
        try:
            if uri.startswith(postgis_address.SCHEMES):
                return postgis_address.parse(uri)
            return parse_sink(uri)
        except GateError as error:
            self._problem("SINK", f"{error.what}; {error.todo}")
            return None

    def _text(self, variable: str) -> str:
        return self._environment.get(variable, "").strip() or _DEFAULTS[variable]

    def _checked(self, variable: str, check: Callable[[str], T], otherwise: T) -> T:
        try:
            return check(self._text(variable))
        except ValueError as error:
            self._problem(variable, str(error))
            return otherwise

    def _whole(self, variable: str, least: int, most: int) -> int:
        text = self._text(variable)
        default = _DEFAULTS[variable]
        if text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most:
            return int(text)
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        self._problem(
            variable, f"{shown!r} is no whole number from {least} to {most}; use {default}"
        )
        return int(default)

    def _problem(self, variable: str, what: str) -> None:
        self._problems.append(f"{variable}: {what}")


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
