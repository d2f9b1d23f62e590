"""Finds masks that a graph takes for something else."""

from __future__ import annotations

from litert_lm.bundle.operators import operator_name
from litert_lm.bundle.tflite import Signature, TfliteModel
from litert_lm.errors import UnsupportedModelError
from litert_lm.executor.layout.checks import described

__all__ = ["check_masks"]

# Operators that move values without changing them.
_MOVES = frozenset(
    {
        "BROADCAST_TO",
        "CAST",
        "CONCATENATION",
        "EXPAND_DIMS",
        "RESHAPE",
        "SLICE",
        "SQUEEZE",
        "STRIDED_SLICE",
        "TILE",
        "TRANSPOSE",
    }
)


def check_masks(model: TfliteModel, signature: Signature) -> None:
    """Raise UnsupportedModelError where truth values are added to attention scores.

    The exporter writes such graphs when it is asked for bool masks without its GPU
    composites: adding 0 or 1 hides nothing, and every reply is wrong.
    """
    for tensor in signature.inputs:
        is_mask = tensor.element_type.name == "bool" and "mask" in tensor.name.lower()
        if is_mask and _is_added(model, signature, tensor.tensor):
            raise UnsupportedModelError(
                f"The model cannot be run: in signature {signature.key!r}, input "
                f"{described(tensor)} is added to attention scores as a number, which "
                "hides nothing; export it with a float32 mask."
            )


def _is_added(model: TfliteModel, signature: Signature, tensor: int) -> bool:
    """Whether a tensor's values are added, unchanged, to something computed."""
    graph = model.subgraphs[signature.subgraph]
    reached, computed = {tensor}, {*graph.inputs}
    for op in graph.operators:
        name = operator_name(op.code.builtin)
        if not reached.isdisjoint(op.inputs):
            if name == "ADD" and computed.issuperset(op.inputs):
                return True
            if name in _MOVES:
                reached.update(op.outputs)
        computed.update(op.outputs)
    return False
