"""What a longer or shorter KV cache means to operators that join and divide tensors.

Joined axes remember their parts, so that a later cut at a seam moves with the cache;
a cut elsewhere must lie within the first entries of the cache, or it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert_lm.executor.patching.extents import (
    CACHE,
    MAX_PIECES,
    Extent,
    grows,
    joined,
    part,
)
from litert_lm.executor.patching.graph import (
    Node,
    Operation,
    Refusal,
    Rule,
    fixed,
    none_grows,
    same,
)

__all__ = ["PART_RULES"]

_Axis = tuple[Node, int]


def _concatenation(operation: Operation) -> None:
    out, parts = operation.outputs[0], list(operation.nodes())[:-1]
    joint = operation.option(0) % len(out.shape)
    for axis in range(len(out.shape)):
        if axis != joint:
            same((node, axis) for node in (out, *parts))
    if grows(out[joint]):
        start = 0
        for node in parts:
            within = _section(operation, out[joint], start, node.shape[joint])[1]
            node.learn(joint, within)
            start += node.shape[joint]
    elif any(grows(node[joint]) for node in parts):
        operation.is_waiting = not operation.may_guess
        if operation.may_guess:
            out.learn(joint, joined(node[joint] for node in parts))


def _slice(operation: Operation) -> None:
    x, out, begins = operation.input(0), operation.outputs[0], operation.values(1)
    for axis in range(len(x.shape)):
        begin = begins[axis] if begins else None
        before, within = _sliced(operation, (x, axis), (out, axis), begin)
        operation.edit(1, axis, before)
        operation.edit(2, axis, within)


def _sliced(
    operation: Operation, source: _Axis, target: _Axis, begin: int | None
) -> tuple[Extent, Extent]:
    """What lies before and within the slice of one axis."""
    x, out = source[0][source[1]], target[0][target[1]]
    length, count = source[0].shape[source[1]], target[0].shape[target[1]]
    if length == count:
        same((source, target))
        return (), target[0][target[1]]
    if grows(x):
        before, within = _section(operation, x, begin, count)
        target[0].learn(target[1], within)
        return before, within
    if grows(out) and not operation.may_guess:
        operation.is_waiting = True  # x may be joined from a cache and something else
        return (), (count,)
    return _before(begin), out


def _section(
    operation: Operation, whole: Extent, begin: int | None, count: int
) -> tuple[Extent, Extent]:
    """What lies before and within `count` entries of an axis that grows."""
    if begin is not None and begin >= 0:
        found = part(whole, begin, count, operation.tokens)
        if found is not None:
            return found
    is_inside = whole == CACHE if begin is None else whole[0] == -1 and begin >= 0
    if not is_inside or count + (begin or 0) > operation.tokens:
        raise Refusal(f"it cuts {whole} elsewhere than at its seams")
    operation.needs(count + (begin or 0))
    return _before(begin), (count,)


def _before(begin: int | None) -> Extent:
    return (begin,) if begin else ()


def _strided_slice(operation: Operation) -> None:
    x, out = operation.input(0), operation.outputs[0]
    if not (x.extents or out.extents):
        return
    begins, ends, steps = (operation.values(slot) for slot in (1, 2, 3))
    from_start, to_end, ellipsis, new, dropped = map(operation.option, range(5))
    if begins is None or ends is None or steps is None or ellipsis or new:
        raise Refusal("it is too general")
    place = 0
    for axis in range(len(x.shape)):
        is_whole = axis >= len(begins)
        begin = 0 if is_whole or from_start >> axis & 1 else begins[axis]
        if dropped >> axis & 1:
            if grows(x[axis]):
                operation.edit(1, axis, _section(operation, x[axis], begin, 1)[0])
            continue
        axes = (x, axis), (out, place)
        if grows(x[axis]) or grows(out[place]):
            if begin < 0 or (not is_whole and steps[axis] != 1):
                raise Refusal("it counts from the end or in steps")
            has_end = not (is_whole or to_end >> axis & 1)
            _strided_axis(operation, *axes, begin, has_end)
        place += 1


def _strided_axis(
    operation: Operation, source: _Axis, target: _Axis, begin: int, has_end: bool
) -> None:
    before, within = _sliced(operation, source, target, begin)
    operation.edit(1, source[1], before)
    if has_end and not operation.is_waiting:
        operation.edit(2, source[1], joined((before, within)))


def _tile(operation: Operation) -> None:
    x, out, counts = operation.input(0), operation.outputs[0], operation.values(1)
    if counts is None:
        none_grows(operation, "its counts are computed")
        return
    for axis, count in enumerate(counts):
        if count == 1:
            same(((x, axis), (out, axis)))
        elif grows(x[axis]) and 0 < count <= MAX_PIECES:
            out.learn(axis, joined([x[axis]] * count))
        elif x.shape[axis] == 1:
            operation.edit(1, axis, out[axis])
        else:
            fixed(x, (axis,), "it repeats the cache too often")
            fixed(out, (axis,), "it repeats what is not known to grow")


def _pad(operation: Operation) -> None:
    x, out, around = operation.input(0), operation.outputs[0], operation.values(1)
    if around is None:
        none_grows(operation, "its padding is computed")
        return
    for axis in range(len(x.shape)):
        before, after = around[2 * axis : 2 * axis + 2]
        if not before and not after:
            same(((x, axis), (out, axis)))
        elif grows(x[axis]):
            out.learn(axis, joined((_before(before), x[axis], _before(after))))
        else:
            fixed(out, (axis,), "it pads up to the cache's length")


def _split(operation: Operation) -> None:
    is_uneven = operation.name == "SPLIT_V"
    axes = operation.values(2 if is_uneven else 0)
    if axes is None:
        none_grows(operation, "its axis is computed")
        return
    _divided(operation.input(0 if is_uneven else 1), operation.outputs, axes[0])


def _divided(x: Node, parts: Sequence[Node], joint: int) -> None:
    for axis in range(len(x.shape)):
        if axis != joint % len(x.shape):
            same((node, axis) for node in (x, *parts))
            continue
        for node in (x, *parts):
            fixed(node, (axis,), "it splits the cache")


def _pack(operation: Operation) -> None:
    _stacked(operation, operation.outputs[0], list(operation.nodes())[:-1])


def _unpack(operation: Operation) -> None:
    _stacked(operation, operation.input(0), operation.outputs)


def _stacked(operation: Operation, whole: Node, parts: Sequence[Node]) -> None:
    joint = operation.option(1) % len(whole.shape)
    fixed(whole, (joint,), "it stacks along the cache")
    for axis in range(len(parts[0].shape)):
        place = axis + (axis >= joint)
        same([(whole, place), *((node, axis) for node in parts)])


PART_RULES: Mapping[str, Rule] = {
    "CONCATENATION": _concatenation,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "UNPACK": _unpack,
}
