"""One sequence's part in the prefix cache: which calls its entries came from."""

from __future__ import annotations

import hashlib
import itertools
import struct
from array import array
from collections.abc import Callable, Sequence

from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.plan import PrefillPlan
from litert_lm.generate.prefix_block import PrefixBlock
from litert_lm.generate.prefix_cache import PrefixCache, PrefixUse

__all__ = ["PrefixChain"]

_DIGEST_BYTES = 32


class PrefixChain:
    """Prefills one cache with the help of a prefix cache.

    It helps as long as all entries come from prefills: where a decode step stored one,
    what follows was computed from bits that no prompt of another sequence has.

    Args:
        executor: runs the calls.
        shared: None for no help.
    """

    def __init__(self, executor: Executor, shared: PrefixCache | None) -> None:
        self._executor = executor
        self._shared = shared if shared is not None and shared.is_on else None
        self._lent: list[PrefixBlock] = []
        self._cache: KVCache | None = None  # whose entries are lent
        self._forget()

    def _forget(self, num_tokens: int = 0) -> None:
        self._key, self._salt = b"", ""
        self._num_tokens = num_tokens  # that the key stands for

    def prefill(
        self,
        cache: KVCache,
        token_ids: Sequence[int],
        use: PrefixUse,
        *,
        is_cancelled: Callable[[], bool] | None,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Store the entries of `token_ids`; see Executor.prefill.

        Returns:
            How many of them were known.
        """
        shared, start = self._shared, cache.num_tokens
        if shared is None or start != self._num_tokens:
            self._executor.prefill(
                cache, token_ids, is_cancelled=is_cancelled, progress=progress
            )
            return 0
        plan = self._executor.plan(cache, len(token_ids))
        parent = self._parent(use.salt)
        keys = _keys(parent, plan, token_ids)
        done, moved = 0, None
        if not use.is_bypassed:
            done, moved = shared.restore(cache, plan, keys)
        self._note(moved, cache)
        num_known = cache.num_tokens - start
        self._executor.prefill(
            cache,
            token_ids[num_known:],
            plan=plan.after(done),
            is_cancelled=is_cancelled,
            progress=_later(progress, num_known, len(token_ids)),
        )
        # Longer where other sequences had it grow: those are not the planned calls.
        if cache.length == plan.lengths[-1]:
            ends = _ends(plan, start)
            self._note(shared.lend(cache, [parent, *keys], ends), cache)
        self._key, self._salt = keys[-1], use.salt
        self._num_tokens = cache.num_tokens
        return num_known

    def _parent(self, salt: str) -> bytes:
        """The key of what the cache holds; that of the empty one holds the salt."""
        if self._num_tokens and salt == self._salt:
            return self._key
        return _digest(self._key, salt.encode("utf-8", "surrogatepass"))

    def follow(self, other: PrefixChain) -> None:
        """Stand where the chain of a sequence stands whose entries were copied."""
        self._key, self._salt = other._key, other._salt
        self._num_tokens = other._num_tokens

    def rewind(self, num_tokens: int) -> None:
        """Let go of what lies behind the first `num_tokens` entries."""
        if num_tokens < self._num_tokens:
            if self._shared is not None and self._cache is not None:
                self._shared.settle(self._lent, self._cache)
            self._lent, self._cache = [], None
            self._forget(-1)

    def close(self) -> None:
        """Leave the memory of the cache, which is used no more, to others."""
        if self._shared is not None and self._cache is not None:
            self._shared.leave(self._lent, self._cache)
        self._lent, self._cache = [], None
        self._forget()

    def drop(self) -> None:
        """The cache is used no more, and its entries may be damaged."""
        for block in self._lent:
            if self._shared is not None:
                self._shared.withdraw(block)
        self._lent, self._cache = [], None
        self._forget()

    def _note(self, block: PrefixBlock | None, cache: KVCache) -> None:
        if cache is not self._cache:
            self._lent, self._cache = [], cache
        if block is not None:
            self._lent.append(block)


def _keys(parent: bytes, plan: PrefillPlan, token_ids: Sequence[int]) -> list[bytes]:
    """A key for each call, made of the key before it and all it depends on."""
    key, keys, done = parent, [], 0
    for chunk, length in zip(plan.chunks, plan.lengths, strict=True):
        ids = token_ids[done : done + chunk.num_tokens]
        call = struct.pack("<qqq", chunk.length, chunk.num_tokens, length)
        key = _digest(key, call, array("q", ids).tobytes())
        keys.append(key)
        done += chunk.num_tokens
    return keys


def _ends(plan: PrefillPlan, start: int) -> list[int]:
    """Number of tokens before the first call and behind each."""
    counts = (chunk.num_tokens for chunk in plan.chunks)
    return list(itertools.accumulate(counts, initial=start))


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _later(
    progress: Callable[[int, int], None] | None, done: int, total: int
) -> Callable[[int, int], None] | None:
    """The progress of what is left when `done` of `total` tokens were known."""
    if progress is None:
        return None
    tell = progress
    if done:
        tell(done, total)
    return lambda more, _: tell(done + more, total)
