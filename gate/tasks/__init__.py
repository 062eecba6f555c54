"""Tasks: calls of the function `work` that a queue makes later, and repeats until they succeed."""
