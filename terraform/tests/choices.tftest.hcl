# What the other variables change.

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

run "a_trigger_is_where_an_existing_bucket_is" {
  command = plan

  variables {
    create_source_bucket = false
    source_location      = "EU"
  }

  assert {
    condition     = length(google_storage_bucket.source) == 0
    error_message = "A bucket that exists is not created."
  }
  assert {
    condition     = google_cloudfunctions2_function.gate["ingest"].event_trigger[0].trigger_region == "eu"
    error_message = "The trigger is in the location of the bucket, in lower case."
  }
  assert {
    condition     = google_cloudfunctions2_function.gate["ingest"].location == "europe-west1"
    error_message = "The function stays in its region."
  }
}

run "an_existing_database_is_used" {
  command = plan

  variables {
    create_database = false
    database        = "shared"
    settings        = { CLAIM_COLLECTION = "gate-claims" }
  }

  assert {
    condition     = length(google_firestore_database.state) == 0 && alltrue([for each in google_firestore_field.expiry : each.database == "shared"])
    error_message = "The policies are made in the database that exists."
  }
  assert {
    condition     = google_firestore_field.expiry["claims"].collection == "gate-claims"
    error_message = "They are on the collections that the functions use."
  }
}

run "a_database_as_sink" {
  command = plan

  variables {
    sink          = "postgresql://loader@10.1.2.3/gis"
    secrets       = { PGPASSWORD = "gis-loader" }
    vpc_connector = "projects/acme-prod/locations/europe-west1/connectors/inside"
  }

  assert {
    condition     = length(google_storage_bucket.output) == 0 && length(google_storage_bucket_iam_member.runtime_output) == 0
    error_message = "No bucket is made for datasets that go elsewhere."
  }
  assert {
    condition     = alltrue([for each in google_cloudfunctions2_function.gate : one(each.service_config[0].secret_environment_variables).secret == "gis-loader"])
    error_message = "Both functions read the password from Secret Manager."
  }
  assert {
    condition     = google_secret_manager_secret_iam_member.runtime["gis-loader"].role == "roles/secretmanager.secretAccessor"
    error_message = "Their identity may read that secret."
  }
}

run "an_instance_of_cloud_sql" {
  command = plan

  variables {
    sink               = "postgresql://loader@/gis?host=/cloudsql/acme-prod:europe-west1:gis"
    cloud_sql_instance = "acme-prod:europe-west1:gis"
  }

  assert {
    condition     = google_project_iam_member.runtime_cloud_sql[0].role == "roles/cloudsql.client" && strcontains(google_project_iam_member.runtime_cloud_sql[0].condition[0].expression, "projects/acme-prod/instances/gis\"")
    error_message = "The functions may reach that instance, and no other."
  }
  assert {
    condition     = contains(keys(google_project_service.apis), "sqladmin.googleapis.com")
    error_message = "The API that the socket needs is enabled."
  }
}

run "an_instance_without_its_region_is_refused" {
  command = plan

  variables {
    cloud_sql_instance = "gis"
  }

  expect_failures = [var.cloud_sql_instance]
}

run "a_sink_in_a_bucket_of_yours" {
  command = plan

  variables {
    sink = "gs://acme-layers/europe?keep=2"
  }

  assert {
    condition     = google_storage_bucket_iam_member.runtime_output[0].bucket == "acme-layers"
    error_message = "The functions may write into the bucket of the sink."
  }
}

run "requirements_are_added" {
  command = plan

  variables {
    extra_requirements = ["pyogrio==0.11.1"]
  }

  assert {
    condition     = endswith(local.code["requirements.txt"], "\npyogrio==0.11.1\n")
    error_message = "The line is appended to requirements.txt."
  }
}

run "a_password_in_the_sink_is_refused" {
  command = plan

  variables {
    sink = "postgresql://loader:hunter2@10.1.2.3/gis"
  }

  expect_failures = [var.sink]
}

run "an_unknown_setting_is_refused" {
  command = plan

  variables {
    settings = { SETTLE_SECOND = "30" }
  }

  expect_failures = [var.settings]
}

run "names_that_cannot_be_are_refused" {
  command = plan

  variables {
    project_id        = "Acme Production"
    source_bucket     = "gs://acme-in"
    source_location   = "europe west"
    source_prefix     = "/in"
    output_bucket     = "Acme out"
    name              = "a-name-of-more-than-twenty-letters"
    labels            = { Team = "maps" }
    memory            = "2GB"
    sweep_schedule    = "@hourly"
    secrets           = { PGPASSWORD = "projects/acme-prod/secrets/gis" }
    database          = "Gate"
    database_location = "europe"
    alert_emails      = ["gis"]
    runbook_url       = "our \"runbook\""
  }

  expect_failures = [
    var.project_id,
    var.source_bucket,
    var.source_location,
    var.source_prefix,
    var.output_bucket,
    var.name,
    var.labels,
    var.memory,
    var.sweep_schedule,
    var.secrets,
    var.database,
    var.database_location,
    var.alert_emails,
    var.runbook_url,
  ]
}
