"""Damage to bundles, and child processes that open what is left."""
