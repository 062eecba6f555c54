locals {
  service = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name"

  # Title → what is drawn, each as filter, aligner, reducer and the label to part it by.
  charts = {
    "Deliveries by answer" = {
      filter  = "metric.type = \"run.googleapis.com/request_count\" AND ${local.service} = \"${google_cloudfunctions2_function.ingest.name}\""
      aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.label.response_code_class"]
    }
    "Seconds for a delivery, the slowest twentieth" = {
      filter  = "metric.type = \"run.googleapis.com/request_latencies\" AND ${local.service} = \"${google_cloudfunctions2_function.ingest.name}\""
      aligner = "ALIGN_DELTA", reducer = "REDUCE_PERCENTILE_95", by = []
    }
    "Instances" = {
      filter  = "metric.type = \"run.googleapis.com/container/instance_count\" AND ${local.service} = \"${google_cloudfunctions2_function.ingest.name}\""
      aligner = "ALIGN_MAX", reducer = "REDUCE_SUM", by = ["metric.label.state"]
    }
    "Share of memory in use" = {
      filter  = "metric.type = \"run.googleapis.com/container/memory/utilizations\" AND ${local.service} = \"${google_cloudfunctions2_function.ingest.name}\""
      aligner = "ALIGN_DELTA", reducer = "REDUCE_PERCENTILE_99", by = []
    }
    "Sweeps by answer" = {
      filter  = "metric.type = \"run.googleapis.com/request_count\" AND ${local.service} = \"${google_cloudfunctions2_function.sweep.name}\""
      aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.label.response_code_class"]
    }
    "Dead letters waiting" = {
      filter  = local.thresholds["dead-letters-waiting"].filter
      aligner = "ALIGN_MAX", reducer = "REDUCE_MAX", by = []
    }
    "Age of the oldest unacknowledged event" = {
      filter  = local.thresholds["oldest-unacknowledged-event"].filter
      aligner = "ALIGN_MAX", reducer = "REDUCE_MAX", by = []
    }
    "Writes to Firestore" = {
      filter  = "metric.type = \"firestore.googleapis.com/document/write_ops_count\" AND resource.type = \"firestore.googleapis.com/Database\" AND resource.labels.database_id = \"${local.database}\""
      aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.label.op"]
    }
  }
}

resource "google_monitoring_dashboard" "gate" {
  project = var.project_id

  dashboard_json = jsonencode({
    displayName = var.name
    gridLayout = {
      columns = "2"
      widgets = [for title, chart in local.charts : {
        title = title
        xyChart = {
          dataSets = [{
            plotType = "LINE"
            timeSeriesQuery = {
              timeSeriesFilter = {
                filter = chart.filter
                aggregation = {
                  alignmentPeriod    = "60s"
                  perSeriesAligner   = chart.aligner
                  crossSeriesReducer = chart.reducer
                  groupByFields      = chart.by
                }
              }
            }
          }]
        }
      }]
    }
  })

  depends_on = [google_project_service.apis]
}
