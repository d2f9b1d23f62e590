"""How long an axis is, told in tokens of the KV cache.

An extent lists what an axis holds, in order: a piece n > 0 is n entries whatever the
cache's length, a piece -a is a entries for each token of the cache. (-1,) is the
cache's own axis, (-1, 8) the same with eight new tokens behind it, (-1, -1) a cache
axis twice, as it comes from flattening two heads and a cache axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

__all__ = [
    "CACHE",
    "MAX_PIECES",
    "Extent",
    "grows",
    "joined",
    "part",
    "reshaped",
    "size",
]

Extent: TypeAlias = tuple[int, ...]

CACHE: Extent = (-1,)
MAX_PIECES = 4096  # of one extent; no graph needs more than its heads


def size(extent: Extent, tokens: int) -> int:
    """Entries of an axis beside a cache of `tokens` tokens."""
    return sum(piece if piece > 0 else -piece * tokens for piece in extent)


def grows(extent: Extent) -> bool:
    """Whether the axis is longer beside a longer cache."""
    return any(piece < 0 for piece in extent)


def joined(extents: Iterable[Extent]) -> Extent:
    """The axis of a concatenation."""
    pieces: list[int] = []
    for piece in (piece for extent in extents for piece in extent):
        if pieces and piece > 0 and pieces[-1] > 0:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return tuple(pieces)


def part(
    extent: Extent, start: int, count: int, tokens: int
) -> tuple[Extent, Extent] | None:
    """What lies before and within the `count` entries from `start` on.

    None where an end falls inside a piece that grows: nothing tells where it would
    fall beside another cache.
    """
    before, rest = _cut(extent, start, tokens)
    if rest is None:
        return None
    within, rest = _cut(rest, count, tokens)
    return None if rest is None else (before, within)


def _cut(extent: Extent, at: int, tokens: int) -> tuple[Extent, Extent | None]:
    """The extent up to entry `at`, and from there on (None if inside a growing one)."""
    taken: list[int] = []
    for number, piece in enumerate(extent):
        length = size((piece,), tokens)
        if at < length:
            if at and piece < 0:
                return tuple(taken), None
            head = (at,) if at else ()
            tail = (piece - at if piece > 0 else piece,)
            return (*taken, *head), tail + extent[number + 1 :]
        taken.append(piece)
        at -= length
    return tuple(taken), None if at else ()


def reshaped(
    extents: Mapping[int, Extent],
    shape: Sequence[int],
    target: Sequence[int],
    tokens: int,
) -> dict[int, Extent] | None:
    """The growing axes after a reshape, by axis.

    Args:
        extents: the growing axes of a tensor of `shape`.
        target: its new shape, of as many elements.

    None where a growing axis does not come out as one.
    """
    made: dict[int, Extent] = {}
    for before, after in _groups(shape, target):
        growing = [axis for axis in before if axis in extents]
        if not growing:
            continue
        if len(growing) > 1:
            return None
        place = before.index(growing[0])
        outer = math.prod(shape[axis] for axis in before[:place])
        inner = math.prod(shape[axis] for axis in before[place + 1 :])
        if outer > MAX_PIECES:
            return None
        flat = tuple(piece * inner for piece in extents[growing[0]]) * outer
        unfolded = _unfolded(flat, [target[axis] for axis in after], tokens)
        if unfolded is None:
            return None
        made[after[unfolded[0]]] = unfolded[1]
    return made


def _groups(
    shape: Sequence[int], target: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """The least runs of axes with equal products; axes of size 1 are in none."""
    left = [axis for axis, length in enumerate(shape) if length != 1]
    right = [axis for axis, length in enumerate(target) if length != 1]
    groups = []
    while left and right:
        before, after = [left.pop(0)], [right.pop(0)]
        products = [shape[before[0]], target[after[0]]]
        while products[0] != products[1]:
            shorter = products[0] > products[1]
            source, run, sizes = (
                (right, after, target) if shorter else (left, before, shape)
            )
            if not source:
                return []
            run.append(source.pop(0))
            products[shorter] *= sizes[run[-1]]
        groups.append((before, after))
    return groups


def _unfolded(
    flat: Extent, shape: Sequence[int], tokens: int
) -> tuple[int, Extent] | None:
    """Which axis of `shape` grows, and how, when its flat form is `flat`."""
    for axis, length in enumerate(shape):
        rest = math.prod(shape[axis + 1 :])
        if all(piece % rest == 0 for piece in flat):
            whole = tuple(
                piece // rest if piece > 0 else -(-piece // rest) for piece in flat
            )
            if size(whole, tokens) == length:
                return axis, whole
        repeated = flat[: len(flat) // length]
        if not repeated or repeated * length != flat:
            return None
        flat = repeated
    return None
