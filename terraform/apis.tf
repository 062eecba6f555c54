locals {
  apis = toset(concat(
    local.firestore ? ["firestore.googleapis.com"] : [],
    local.tasks ? ["cloudtasks.googleapis.com"] : [],
    var.cloud_sql_instance == null ? [] : ["sqladmin.googleapis.com"],
    [
      "artifactregistry.googleapis.com",
      "cloudbuild.googleapis.com",
      "cloudfunctions.googleapis.com",
      "cloudresourcemanager.googleapis.com",
      "cloudscheduler.googleapis.com",
      "eventarc.googleapis.com",
      "iam.googleapis.com",
      "logging.googleapis.com",
      "monitoring.googleapis.com",
      "pubsub.googleapis.com",
      "run.googleapis.com",
      "secretmanager.googleapis.com",
      "storage.googleapis.com",
  ]))
}

resource "google_project_service" "apis" {
  for_each = local.apis

  project = var.project_id
  service = each.key

  # Others in the project may need them.
  disable_on_destroy = false
}

# The agents that act for the services. They come into being when asked for, and
# in a fresh project nobody has asked yet.

resource "google_project_service_identity" "eventarc" {
  provider = google-beta

  project = var.project_id
  service = "eventarc.googleapis.com"

  depends_on = [google_project_service.apis]
}

data "google_storage_project_service_account" "storage" {
  project = var.project_id

  depends_on = [google_project_service.apis]
}

resource "google_project_iam_member" "eventarc_agent" {
  project = var.project_id
  role    = "roles/eventarc.serviceAgent"
  member  = "serviceAccount:${google_project_service_identity.eventarc.email}"
}

# Cloud Storage publishes events to a topic that Eventarc makes: no narrower scope.
resource "google_project_iam_member" "storage_agent" {
  project = var.project_id
  role    = "roles/pubsub.publisher"
  member  = "serviceAccount:${data.google_storage_project_service_account.storage.email_address}"
}

# A grant takes effect a while after it was given; a function that is deployed
# earlier fails with "Permission denied while using the Eventarc Service Agent".
resource "time_sleep" "grants" {
  create_duration = "90s"

  # What is granted later has to take effect too.
  triggers = merge({
    database = coalesce(local.database, local.state)
    secrets  = join(" ", values(var.secrets))
    sink     = local.sink
    source   = var.source_bucket
  }, local.tasks ? { tasks = local.queue } : {})

  depends_on = [
    google_artifact_registry_repository_iam_member.build,
    google_cloud_tasks_queue_iam_member.runtime,
    google_project_iam_member.build,
    google_project_iam_member.eventarc_agent,
    google_project_iam_member.runtime_cloud_sql,
    google_project_iam_member.runtime_database,
    google_project_iam_member.storage_agent,
    google_project_iam_member.trigger,
    google_pubsub_topic_iam_member.runtime,
    google_secret_manager_secret_iam_member.runtime,
    google_service_account_iam_member.runtime_tasks,
    google_storage_bucket_iam_member.runtime_output,
    google_storage_bucket_iam_member.runtime_source,
    google_storage_bucket_iam_member.runtime_state,
  ]
}
