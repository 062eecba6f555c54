resource "google_pubsub_topic" "dead_letters" {
  project                    = var.project_id
  name                       = "${var.name}-dead-letters"
  labels                     = var.labels
  message_retention_duration = "604800s"

  depends_on = [google_project_service.apis]
}

# A topic without a subscription loses what is published to it, and a
# subscription that nobody asks for a month would vanish by default.
resource "google_pubsub_subscription" "dead_letters" {
  project                    = var.project_id
  name                       = "${var.name}-dead-letters"
  topic                      = google_pubsub_topic.dead_letters.id
  labels                     = var.labels
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s"

  expiration_policy {
    ttl = ""
  }

  depends_on = [google_project_service.apis]
}
