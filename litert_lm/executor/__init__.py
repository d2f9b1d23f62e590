"""Runs a model: layout below patching, native, kv, steps; the executor above all."""
