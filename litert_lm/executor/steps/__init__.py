"""Runners of steps, and who runs when."""
