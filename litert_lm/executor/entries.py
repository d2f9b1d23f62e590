"""Entries of a KV cache that outlive it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from litert_lm.executor.kv_cache import KVCache, entries, is_cut
from litert_lm.executor.layout import State, state_shape

__all__ = ["Entries"]

_ALIGNMENT = 64  # bytes; copies of aligned rows are the fastest


class Entries:
    """The states' arrays, without what binds a cache to a model.

    Attributes:
        nbytes: memory that they keep.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], nbytes: int) -> None:
        self._arrays = arrays
        self.nbytes = nbytes

    @classmethod
    def copied(cls, cache: KVCache, begin: int, end: int, *, whole: bool) -> Entries:
        """Copies of the entries of tokens `begin` to `end`, in one block of memory.

        Args:
            whole: also of the states that are not cut: recurrent ones, rings.
        """
        states = [s for s in cache.states.values() if whole or is_cut(s)]
        arrays, nbytes = _arrays(states, end - begin)
        for state in states:
            part = entries(state, begin, end) if is_cut(state) else ()
            arrays[state.name][...] = cache.array(state.name)[part]
        return cls(arrays, nbytes)

    @classmethod
    def taken(cls, cache: KVCache) -> Entries:
        """The memory of a cache that is used no more; its first entry is the first."""
        return cls({name: cache.array(name) for name in cache.states}, cache.nbytes)

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of a state."""
        return self._arrays[name]


def _arrays(
    states: list[State], length: int
) -> tuple[dict[str, npt.NDArray[Any]], int]:
    """Arrays for that many tokens by name, and their bytes in all."""
    shapes = [state_shape(state, length) for state in states]
    sizes = [
        int(np.prod(shape, dtype=np.int64)) * state.dtype.itemsize
        for state, shape in zip(states, shapes, strict=True)
    ]
    starts = np.cumsum([0, *(-(-n // _ALIGNMENT) * _ALIGNMENT for n in sizes)])
    block = np.empty(int(starts[-1]), np.uint8)
    return {
        state.name: block[start : start + size].view(state.dtype).reshape(shape)
        for state, shape, size, start in zip(
            states, shapes, sizes, starts.tolist(), strict=False
        )
    }, block.nbytes
