"""Where claims, manifests and jobs live: the port and its adapters."""
