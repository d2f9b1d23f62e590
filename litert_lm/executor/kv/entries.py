"""Entries of a KV cache that outlive it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from litert_lm.executor.kv.array_copies import copy_arrays
from litert_lm.executor.kv.kv_cache import CacheMemory, KVCache, entries, is_cut
from litert_lm.executor.layout.layout import State, state_nbytes, state_shape

__all__ = ["Entries", "tokens_nbytes"]

_ALIGNMENT = 64  # bytes; copies of aligned rows are the fastest


class Entries:
    """The states' arrays, without what binds a cache to a model.

    Attributes:
        first: position of the token that the first entries are of.
        nbytes: memory that they keep.
        memory: of a cache, where it was taken as it was.
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        *,
        first: int,
        nbytes: int,
        memory: CacheMemory | None = None,
    ) -> None:
        self._arrays = arrays
        self.first = first
        self.nbytes = nbytes
        self.memory = memory

    @classmethod
    def copied(cls, cache: KVCache, begin: int, end: int, *, whole: bool) -> Entries:
        """Copies of the entries of tokens `begin` to `end`, in one block of memory.

        Args:
            whole: also of the states that are not cut: recurrent ones, rings.
        """
        states = [s for s in cache.states.values() if whole or is_cut(s)]
        arrays, nbytes = _arrays(states, end - begin)
        parts = [entries(s, begin, end) if is_cut(s) else () for s in states]
        copy_arrays(
            [
                (arrays[state.name], cache.array(state.name)[part])
                for state, part in zip(states, parts, strict=True)
            ]
        )
        return cls(arrays, first=begin, nbytes=nbytes)

    @classmethod
    def taken(cls, cache: KVCache) -> Entries:
        """The memory of a cache without doubled states, which is as new then."""
        states, memory = cache.states, cache.release()
        arrays = {name: memory.array(state) for name, state in states.items()}
        return cls(arrays, first=0, nbytes=memory.nbytes, memory=memory)

    def shared(self) -> Entries:
        """The same memory for somebody who goes no later than its keeper."""
        return Entries(self._arrays, first=self.first, nbytes=0)

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of a state."""
        return self._arrays[name]


def _arrays(
    states: list[State], length: int
) -> tuple[dict[str, npt.NDArray[Any]], int]:
    """Arrays for that many tokens by name, and their bytes in all."""
    sizes = [state_nbytes(state, length) for state in states]
    starts = np.cumsum([0, *(-(-n // _ALIGNMENT) * _ALIGNMENT for n in sizes)])
    block = np.empty(int(starts[-1]), np.uint8)
    arrays = {}
    for state, start, size in zip(states, starts.tolist(), sizes, strict=False):
        part = block[start : start + size].view(state.dtype)
        arrays[state.name] = part.reshape(state_shape(state, length))
    return arrays, block.nbytes


def tokens_nbytes(
    states: Sequence[State], num_tokens: int, *, whole: bool = True
) -> int:
    """Bytes that the entries of so many tokens take.

    Args:
        whole: count the states that are not cut, too.
    """
    counted = (state for state in states if whole or is_cut(state))
    return sum(state_nbytes(state, num_tokens) for state in counted)
