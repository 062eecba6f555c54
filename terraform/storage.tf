locals {
  source_location = lower(coalesce(var.source_location, var.region))
  source_bucket   = var.create_source_bucket ? google_storage_bucket.source[0].name : var.source_bucket

  # Datasets go into a bucket of our own unless a sink is stated.
  output_name = coalesce(var.output_bucket, "${var.project_id}-${var.name}-datasets")
  sink        = coalesce(var.sink, "gs://${local.output_name}/layers")
  sink_bucket = var.sink == null ? google_storage_bucket.output[0].name : try(regex("^gs://([^/?]+)", var.sink)[0], null)
}

# None of these is emptied by Terraform: to destroy one that holds objects fails.

resource "google_storage_bucket" "source" {
  count = var.create_source_bucket ? 1 : 0

  project  = var.project_id
  name     = var.source_bucket
  location = local.source_location
  labels   = var.labels

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  depends_on = [google_project_service.apis]
}

resource "google_storage_bucket" "output" {
  count = var.sink == null ? 1 : 0

  project  = var.project_id
  name     = local.output_name
  location = var.region
  labels   = var.labels

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  # A dataset that was removed by mistake can be had back for a week.
  versioning {
    enabled = true
  }

  dynamic "lifecycle_rule" {
    for_each = jsondecode(file("${path.module}/policies/datasets-lifecycle.json")).rule
    content {
      condition {
        days_since_noncurrent_time = lifecycle_rule.value.condition.daysSinceNoncurrentTime
      }
      action {
        type = lifecycle_rule.value.action.type
      }
    }
  }

  depends_on = [google_project_service.apis]
}

resource "google_storage_bucket" "code" {
  project  = var.project_id
  name     = "${var.project_id}-${var.name}-code"
  location = var.region
  labels   = var.labels

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  depends_on = [google_project_service.apis]
}
