"""Structured output, from what is asked for to a mask of the logits."""
