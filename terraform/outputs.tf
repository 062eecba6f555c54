output "upload_to" {
  description = "Where shapefiles are uploaded."
  value       = "gs://${var.source_bucket}/${var.source_prefix}"
}

output "datasets" {
  description = "Where datasets are published."
  value       = local.sink
}

output "ingest_function" {
  description = "The function that takes events, for `python -m gate doctor` and the log."
  value       = google_cloudfunctions2_function.gate["ingest"].name
}

output "sweep_function" {
  description = "The function that the scheduler calls."
  value       = google_cloudfunctions2_function.gate["sweep"].name
}

output "dead_letter_subscription" {
  description = "Where dead letters wait."
  value       = google_pubsub_subscription.dead_letters.id
}

output "runtime_service_account" {
  description = "Who the functions run as: to be granted access to a database or to buckets elsewhere."
  value       = google_service_account.runtime.email
}

output "environment" {
  description = "The settings of the functions, for the commands of `python -m gate` that work on a deployment."
  value       = local.environment
}

output "dashboard" {
  description = "The dashboard in the console."
  value       = "https://console.cloud.google.com/monitoring/dashboards/builder/${reverse(split("/", google_monitoring_dashboard.gate.id))[0]}?project=${var.project_id}"
}
