"""Check a deployment, and say what to do about what is wrong."""
