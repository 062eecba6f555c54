# For gate = "poll" and executor = "tasks": a queue whose tasks call the function
# `work`, until a call succeeds.

locals {
  tasks = var.gate == "poll" || var.executor == "tasks"
  queue = local.tasks ? "projects/${var.project_id}/locations/${google_cloud_tasks_queue.work[0].location}/queues/${google_cloud_tasks_queue.work[0].name}" : null

  # `work` makes tasks too, so it has to know its address before it is there: that is
  # the one which Cloud Run makes from name, number and region.
  work_url = local.tasks ? "https://${var.name}-work-${data.google_project.this[0].number}.${var.region}.run.app" : null
}

resource "google_cloud_tasks_queue" "work" {
  count = local.tasks ? 1 : 0

  project  = var.project_id
  location = var.region
  name     = "${var.name}-work"

  # An instance takes one call at a time; more would only be refused.
  rate_limits {
    max_concurrent_dispatches = var.max_instances
  }

  # For a day, as events are: tries end when both limits are reached. What is left
  # then is found by the sweep.
  retry_config {
    max_attempts       = 10
    max_retry_duration = "86400s"
    min_backoff        = "10s"
    max_backoff        = "600s"
  }

  depends_on = [google_project_service.apis]
}

resource "google_service_account" "tasks" {
  count = local.tasks ? 1 : 0

  project      = var.project_id
  account_id   = "${var.name}-tasks"
  display_name = "Calls the function for tasks of ${var.name}"

  depends_on = [google_project_service.apis]
}

resource "google_cloud_run_v2_service_iam_member" "tasks" {
  count = local.tasks ? 1 : 0

  project  = var.project_id
  location = google_cloudfunctions2_function.gate["work"].location
  name     = google_cloudfunctions2_function.gate["work"].name
  role     = "roles/run.invoker"
  member   = google_service_account.tasks[0].member

  # A function that is made anew has lost its grants.
  lifecycle {
    replace_triggered_by = [google_cloudfunctions2_function.gate["work"].id]
  }
}

resource "google_cloud_tasks_queue_iam_member" "runtime" {
  count = local.tasks ? 1 : 0

  project  = var.project_id
  location = google_cloud_tasks_queue.work[0].location
  name     = google_cloud_tasks_queue.work[0].name
  role     = "roles/cloudtasks.enqueuer"
  member   = google_service_account.runtime.member
}

# Whoever makes a task that calls as an account has to be allowed to act as it.
resource "google_service_account_iam_member" "runtime_tasks" {
  count = local.tasks ? 1 : 0

  service_account_id = google_service_account.tasks[0].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.runtime.member
}
