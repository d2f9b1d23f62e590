"""The header of a new .litertlm file, as a FlatBuffer behind the format's preamble."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from litert_lm.bundle.litertlm import HEADER_BEGIN, MAGIC
from litert_lm.bundle.sections import Value
from litert_lm.errors import InvalidArgumentError

if TYPE_CHECKING:
    import flatbuffers

__all__ = ["Entry", "build_header"]

VERSION = (1, 7, 0)
"""The format version that Google's builder 0.18.1 writes."""

MAX_SIZE = 16 * 1024
"""Google's readers look for the header in the first 16 KiB."""

# Members of the header's value union that hold what Python has.
_BOOL, _TEXT, _INT64, _DOUBLE = 8, 9, 11, 12


class Entry(NamedTuple):
    """One section in the header: kind, properties and byte range."""

    data_type: int
    items: Mapping[str, Value]
    begin: int
    end: int


def build_header(system: Mapping[str, Value], entries: Sequence[Entry]) -> bytes:
    """The bytes of the file up to its first section, less the padding.

    Their number depends on the properties and the number of entries only, as long as
    no offset is 0. Raises InvalidArgumentError when they are more than 16 KiB.
    """
    import flatbuffers

    builder = flatbuffers.Builder(MAX_SIZE)
    sections = _vector(builder, [_section(builder, entry) for entry in entries])
    properties = _vector(builder, _pairs(builder, system))
    system_table = _table(builder, _offset(builder, 0, properties))
    section_table = _table(builder, _offset(builder, 0, sections))
    builder.Finish(
        _table(
            builder,
            _offset(builder, 0, system_table),
            _offset(builder, 1, section_table),
        )
    )
    body = bytes(builder.Output())
    end = HEADER_BEGIN + len(body)
    if end > MAX_SIZE:
        raise InvalidArgumentError(
            f"the properties need a header of {end} bytes, it may have {MAX_SIZE}; "
            "shorten system_metadata or section_items."
        )
    return MAGIC + struct.pack("<III4xQ", *VERSION, end) + body


_Slot = Callable[[], None]


def _table(builder: flatbuffers.Builder, *slots: _Slot) -> int:
    builder.StartObject(4)
    for slot in slots:
        slot()
    position: int = builder.EndObject()
    return position


def _offset(builder: flatbuffers.Builder, field: int, target: int) -> _Slot:
    return lambda: builder.PrependUOffsetTRelativeSlot(field, target, 0)


def _byte(builder: flatbuffers.Builder, field: int, value: int) -> _Slot:
    return lambda: builder.PrependUint8Slot(field, value, 0)


def _text(builder: flatbuffers.Builder, text: str) -> int:
    try:
        position: int = builder.CreateString(text)
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"the property text {text!r} holds half a character; correct it."
        ) from None
    return position


def _vector(builder: flatbuffers.Builder, tables: Iterable[int]) -> int:
    positions = list(tables)
    builder.StartVector(4, len(positions), 4)
    for position in reversed(positions):
        builder.PrependUOffsetTRelative(position)
    end: int = builder.EndVector()
    return end


def _section(builder: flatbuffers.Builder, entry: Entry) -> int:
    items = _vector(builder, _pairs(builder, entry.items))
    return _table(
        builder,
        _offset(builder, 0, items),
        lambda: builder.PrependUint64Slot(1, entry.begin, 0),
        lambda: builder.PrependUint64Slot(2, entry.end, 0),
        _byte(builder, 3, entry.data_type),
    )


def _pairs(
    builder: flatbuffers.Builder, properties: Mapping[str, Value]
) -> Iterable[int]:
    for key, value in properties.items():
        name = _text(builder, key)
        kind, holder = _value(builder, key, value)
        yield _table(
            builder,
            _offset(builder, 0, name),
            _byte(builder, 1, kind),
            _offset(builder, 2, holder),
        )


def _value(builder: flatbuffers.Builder, key: str, value: Value) -> tuple[int, int]:
    """The union member for `value` and the position of its table."""
    if isinstance(value, str):
        return _TEXT, _table(builder, _offset(builder, 0, _text(builder, value)))
    if isinstance(value, bool):
        return _BOOL, _table(builder, lambda: builder.PrependBoolSlot(0, value, False))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return _INT64, _table(builder, lambda: builder.PrependInt64Slot(0, value, 0))
    if isinstance(value, float):
        return _DOUBLE, _table(
            builder, lambda: builder.PrependFloat64Slot(0, value, 0.0)
        )
    raise InvalidArgumentError(
        f"the property {key!r} is {value!r}; it must be text, a number or a bool."
    )
