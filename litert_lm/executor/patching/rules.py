"""What a longer or shorter KV cache means to each operator.

A rule carries the knowledge of growing axes between the tensors of one operator, in
every direction, and notes the constants that count cache entries. It is asked again
whenever something about the tensors is learned, so it may take the rest for fixed. It
refuses what would change a result: averages over the cache, weights as wide as it,
anything that counts from its end. That masked entries add nothing to a sum, and that
entries behind the cache's end are never looked up, is what every such graph relies on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert_lm.executor.patching.extents import CACHE, grows, reshaped
from litert_lm.executor.patching.graph import (
    Node,
    Operation,
    Refusal,
    Rule,
    fixed,
    none_grows,
    same,
)
from litert_lm.executor.patching.parts import PART_RULES

__all__ = ["BROADCAST", "RULES"]

_BY_ELEMENT = """ADD SUB MUL DIV MAXIMUM MINIMUM POW SQUARED_DIFFERENCE FLOOR_DIV
    FLOOR_MOD ATAN2 EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL LOGICAL_AND
    LOGICAL_OR BITWISE_XOR RIGHT_SHIFT SELECT_V2 ABS CAST CEIL COS ELU EXP FLOOR GELU
    HARD_SWISH LEAKY_RELU LOG LOGICAL_NOT LOGISTIC NEG RELU RELU6 RELU_0_TO_1
    RELU_N1_TO_1 ROUND RSQRT SIGN SIN SQRT SQUARE TANH ZEROS_LIKE QUANTIZE DEQUANTIZE
    SOFTMAX LOG_SOFTMAX"""
BROADCAST = frozenset(_BY_ELEMENT.split())
"""Operators that work element by element, or leave the shape as it is."""

_CACHE_REDUCTIONS = ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")
_OTHER_REDUCTIONS = ("MEAN", "REDUCE_PROD")
_WEIGHTS = "it multiplies a constant as wide as the cache"


def _broadcast(operation: Operation) -> None:
    _broadcast_axes(list(operation.nodes()), 0)


def _broadcast_axes(nodes: Sequence[Node], last: int) -> None:
    """Axes of broadcast tensors, counted from the end, but for the `last` ones."""
    rank = max(len(node.shape) for node in nodes)
    for axis in range(-rank, -last):
        there = [node for node in nodes if -axis <= len(node.shape)]
        longest = max(node.shape[axis] for node in there)
        same((node, axis) for node in there if node.shape[axis] == longest != 1)


def _same_shape(nodes: Sequence[Node]) -> None:
    for axis in range(len(nodes[0].shape)):
        same((node, axis) for node in nodes)


def _select(operation: Operation) -> None:
    """The first SELECT takes a vector of conditions, one for each row."""
    nodes = list(operation.nodes())
    if any(node.shape != nodes[1].shape for node in nodes):
        none_grows(operation, "its tensors differ in shape")
        return
    _same_shape(nodes)


def _cumsum(operation: Operation) -> None:
    is_reverse = operation.flag(1)
    _same_shape([operation.input(0), operation.outputs[0]])
    if is_reverse:
        none_grows(operation, "it sums from the end")


def _transpose(operation: Operation) -> None:
    order = operation.values(1)
    if order is None:
        none_grows(operation, "its order is computed")
        return
    for axis, source in enumerate(order):
        same(((operation.outputs[0], axis), (operation.input(0), source)))


def _reshape(operation: Operation) -> None:
    out = operation.outputs[0]
    _regroup(operation.input(0), out)
    for axis, extent in out.extents.items():
        operation.edit(1, axis, extent)


def _same_order(operation: Operation) -> None:
    """EXPAND_DIMS and SQUEEZE: axes of size 1 come and go."""
    _regroup(operation.input(0), operation.outputs[0])


def _regroup(x: Node, out: Node, last: int = 0) -> None:
    """The same elements in another shape; the `last` axes are left out."""
    for source, target in ((x, out), (out, x)):
        before = source.shape[: len(source.shape) - last]
        after = target.shape[: len(target.shape) - last]
        known = {a: e for a, e in source.extents.items() if a < len(before)}
        made = reshaped(known, before, after, x.graph.tokens)
        if made is None:
            raise Refusal(f"it reshapes {before} to {after}")
        for axis, extent in made.items():
            target.learn(axis, extent)


def _dynamic_update_slice(operation: Operation) -> None:
    whole, piece = operation.input(0), operation.input(1)
    _same_shape([whole, operation.outputs[0]])
    begins = operation.values(2)
    for axis in range(len(whole.shape)):
        if piece[axis] == whole[axis]:
            continue
        if grows(piece[axis]) or whole[axis] != CACHE:
            fixed(piece, (axis,), f"it writes {piece[axis]} into {whole[axis]}")
            fixed(whole, (axis,), f"it writes {piece[axis]} into {whole[axis]}")
            continue
        operation.needs(piece.shape[axis] + (begins[axis] if begins else 0))


def _batch_matmul(operation: Operation) -> None:
    a, b, out = operation.input(0), operation.input(1), operation.outputs[0]
    row, inner = (-1, -2) if operation.flag(0) else (-2, -1)
    depth, column = (-1, -2) if operation.flag(1) else (-2, -1)
    _broadcast_axes([a, b, out], 2)
    same(((a, row), (out, -2)))
    same(((b, column), (out, -1)))
    same(((a, inner), (b, depth)))
    if any(node.is_constant and node.extents for node in (a, b)):
        raise Refusal(_WEIGHTS)


def _fully_connected(operation: Operation) -> None:
    x, weights, out = operation.input(0), operation.input(1), operation.outputs[0]
    if x.shape[-1:] != weights.shape[1:]:
        none_grows(operation, "it takes its input for rows of another length")
        return
    same(((x, -1), (weights, 1)))
    same(((weights, 0), (out, -1)))
    _regroup(x, out, last=1)
    if any(node and node.is_constant and node.extents for node in operation.inputs):
        raise Refusal(_WEIGHTS)
    if operation.inputs[2:] and operation.inputs[2]:
        fixed(out, (-1,), "its bias is as wide as the cache")


def _broadcast_to(operation: Operation) -> None:
    out = operation.outputs[0]
    _broadcast_axes([operation.input(0), out], 0)
    for axis, extent in out.extents.items():
        operation.edit(1, axis, extent)


def _fill(operation: Operation) -> None:
    for axis, extent in operation.outputs[0].extents.items():
        operation.edit(0, axis, extent)


def _gather(operation: Operation) -> None:
    """Rows are looked up by positions, which stay below the cache's length."""
    table, indices, out = operation.input(0), operation.input(1), operation.outputs[0]
    if operation.option(1):
        none_grows(operation, "it gathers by batches")
        return
    axis = operation.option(0) % len(table.shape)
    width = len(indices.shape)
    for place in range(len(table.shape)):
        if place != axis:
            shift = 0 if place < axis else width - 1
            same(((table, place), (out, place + shift)))
    for place in range(width):
        same(((indices, place), (out, axis + place)))


