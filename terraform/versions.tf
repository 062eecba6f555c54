terraform {
  required_version = ">= 1.7"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50, < 9.0"
    }
    # For google_project_service_identity, which no other provider has.
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 6.50, < 9.0"
    }
    archive = {
      source  = "hashicorp/archive"
      version = ">= 2.5, < 3.0"
    }
    time = {
      source  = "hashicorp/time"
      version = ">= 0.11, < 1.0"
    }
  }
}

provider "google" {
  project = var.project_id
  region  = var.region
}

provider "google-beta" {
  project = var.project_id
  region  = var.region
}
