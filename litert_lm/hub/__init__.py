"""Models on this machine: where they come from and where they are kept.

Imports nothing of the runtime, so that listing models costs milliseconds.
"""
