# The first three are all that must be stated.

variable "project_id" {
  description = "The project that everything is in."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id is 6 to 30 lower-case letters, digits and hyphens; it is not the number or the display name."
  }
}

variable "region" {
  description = "Where the functions run, such as europe-west1; also where what is created here lies."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region is one region such as europe-west1; for a bucket of several regions set source_location."
  }
}

variable "source_bucket" {
  description = "The bucket that shapefiles are uploaded to. It is created unless create_source_bucket is false."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", var.source_bucket))
    error_message = "source_bucket is the plain name of a bucket: no gs:// and no slash."
  }
}

# --- names ---------------------------------------------------------------------

variable "name" {
  description = "What the names of all that is created begin with."
  type        = string
  default     = "gate"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,18}[a-z0-9]$", var.name))
    error_message = "name is 4 to 20 lower-case letters, digits and hyphens: it is an id of a database, and the beginning of ids of service accounts."
  }
}

variable "labels" {
  description = "Labels for all that can bear some."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for key, label in var.labels : can(regex("^[a-z][a-z0-9_-]{0,62}$", key)) && can(regex("^[a-z0-9_-]{0,63}$", label))])
    error_message = "labels are lower-case letters, digits, - and _, up to 63 of them; a key begins with a letter."
  }
}

# --- input and output ------------------------------------------------------------

variable "create_source_bucket" {
  description = "Whether to create source_bucket. If it exists already, say false, and where it is in source_location."
  type        = bool
  default     = true
}

variable "source_location" {
  description = "The location of source_bucket: a region, or one such as EU. Its trigger must be in the same place. Null: region."
  type        = string
  default     = null

  validation {
    condition     = var.source_location == null ? true : can(regex("^[A-Za-z]+[A-Za-z0-9-]*$", var.source_location))
    error_message = "source_location is what `gcloud storage buckets describe` prints as location, such as EU or europe-west1."
  }
}

variable "source_prefix" {
  description = "Only objects whose names begin with this are taken. Empty: all."
  type        = string
  default     = ""

  validation {
    condition     = !startswith(var.source_prefix, "/") && !startswith(var.source_prefix, "gs://")
    error_message = "source_prefix is the beginning of names in the bucket, such as in/: no gs:// and no slash before it."
  }
}

variable "output_bucket" {
  description = "The bucket for datasets. Null: PROJECT-NAME-datasets, which is created. Ignored when sink is set."
  type        = string
  default     = null

  validation {
    condition     = var.output_bucket == null ? true : can(regex("^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", var.output_bucket))
    error_message = "output_bucket is the plain name of a bucket: no gs:// and no slash."
  }
}

variable "sink" {
  description = "Where datasets go instead of a bucket created here, as the setting SINK says it: gs://bucket/prefix or postgresql://host/database. It must hold no password; see secrets."
  type        = string
  default     = null

  validation {
    condition     = var.sink == null ? true : can(regex("^(gs://[^/]|postgresql://.)", var.sink)) && !can(regex("://[^/@]*:[^/@]+@", var.sink))
    error_message = "sink begins with gs:// or postgresql:// and holds no password; give that through secrets."
  }
}

# --- the functions -----------------------------------------------------------------

variable "memory" {
  description = "The memory of an instance. Its temporary folder, where archives and small bundles lie while they are read, is part of it."
  type        = string
  default     = "2Gi"

  validation {
    condition     = can(regex("^[1-9][0-9]*(Mi|Gi)$", var.memory))
    error_message = "memory is a number with Mi or Gi, such as 2Gi."
  }
}

variable "cpu" {
  description = "The processors of an instance."
  type        = number
  default     = 1

  validation {
    condition     = contains([1, 2, 4, 6, 8], var.cpu)
    error_message = "cpu is 1, 2, 4, 6 or 8."
  }
}

variable "max_instances" {
  description = "How many bundles are ingested at once. It protects what is behind the sink."
  type        = number
  default     = 20

  validation {
    condition     = var.max_instances >= 1 && floor(var.max_instances) == var.max_instances
    error_message = "max_instances is a whole number from 1."
  }
}

variable "timeout_seconds" {
  description = "How long one call may take. An event gets 540 s at most."
  type        = number
  default     = 540

  validation {
    condition     = var.timeout_seconds >= 60 && var.timeout_seconds <= 540
    error_message = "timeout_seconds is 60 to 540."
  }
}

variable "sweep_schedule" {
  description = "When the sweep runs, in the format of cron, UTC. Less often than every ten minutes opens the alert for a sweep that fails."
  type        = string
  default     = "* * * * *"

  validation {
    condition     = can(regex("^([^ ]+ ){4}[^ ]+$", var.sweep_schedule))
    error_message = "sweep_schedule has five fields with one space between, such as */5 * * * *."
  }
}

variable "settings" {
  description = "Further settings of the functions, by the names in docs/configuration.md. Those that have a variable here are not among them."
  type        = map(string)
  default     = {}

  validation {
    condition = alltrue([for name in keys(var.settings) : contains([
      "CLAIM_COLLECTION",
      "COLLAPSED_GEOMETRY",
      "DEDUP_TTL_SECONDS",
      "EMPTY_GEOMETRY",
      "JOB_COLLECTION",
      "LEASE_SECONDS",
      "MANIFEST_COLLECTION",
      "MANIFEST_TTL_SECONDS",
      "MAX_ATTEMPTS",
      "MAX_BUNDLE_BYTES",
      "MAX_ENTRIES",
      "MAX_UNPACKED_BYTES",
      "MISSING_CRS",
      "MULTI_GEOMETRY",
      "M_VALUES",
      "NAN_COORDINATES",
      "NULL_GEOMETRY",
      "POLL_DELAY_SECONDS",
      "POLL_MAX_ATTEMPTS",
      "READER",
      "RECONCILE_EVERY_SECONDS",
      "REQUIRED_EXTS",
      "RETRY_SECONDS",
      "SETTLE_SECONDS",
      "STALLED_AFTER_SECONDS",
      "SWEEP_COLLECTION",
      "SWEEP_JOBS",
      "SWEEP_SECONDS",
      "TARGET_CRS",
      "VALIDITY",
      "VERIFY_MAX_AGE_SECONDS",
      "Z_VALUES",
    ], name)])
    error_message = "settings has a name that is none of docs/configuration.md, or one that another variable here sets (sink, source_bucket, source_prefix, database, gate, executor, state)."
  }
}

