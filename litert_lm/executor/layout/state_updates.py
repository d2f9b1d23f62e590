"""How a graph updates its state tensors, read from its operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from litert_lm.bundle.tflite import Signature, TfliteModel

__all__ = ["StateUpdate", "state_updates"]

_DYNAMIC_UPDATE_SLICE = 151  # BuiltinOperator number in the TFLite schema


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """An output that is an input with a slice written into it.

    Attributes:
        source: name of the input.
        axis: the axis along which the slice is shorter; None when that is not one axis.
        in_place: nothing else reads the input, so one buffer can serve as both.
    """

    source: str
    axis: int | None
    in_place: bool


def state_updates(model: TfliteModel, signature: Signature) -> dict[str, StateUpdate]:
    """The slice updates of a signature by output name."""
    graph = model.subgraphs[signature.subgraph]
    input_names = {tensor.tensor: tensor.name for tensor in signature.inputs}
    output_names = {tensor.tensor: tensor.name for tensor in signature.outputs}
    uses = Counter(index for op in graph.operators for index in op.inputs)
    updates = {}
    for op in graph.operators:
        if op.code.builtin != _DYNAMIC_UPDATE_SLICE or len(op.inputs) < 2:
            continue
        source, piece = op.inputs[:2]
        if op.outputs[0] in output_names and source in input_names:
            shapes = graph.tensors[source].shape, graph.tensors[piece].shape
            updates[output_names[op.outputs[0]]] = StateUpdate(
                input_names[source], _axis(*shapes), uses[source] == 1
            )
    return updates


def _axis(whole: tuple[int, ...], piece: tuple[int, ...]) -> int | None:
    axes = [i for i, (a, b) in enumerate(zip(whole, piece, strict=False)) if a != b]
    return axes[0] if len(axes) == 1 else None
