"""Blocks of the prefix cache: the entries that one sequence stored at once."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from litert_lm.executor.kv.entries import Entries
from litert_lm.executor.kv.kv_cache import KVCache

__all__ = ["Piece", "PrefixBlock"]


@dataclass(eq=False, slots=True)
class PrefixBlock:
    """What one sequence stored at once.

    Attributes:
        first: position of its first token.
        keys: of its calls, in order.
        ends: position behind the last token of each.
        source: where the entries are: those of a living sequence, or kept ones.
        parent: the block that holds what comes before.
        children: the blocks that go on from it.
    """

    first: int
    keys: tuple[bytes, ...]
    ends: tuple[int, ...]
    source: weakref.ref[KVCache] | Entries
    parent: PrefixBlock | None
    children: set[PrefixBlock] = field(default_factory=set)

    @property
    def nbytes(self) -> int:
        """Memory that the prefix cache keeps for it."""
        return self.source.nbytes if isinstance(self.source, Entries) else 0

    @property
    def entries(self) -> Entries | KVCache | None:
        """Where to copy from; None when the sequence is gone."""
        return self.source if isinstance(self.source, Entries) else self.source()


@dataclass(frozen=True, slots=True)
class Piece:
    """The first `count` calls of a block from its `start`th on."""

    block: PrefixBlock
    start: int
    count: int

    @property
    def begin(self) -> int:
        """Position of its first token."""
        return self.block.ends[self.start - 1] if self.start else self.block.first

    @property
    def end(self) -> int:
        """Position behind its last token."""
        return self.block.ends[self.start + self.count - 1]
