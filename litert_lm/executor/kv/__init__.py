"""The memory of a sequence, and copies of what is in it."""
