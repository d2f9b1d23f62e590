"""The servers: gRPC services and the HTTP port over one engine."""
