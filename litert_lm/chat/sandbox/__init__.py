"""Where untrusted templates run, and what they may cost."""
