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

  cleanup_policies {
    id     = "keep-the-last-ten"
    action = "KEEP"
    most_recent_versions {
      keep_count = 10
    }
  }

  cleanup_policies {
    id     = "delete-after-a-month"
    action = "DELETE"
    condition {
      older_than = "2592000s"
    }
  }

  depends_on = [google_project_service.apis]
}
