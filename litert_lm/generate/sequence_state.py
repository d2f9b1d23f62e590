"""Where a sequence stands: what it takes to go on from there, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from litert_lm.executor.kv.kv_cache import KVCache

__all__ = ["SequenceState"]


@dataclass(frozen=True, kw_only=True)
class SequenceState:
    """A sequence's ids, and a way to its entries.

    Attributes:
        token_ids: all ids.
        num_stored: how many of them have entries.
        length: of the cache's arrays, on which the last bits of logits can depend; -1
            where the cache was never used.
        reserved: entries that the cache's memory had room for.
        fill: puts the entries into a cache with that room.
        nbytes: memory that the entries take.
    """

    token_ids: tuple[int, ...]
    num_stored: int
    length: int
    reserved: int
    fill: Callable[[KVCache], None]
    nbytes: int
