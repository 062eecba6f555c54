# One policy for each heading of docs/operations.md.

locals {
  # Those whose trouble is in one metric. `filter` selects it, `aligner` and
  # `reducer` make one number of it each minute, which must not exceed `above`.
  thresholds = {
    "dead-letters-waiting" = {
      title    = "dead letters are waiting"
      filter   = "metric.type = \"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = \"${google_pubsub_subscription.dead_letters.name}\""
      aligner  = "ALIGN_MAX"
      reducer  = "REDUCE_MAX"
      above    = 0
      duration = "0s"
    }
    "stalled-bundle" = {
      title    = "a bundle lacks a file"
      filter   = "metric.type = \"logging.googleapis.com/user/${google_logging_metric.stalled.name}\" AND resource.type = \"cloud_run_revision\""
      aligner  = "ALIGN_DELTA"
      reducer  = "REDUCE_SUM"
      above    = 0
      duration = "0s"
    }
    "oldest-unacknowledged-event" = {
      title    = "an event has been waiting for an hour"
      filter   = "metric.type = \"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = starts_with(\"eventarc-${local.source_location}-${google_cloudfunctions2_function.ingest.name}-\")"
      aligner  = "ALIGN_MAX"
      reducer  = "REDUCE_MAX"
      above    = 3600
      duration = "300s"
    }
  }

  requests = "metric.type = \"run.googleapis.com/request_count\" AND resource.type = \"cloud_run_revision\""
  channels = [for channel in google_monitoring_notification_channel.email : channel.id]
}

resource "google_monitoring_notification_channel" "email" {
  for_each = var.alert_emails

  project      = var.project_id
  display_name = each.key
  type         = "email"
  labels       = { email_address = each.key }

  depends_on = [google_project_service.apis]
}

# Written once for each bundle that has been incomplete for STALLED_AFTER_SECONDS.
resource "google_logging_metric" "stalled" {
  project = var.project_id
  name    = "${var.name}-stalled-bundles"
  filter  = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = \"${google_cloudfunctions2_function.sweep.name}\" AND jsonPayload.alert = \"bundle_stalled\""

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }

  depends_on = [google_project_service.apis]
}

# Alerts on a log metric are refused until its descriptor is known everywhere.
resource "time_sleep" "metric" {
  create_duration = "20s"

  depends_on = [google_logging_metric.stalled]
}

resource "google_monitoring_alert_policy" "threshold" {
  for_each = local.thresholds

  project               = var.project_id
  display_name          = "${var.name}: ${each.value.title}"
  combiner              = "OR"
  notification_channels = local.channels
  user_labels           = var.labels

  documentation {
    mime_type = "text/markdown"
    content   = "What to do: [${each.value.title}](${var.runbook_url}#${each.key})"
  }

  conditions {
    display_name = each.value.title

    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.above
      duration        = each.value.duration

      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = each.value.aligner
        cross_series_reducer = each.value.reducer
      }
    }
  }

  depends_on = [time_sleep.metric]
}

resource "google_monitoring_alert_policy" "failure_share" {
  project               = var.project_id
  display_name          = "${var.name}: a fifth of the deliveries fail"
  combiner              = "OR"
  notification_channels = local.channels
  user_labels           = var.labels

  documentation {
    mime_type = "text/markdown"
    content   = "What to do: [failure share](${var.runbook_url}#failure-share)"
  }

  conditions {
    display_name = "share of deliveries that were refused, for a quarter of an hour"

    condition_threshold {
      filter             = "${local.requests} AND resource.labels.service_name = \"${google_cloudfunctions2_function.ingest.name}\" AND metric.labels.response_code_class = \"5xx\""
      denominator_filter = "${local.requests} AND resource.labels.service_name = \"${google_cloudfunctions2_function.ingest.name}\""
      comparison         = "COMPARISON_GT"
      threshold_value    = 0.2
      duration           = "900s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }

      denominator_aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }
}

# Whatever keeps the sweep from its work, the function or its caller, shows as
# the absence of a good answer.
resource "google_monitoring_alert_policy" "sweep_failing" {
  project               = var.project_id
  display_name          = "${var.name}: the sweep is failing"
  combiner              = "OR"
  notification_channels = local.channels
  user_labels           = var.labels

  documentation {
    mime_type = "text/markdown"
    content   = "What to do: [sweep failing](${var.runbook_url}#sweep-failing)"
  }

  conditions {
    display_name = "no sweep has ended well for a quarter of an hour"

    condition_absent {
      filter   = "${local.requests} AND resource.labels.service_name = \"${google_cloudfunctions2_function.sweep.name}\" AND metric.labels.response_code_class = \"2xx\""
      duration = "900s"

      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }
}
