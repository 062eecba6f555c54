# For state = "blobs": a bucket in the place of the database.

locals {
  firestore    = var.state == "firestore"
  state_bucket = local.firestore ? null : google_storage_bucket.state[0].name
  state        = local.firestore ? null : "gs://${local.state_bucket}/state"
}

resource "google_storage_bucket" "state" {
  count = local.firestore ? 0 : 1

  project  = var.project_id
  name     = "${var.project_id}-${var.name}-state"
  location = var.region
  labels   = var.labels

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  # Objects are written over all the time; nobody wants what they were.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  # Only what is finished has a time of its own.
  dynamic "lifecycle_rule" {
    for_each = jsondecode(file("${path.module}/policies/state-lifecycle.json")).rule
    content {
      condition {
        days_since_custom_time = lifecycle_rule.value.condition.daysSinceCustomTime
      }
      action {
        type = lifecycle_rule.value.action.type
      }
    }
  }

  depends_on = [google_project_service.apis]
}

resource "google_storage_bucket_iam_member" "runtime_state" {
  count = local.firestore ? 0 : 1

  bucket = local.state_bucket
  role   = "roles/storage.objectUser"
  member = google_service_account.runtime.member
}
