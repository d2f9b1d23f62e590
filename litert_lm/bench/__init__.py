"""Measures speed, memory and load time of one model on this machine."""
