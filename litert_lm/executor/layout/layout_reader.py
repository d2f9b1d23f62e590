"""Reads a layout: which steps a bundle's models can be run in, and their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litert_lm.bundle.tflite import TfliteModel
from litert_lm.errors import UnsupportedModelError
from litert_lm.executor.layout.batch_reader import is_batch, read_batch_steps
from litert_lm.executor.layout.checks import no_decode_step
from litert_lm.executor.layout.layout import ModelLayout, Step
from litert_lm.executor.layout.state_reader import Updates
from litert_lm.executor.layout.step_reader import MAIN, StepReader

__all__ = ["MAIN", "read_layout"]


def read_layout(
    models: Mapping[str, TfliteModel], updates: Updates, metadata: Any = None
) -> ModelLayout:
    """The layout of a bundle's models.

    Args:
        models: model type -> model; "prefill_decode" is required.
        updates: what `read_updates` gives for these models.
        metadata: LlmExecutorMetadata of the bundle, or None.

    Raises:
        UnsupportedModelError: no decode step can be made; says why.
    """
    if MAIN not in models:
        raise UnsupportedModelError(
            f"The bundle has no {MAIN} model, only {', '.join(models) or 'none'}; "
            "use a bundle of a text generation model."
        )
    reader = StepReader(models, updates, metadata)
    steps, skipped = [], {}
    for signature in models[MAIN].signatures:
        if is_batch(signature):
            continue
        try:
            steps.append(reader.step(signature))
        except UnsupportedModelError as error:
            skipped[signature.key] = str(error)
    return _assemble(steps, reader, skipped)


def _assemble(
    steps: list[Step], reader: StepReader, skipped: Mapping[str, str]
) -> ModelLayout:
    ordered = sorted(steps, key=lambda step: (step.length, step.context))
    decode = [step for step in ordered if step.length == 1 and step.logits]
    verify = [s for s in ordered if s.length > 1 and s.num_logits == s.length]
    if not decode:
        raise UnsupportedModelError(no_decode_step(ordered, skipped))
    longest = max(decode, key=lambda step: step.context)
    states = reader.states(longest, max(step.batch for step in ordered))
    alien = {s.key: why for s in ordered if (why := reader.alien(s, states))}
    if longest.key in alien:
        raise UnsupportedModelError(no_decode_step([], alien))
    usable = [step for step in ordered if step.key not in alien]
    return ModelLayout(
        states=states,
        decode=tuple(s for s in usable if s in decode),
        prefill=tuple(s for s in usable if s not in decode and s not in verify),
        verify=tuple(s for s in usable if s in verify),
        context_length=longest.context,
        vocab_size=reader.vocab_size(longest),
        skipped={**skipped, **alien},
        batch=read_batch_steps(reader.models[MAIN].signatures, longest, states),
    )
