"""Makes whatever a tool returns a value that JSON can hold."""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any

from litert_lm.chat.parsers.base import clean_text

__all__ = ["json_value"]

_MAX_DEPTH = 64
_MAX_ENTRIES = 1_000_000
_MAX_INTEGER_BITS = 4096


def json_value(value: Any) -> Any:
    """`value` in JSON's types: dicts with text keys, lists, text, numbers, bool, None.

    Dataclasses and mappings become objects, sets and iterables lists, bytes base64,
    enum members their values, arrays and scalars of NumPy what ``tolist`` gives;
    numbers that are not finite and everything else become their text.

    Raises ValueError for what contains itself or has too many entries.
    """
    return _Converter().convert(value, 0)


class _Converter:
    def __init__(self) -> None:
        self.num_left = _MAX_ENTRIES

    def convert(self, value: Any, depth: int) -> Any:
        self.num_left -= 1
        if depth > _MAX_DEPTH:
            raise ValueError(f"the value is nested more than {_MAX_DEPTH} deep")
        if self.num_left < 0:
            raise ValueError(f"the value has more than {_MAX_ENTRIES} entries")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum):
            return self.convert(value.value, depth + 1)
        if isinstance(value, str | int | float | bytes | bytearray):
            return _scalar(value)
        return self._container(value, depth + 1)

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return {
                _key(key): self.convert(entry, depth) for key, entry in value.items()
            }
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: self.convert(getattr(value, field.name), depth)
                for field in dataclasses.fields(value)
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.convert(entry, depth) for entry in value]
        if callable(to_list := getattr(value, "tolist", None)):
            return self.convert(to_list(), depth)
        if isinstance(value, Iterable) and type(value).__str__ is object.__str__:
            return [self.convert(entry, depth) for entry in value]
        return clean_text(str(value))


def _scalar(value: str | float | bytes | bytearray) -> Any:
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise ValueError("the value is an integer of too many digits")
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return clean_text(str(key))
