"""Writers of what the host feeds into a step: ids, positions, masks.

Each writes into one array that LiteRT reads in place, and only what changed since the
last step. `write` serves a chunk, `write_one` the decode step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from litert_lm.executor.layout.signatures import Feed, Role

__all__ = ["Writer", "make_step_writer", "make_writer", "masked_value"]

Array = npt.NDArray[Any]


class Writer(Protocol):
    """Fills one input."""

    array: Array

    def write(self, token_ids: Sequence[int], start: int) -> None:
        """Fill for the tokens at positions start, start + 1, ...; the rest pads."""

    def write_one(self, token_id: int, position: int) -> None:
        """Fill for one token."""


def masked_value(dtype: np.dtype[Any]) -> float | bool:
    """What a mask holds where attention is forbidden (official runtime's values)."""
    if dtype == np.bool_:
        return False
    return -45824.0 if dtype == np.float16 else float(-0.7 * np.finfo(np.float32).max)


def _cells(array: Array) -> Any:
    """The elements of a flat array, to be set one at a time.

    This is done once per token, after the model has swept the CPU's caches, and numpy's
    way to one element touches three times as much memory as that of a memoryview.
    """
    is_half = array.dtype == np.float16  # a memoryview cannot store these
    return array if is_half else array.data


class _Tokens:
    def __init__(self, array: Array, pad_id: int) -> None:
        self.array = array
        self._flat = array.reshape(-1)
        self.cells = _cells(self._flat)
        self._pad_id = pad_id

    def write(self, token_ids: Sequence[int], start: int) -> None:
        count = len(token_ids)
        self._flat[:count] = token_ids
        self._flat[count:] = self._pad_id

    def write_one(self, token_id: int, position: int) -> None:
        self.cells[0] = token_id


class _Positions:
    """Padding goes on counting: its entries are overwritten later, never read."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self._flat = array.reshape(-1)
        self.cells = _cells(self._flat)
        self._steps = np.arange(self._flat.size, dtype=array.dtype)

    def write(self, token_ids: Sequence[int], start: int) -> None:
        np.add(self._steps, start, out=self._flat)

    def write_one(self, token_id: int, position: int) -> None:
        self.cells[0] = position


class _TimeStep:
    def __init__(self, array: Array) -> None:
        self.array = array

    def write(self, token_ids: Sequence[int], start: int) -> None:
        self.array[...] = start

    def write_one(self, token_id: int, position: int) -> None:
        self.array[...] = position


class _Valid:
    def __init__(self, array: Array) -> None:
        self.array = array
        self._flat = array.reshape(-1)
        self._cells = _cells(self._flat)

    def write(self, token_ids: Sequence[int], start: int) -> None:
        self._flat[: len(token_ids)] = True
        self._flat[len(token_ids) :] = False

    def write_one(self, token_id: int, position: int) -> None:
        self._cells[0] = True


class _Params:
    """Start, end and aligned end of the cache entries in use, then the token count."""

    _ALIGNMENT = 32

    def __init__(self, array: Array) -> None:
        self.array = array
        self._flat = array.reshape(-1)
        array.fill(0)

    def write(self, token_ids: Sequence[int], start: int) -> None:
        self._set(start, len(token_ids))

    def write_one(self, token_id: int, position: int) -> None:
        self._set(position, 1)

    def _set(self, start: int, count: int) -> None:
        end = start + count
        aligned = -(-end // self._ALIGNMENT) * self._ALIGNMENT
        values = (start, end, aligned, count)
        size = min(len(values), self._flat.size)
        self._flat[:size] = values[:size]


class _CausalMask:
    """Row j attends entries 0 to start + j; padding rows attend like real ones.

    Padding that attended nothing would turn into NaN in graphs that use -inf, and NaN
    entries poison later steps even under a mask.

    Attributes:
        cells: of the first row.
        opened: what a cell holds where attention is allowed.
        open_until: columns below are open in all rows.
        dirty_until: columns from here on are masked in all rows.
    """

    # A slot lies in the object itself: one read of memory less per token.
    __slots__ = (
        "_masked",
        "_row",
        "_rows",
        "_triangle",
        "array",
        "cells",
        "dirty_until",
        "open_until",
        "opened",
    )

    def __init__(self, array: Array) -> None:
        self.array = array
        self._rows = array.reshape(-1, array.shape[-1])
        self._row = self._rows[0]
        self.cells = _cells(self._row)
        self._masked = masked_value(array.dtype)
        self.opened = array.dtype.type(array.dtype == np.bool_).item()
        length = len(self._rows)
        self._triangle = np.where(np.tri(length, dtype=bool), self.opened, self._masked)
        self._triangle = self._triangle.astype(array.dtype)
        self._rows[:] = self._masked
        self.open_until = 0
        self.dirty_until = 0

    def write(self, token_ids: Sequence[int], start: int) -> None:
        rows, length = self._rows, len(self._rows)
        end = start + length
        if start > self.open_until:
            rows[:, self.open_until : start] = self.opened
        if self.dirty_until > end:
            rows[:, end : self.dirty_until] = self._masked
        width = rows.shape[1]
        rows[:, start:end] = self._triangle[:, : width - start]
        self.open_until, self.dirty_until = start, min(end, width)

    def write_one(self, token_id: int, position: int) -> None:
        if position == self.open_until:
            self.cells[position] = self.opened
        elif position > self.open_until:
            self._row[self.open_until : position + 1] = self.opened
        else:
            self._row[position + 1 : self.open_until] = self._masked
        self.open_until = self.dirty_until = position + 1


class _WindowMask:
    """Row j attends the last `window` tokens up to its own.

    Columns are the cache's entries, or those of a ring, then in a chunk the chunk's own
    tokens. A ring holds position p in entry p modulo its length. A decode step writes
    its token into the ring before it attends.
    """

    def __init__(self, array: Array, window: int, ring: int) -> None:
        self.array = array
        self._rows = array.reshape(-1, array.shape[-1])
        self._window = window
        length, width = self._rows.shape
        self._ring = ring
        self._has_chunk = bool(ring) and width == ring + length
        self._steps = np.arange(length)[:, None]
        self._columns = np.arange(ring or width)
        self._masked = masked_value(array.dtype)
        self._open = array.dtype.type(array.dtype == np.bool_)
        self._next = -1  # the position that follows what the only row shows

    def write(self, token_ids: Sequence[int], start: int) -> None:
        stored = start - 1 if self._has_chunk else start + len(self._steps) - 1
        held = self._positions(stored)
        if self._has_chunk:
            held = np.concatenate([held, start + self._steps[:, 0]])
        rows = start + self._steps
        is_open = (held >= 0) & (held <= rows) & (held > rows - self._window)
        self._rows[:] = np.where(is_open, self._open, self._masked)
        self._next = start + 1

    def write_one(self, token_id: int, position: int) -> None:
        if position != self._next:
            self.write((token_id,), position)
            return
        row, ring = self._rows[0], self._ring
        newest, gone = position - self._has_chunk, position - self._window
        if newest >= 0:
            row[newest % ring if ring else newest] = self._open
        if gone >= 0 and (not ring or gone > newest - ring):
            row[gone % ring if ring else gone] = self._masked
        self._next = position + 1

    def _positions(self, stored: int) -> Array:
        """Position that each column holds once `stored` is the last one stored."""
        if not self._ring:
            return self._columns
        return stored - (stored - self._columns) % self._ring


class _Zero:
    def __init__(self, array: Array) -> None:
        self.array = array
        array.fill(0)

    def write(self, token_ids: Sequence[int], start: int) -> None:
        pass

    def write_one(self, token_id: int, position: int) -> None:
        pass


class _Repeated:
    """Fills the first sequence of a batch and repeats it for the others."""

    def __init__(self, feed: Feed, array: Array, pad_id: int) -> None:
        self.array = array
        self._first = make_writer(replace(feed, batch=1), array[:1], pad_id)
        array[1:] = array[:1]

    def write(self, token_ids: Sequence[int], start: int) -> None:
        self._first.write(token_ids, start)
        self.array[1:] = self.array[:1]

    def write_one(self, token_id: int, position: int) -> None:
        self._first.write_one(token_id, position)
        self.array[1:] = self.array[:1]


_WRITERS: Mapping[Role, Callable[[Array], Writer]] = {
    Role.POSITIONS: _Positions,
    Role.TIME_STEP: _TimeStep,
    Role.VALID: _Valid,
    Role.PARAMS: _Params,
    Role.MASK: _CausalMask,
    Role.LORA: _Zero,
}


def make_writer(feed: Feed, array: Array, pad_id: int) -> Writer:
    """The writer of a feed into `array`."""
    if feed.batch > 1:
        return _Repeated(feed, array, pad_id)
    if feed.role is Role.TOKENS:
        return _Tokens(array, pad_id)
    if feed.role is Role.LOCAL_MASK:
        return _WindowMask(array, feed.window, feed.ring)
    return _WRITERS[feed.role](array)


def make_step_writer(writers: Sequence[Writer]) -> Callable[[int, int], None]:
    """`write_one` of all writers; one function for the usual token, position and mask.

    Args:
        writers: of a step; the function is for those of one token.
    """
    by_kind: dict[type, Any] = {type(writer): writer for writer in writers}
    if len(writers) != 3 or by_kind.keys() != {_Tokens, _Positions, _CausalMask}:
        return _write_each([writer.write_one for writer in writers])
    tokens, positions = by_kind[_Tokens].cells, by_kind[_Positions].cells
    mask: _CausalMask = by_kind[_CausalMask]
    cells, opened = mask.cells, mask.opened

    def write(token_id: int, position: int) -> None:
        tokens[0] = token_id
        positions[0] = position
        if position == mask.open_until:
            cells[position] = opened
            mask.open_until = mask.dirty_until = position + 1
        else:
            mask.write_one(token_id, position)

    return write


def _write_each(
    functions: Sequence[Callable[[int, int], None]],
) -> Callable[[int, int], None]:
    def write(token_id: int, position: int) -> None:
        for each in functions:
            each(token_id, position)

    return write
