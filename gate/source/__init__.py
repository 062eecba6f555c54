"""Where components come from: the port and its adapters."""
