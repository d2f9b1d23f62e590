"""Converts values of JSON's types into what a type hint asks for."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from litert_lm.chat.tools.type_schema import fields_of, without_annotation
from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["coerce"]

_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
_SETS = (set, abc.Set, abc.MutableSet)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_FROM_TEXT: Mapping[Any, Callable[[str], Any]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
    pathlib.Path: pathlib.Path,
    decimal.Decimal: decimal.Decimal,
}
_MAX_DEPTH = 64


def coerce(value: Any, hint: Any, path: str, depth: int = 0) -> Any:
    """`value` as `hint` asks for it.

    Numbers written as text or as floats, enum members by value or name, dataclasses and
    TypedDicts from objects, tuples and sets from arrays, lists and objects that arrive
    as JSON text. A hint without a rule lets every value through.

    Raises InvalidArgumentError that begins with `path`.
    """
    hint, _ = without_annotation(hint)
    if depth > _MAX_DEPTH:
        _fail(path, value, f"at most {_MAX_DEPTH} levels")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(value, arguments, path, depth)
    if origin is typing.Literal:
        return _member(value, {a: a for a in arguments}, path)
    kind = origin or hint
    if kind is tuple or kind in _LISTS or kind in _SETS or kind is frozenset:
        return _array(value, kind, arguments, path, depth)
    if kind in _MAPPINGS:
        return _mapping(value, arguments, path, depth)
    if kind in (None, type(None)):
        return None if value is None else _fail(path, value, "null")
    return _class(value, hint, path, depth) if isinstance(hint, type) else value


def _fail(path: str, value: Any, wanted: str) -> NoReturn:
    raise InvalidArgumentError(f"{path} is {shown(value)}. Give {wanted}.")


def _class(value: Any, hint: type, path: str, depth: int) -> Any:
    if hint in _SIMPLE:
        return _SIMPLE[hint](value, path)
    if issubclass(hint, enum.Enum):
        if isinstance(value, hint):
            return value
        return _member(value, _enum_spellings(hint), path)
    if (fields := fields_of(hint)) is not None:
        return _record(value, hint, {f.name: f for f in fields}, path, depth)
    if hint in _FROM_TEXT and isinstance(value, str | int | float):
        try:
            return _FROM_TEXT[hint](str(value))
        except (ValueError, ArithmeticError) as error:
            raise InvalidArgumentError(
                f"{path} is {shown(value)}. Give the text of a {hint.__name__}."
            ) from error
    return value


def _enum_spellings(hint: type[enum.Enum]) -> dict[Any, Any]:
    by_name: dict[Any, Any] = dict(hint.__members__)
    return by_name | {_key(member.value): member for member in hint}


def _key(value: Any) -> Any:
    return value if isinstance(value, abc.Hashable) else id(value)


def _member(value: Any, spellings: Mapping[Any, Any], path: str) -> Any:
    """The entry of `spellings` under `value`, or under its text in any case."""
    for spelling, meant in spellings.items():
        if spelling == value and isinstance(spelling, bool) == isinstance(value, bool):
            return meant
    if isinstance(value, str | int | float):
        folded = str(value).casefold()
        for spelling, meant in spellings.items():
            if str(spelling).casefold() == folded:
                return meant
    _fail(path, value, f"one of {', '.join(repr(s) for s in spellings)}")


def _union(value: Any, members: tuple[Any, ...], path: str, depth: int) -> Any:
    """The first member that takes the value as it is, or else after a conversion."""
    errors = []
    results = []
    for member in members:
        try:
            results.append(coerce(value, member, path, depth + 1))
        except InvalidArgumentError as error:
            errors.append(error)
    same = [r for r in results if type(r) is type(value) and r == value]
    for candidates in (same, results):
        if candidates:
            return candidates[0]
    raise errors[0]


def _loaded(value: Any) -> Any:
    """The array or object that a text holds, for models that quote their JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _array(value: Any, kind: Any, items: tuple[Any, ...], path: str, depth: int) -> Any:
    entries = _loaded(value)
    if not isinstance(entries, list | tuple):
        _fail(path, value, "a list")
    if kind is tuple and items and items[-1] is not Ellipsis:
        if len(entries) != len(items):
            _fail(path, value, f"a list of {len(items)} values")
        hints: Sequence[Any] = items
    else:
        hints = [items[0] if items else Any] * len(entries)
    made = [
        coerce(entry, hint, f"{path}[{i}]", depth + 1)
        for i, (entry, hint) in enumerate(zip(entries, hints, strict=True))
    ]
    if kind is tuple:
        return tuple(made)
    if kind in _SETS or kind is frozenset:
        return _as_set(made, kind, path)
    return made


def _as_set(made: list[Any], kind: Any, path: str) -> Any:
    try:
        return frozenset(made) if kind is frozenset else set(made)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{path} has entries that a set cannot hold. Give plain values."
        ) from error


def _mapping(value: Any, items: tuple[Any, ...], path: str, depth: int) -> Any:
    entries = _loaded(value)
    if not isinstance(entries, Mapping):
        _fail(path, value, "an object")
    if len(items) != 2:
        return dict(entries)
    return {
        coerce(key, items[0], f"{path}, a key,", depth + 1): coerce(
            entry, items[1], f"{path}[{key!r}]", depth + 1
        )
        for key, entry in entries.items()
    }


def _record(
    value: Any, hint: Any, fields: Mapping[str, Any], path: str, depth: int
) -> Any:
    """A dataclass or TypedDict from an object."""
    if dataclasses.is_dataclass(hint) and isinstance(value, typing.cast(type, hint)):
        return value
    entries = _loaded(value)
    if not isinstance(entries, Mapping):
        _fail(path, value, f"an object with {', '.join(fields)}")
    for name in (*entries, *(f.name for f in fields.values() if f.is_required)):
        if name not in fields or name not in entries:
            state = "no field" if name not in fields else "no value for the field"
            raise InvalidArgumentError(
                f"{path} has {state} {shown(name)}. Its fields are {', '.join(fields)}."
            )
    made = {
        name: coerce(entry, fields[name].hint, f"{path}.{name}", depth + 1)
        for name, entry in entries.items()
    }
    try:
        return hint(**made)
    except (TypeError, ValueError) as error:  # of the class's own checks
        raise InvalidArgumentError(f"{path} is refused: {error}.") from error


def _text(value: Any, path: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    _fail(path, value, "a string")


def _integer(value: Any, path: str) -> int:
    if isinstance(value, bool):
        _fail(path, value, "an integer")
    if isinstance(value, int):
        return value
    try:
        if isinstance(value, str):
            value = float(value) if "." in value or "e" in value else int(value)
        if isinstance(value, int) or value.is_integer():
            return int(value)
    except (ValueError, AttributeError, OverflowError):
        pass
    _fail(path, value, "an integer")


def _float(value: Any, path: str) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            return float(value)
    except (ValueError, OverflowError):
        pass
    _fail(path, value, "a number")


def _boolean(value: Any, path: str) -> bool:
    if isinstance(value, bool):
        return value
    found = _WORDS.get(str(value).lower()) if isinstance(value, str | int) else None
    return _fail(path, value, "true or false") if found is None else found


_SIMPLE: Mapping[Any, Callable[[Any, str], Any]] = {
    str: _text,
    int: _integer,
    float: _float,
    bool: _boolean,
}
