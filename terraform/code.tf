# What is deployed: an allow-list, the same as .gcloudignore's, and requirements.txt.

locals {
  code_folder = "${path.module}/.."
  code_files  = setunion(["main.py"], fileset(local.code_folder, "gate/**/*.py"))
  requirements = join("", concat(
    [file("${local.code_folder}/requirements.txt")],
    [for line in var.extra_requirements : "${line}\n"],
  ))
  code = merge(
    { for name in local.code_files : name => file("${local.code_folder}/${name}") },
    { "requirements.txt" = local.requirements },
  )
}

data "archive_file" "code" {
  type             = "zip"
  output_path      = "${path.module}/.build/code.zip"
  output_file_mode = "0644"

  dynamic "source" {
    for_each = local.code
    content {
      filename = source.key
      content  = source.value
    }
  }
}

# Named by its content: changed code is a new object, and so a new revision.
resource "google_storage_bucket_object" "code" {
  bucket = google_storage_bucket.code.name
  name   = "${sha256(jsonencode(local.code))}.zip"
  source = data.archive_file.code.output_path
}

resource "google_artifact_registry_repository" "images" {
  project       = var.project_id
  location      = var.region
  repository_id = var.name
  format        = "DOCKER"
  description   = "Images of the functions of ${var.name}"
  labels        = var.labels

  dynamic "cleanup_policies" {
    for_each = jsondecode(file("${path.module}/policies/images-cleanup.json"))
    content {
      id     = cleanup_policies.value.name
      action = upper(cleanup_policies.value.action.type)

      dynamic "most_recent_versions" {
        for_each = try([cleanup_policies.value.mostRecentVersions], [])
        content {
          keep_count = most_recent_versions.value.keepCount
        }
      }

      dynamic "condition" {
        for_each = try([cleanup_policies.value.condition], [])
        content {
          older_than = condition.value.olderThan
        }
      }
    }
  }

  depends_on = [google_project_service.apis]
}
