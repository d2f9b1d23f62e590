"""KV prefixes that sequences share: what one stored, others need not compute again.

A prefix is known by the calls that computed it: their lengths, how long the cache's
arrays were, and their tokens. A prompt takes over the longest known beginning of the
calls that it would make itself, so that not one bit differs from a run without this.

While the sequence that stored a prefix lives, others copy from its cache, and the
prefix takes no memory of its own. When the sequence ends, its memory is handed over,
or what is to be kept of it is copied.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.entries import Entries, tokens_nbytes
from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.plan import PrefillPlan
from litert_lm.generate.prefix_block import Piece, PrefixBlock

__all__ = ["PrefixCache", "PrefixCounts", "PrefixUse"]

_MIN_TOKENS = 16  # a shorter prefix is computed about as fast as it is kept
_MAX_WASTE = 2  # memory handed over, against what is needed of it


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixUse:
    """What a prompt has to do with the prefix cache.

    Attributes:
        salt: prefixes of another salt are not found.
        is_bypassed: look for nothing; what is computed is stored all the same.
    """

    salt: str = ""
    is_bypassed: bool = False


@dataclass(slots=True)
class PrefixCounts:
    """What a prefix cache was asked for and gave, since the engine was opened.

    Attributes:
        num_queries, num_hits: prompts, and those that found something.
        num_query_tokens, num_hit_tokens: tokens of prompts, and those found.
        num_evictions: blocks that had to make room for others.
    """

    num_queries: int = 0
    num_hits: int = 0
    num_query_tokens: int = 0
    num_hit_tokens: int = 0
    num_evictions: int = 0


class PrefixCache:
    """The prefixes of one engine, in blocks; safe to use from all threads.

    Blocks that were not used for longest go first, those that go on from others before
    those.

    Args:
        executor: what computes the entries.
        max_bytes: most memory to keep; 0 keeps nothing.

    Attributes:
        max_bytes: as above.
        num_bytes: memory that is kept now.
        counts: see PrefixCounts.
    """

    def __init__(self, executor: Executor, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.counts = PrefixCounts()
        self._executor = executor
        self._states = tuple(executor.layout.states.values())
        self._is_whole = not executor.can_rewind
        self._lock = threading.Lock()
        self._places: dict[bytes, tuple[PrefixBlock, int]] = {}
        self._blocks: dict[PrefixBlock, None] = {}  # the last used one last
        self._dead: deque[bytes] = deque()
        self._left: deque[tuple[tuple[PrefixBlock, ...], KVCache]] = deque()

    @property
    def is_on(self) -> bool:
        """Whether anything can be kept."""
        return self.max_bytes > 0 and bool(self._states)

    def restore(
        self, cache: KVCache, plan: PrefillPlan, keys: Sequence[bytes]
    ) -> tuple[int, PrefixBlock | None]:
        """Put the longest known beginning of `plan` into `cache`.

        Args:
            plan: the calls to come.
            keys: of each of them.

        Returns:
            How many of the calls are done by that, and what to give to `settle`.
        """
        num_tokens = sum(chunk.num_tokens for chunk in plan.chunks)
        with self._lock:
            self._tidy()
            self.counts.num_queries += 1
            self.counts.num_query_tokens += num_tokens
            pieces = self._find(keys)
        if not pieces:
            return 0, None
        start = cache.num_tokens
        is_lent = any(not isinstance(p.block.source, Entries) for p in pieces)
        turn = self._executor.turn() if is_lent else nullcontext()
        with turn, self._lock:
            pieces = self._find(keys)  # the owner may have changed its mind
            # An abandoned sequence may be collected at any moment, unless held.
            held = [(p, p.block.entries) for p in pieces]
            sources = [(p, source) for p, source in held if source is not None]
            if not pieces or len(sources) < len(pieces):
                return 0, None
            lent = self._move(cache, plan, pieces)
            if lent is None:
                self._copy(cache, plan, sources)
            self.counts.num_hits += 1
            self.counts.num_hit_tokens += cache.num_tokens - start
        return sum(piece.count for piece in pieces), lent

    def lend(
        self, cache: KVCache, keys: Sequence[bytes], ends: Sequence[int]
    ) -> PrefixBlock | None:
        """Make known what a sequence has stored by some calls.

        The entries stay where they are until `settle` is called; with states that
        cannot be cut, they are copied at once.

        Args:
            keys: of what was there before and of each call.
            ends: the number of tokens behind each key.

        Returns:
            What to give to `settle`, or None.
        """
        with self._lock:
            self._tidy()
            known = 1
            while known < len(keys) and self._place(keys[known]) is not None:
                known += 1
            if known == len(keys) or ends[-1] < _MIN_TOKENS or not self.is_on:
                return None
            parent = self._place(keys[known - 1])
            if ends[known - 1] and parent is None:
                return None  # no lookup would get here
            block = PrefixBlock(
                first=ends[known - 1],
                keys=tuple(keys[known:]),
                ends=tuple(ends[known:]),
                source=self._reference(cache, keys[known]),
                parent=parent[0] if parent else None,
            )
            if not self._is_whole:
                self._insert(block)
                return block
            kept = self._copied(block, cache)
            if kept is not None:
                block.source = kept
                self._insert(block)
            return None

    def _reference(self, cache: KVCache, key: bytes) -> weakref.ref[KVCache]:
        """Notes the key when the cache is gone; no lock may be waited for there."""
        dead = self._dead
        return weakref.ref(cache, lambda _: dead.append(key))

    def settle(self, blocks: Sequence[PrefixBlock], cache: KVCache) -> None:
        """Keep copies of lent blocks, whose entries will not stay in `cache`.

        Args:
            blocks: in the order in which they were lent.
        """
        with self._lock:
            self._keep(self._lent_by(cache, blocks), cache)

    def leave(self, blocks: Sequence[PrefixBlock], cache: KVCache) -> None:
        """Keep lent blocks of a cache that is used no more: its memory may be taken.

        Waits for no other thread; who is at work here does it then, or comes next.
        """
        self._left.append((tuple(blocks), cache))
        # The collector may end a sequence while this very thread holds the lock.
        if not self._lock.locked():
            with self._lock:
                self._tidy()

    def _tidy(self) -> None:
        """Keep what was left, and forget blocks whose sequence went without a word."""
        while self._left:
            blocks, cache = self._left.popleft()
            lent = self._lent_by(cache, blocks)
            if lent and self._is_worth_taking(lent, cache):
                taken = Entries.taken(cache)
                for block in lent:
                    self._own(block, taken if block is lent[0] else taken.shared())
                self._make_room()
            else:
                self._keep(lent, cache)
        while self._dead:
            self._place(self._dead.popleft())

    def _lent_by(
        self, cache: KVCache, blocks: Sequence[PrefixBlock]
    ) -> list[PrefixBlock]:
        """Those of the blocks that are known, and whose entries `cache` has."""
        return [b for b in blocks if b in self._blocks and b.entries is cache]

    def _keep(self, lent: Sequence[PrefixBlock], cache: KVCache) -> None:
        """Copy the entries of blocks, as far as there is room for them."""
        for block in lent:
            kept = self._copied(block, cache)
            if kept is not None:
                self._own(block, kept)
            else:
                self._remove(block)
        self._make_room()

    def withdraw(self, block: PrefixBlock) -> None:
        """Forget a lent block, whose entries may be damaged."""
        with self._lock:
            self._remove(block)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._tidy()
            for block in tuple(self._blocks):
                self._remove(block)

    def close(self) -> None:
        """Forget everything for good."""
        self.max_bytes = 0
        self.clear()

    def _find(self, keys: Sequence[bytes]) -> list[Piece]:
        """The longest known beginning of `keys`, as pieces of blocks."""
        pieces: list[Piece] = []
        for key in keys:
            place = self._place(key)
            if place is None:
                break
            block, index = place
            last = pieces[-1] if pieces else None
            if last and last.block is block and last.start + last.count == index:
                pieces[-1] = Piece(block, last.start, last.count + 1)
            else:
                pieces.append(Piece(block, index, 1))
        # States that are not cut are those at the end of a block.
        while self._is_whole and pieces and pieces[-1].end != pieces[-1].block.ends[-1]:
            pieces.pop()
        return pieces

    def _place(self, key: bytes) -> tuple[PrefixBlock, int] | None:
        place = self._places.get(key)
        if place is not None and place[0].entries is None:
            self._remove(place[0])
            return None
        return place

    def _move(
        self, cache: KVCache, plan: PrefillPlan, pieces: Sequence[Piece]
    ) -> PrefixBlock | None:
        """Give the memory of a block to a new cache; None where others need it."""
        block = pieces[0].block if len(pieces) == 1 else None
        if block is None or not isinstance(block.source, Entries):
            return None
        count, memory = pieces[0].count, block.source.memory
        length = plan.lengths[count - 1]
        is_new = cache.length < 0 and count == len(block.keys)
        if memory is None or not is_new or self._is_shared(block):
            return None
        if memory.reserved < max(length, plan.reserve):
            return None
        self.num_bytes -= block.nbytes
        block.source = self._reference(cache, block.keys[0])
        try:
            cache.adopt(memory, block.ends[-1], length)
        except BaseException:
            self._remove(block)
            raise
        self._touch(block)
        return block

    def _is_shared(self, block: PrefixBlock) -> bool:
        """Whether another block has its entries in the same memory.

        Blocks of other sequences may lie between the two.
        """
        return any(
            isinstance(each.source, Entries) and not each.source.nbytes
            for each in _following(block)
        )

    def _copy(
        self,
        cache: KVCache,
        plan: PrefillPlan,
        sources: Sequence[tuple[Piece, Entries | KVCache]],
    ) -> None:
        """Put pieces into the cache, as long as the calls would have made it."""
        count, last = sum(piece.count for piece, _ in sources), sources[-1][0]
        cache.grow(plan.lengths[count - 1], plan.reserve)
        for piece, source in sources:
            whole = self._is_whole and piece is last
            first = source.first if isinstance(source, Entries) else 0
            cache.put(source, first, piece.begin, piece.end, whole=whole)
        cache.num_tokens = last.end
        self._touch(last.block)

    def _is_worth_taking(self, lent: Sequence[PrefixBlock], cache: KVCache) -> bool:
        """The memory is not much more than what is needed of it."""
        needed = tokens_nbytes(self._states, lent[-1].ends[-1])
        is_small = cache.nbytes <= min(_MAX_WASTE * needed, self.max_bytes)
        return lent[0].first == 0 and is_small and not cache.doubled

    def _copied(self, block: PrefixBlock, cache: KVCache) -> Entries | None:
        """Copies of a block's entries; None when there is no room for them."""
        begin, end = block.first, block.ends[-1]
        needed = tokens_nbytes(self._states, end - begin, whole=self._is_whole)
        if needed > self.max_bytes:
            return None
        try:
            return Entries.copied(cache, begin, end, whole=self._is_whole)
        except MemoryError:
            return None

    def _own(self, block: PrefixBlock, source: Entries) -> None:
        block.source = source
        self.num_bytes += source.nbytes
        self._touch(block)

    def _insert(self, block: PrefixBlock) -> None:
        if block.parent is not None:
            block.parent.children.add(block)
        self.num_bytes += block.nbytes
        self._touch(block)
        self._places |= {key: (block, i) for i, key in enumerate(block.keys)}
        self._make_room()

    def _touch(self, block: PrefixBlock) -> None:
        """Note a use of a block, and of those before it as the latest."""
        each: PrefixBlock | None = block
        while each is not None:
            self._blocks.pop(each, None)
            self._blocks[each] = None
            each = each.parent

    def _make_room(self) -> None:
        while self.num_bytes > self.max_bytes:
            oldest = next((block for block in self._blocks if block.nbytes), None)
            if oldest is None:  # Ctrl-C came between a block and its bytes
                self.num_bytes = 0
                return
            self.counts.num_evictions += 1
            self._remove(oldest)

    def _remove(self, block: PrefixBlock) -> None:
        """Forget a block and all that goes on from it, if it is known."""
        if block not in self._blocks:
            return
        if block.parent is not None:
            block.parent.children.discard(block)
        for each in (block, *_following(block)):
            self._blocks.pop(each, None)
            self.num_bytes -= each.nbytes
            for key in each.keys:
                self._places.pop(key, None)


def _following(block: PrefixBlock) -> list[PrefixBlock]:
    """All blocks that go on from a block, through others or not."""
    found = list(block.children)
    for each in found:
        found += each.children
    return found
