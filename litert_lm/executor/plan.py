"""Which chunks a prompt is prefilled in: the plan with the least estimated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = ["Chunk", "PrefillPlan", "plan_prefill"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One call with `num_tokens` tokens, padded to `length`; 1 is a decode step."""

    length: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class PrefillPlan:
    """The calls that store a prompt behind the entries of one cache.

    Attributes:
        chunks: in order.
        lengths: how long the cache's arrays are in each.
        reserve: entries that the cache's memory gets room for.
    """

    chunks: tuple[Chunk, ...]
    lengths: tuple[int, ...]
    reserve: int

    def after(self, count: int) -> PrefillPlan:
        """What is left when the first `count` chunks are done."""
        return replace(self, chunks=self.chunks[count:], lengths=self.lengths[count:])


def plan_prefill(
    num_tokens: int,
    start: int,
    limit: int,
    costs: Mapping[int, float],
    *,
    can_pad: bool = True,
) -> list[Chunk]:
    """Chunks for `num_tokens` tokens that follow `start` stored ones.

    Long ones come first, so that prompts which begin alike have chunks in common.

    Args:
        num_tokens: tokens to store, >= 0; start + num_tokens <= limit.
        start: entries in use before.
        limit: entries of the longest cache; no chunk, padding included, goes beyond.
        costs: seconds of one call by its length; 1, a decode step, is among them.
        can_pad: False for models with recurrent states.
    """
    lengths = sorted(costs)
    chunks: list[Chunk] = []
    best = min(lengths, key=lambda length: costs[length] / length)
    # Whole chunks of the cheapest length first; the exact search is for the rest.
    whole = max(0, (num_tokens - 2 * max(lengths)) // best) if best > 1 else 0
    chunks += [Chunk(best, best)] * whole
    rest = num_tokens - whole * best
    return chunks + _search(rest, start + whole * best, limit, costs, can_pad)


def _search(
    num_tokens: int, start: int, limit: int, costs: Mapping[int, float], can_pad: bool
) -> list[Chunk]:
    """Dynamic programming over how many tokens are still to come."""
    least = [0.0] + [float("inf")] * num_tokens
    choice: list[Chunk] = [Chunk(1, 1)] * (num_tokens + 1)
    for left in range(1, num_tokens + 1):
        position = start + num_tokens - left
        for length, cost in costs.items():
            taken = min(length, left)
            if position + length > limit or (taken < length and not can_pad):
                continue
            total = cost + least[left - taken]
            if total < least[left]:
                least[left], choice[left] = total, Chunk(length, taken)
    chunks, left = [], num_tokens
    while left:
        chunks.append(choice[left])
        left -= choice[left].num_tokens
    # Only the last chunk is padded, and it stays where it is.
    return sorted(chunks, key=lambda c: (c.num_tokens < c.length, -c.length))
