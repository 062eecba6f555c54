# What is watched stands in monitoring/ in the form of the API, for both ways to
# deploy. One alert for each heading of docs/operations.md.

locals {
  monitoring = {
    name     = var.name
    location = local.source_location
    database = local.firestore ? local.database : ""
    runbook  = var.runbook_url
  }
  stalled = jsondecode(templatefile("${path.module}/monitoring/stalled-bundles.json", local.monitoring))

  # With gate = "verify" a refusal is how an event waits.
  watched = concat(
    [for file in fileset("${path.module}/monitoring", "alerts/*.json") : file if !(var.gate == "verify" && file == "alerts/failure-share.json")],
    local.tasks ? ["tasks/work-failing.json"] : [],
  )
  alerts = {
    for file in local.watched :
    trimsuffix(basename(file), ".json") => jsondecode(templatefile("${path.module}/monitoring/${file}", local.monitoring))
  }

  # Without a database its chart would stay empty.
  dashboard = templatefile("${path.module}/monitoring/dashboard.json", local.monitoring)
  charts    = [for chart in jsondecode(local.dashboard).gridLayout.widgets : chart if !strcontains(jsonencode(chart), "firestore.googleapis.com")]
}

resource "google_monitoring_notification_channel" "email" {
  for_each = var.alert_emails

  project      = var.project_id
  display_name = each.key
  type         = "email"
  labels       = { email_address = each.key }

  depends_on = [google_project_service.apis]
}

resource "google_logging_metric" "stalled" {
  project     = var.project_id
  name        = "${var.name}-stalled-bundles"
  description = local.stalled.description
  filter      = local.stalled.filter

  metric_descriptor {
    metric_kind = local.stalled.metricDescriptor.metricKind
    value_type  = local.stalled.metricDescriptor.valueType
  }

  depends_on = [google_project_service.apis]
}

# Alerts on a log metric are refused until its descriptor is known everywhere.
resource "time_sleep" "metric" {
  create_duration = "20s"

  depends_on = [google_logging_metric.stalled]
}

resource "google_monitoring_alert_policy" "alert" {
  for_each = local.alerts

  project               = var.project_id
  display_name          = each.value.displayName
  combiner              = each.value.combiner
  notification_channels = [for channel in google_monitoring_notification_channel.email : channel.id]
  user_labels           = var.labels

  documentation {
    mime_type = each.value.documentation.mimeType
    content   = each.value.documentation.content
  }

  dynamic "conditions" {
    for_each = each.value.conditions

    content {
      display_name = conditions.value.displayName

      dynamic "condition_threshold" {
        for_each = try([conditions.value.conditionThreshold], [])

        content {
          filter             = condition_threshold.value.filter
          denominator_filter = try(condition_threshold.value.denominatorFilter, null)
          comparison         = condition_threshold.value.comparison
          threshold_value    = condition_threshold.value.thresholdValue
          duration           = condition_threshold.value.duration

          dynamic "aggregations" {
            for_each = condition_threshold.value.aggregations

            content {
              alignment_period     = aggregations.value.alignmentPeriod
              per_series_aligner   = aggregations.value.perSeriesAligner
              cross_series_reducer = aggregations.value.crossSeriesReducer
            }
          }

          dynamic "denominator_aggregations" {
            for_each = try(condition_threshold.value.denominatorAggregations, [])

            content {
              alignment_period     = denominator_aggregations.value.alignmentPeriod
              per_series_aligner   = denominator_aggregations.value.perSeriesAligner
              cross_series_reducer = denominator_aggregations.value.crossSeriesReducer
            }
          }
        }
      }

      # Whatever keeps the sweep from its work, the function or its caller, shows
      # as the absence of a good answer.
      dynamic "condition_absent" {
        for_each = try([conditions.value.conditionAbsent], [])

        content {
          filter   = condition_absent.value.filter
          duration = condition_absent.value.duration

          dynamic "aggregations" {
            for_each = condition_absent.value.aggregations

            content {
              alignment_period     = aggregations.value.alignmentPeriod
              per_series_aligner   = aggregations.value.perSeriesAligner
              cross_series_reducer = aggregations.value.crossSeriesReducer
            }
          }
        }
      }
    }
  }

  depends_on = [time_sleep.metric]
}

resource "google_monitoring_dashboard" "gate" {
  project = var.project_id
  dashboard_json = local.firestore ? local.dashboard : jsonencode(merge(jsondecode(local.dashboard), {
    gridLayout = { columns = "2", widgets = local.charts }
  }))

  depends_on = [google_project_service.apis]
}

resource "google_monitoring_dashboard" "tasks" {
  count = local.tasks ? 1 : 0

  project        = var.project_id
  dashboard_json = templatefile("${path.module}/monitoring/tasks/dashboard.json", local.monitoring)

  depends_on = [google_project_service.apis]
}
