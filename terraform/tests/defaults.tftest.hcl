# What the three variables lead to.

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

run "three_variables_are_enough" {
  command = plan

  assert {
    condition     = local.sink == "gs://acme-prod-gate-datasets/layers"
    error_message = "Without a sink, datasets go into a bucket of their own."
  }
  assert {
    condition     = google_cloudfunctions2_function.gate["ingest"].service_config[0].environment_variables["SOURCE_BUCKET"] == "acme-in"
    error_message = "The function is told which bucket triggers it."
  }
  assert {
    condition     = local.environment["DEAD_LETTER_TOPIC"] == "projects/acme-prod/topics/gate-dead-letters"
    error_message = "The settings are known while planning."
  }
  assert {
    condition     = length(google_storage_bucket.source) == 1 && length(google_firestore_database.state) == 1
    error_message = "The input bucket and the database are created."
  }
}

run "events_come_again" {
  command = plan

  assert {
    condition     = google_cloudfunctions2_function.gate["ingest"].event_trigger[0].retry_policy == "RETRY_POLICY_RETRY"
    error_message = "Without retries a refused event is lost."
  }
  assert {
    condition     = google_cloudfunctions2_function.gate["ingest"].service_config[0].max_instance_request_concurrency == 1
    error_message = "An instance reads one bundle at a time."
  }
  assert {
    condition     = google_cloudfunctions2_function.gate["sweep"].service_config[0].max_instance_count == 1
    error_message = "One sweep at a time."
  }
}

run "nobody_from_outside_may_call" {
  command = apply

  assert {
    condition = alltrue([for each in google_cloudfunctions2_function.gate :
    each.service_config[0].ingress_settings == "ALLOW_INTERNAL_ONLY"])
    error_message = "Both functions are closed to the internet."
  }
  assert {
    condition = alltrue([for each in [google_storage_bucket.source[0], google_storage_bucket.output[0], google_storage_bucket.code] :
    each.public_access_prevention == "enforced" && each.uniform_bucket_level_access && each.force_destroy != true])
    error_message = "No bucket is public, and none is emptied by Terraform."
  }
}

run "the_sweep_is_called_as_itself" {
  command = apply

  assert {
    condition     = google_cloud_scheduler_job.sweep.http_target[0].oidc_token[0].audience == google_cloudfunctions2_function.gate["sweep"].service_config[0].uri
    error_message = "The audience of the token is the address of the service."
  }
  assert {
    condition     = google_cloud_scheduler_job.sweep.attempt_deadline == "540s"
    error_message = "The scheduler waits as long as the function may take."
  }
}

run "finished_documents_expire" {
  command = plan

  assert {
    condition     = toset([for each in google_firestore_field.expiry : each.collection]) == toset(values(local.collections))
    error_message = "Each collection has a TTL policy."
  }
  assert {
    condition     = alltrue([for each in google_firestore_field.expiry : each.field == "expires_at" && length(each.ttl_config) == 1 && length(each.index_config) == 1])
    error_message = "The policy is on expires_at, which is not indexed."
  }
}

run "dead_letters_are_kept" {
  command = plan

  assert {
    condition     = google_pubsub_subscription.dead_letters.expiration_policy[0].ttl == ""
    error_message = "The subscription never expires."
  }
}
