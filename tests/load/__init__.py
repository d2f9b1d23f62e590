"""Load on a server."""
