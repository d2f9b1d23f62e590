"""The memory of one sequence: KV cache and recurrent states.

All states lie in one block of memory, each in a slot sized for `reserved` tokens. The
arrays the model sees are as long as the context in use, `length` tokens, because
attention pays for every entry it sees; growing moves the entries inside their slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from litert_lm.executor.kv.array_copies import copy_arrays
from litert_lm.executor.kv.memory import SpareMemory, paged
from litert_lm.executor.layout.layout import State, state_nbytes, state_shape
from litert_lm.executor.native.runtime import ALIGNMENT
from litert_lm.executor.native.tensors import TensorBuffer, allocate

__all__ = ["CacheMemory", "KVCache", "StateArrays", "entries", "is_cut"]


class StateArrays(Protocol):
    """Anything that has the arrays of a model's states."""

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of a state."""


@dataclass(frozen=True, slots=True)
class CacheMemory:
    """Memory of a cache, with its entries.

    Attributes:
        slots: the bytes of each state, and which of its buffers they are.
        length: entries that the arrays had room for.
        reserved: entries that there is room for.
    """

    slots: Mapping[tuple[str, int], npt.NDArray[np.uint8]]
    length: int
    reserved: int

    @property
    def nbytes(self) -> int:
        """Bytes of memory, in whole pages."""
        return paged(sum(slot.nbytes for slot in self.slots.values()))

    def array(self, state: State) -> npt.NDArray[Any]:
        """The array of a state that is not doubled."""
        return _view(self.slots[state.name, 0], state, self.length)


class KVCache:
    """The states of one sequence.

    Attributes:
        num_tokens: tokens whose entries are stored.
        length: entries that the arrays have room for now.
        reserved: entries that the memory has room for.
        turn: which of two buffers is current where states are not updated in place.
        bindings: calls bound to the present arrays, kept here by who bound them.
        step: a decode step bound to the present arrays, which is called with this cache
            and a token id. The executor that this cache was made for puts it here.
    """

    def __init__(
        self,
        states: Mapping[str, State],
        doubled: Iterable[str],
        spare: SpareMemory | None = None,
    ) -> None:
        self.states = states
        self._spare = spare or SpareMemory()
        self.doubled = frozenset(doubled)
        self.num_tokens = 0
        self.length = -1
        self.reserved = -1
        self.turn = 0
        self.bindings: dict[Any, Any] = {}
        self.step: Callable[[KVCache, int], npt.NDArray[np.float32]] | None = None
        self._logits: dict[tuple[int, ...], TensorBuffer] = {}
        self._slots: dict[tuple[str, int], npt.NDArray[np.uint8]] = {}
        self._buffers: dict[tuple[str, int], TensorBuffer] = {}

    def buffer(
        self, name: str, *, written: bool = False, batch: int | None = None
    ) -> TensorBuffer:
        """The buffer of a state; for doubled ones the one to read or to write.

        `batch` takes only that many of its sequences.
        """
        turn = (self.turn + written) % 2 if name in self.doubled else 0
        whole = self._buffers[name, turn]
        if batch is None or batch == self.states[name].batch:
            return whole
        return TensorBuffer(whole.array[:batch])

    def logits_buffer(
        self, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> TensorBuffer:
        """Where steps over this cache leave logits of this shape."""
        if shape not in self._logits:
            self._logits[shape] = TensorBuffer(allocate(shape, dtype))
        return self._logits[shape]

    def array(self, name: str) -> npt.NDArray[Any]:
        """The current array of a state."""
        return self.buffer(name).array

    @property
    def nbytes(self) -> int:
        """Bytes of memory, in whole pages."""
        return paged(sum(slot.nbytes for slot in self._slots.values()))

    def flip(self) -> None:
        """Make what the last step wrote the current content of doubled states."""
        self.turn = 1 - self.turn

    def unbind(self) -> None:
        """Forget what is bound to the present arrays."""
        self.bindings.clear()
        self.step = None

    def grow(self, length: int, reserve: int) -> None:
        """Give the arrays room for `length` tokens, and the memory for `reserve`.

        Entries stay; nothing happens when there is room already.
        """
        if length <= self.length:
            return
        if length > self.reserved:
            self._move(length, max(length, reserve))
        else:
            self._spread(length)
        self.length = length
        self.unbind()

    def rewind(self, num_tokens: int) -> None:
        """Forget the entries after the first `num_tokens`."""
        self.num_tokens = num_tokens

    def clear(self) -> None:
        """Forget everything; recurrent states start from zero again."""
        self.num_tokens = 0
        for name, state in self.states.items():
            if self._buffers and not is_cut(state):
                self.array(name).fill(0)

    def copy_from(self, other: KVCache) -> None:
        """Take over the entries of a cache of the same model, bit for bit.

        Arrays become as long as the other's. What an empty one held is forgotten.
        """
        self.grow(other.length, other.reserved)
        if other.length >= 0:
            self.put(other, 0, 0, other.num_tokens, whole=True)
        self.num_tokens = other.num_tokens

    def release(self) -> CacheMemory:
        """Give the memory away; the cache is as new then."""
        memory = CacheMemory(self._slots, self.length, self.reserved)
        self.num_tokens, self.length, self.reserved, self.turn = 0, -1, -1, 0
        self._slots, self._buffers = {}, {}
        self.unbind()
        return memory

    def adopt(self, memory: CacheMemory, num_tokens: int, length: int) -> None:
        """Take over the first entries of a cache of the same model, without a copy.

        Only for a new cache without doubled states.

        Args:
            memory: what `release` gave, used by nobody else.
            num_tokens: entries to keep.
            length: of the arrays, at most ``memory.reserved``.
        """
        self._slots, self.reserved = dict(memory.slots), memory.reserved
        self.length, self.num_tokens = length, num_tokens
        self._bind(memory.length)
        if length != memory.length:
            self._spread(length)

    def put(
        self, source: StateArrays, first: int, begin: int, end: int, *, whole: bool
    ) -> None:
        """Copy entries `begin` to `end` from arrays whose first one is of `first`.

        The arrays have room for them. `num_tokens` is left to the caller.

        Args:
            whole: also take over the states that are not cut: recurrent ones, rings.
        """
        pairs = []
        for name, state in self.states.items():
            if is_cut(state):
                part = entries(state, begin, end)
                theirs = entries(state, begin - first, end - first)
                pairs.append((self.array(name)[part], source.array(name)[theirs]))
            elif whole:
                pairs.append((self.array(name), source.array(name)))
        copy_arrays(pairs)

    def _move(self, length: int, reserve: int) -> None:
        """Into new memory for `reserve` tokens."""
        old = {name: self.array(name) for name in self.states} if self._buffers else {}
        self._slots = self._allocate(reserve)
        self.reserved, self.turn = reserve, 0
        self._bind(length)
        for name, array in old.items():
            part = _kept(self.states[name], self.num_tokens)
            self.array(name)[part] = array[part]

    def _spread(self, length: int) -> None:
        """To the strides of longer arrays, in the same memory."""
        kept = self._buffers
        self._bind(length)
        for key, buffer in self._buffers.items():
            if buffer.array.shape != kept[key].array.shape:
                state = self.states[key[0]]
                _move_entries(state, kept[key].array, buffer.array, self.num_tokens)

    def _bind(self, length: int) -> None:
        self._buffers = {
            (name, turn): TensorBuffer(_view(slot, self.states[name], length))
            for (name, turn), slot in self._slots.items()
        }

    def _allocate(self, length: int) -> dict[tuple[str, int], npt.NDArray[np.uint8]]:
        """Zeroed slots for so many tokens in one block of memory."""
        keys = self._keys()
        wanted = (state_nbytes(self.states[name], length) for name, _ in keys)
        sizes = [-(-nbytes // ALIGNMENT) * ALIGNMENT for nbytes in wanted]
        block = self._spare.zeroed(sum(sizes))
        ends = np.cumsum([0, *sizes]).tolist()
        return {key: block[ends[i] : ends[i] + sizes[i]] for i, key in enumerate(keys)}

    def _keys(self) -> list[tuple[str, int]]:
        turns = {name: 2 if name in self.doubled else 1 for name in self.states}
        return [(name, turn) for name in self.states for turn in range(turns[name])]


def is_cut(state: State) -> bool:
    """Whether each token has entries of its own in the state."""
    return state.axis is not None and not state.is_local


def entries(state: State, begin: int, end: int) -> tuple[slice, ...]:
    """Index of the entries of tokens `begin` to `end` in a state that is cut."""
    return (*(slice(None),) * (state.axis or 0), slice(begin, end))


def _kept(state: State, num_tokens: int) -> tuple[slice, ...]:
    return entries(state, 0, num_tokens) if is_cut(state) else ()


def _move_entries(
    state: State, old: npt.NDArray[Any], new: npt.NDArray[Any], num_tokens: int
) -> None:
    """Entries to the strides of an array that begins where the old one does.

    In blocks, those first whose new place holds nothing that is still to be read: most
    need no copy in between. numpy makes one where a block overlaps its own new place.
    """
    axis = state.axis or 0
    part = (*(slice(None),) * max(0, axis - 2), slice(0, num_tokens))
    blocks = list(np.ndindex(new.shape[: min(axis, 2)]))
    if new.nbytes > old.nbytes:
        blocks.reverse()
    for block in blocks:
        if axis > 2 or any(block):  # else it is there already
            new[block][part] = old[block][part]


def _view(slot: npt.NDArray[np.uint8], state: State, length: int) -> npt.NDArray[Any]:
    nbytes = state_nbytes(state, length)
    return slot[:nbytes].view(state.dtype).reshape(state_shape(state, length))
