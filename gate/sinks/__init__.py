"""Where datasets go: the port and its adapters."""
