"""The command line: one module per verb, `ui` for all output."""
