locals {
  # What is not said here is what the code does by default. As much as possible is
  # known while planning: the provider fails on what it learns later, at times
  # (hashicorp/terraform-provider-google#22497).
  environment = merge(
    var.settings,
    {
      DEAD_LETTER_TOPIC        = "projects/${var.project_id}/topics/${google_pubsub_topic.dead_letters.name}"
      FUNCTION_TIMEOUT_SECONDS = tostring(var.timeout_seconds)
      SINK                     = local.sink
      SOURCE_BUCKET            = var.source_bucket
      SOURCE_PREFIX            = var.source_prefix
    },
    local.firestore ? { FIRESTORE_DATABASE = local.database } : { STATE = "blobs", STATE_URI = local.state },
    var.gate == "manifest" ? {} : { GATE = var.gate },
    var.executor == "inline" ? {} : { EXECUTOR = var.executor },
    local.tasks ? {
      TASK_QUEUE           = local.queue
      TASK_SERVICE_ACCOUNT = google_service_account.tasks[0].email
      WORK_URL             = local.work_url
    } : {},
  )

  # Each is named by its entry point in main.py.
  functions = merge(
    {
      ingest = {
        description     = "Takes the events of gs://${var.source_bucket} and loads each version of each shapefile once"
        max_instances   = var.max_instances
        timeout_seconds = var.timeout_seconds
      }
      sweep = {
        description     = "Finishes what events began, and finds what they missed"
        max_instances   = 1
        timeout_seconds = var.timeout_seconds
      }
    },
    local.tasks ? {
      work = {
        description     = "Does what tasks say, each until it succeeds"
        max_instances   = var.max_instances
        timeout_seconds = var.work_timeout_seconds
      }
    } : {},
  )
}

resource "google_cloudfunctions2_function" "gate" {
  for_each = local.functions

  project     = var.project_id
  name        = "${var.name}-${each.key}"
  location    = var.region
  description = each.value.description
  labels      = var.labels

  build_config {
    runtime           = "python311"
    entry_point       = each.key
    service_account   = google_service_account.build.name
    docker_repository = google_artifact_registry_repository.images.id

    source {
      storage_source {
        bucket = google_storage_bucket_object.code.bucket
        object = google_storage_bucket_object.code.name
      }
    }
  }

  service_config {
    available_cpu                    = tostring(var.cpu)
    available_memory                 = var.memory
    environment_variables            = merge(local.environment, { FUNCTION_TIMEOUT_SECONDS = tostring(each.value.timeout_seconds) })
    ingress_settings                 = "ALLOW_INTERNAL_ONLY"
    max_instance_count               = each.value.max_instances
    max_instance_request_concurrency = 1
    service_account_email            = google_service_account.runtime.email
    timeout_seconds                  = each.value.timeout_seconds
    vpc_connector                    = var.vpc_connector
    vpc_connector_egress_settings    = var.vpc_connector == null ? null : "PRIVATE_RANGES_ONLY"

    dynamic "secret_environment_variables" {
      for_each = var.secrets
      content {
        key        = secret_environment_variables.key
        project_id = data.google_project.this[0].number
        secret     = secret_environment_variables.value
        version    = "latest"
      }
    }
  }

  # A function without one is called over HTTP.
  dynamic "event_trigger" {
    for_each = each.key == "ingest" ? [local.source_bucket] : []
    content {
      event_type            = "google.cloud.storage.object.v1.finalized"
      trigger_region        = local.source_location
      retry_policy          = "RETRY_POLICY_RETRY"
      service_account_email = google_service_account.trigger.email

      event_filters {
        attribute = "bucket"
        value     = event_trigger.value
      }
    }
  }

  depends_on = [google_project_service.apis, time_sleep.grants]
}

# Secrets are named with the number of their project, for its id would differ at
# each plan; and so is the address of a function.
data "google_project" "this" {
  count = length(var.secrets) > 0 || local.tasks ? 1 : 0

  project_id = var.project_id

  depends_on = [google_project_service.apis]
}

resource "google_cloud_scheduler_job" "sweep" {
  project          = var.project_id
  region           = var.region
  name             = "${var.name}-sweep"
  description      = "Calls the sweep"
  schedule         = var.sweep_schedule
  time_zone        = "Etc/UTC"
  attempt_deadline = "${var.timeout_seconds}s"

  # The next minute is the retry.
  retry_config {
    retry_count = 0
  }

  http_target {
    http_method = "POST"
    uri         = google_cloudfunctions2_function.gate["sweep"].service_config[0].uri

    oidc_token {
      service_account_email = google_service_account.scheduler.email
      audience              = google_cloudfunctions2_function.gate["sweep"].service_config[0].uri
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.scheduler]
}
