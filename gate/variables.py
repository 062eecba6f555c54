"""Every environment variable that the product reads, with its default and meaning."""

from __future__ import annotations

from dataclasses import dataclass


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
    Variable(
        "GATE",
        "manifest",
        "What decides that a bundle is whole: `manifest` records each event; `verify` acts on the"
        " `.shp` alone and lists the bucket, and its event comes again until the rest is there;"
        " `poll` lists the bucket in tasks. [choosing.md](choosing.md) helps to choose. `verify`"
        " needs a `SOURCE_BUCKET`; `poll` needs `TASK_QUEUE`, `WORK_URL` and"
        " `TASK_SERVICE_ACCOUNT`.",
    ),
    Variable(
        "VERIFY_MAX_AGE_SECONDS",
        "72000",
        "With `GATE=verify`: how long after the upload of its `.shp` a bundle may lack a required"
        " file before it ends as a dead letter `incomplete`. An hour less than the day for which"
        " events come again, at most.",
    ),
    Variable(
        "POLL_DELAY_SECONDS",
        "30",
        "With `GATE=poll`: how long after an upload its bundle is looked at, at the earliest; it"
        " may be twice that, for uploads of one time share a look. The pause before the next look"
        " doubles each time, up to 3600 s.",
    ),
    Variable(
        "POLL_MAX_ATTEMPTS",
        "30",
        "With `GATE=poll`: how many looks may find a required file missing before the bundle ends"
        " as a dead letter `incomplete`. With the defaults that is 23 hours after the upload.",
    ),
    Variable("CLAIM_COLLECTION", "claims", "The Firestore collection of claims."),
    Variable("MANIFEST_COLLECTION", "manifests", "The Firestore collection of manifests."),
    Variable("JOB_COLLECTION", "jobs", "The Firestore collection of jobs."),
    Variable("SWEEP_COLLECTION", "sweep", "The Firestore collection of the sweep's cursors."),
    Variable("FIRESTORE_DATABASE", "(default)", "The Firestore database, in Native mode."),
    Variable(
        "STATE",
        "firestore",
        "Where claims, manifests and jobs are kept: `firestore`, or `blobs`, as small objects in"
        " a bucket, see [choosing.md](choosing.md).",
    ),
    Variable(
        "STATE_URI",
        "",
        "With `STATE=blobs`, the bucket and prefix for them: `gs://bucket/prefix`. Not in"
        " `SOURCE_BUCKET`, which must be set, and apart from the sink.",
    ),
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
    Variable(
        "EXECUTOR",
        "inline",
        "Who runs a job: `inline`, the event that dispatched it, or the sweep; `tasks`, a Cloud"
        " Task that calls the function `work`, which may take 1800 s. `tasks` needs the next"
        " three.",
    ),
    Variable(
        "TASK_QUEUE",
        "",
        "The queue of tasks, as `projects/P/locations/L/queues/Q`.",
    ),
    Variable("WORK_URL", "", "The address of the function `work`, which tasks call."),
    Variable(
        "TASK_SERVICE_ACCOUNT",
        "",
        "The e-mail address of the service account in whose name tasks call `work`.",
    ),
    Variable("LEASE_SECONDS", "60", "How long a claim on a job holds without being renewed."),
    Variable(
        "RETRY_SECONDS",
        "10",
        "The pause after a first failed attempt; it doubles each time, up to 600 s.",
    ),
    Variable(
        "MAX_BUNDLE_BYTES",
        "8589934592",
        "The largest bundle that is taken. Counted are the bytes of what is read of it, as they"
        " are stored: `.shp`, `.shx`, `.dbf`, `.prj`, `.cpg`, `.cst`, a `.shp.xml` of up to 1 MiB,"
        " or the `.zip` or `.shz` itself. Beyond it, and beyond what the function has time and"
        " memory for, a bundle is held: see [docs/limits.md](limits.md).",
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
        "COLLAPSED_GEOMETRY",
        "keep",
        "The same for a shape of which a ring, closed, has fewer than four positions, or a line"
        " fewer than two: one that is kept repeats its last position until readers accept it.",
    ),
    Variable(
        "MULTI_GEOMETRY",
        "mixed",
        "When all lines or all polygons of a layer become their multi types: `mixed` where any"
        " record has several parts, `always` in every layer. Points never do.",
    ),
    Variable(
        "Z_VALUES",
        "keep",
        "What becomes of Z values: `keep` loads them, `drop` loads x and y alone and counts the"
        " rows.",
    ),
    Variable(
        "M_VALUES",
        "drop",
        "What becomes of M values, for which no form of dataset has a place: `drop` loads the rows"
        " without them and counts these, `reject` leaves out and lists the rows that have any.",
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

# Those that say how to read, and what is too large to.
READING = (
    "REQUIRED_EXTS",
    "MAX_BUNDLE_BYTES",
    "MAX_UNPACKED_BYTES",
    "MAX_ENTRIES",
    "MISSING_CRS",
    "TARGET_CRS",
    "NULL_GEOMETRY",
    "EMPTY_GEOMETRY",
    "NAN_COORDINATES",
    "COLLAPSED_GEOMETRY",
    "MULTI_GEOMETRY",
    "Z_VALUES",
    "M_VALUES",
    "VALIDITY",
    "READER",
)

# Those that say where claims, manifests and jobs are kept and for how long, and what a
# bundle is made of. Of the times, each is checked against another.
ASKING = (
    "STATE",
    "STATE_URI",
    "FIRESTORE_DATABASE",
    "CLAIM_COLLECTION",
    "MANIFEST_COLLECTION",
    "JOB_COLLECTION",
    "SWEEP_COLLECTION",
    "SETTLE_SECONDS",
    "DEDUP_TTL_SECONDS",
    "MANIFEST_TTL_SECONDS",
    "STALLED_AFTER_SECONDS",
    "REQUIRED_EXTS",
    "MAX_BUNDLE_BYTES",
)
