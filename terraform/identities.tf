# Four identities, each with what it needs and no more. Tasks have a fifth: see tasks.tf.

resource "google_service_account" "build" {
  project      = var.project_id
  account_id   = "${var.name}-build"
  display_name = "Builds the functions of ${var.name}"

  depends_on = [google_project_service.apis]
}

resource "google_service_account" "runtime" {
  project      = var.project_id
  account_id   = "${var.name}-runtime"
  display_name = "Runs the functions of ${var.name}"

  depends_on = [google_project_service.apis]
}

resource "google_service_account" "trigger" {
  project      = var.project_id
  account_id   = "${var.name}-trigger"
  display_name = "Delivers events to ${var.name}"

  depends_on = [google_project_service.apis]
}

resource "google_service_account" "scheduler" {
  project      = var.project_id
  account_id   = "${var.name}-scheduler"
  display_name = "Calls the sweep of ${var.name}"

  depends_on = [google_project_service.apis]
}

# --- build ---------------------------------------------------------------------

# The build reads a copy of the source in a bucket that Cloud Functions makes,
# gcf-v2-sources-NUMBER-REGION, so a grant on our own bucket would not do.
resource "google_project_iam_member" "build" {
  for_each = toset(["roles/logging.logWriter", "roles/storage.objectViewer"])

  project = var.project_id
  role    = each.key
  member  = google_service_account.build.member
}

resource "google_artifact_registry_repository_iam_member" "build" {
  project    = var.project_id
  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.build.member
}

# --- trigger and scheduler ---------------------------------------------------------

resource "google_project_iam_member" "trigger" {
  project = var.project_id
  role    = "roles/eventarc.eventReceiver"
  member  = google_service_account.trigger.member
}

# A function is a Cloud Run service, and that is what is invoked.

resource "google_cloud_run_v2_service_iam_member" "trigger" {
  project  = var.project_id
  location = google_cloudfunctions2_function.gate["ingest"].location
  name     = google_cloudfunctions2_function.gate["ingest"].name
  role     = "roles/run.invoker"
  member   = google_service_account.trigger.member

  # A function that is made anew has lost its grants.
  lifecycle {
    replace_triggered_by = [google_cloudfunctions2_function.gate["ingest"].id]
  }
}

resource "google_cloud_run_v2_service_iam_member" "scheduler" {
  project  = var.project_id
  location = google_cloudfunctions2_function.gate["sweep"].location
  name     = google_cloudfunctions2_function.gate["sweep"].name
  role     = "roles/run.invoker"
  member   = google_service_account.scheduler.member

  # A function that is made anew has lost its grants.
  lifecycle {
    replace_triggered_by = [google_cloudfunctions2_function.gate["sweep"].id]
  }
}

# --- runtime -----------------------------------------------------------------------

resource "google_storage_bucket_iam_member" "runtime_source" {
  bucket = local.source_bucket
  role   = "roles/storage.objectViewer"
  member = google_service_account.runtime.member
}

# The pointer is overwritten and superseded datasets are removed.
resource "google_storage_bucket_iam_member" "runtime_output" {
  count = local.sink_bucket == null ? 0 : 1

  bucket = local.sink_bucket
  role   = "roles/storage.objectUser"
  member = google_service_account.runtime.member
}

# One database only.
resource "google_project_iam_member" "runtime_database" {
  count = local.firestore ? 1 : 0

  project = var.project_id
  role    = "roles/datastore.user"
  member  = google_service_account.runtime.member

  condition {
    title      = "${var.name}-database"
    expression = "resource.name == \"projects/${var.project_id}/databases/${local.database}\""
  }
}

resource "google_pubsub_topic_iam_member" "runtime" {
  project = var.project_id
  topic   = google_pubsub_topic.dead_letters.name
  role    = "roles/pubsub.publisher"
  member  = google_service_account.runtime.member
}

resource "google_secret_manager_secret_iam_member" "runtime" {
  for_each = toset(values(var.secrets))

  project   = var.project_id
  secret_id = each.key
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.runtime.member

  depends_on = [google_project_service.apis]
}

# One instance only.
resource "google_project_iam_member" "runtime_cloud_sql" {
  count = var.cloud_sql_instance == null ? 0 : 1

  project = var.project_id
  role    = "roles/cloudsql.client"
  member  = google_service_account.runtime.member

  condition {
    title      = "${var.name}-cloud-sql"
    expression = "resource.name == \"projects/${var.project_id}/instances/${reverse(split(":", var.cloud_sql_instance))[0]}\" && resource.type == \"sqladmin.googleapis.com/Instance\""
  }

  depends_on = [google_project_service.apis]
}
