locals {
  create_database = local.firestore && var.create_database
  database        = local.create_database ? google_firestore_database.state[0].name : local.firestore ? coalesce(var.database, "(default)") : null

  collections = {
    claims    = lookup(var.settings, "CLAIM_COLLECTION", "claims")
    manifests = lookup(var.settings, "MANIFEST_COLLECTION", "manifests")
    jobs      = lookup(var.settings, "JOB_COLLECTION", "jobs")
  }

  # Fields that nothing is looked for by, as gate/store/documents.py lists them. An
  # index of a time, which only grows, would hold a collection to about 500 writes a
  # second. expires_at is among them, and stands below.
  unindexed = {
    claims = ["claimed_at", "jobs"]
    manifests = [
      "components", "dispatched", "dispatched_order", "newest", "published", "seen",
      "stalled_at", "updated_at",
    ]
    jobs = [
      "created_at", "ended_at", "history", "lease_expires_at", "next_attempt_at", "order",
      "pins", "summary",
    ]
  }
  exempt = merge([
    for collection, fields in local.unindexed : {
      for field in fields : "${collection}/${field}" => { collection = local.collections[collection], field = field }
    }
  ]...)
}

resource "google_firestore_database" "state" {
  count = local.create_database ? 1 : 0

  project                           = var.project_id
  name                              = coalesce(var.database, var.name)
  location_id                       = coalesce(var.database_location, var.region)
  type                              = "FIRESTORE_NATIVE"
  delete_protection_state           = "DELETE_PROTECTION_ENABLED"
  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"
  deletion_policy                   = "ABANDON"

  depends_on = [google_project_service.apis]
}

# Finished documents are collected a while after this time.
resource "google_firestore_field" "expiry" {
  for_each = local.firestore ? local.collections : {}

  project    = var.project_id
  database   = local.database
  collection = each.value
  field      = "expires_at"

  ttl_config {}
  index_config {}

  depends_on = [google_project_service.apis]
}

resource "google_firestore_field" "unindexed" {
  for_each = local.firestore ? local.exempt : {}

  project    = var.project_id
  database   = local.database
  collection = each.value.collection
  field      = each.value.field

  index_config {}

  depends_on = [google_project_service.apis]
}