variable "secrets" {
  description = "Environment variables that are read from Secret Manager when an instance starts, such as { PGPASSWORD = \"gate-postgis\" }: the secret of that name, in this project, latest version. The secrets must exist."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name, secret in var.secrets : can(regex("^[A-Z][A-Z0-9_]*$", name)) && can(regex("^[A-Za-z0-9_-]{1,255}$", secret))])
    error_message = "secrets are NAME = \"secret\": the name of an environment variable, and the plain name of a secret."
  }
}

variable "vpc_connector" {
  description = "A Serverless VPC Access connector, by its full name, for a database with a private address. Null: none."
  type        = string
  default     = null

  validation {
    condition     = var.vpc_connector == null ? true : can(regex("^projects/[^/]+/locations/[^/]+/connectors/[^/]+$", var.vpc_connector))
    error_message = "vpc_connector is projects/PROJECT/locations/REGION/connectors/NAME."
  }
}

variable "cloud_sql_instance" {
  description = "A Cloud SQL instance of this project, PROJECT:REGION:INSTANCE, that the functions may reach through its socket: the role only; docs/deploy.md has the command that attaches the socket. Null: none, as with a private address."
  type        = string
  default     = null

  validation {
    condition     = var.cloud_sql_instance == null ? true : can(regex("^[a-z][a-z0-9.:-]*:[a-z]+-[a-z]+[0-9]+:[a-z][a-z0-9-]*$", var.cloud_sql_instance))
    error_message = "cloud_sql_instance is PROJECT:REGION:INSTANCE, as `gcloud sql instances describe` prints it as connectionName."
  }
}

variable "extra_requirements" {
  description = "Further lines for requirements.txt, for sinks whose libraries are not there, such as [\"pyogrio==0.11.1\"]."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for line in var.extra_requirements : can(regex("^[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+$", line))])
    error_message = "extra_requirements are pinned: NAME==VERSION."
  }
}

# --- Firestore -----------------------------------------------------------------------

variable "create_database" {
  description = "Whether to create the Firestore database. Do not change it later: see docs/deploy.md."
  type        = bool
  default     = true
}

variable "database" {
  description = "The Firestore database, in Native mode. Null: NAME, or (default) if it is not created here."
  type        = string
  default     = null

  validation {
    condition     = var.database == null ? true : can(regex("^([(]default[)]|[a-z][a-z0-9-]{2,61}[a-z0-9])$", var.database))
    error_message = "database is (default), or 4 to 63 lower-case letters, digits and hyphens."
  }
}

variable "database_location" {
  description = "Where the database is created, for ever: a region, nam5 or eur3. Null: region."
  type        = string
  default     = null

  validation {
    condition     = var.database_location == null ? true : can(regex("^[a-z]+(-[a-z]+)?[0-9]+$", var.database_location))
    error_message = "database_location is a region such as europe-west1, nam5 or eur3."
  }
}

# --- other ways to gate, to run jobs, and to keep state: see docs/choosing.md -----------

variable "gate" {
  description = "What tells that a bundle is whole: manifest, a record of the events; verify, a listing when the .shp arrives; poll, listings by tasks."
  type        = string
  default     = "manifest"

  validation {
    condition     = contains(["manifest", "verify", "poll"], var.gate)
    error_message = "gate is manifest, verify or poll."
  }
}

variable "executor" {
  description = "Who runs a job: inline, the event that dispatched it; tasks, a task, which may take work_timeout_seconds."
  type        = string
  default     = "inline"

  validation {
    condition     = contains(["inline", "tasks"], var.executor)
    error_message = "executor is inline or tasks."
  }
}

variable "work_timeout_seconds" {
  description = "How long the function that tasks call may take. Cloud Tasks waits 1800 s at most. Ignored where no tasks are made."
  type        = number
  default     = 1800

  validation {
    condition     = var.work_timeout_seconds >= 60 && var.work_timeout_seconds <= 1800
    error_message = "work_timeout_seconds is 60 to 1800."
  }
}

variable "state" {
  description = "Where claims, manifests and jobs are kept: firestore; blobs, as objects of a bucket that is created, without a database. Do not change it later: what is recorded in one is not known to the other."
  type        = string
  default     = "firestore"

  validation {
    condition     = contains(["firestore", "blobs"], var.state)
    error_message = "state is firestore or blobs."
  }
}

# --- alerts ----------------------------------------------------------------------------

variable "alert_emails" {
  description = "Who is written to when an alert opens. Empty: alerts are seen in the console only."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for email in var.alert_emails : can(regex("^[^@ ]+@[^@ ]+$", email))])
    error_message = "alert_emails are addresses such as gis@example.com."
  }
}

variable "runbook_url" {
  description = "Where your people find docs/operations.md; alerts link to its headings."
  type        = string
  default     = "docs/operations.md"

  validation {
    condition     = can(regex("^[^ \"()<>|\\\\]+$", var.runbook_url))
    error_message = "runbook_url is an address, or a path, without spaces, quotes and brackets."
  }
}