def _gather_nd(operation: Operation) -> None:
    table, indices, out = operation.input(0), operation.input(1), operation.outputs[0]
    depth, lead = indices.shape[-1], len(indices.shape) - 1
    fixed(indices, (-1,), "it looks up along the cache")
    for place in range(lead):
        same(((indices, place), (out, place)))
    for place in range(depth, len(table.shape)):
        same(((table, place), (out, lead + place - depth)))


def _one_hot(operation: Operation) -> None:
    indices, out = operation.input(0), operation.outputs[0]
    axis = operation.option(0) % len(out.shape)
    for place in range(len(indices.shape)):
        same(((indices, place), (out, place + (place >= axis))))
    operation.edit(1, 0, out[axis])


def _reduction(operation: Operation) -> None:
    x, out, axes = operation.input(0), operation.outputs[0], operation.values(1)
    if axes is None:
        none_grows(operation, "its axes are computed")
        return
    reduced = {axis % len(x.shape) for axis in axes}
    keeps_axes = operation.flag(0)
    place = 0
    for axis in range(len(x.shape)):
        if axis not in reduced:
            same(((x, axis), (out, place)))
        elif operation.name in _OTHER_REDUCTIONS:
            fixed(x, (axis,), "the cache's length counts in its result")
        place += axis not in reduced or keeps_axes


def _nothing(operation: Operation) -> None:
    """SHAPE and RANK: what they give at run time is right for any shape."""


RULES: Mapping[str, Rule] = {
    **PART_RULES,
    **dict.fromkeys(BROADCAST, _broadcast),
    **dict.fromkeys((*_CACHE_REDUCTIONS, *_OTHER_REDUCTIONS), _reduction),
    "BATCH_MATMUL": _batch_matmul,
    "BROADCAST_TO": _broadcast_to,
    "CUMSUM": _cumsum,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "EXPAND_DIMS": _same_order,
    "FILL": _fill,
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "ONE_HOT": _one_hot,
    "RANK": _nothing,
    "RESHAPE": _reshape,
    "SELECT": _select,
    "SHAPE": _nothing,
    "SQUEEZE": _same_order,
    "TRANSPOSE": _transpose,
}
"""By operator name; one that is not here is refused where a growing axis reaches it."""
