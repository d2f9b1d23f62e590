"""Reads signatures that decode a token of several sequences in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from litert_lm.bundle.tflite import Signature, Tensor
from litert_lm.executor.layout.layout import BatchStep, State, Step

__all__ = ["is_batch", "read_batch_steps"]

_MOST_ROWS = 64


def is_batch(signature: Signature) -> bool:
    """Whether a signature's caches belong to several sequences."""
    return any(tensor.name.startswith("row_0_") for tensor in signature.inputs)


def read_batch_steps(
    signatures: Iterable[Signature], decode: Step, states: Mapping[str, State]
) -> tuple[BatchStep, ...]:
    """The batch steps whose rows are as the decode step; others are left out."""
    found = (
        _read(signature, decode, states)
        for signature in signatures
        if is_batch(signature)
    )
    return tuple(step for step in found if step is not None)


def _read(
    signature: Signature, decode: Step, states: Mapping[str, State]
) -> BatchStep | None:
    inputs = {tensor.name: tensor for tensor in signature.inputs}
    outputs = {tensor.name: tensor for tensor in signature.outputs}
    tokens = inputs.get("tokens")
    if tokens is None or len(tokens.shape) != 2 or len(decode.calls) != 1:
        return None
    size = tokens.shape[1]
    if not 2 <= size <= _MOST_ROWS:
        return None
    step = BatchStep(
        key=signature.key,
        size=size,
        masks=tuple(f"row_{row}_mask" for row in range(size)),
        states=tuple(
            {name: f"row_{row}_{name}" for name in states} for row in range(size)
        ),
    )
    rows = {
        name: decode.shapes[state]
        for row in step.states
        for state, name in row.items()
        if states[state].axis is not None and not states[state].is_local
    }
    return step if _fits(step, decode, rows, inputs, outputs) else None


def _fits(
    step: BatchStep,
    decode: Step,
    rows: Mapping[str, tuple[int, ...]],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
) -> bool:
    """Whether all tensors are there in the shapes that are expected, and no others."""
    size = step.size
    wanted = {
        step.tokens: ("int32", (1, size)),
        step.positions: ("int32", (size,)),
        **dict.fromkeys(step.masks, ("float32", (1, 1, 1, decode.context))),
        **{name: ("float32", shape) for name, shape in rows.items()},
    }
    made = {name: wanted[name] for name in rows}
    logits = outputs.get(step.logits)
    return (
        len(rows) == size * len(decode.shapes)
        and logits is not None
        and logits.shape[:2] == (1, size)
        and _described(inputs) == wanted
        and _described(outputs) == made | {step.logits: ("float32", logits.shape)}
    )


def _described(
    tensors: Mapping[str, Tensor],
) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (np.dtype(t.dtype).name, t.shape) for name, t in tensors.items()}
