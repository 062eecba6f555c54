# For deployments that were made before functions and alerts were listed.

moved {
  from = google_cloudfunctions2_function.ingest
  to   = google_cloudfunctions2_function.gate["ingest"]
}

moved {
  from = google_cloudfunctions2_function.sweep
  to   = google_cloudfunctions2_function.gate["sweep"]
}

moved {
  from = google_monitoring_alert_policy.threshold
  to   = google_monitoring_alert_policy.alert
}

moved {
  from = google_monitoring_alert_policy.failure_share
  to   = google_monitoring_alert_policy.alert["failure-share"]
}

moved {
  from = google_monitoring_alert_policy.sweep_failing
  to   = google_monitoring_alert_policy.alert["sweep-failing"]
}
