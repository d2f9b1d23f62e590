"""FlatBuffers read with every offset checked: a damaged file gives ModelFileError.

Positions are bytes from the start of the buffer; alignment is judged from there too,
as the FlatBuffers verifier does. Fields are counted from 0 in the order of the schema;
a union takes two, its type and its table.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, TypeVar

from litert_lm.errors import ModelFileError

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer

__all__ = ["Source", "Table"]

Scalar = TypeVar("Scalar", int, float, bool)

MAX_TABLES = 1_000_000
"""Tables in the vectors of one buffer; the FlatBuffers verifier has this limit too."""

_STRUCTS = {code: struct.Struct("<" + code) for code in "?bBhHiIqQfd"}
_U16 = _STRUCTS["H"].unpack_from
_U32 = _STRUCTS["I"].unpack_from
_I32 = _STRUCTS["i"].unpack_from


class Source:
    """The bytes of one FlatBuffer: ``data``, their name, and the tables still allowed.

    The budget, of tables in vectors, ends walks through files whose vectors share their
    elements, which could otherwise unfold to any size.
    """

    __slots__ = ("data", "size", "tables_left", "what")

    def __init__(self, data: Buffer, what: str) -> None:
        self.data = memoryview(data).cast("B")
        self.size = len(self.data)
        self.what = what
        self.tables_left = MAX_TABLES

    def error(self, position: int, problem: str) -> ModelFileError:
        return ModelFileError(
            f"{self.what} is damaged: {problem} at byte {position} of {self.size}; "
            "get the file again."
        )

    def need(self, position: int, count: int, align: int, name: str) -> None:
        """Raises unless ``count`` bytes at ``position`` exist and are aligned."""
        if not 0 <= position <= self.size - count:
            raise self.error(position, f"{name} of {count} bytes lies outside")
        if position % align:
            raise self.error(position, f"{name} is not aligned to {align} bytes")

    def follow(self, position: int, name: str) -> int:
        """The target of the 32-bit offset stored at ``position``."""
        self.need(position, 4, 4, f"offset of {name}")
        offset: int = _U32(self.data, position)[0]
        if not 0 < offset < 1 << 31:
            raise self.error(position, f"offset of {name} is {offset}")
        return position + offset

    def spend(self, tables: int) -> None:
        """Raises when more tables are read than a sound file holds."""
        self.tables_left -= tables
        if self.tables_left < 0:
            raise ModelFileError(
                f"{self.what} is damaged: more than {MAX_TABLES} tables; "
                "get the file again."
            )

    def vector(self, position: int, itemsize: int, name: str) -> tuple[int, int]:
        """Position of the first element and their number, checked to lie inside."""
        self.need(position, 4, 4, f"length of {name}")
        count: int = _U32(self.data, position)[0]
        first = position + 4
        if count * itemsize > self.size - first:
            raise self.error(position, f"{name} has {count} elements, too many")
        if itemsize > 4 and count and first % itemsize:
            raise self.error(first, f"{name} is not aligned to {itemsize} bytes")
        return first, count


class Table:
    """One table; its fields are read when asked for.

    The views it gives out keep the buffer alive, so an mmap under it cannot be closed
    before they are gone.
    """

    __slots__ = ("_num_fields", "_source", "_vtable", "position")

    def __init__(self, source: Source, position: int) -> None:
        source.need(position, 4, 4, "table")
        vtable = position - _I32(source.data, position)[0]
        source.need(vtable, 4, 2, "vtable")
        vtable_size: int = _U16(source.data, vtable)[0]
        if vtable_size < 4 or vtable_size % 2:
            raise source.error(vtable, f"vtable of {vtable_size} bytes")
        source.need(vtable, vtable_size, 2, "vtable")
        source.need(position, _U16(source.data, vtable + 2)[0], 4, "table")
        self._source = source
        self.position = position
        self._vtable = vtable
        self._num_fields = (vtable_size - 4) // 2

    @classmethod
    def root(cls, data: Buffer, identifier: bytes | None, what: str) -> Table:
        """The root table of ``data``.

        ``identifier`` is the four-byte file identifier that must be there, None where
        the format has none. ``what`` names the buffer in error messages.
        """
        source = Source(data, what)
        source.need(0, 8, 1, "FlatBuffer header")
        if identifier is not None and bytes(source.data[4:8]) != identifier:
            raise ModelFileError(
                f"{what} is not a {identifier.decode()} file: it has "
                f"{bytes(source.data[4:8])!r} at byte 4; check where it came from."
            )
        return cls(source, source.follow(0, "root table"))

    @property
    def source(self) -> Source:
        """The buffer that the table lies in."""
        return self._source

    def field_position(self, field: int) -> int:
        """Position of the field's stored value, 0 where the field is absent."""
        if field >= self._num_fields:
            return 0
        offset: int = _U16(self._source.data, self._vtable + 4 + 2 * field)[0]
        return self.position + offset if offset else 0

    def has(self, field: int) -> bool:
        """Whether the file stores the field."""
        return self.field_position(field) != 0

    def scalar(self, field: int, code: str, default: Scalar) -> Scalar:
        """A number stored in the table; ``code`` is its character in ``struct``."""
        position = self.field_position(field)
        if not position:
            return default
        layout = _STRUCTS[code]
        self._source.need(position, layout.size, layout.size, f"field {field}")
        value: Scalar = layout.unpack_from(self._source.data, position)[0]
        return value

    def string(self, field: int) -> str | None:
        """UTF-8 text, None where absent."""
        first, count = self.vector_range(field, 1)
        if not first:
            return None
        source = self._source
        source.need(first, count + 1, 1, f"text of field {field} with its end mark")
        try:
            return str(source.data[first : first + count], "utf-8")
        except UnicodeDecodeError:
            raise source.error(first, f"field {field} is not UTF-8 text") from None

    def vector_range(self, field: int, itemsize: int) -> tuple[int, int]:
        """Position of the first element and the number of elements; (0, 0) if absent.

        ``itemsize`` is the size of one element in bytes.
        """
        position = self.field_position(field)
        if not position:
            return 0, 0
        target = self._source.follow(position, f"field {field}")
        return self._source.vector(target, itemsize, f"field {field}")

    def bytes(self, field: int) -> memoryview:
        """A vector of bytes as a view, empty where absent."""
        first, count = self.vector_range(field, 1)
        return self._source.data[first : first + count]

    def array(self, field: int, dtype: str) -> np.ndarray[Any, Any]:
        """A vector of numbers as a read-only view; ``dtype`` in NumPy's spelling."""
        import numpy as np

        item = np.dtype(dtype)
        first, count = self.vector_range(field, item.itemsize)
        view = np.frombuffer(self._source.data, item, count, first)
        view.flags.writeable = False
        return view

    def table(self, field: int) -> Table | None:
        """A nested table, None where absent."""
        position = self.field_position(field)
        if not position:
            return None
        target = self._source.follow(position, f"field {field}")
        return Table(self._source, target)

    def tables(self, field: int) -> list[Table]:
        """A vector of tables, empty where absent."""
        source = self._source
        first, count = self.vector_range(field, 4)
        source.spend(count)
        ends = range(first, first + 4 * count, 4)
        return [Table(source, source.follow(at, f"field {field}")) for at in ends]

    def union(self, field: int) -> tuple[int, Table | None]:
        """The type (0: none) and the table of a union whose type is ``field``."""
        return self.scalar(field, "B", 0), self.table(field + 1)
