"""Which lengths the arrays of KV caches have."""

from __future__ import annotations

from litert_lm.executor.layout.layout import ModelLayout

__all__ = ["cache_lengths", "doubling_lengths"]

# Entries. Half as many make a single sequence's steps 2 to 3 % faster, and eight
# sequences together a quarter slower: only those of one length share a step.
_BUCKET = 128
_COMPILED = 256  # entries; a step's attention is cheap below, compared with compiling


def cache_lengths(
    layout: ModelLayout, *, is_resizable: bool, is_compiled: bool
) -> list[int]:
    """The lengths in use, growing; the last is that of the longest cache exported.

    Args:
        is_resizable: other lengths than those exported can be used.
        is_compiled: a length costs a compilation.
    """
    longest = layout.context_length
    if not is_resizable:
        return sorted({step.context for step in layout.decode})
    return doubling_lengths(longest) if is_compiled else _stepped_lengths(longest)


def _stepped_lengths(longest: int) -> list[int]:
    """Steps of a bucket up to four, and then of half the length."""
    lengths, length = [], _BUCKET
    while length < longest:
        lengths.append(length)
        following = length + (_BUCKET if length < 4 * _BUCKET else length // 2)
        length = -(-following // _BUCKET) * _BUCKET
    return [*lengths, longest]


def doubling_lengths(longest: int) -> list[int]:
    """Each twice the one before, but for one close to the longest."""
    half = longest // 2 // _BUCKET * _BUCKET
    lengths, length = [], min(_COMPILED, max(_BUCKET, half))
    while 4 * length <= 3 * longest:
        lengths.append(length)
        length *= 2
    return [*lengths, longest]
