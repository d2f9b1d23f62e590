"""A vector of FlatBuffer tables read column by column, with the same checks.

One field of ten thousand tables costs a few NumPy calls, not ten thousand steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from litert_lm.bundle.flatbuffer import Source, Table

__all__ = ["Bools", "Column", "Floats", "Ints", "Rows"]

Ints: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
Bools: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
Floats: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"

MAX_ROWS = 1 << 20
"""Tables in a column; parents may share them, so the file's size is no bound."""

MAX_ELEMENTS = 1 << 22
"""Numbers in all rows of a column, which may share them as well."""

_NOTHING: Ints = np.zeros(0, np.int64)


class Column:
    """Tables at ``positions`` of a buffer, 0 where there is none.

    Absent tables read as if every field were absent.
    """

    __slots__ = ("_fields_at", "_num_fields", "positions", "source")

    def __init__(self, source: Source, positions: Ints) -> None:
        self.source = source
        self.positions = positions
        at = positions[positions != 0]
        self._need(at, 4, 4, "table")
        vtable = positions - _gather(source, positions, "<i4")
        vtable[positions == 0] = 0
        self._need(vtable[positions != 0], 4, 2, "vtable")
        size = np.where(positions != 0, _gather(source, vtable, "<u2"), 4)
        table_size = np.where(positions != 0, _gather(source, vtable + 2, "<u2"), 4)
        self._need(vtable, size, 2, "vtable")
        self._need(positions, table_size, 4, "table")
        self._reject(vtable, (size < 4) | (size % 2 != 0), "vtable of a wrong size")
        self._fields_at = vtable + 4
        self._num_fields = (size - 4) // 2

    @classmethod
    def of(cls, table: Table, field: int) -> Column:
        """The vector of tables in a field of ``table``."""
        first, count = table.vector_range(field, 4)
        _check_rows(table.source, first, count)
        return cls.at(table.source, first + 4 * np.arange(count))

    @classmethod
    def at(cls, source: Source, slots: Ints) -> Column:
        """The tables whose offsets are stored at the positions ``slots``."""
        return cls(source, _follow(source, slots, "table"))

    def __len__(self) -> int:
        return len(self.positions)

    def field_positions(self, field: int) -> Ints:
        """Where each table stores the field, 0 where absent."""
        known = self._num_fields > field
        slot = np.where(known, self._fields_at + 2 * field, 0)
        offset = np.where(known, _gather(self.source, slot, "<u2"), 0)
        return np.where(offset != 0, self.positions + offset, 0)

    def scalars(self, field: int, dtype: str, default: int) -> Ints:
        """A whole number of each table; ``dtype`` is its stored type."""
        position = self.field_positions(field)
        size = np.dtype(dtype).itemsize
        self._need(position[position != 0], size, size, f"field {field}")
        return np.where(position != 0, _gather(self.source, position, dtype), default)

    def first_numbers(self, field: int, dtype: str) -> Floats:
        """The first number of a vector of each table, 0 where it is empty."""
        item = np.dtype(dtype)
        first, count = self.ranges(field, item.itemsize)
        whole = np.frombuffer(self.source.data, item, self.source.size // item.itemsize)
        if not len(first):
            return np.zeros(0)
        values = whole[first // item.itemsize].astype(np.float64)
        return np.where(count > 0, values, 0.0)

    def children(self, field: int) -> Column:
        """The nested table of each table."""
        return Column(self.source, self._targets(field))

    def flat(self, field: int) -> tuple[Column, Ints]:
        """A vector of tables of each table, joined, and the length of each."""
        first, count = self.ranges(field, 4)
        _check_rows(self.source, int(first.max(initial=0)), int(count.sum()))
        return Column.at(self.source, spread(first, count, 4)), count

    def ranges(self, field: int, itemsize: int) -> tuple[Ints, Ints]:
        """Position of the first element and count of a vector; 0 and 0 if absent."""
        target = self._targets(field)
        self._need(target[target != 0], 4, 4, f"length of field {field}")
        count = np.where(target != 0, _gather(self.source, target, "<u4"), 0)
        first = np.where(target != 0, target + 4, 0)
        self._need(first, count * itemsize, 1, f"field {field}")
        if itemsize > 4:
            lost = (first % itemsize != 0) & (count > 0)
            self._reject(first, lost, f"field {field} is not aligned")
        return first, count

    def rows(self, field: int, dtype: str) -> Rows:
        """A vector of whole numbers of each table; ``dtype`` is their stored type."""
        itemsize = np.dtype(dtype).itemsize
        first, count = self.ranges(field, itemsize)
        if count.sum() > MAX_ELEMENTS:
            raise self.source.error(int(first.min()), f"field {field} is too long")
        values = _gather(self.source, spread(first, count, itemsize), dtype)
        return Rows(values, count, first)

    def strings(self, field: int) -> list[str | None]:
        """UTF-8 text of each table, None where absent."""
        first, count = self.ranges(field, 1)
        if count.sum() > max(MAX_ELEMENTS, self.source.size):
            raise self.source.error(int(first.min()), f"texts of field {field} overlap")
        self._need(first[first != 0], count[first != 0] + 1, 1, f"text {field}")
        data = self.source.data
        pairs = zip(first.tolist(), count.tolist(), strict=True)
        try:
            return [str(data[at : at + n], "utf-8") if at else None for at, n in pairs]
        except UnicodeDecodeError as error:
            raise self.source.error(
                int(first.min()), f"field {field} is not UTF-8 text ({error.reason})"
            ) from None

    def _targets(self, field: int) -> Ints:
        position = self.field_positions(field)
        return _follow(self.source, position, f"field {field}")

    def _need(self, at: Ints, size: Ints | int, align: int, name: str) -> None:
        _need(self.source, at, size, align, name)

    def _reject(self, at: Ints, wrong: Bools, problem: str) -> None:
        _reject(self.source, at, wrong, problem)


class Rows:
    """Rows of numbers of different lengths, kept in one array.

    ``values`` int64 holds all of them; row ``i`` has ``counts[i]`` numbers from
    ``starts[i]`` on, stored in the file from byte ``positions[i]`` on (0 if absent).
    """

    __slots__ = ("counts", "positions", "starts", "values")

    def __init__(self, values: Ints, counts: Ints, positions: Ints) -> None:
        self.values = values
        self.starts = np.cumsum(counts) - counts
        self.counts = counts
        self.positions = positions

    def tuples(self) -> list[tuple[int, ...]]:
        """Each row as a tuple."""
        values = tuple(self.values.tolist())
        pairs = zip(self.starts.tolist(), self.counts.tolist(), strict=True)
        return [values[at : at + count] for at, count in pairs]


def spread(first: Ints, counts: Ints, step: int) -> Ints:
    """``counts[i]`` numbers from ``first[i]`` on in steps, for all ``i`` in a row."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    within = np.arange(total) - np.repeat(ends - counts, counts)
    return np.repeat(first, counts) + step * within


def _check_rows(source: Source, position: int, count: int) -> None:
    if count > MAX_ROWS:
        raise source.error(position, f"more than {MAX_ROWS} tables in a row")


def _gather(source: Source, at: Ints, dtype: str) -> Ints:
    """Numbers stored at checked, aligned positions."""
    item = np.dtype(dtype)
    if not len(at):
        return _NOTHING
    whole = np.frombuffer(source.data, item, source.size // item.itemsize)
    return whole[at // item.itemsize].astype(np.int64)


def _follow(source: Source, at: Ints, name: str) -> Ints:
    """Targets of the 32-bit offsets at the positions; 0 stays 0."""
    present = at != 0
    _need(source, at[present], 4, 4, f"offset of {name}")
    offset = np.where(present, _gather(source, at, "<u4"), 0)
    wrong = present & ((offset == 0) | (offset >= 1 << 31))
    _reject(source, at, wrong, f"offset of {name} is wrong")
    return at + offset


def _need(source: Source, at: Ints, size: Ints | int, align: int, name: str) -> None:
    """Raises unless ``size`` bytes at each position exist and are aligned."""
    outside = (at < 0) | (at > source.size - size)
    _reject(source, at, outside, f"{name} lies outside")
    _reject(source, at, at % align != 0, f"{name} is not aligned to {align} bytes")


def _reject(source: Source, at: Ints, wrong: Bools, problem: str) -> None:
    found = np.flatnonzero(wrong)
    if len(found):
        raise source.error(int(at[found[0]]), problem)
