"""Models rewritten so that they take shorter KV caches."""
