# The other gates, executors and stores: what each choice adds, and what it does without.

mock_provider "google" {
  mock_resource "google_service_account" {
    defaults = {
      name   = "projects/acme-prod/serviceAccounts/someone@acme-prod.iam.gserviceaccount.com"
      email  = "someone@acme-prod.iam.gserviceaccount.com"
      member = "serviceAccount:someone@acme-prod.iam.gserviceaccount.com"
    }
  }
}
mock_provider "google-beta" {}
mock_provider "archive" {}
mock_provider "time" {}

variables {
  project_id    = "acme-prod"
  region        = "europe-west1"
  source_bucket = "acme-in"
}

run "a_queue_only_where_it_is_used" {
  command = plan

  assert {
    condition     = length(google_cloud_tasks_queue.work) + length(google_service_account.tasks) + length(google_storage_bucket.state) == 0
    error_message = "By default there is no queue and no bucket for state."
  }
  assert {
    condition     = length(setintersection(keys(local.environment), ["GATE", "EXECUTOR", "STATE", "STATE_URI", "TASK_QUEUE", "WORK_URL", "TASK_SERVICE_ACCOUNT"])) == 0
    error_message = "What is not chosen is not said."
  }
  assert {
    condition     = toset(keys(google_cloudfunctions2_function.gate)) == toset(["ingest", "sweep"])
    error_message = "Without tasks there are two functions."
  }
}

run "polls_are_tasks" {
  command = apply

  variables {
    gate = "poll"
  }

  assert {
    condition     = toset(keys(google_cloudfunctions2_function.gate)) == toset(["ingest", "sweep", "work"])
    error_message = "Tasks call a function of their own."
  }
  assert {
    condition     = length(google_cloudfunctions2_function.gate["work"].event_trigger) == 0 && google_cloudfunctions2_function.gate["work"].service_config[0].timeout_seconds == 1800
    error_message = "It is called over HTTP, and may take half an hour."
  }
  assert {
    condition     = alltrue([for name, each in google_cloudfunctions2_function.gate : each.service_config[0].environment_variables["FUNCTION_TIMEOUT_SECONDS"] == (name == "work" ? "1800" : "540")])
    error_message = "Each function knows its own timeout."
  }
  assert {
    condition     = alltrue([for each in google_cloudfunctions2_function.gate : each.service_config[0].environment_variables["GATE"] == "poll" && each.service_config[0].environment_variables["TASK_QUEUE"] == "projects/acme-prod/locations/europe-west1/queues/gate-work"])
    error_message = "All of them know the gate and the queue."
  }
  assert {
    condition     = alltrue([for each in google_cloudfunctions2_function.gate : each.service_config[0].environment_variables["WORK_URL"] == "https://gate-work-${data.google_project.this[0].number}.europe-west1.run.app"])
    error_message = "Tasks call the address that Cloud Run gives to this name."
  }
  assert {
    condition     = google_cloud_run_v2_service_iam_member.tasks[0].role == "roles/run.invoker" && google_cloud_run_v2_service_iam_member.tasks[0].name == "gate-work"
    error_message = "The account of the tasks may call the function, and only that one."
  }
  assert {
    condition     = google_cloud_tasks_queue_iam_member.runtime[0].role == "roles/cloudtasks.enqueuer" && google_service_account_iam_member.runtime_tasks[0].role == "roles/iam.serviceAccountUser"
    error_message = "The functions may make tasks that call as that account."
  }
  assert {
    condition     = contains(keys(google_project_service.apis), "cloudtasks.googleapis.com") && contains(keys(google_monitoring_alert_policy.alert), "work-failing")
    error_message = "The API is enabled, and the calls are watched."
  }
}

run "jobs_are_tasks" {
  command = plan

  variables {
    executor             = "tasks"
    work_timeout_seconds = 900
    max_instances        = 5
  }

  assert {
    condition     = local.environment["EXECUTOR"] == "tasks" && !contains(keys(local.environment), "GATE")
    error_message = "The executor is chosen apart from the gate."
  }
  assert {
    condition     = google_cloudfunctions2_function.gate["work"].service_config[0].timeout_seconds == 900 && google_cloudfunctions2_function.gate["ingest"].service_config[0].timeout_seconds == 540
    error_message = "Only the calls of tasks get more time than an event."
  }
  assert {
    condition     = google_cloud_tasks_queue.work[0].rate_limits[0].max_concurrent_dispatches == 5
    error_message = "No more tasks are called at once than instances can take."
  }
}

run "verifying_needs_no_queue" {
  command = plan

  variables {
    gate = "verify"
  }

  assert {
    condition     = local.environment["GATE"] == "verify" && length(google_cloud_tasks_queue.work) == 0
    error_message = "The events themselves come again."
  }
  assert {
    condition     = !contains(keys(google_monitoring_alert_policy.alert), "failure-share") && length(google_monitoring_alert_policy.alert) == 4
    error_message = "A refusal is how an event waits, so nobody is alerted by it."
  }
}

run "state_in_a_bucket" {
  command = plan

  variables {
    state = "blobs"
  }

  assert {
    condition     = length(google_firestore_database.state) + length(google_firestore_field.expiry) + length(google_firestore_field.unindexed) + length(google_project_iam_member.runtime_database) == 0
    error_message = "There is no database."
  }
  assert {
    condition     = !contains(keys(google_project_service.apis), "firestore.googleapis.com") && !contains(keys(local.environment), "FIRESTORE_DATABASE")
    error_message = "Nothing asks for one."
  }
  assert {
    condition     = local.environment["STATE"] == "blobs" && local.environment["STATE_URI"] == "gs://acme-prod-gate-state/state"
    error_message = "The functions are told where their state is."
  }
  assert {
    condition     = one(google_storage_bucket.state[0].lifecycle_rule[0].condition).days_since_custom_time == 1 && google_storage_bucket.state[0].soft_delete_policy[0].retention_duration_seconds == 0
    error_message = "What is finished is removed, and nothing that was overwritten is kept."
  }
  assert {
    condition     = google_storage_bucket_iam_member.runtime_state[0].role == "roles/storage.objectUser"
    error_message = "The functions may read and write it."
  }
  assert {
    condition     = !strcontains(google_monitoring_dashboard.gate.dashboard_json, "firestore.googleapis.com") && length(jsondecode(google_monitoring_dashboard.gate.dashboard_json).gridLayout.widgets) == 7
    error_message = "Its chart is not drawn, the others are."
  }
}

run "choices_that_are_none_are_refused" {
  command = plan

  variables {
    gate                 = "guess"
    executor             = "cron"
    state                = "memory"
    work_timeout_seconds = 3600
  }

  expect_failures = [var.gate, var.executor, var.state, var.work_timeout_seconds]
}
