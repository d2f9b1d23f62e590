"""JSON schemas of Python types, as they stand in the hints of a tool's parameters."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from litert_lm.chat.tools.docstrings import parse_docstring

__all__ = [
    "NO_DEFAULT",
    "Field",
    "enum_values",
    "fields_of",
    "hints_of",
    "json_default",
    "schema_of_type",
    "without_annotation",
]

_BASIC: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    None: "null",
}
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_ARRAYS = (
    *(list, tuple, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection),
    *_SETS,
)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)
#: Types that JSON spells as a string, and what JSON Schema calls the spelling.
_FORMATS: Mapping[Any, str | None] = {
    datetime.datetime: "date-time",
    datetime.date: "date",
    datetime.time: "time",
    uuid.UUID: "uuid",
    pathlib.Path: None,
    decimal.Decimal: None,
}
NO_DEFAULT = object()


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One entry of a dataclass or TypedDict; `default` is for the schema only."""

    name: str
    hint: Any
    is_required: bool
    default: Any = NO_DEFAULT


def schema_of_type(hint: Any, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The schema of values that fit `hint`; of what JSON has no word for, a string.

    ``X | None`` is X with ``"nullable": true``; other unions list their types, or are
    ``anyOf`` where one of them is no plain type. A type that contains itself is cut to
    ``{"type": "object"}``. `hint` may be ``inspect.Parameter.empty``; `inside` holds
    the types around it.
    """
    plain, description = without_annotation(hint)
    outer = next((known for known in inside if known is hint or known is plain), None)
    if outer is not None:
        return {"type": "object"}
    schema = _schema(plain, inside if hint is plain else (*inside, hint))
    return schema | {"description": description} if description else schema


def without_annotation(hint: Any) -> tuple[Any, str | None]:
    """`hint` without Annotated, Required and the like; the text annotated to it."""
    description = None
    while True:
        if type(hint).__name__ == "TypeAliasType":  # of Python 3.12 and later
            hint = hint.__value__
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif typing.get_origin(hint) is typing.Annotated:
            texts = [said for said in hint.__metadata__ if isinstance(said, str)]
            description = description or next(iter(texts), None)
            hint = hint.__origin__
        elif typing.get_origin(hint) in (
            typing.Required,
            typing.NotRequired,
            typing.Final,
            typing.ClassVar,
        ):
            (hint,) = typing.get_args(hint)
        else:
            return hint, description


def _schema(hint: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return {}
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, inside)
    if origin is typing.Literal:
        return _choice(arguments)
    if (origin or hint) in _ARRAYS:
        return _array(origin or hint, arguments, inside)
    if (origin or hint) in _OBJECTS:
        return _mapping(arguments, inside)
    if isinstance(hint, type):
        return _class(hint, inside)
    return {"type": _BASIC.get(hint, "string") if _is_hashable(hint) else "string"}


def _is_hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


def _class(hint: type, inside: tuple[Any, ...]) -> dict[str, Any]:
    if hint in _BASIC:
        return {"type": _BASIC[hint]}
    if issubclass(hint, enum.Enum):
        return _choice(enum_values(hint))
    if (fields := fields_of(hint)) is not None:
        return _object(hint, fields, (*inside, hint))
    for known, name in _FORMATS.items():
        if issubclass(hint, known):
            return {"type": "string"} | ({"format": name} if name else {})
    for base in (bool, int, float):
        if issubclass(hint, base):
            return {"type": _BASIC[base]}
    return {"type": "string"}


def _union(members: Iterable[Any], inside: tuple[Any, ...]) -> dict[str, Any]:
    schemas = [schema_of_type(member, inside) for member in members]
    kept = [schema for schema in schemas if schema != {"type": "null"}]
    is_nullable = len(kept) < len(schemas)
    kept = [schema for i, schema in enumerate(kept) if schema not in kept[:i]]
    if len(kept) == 1:
        result = dict(kept[0])
    elif any(schema.keys() != {"type"} for schema in kept):
        result = {"anyOf": kept}
    else:
        result = {"type": [schema["type"] for schema in kept]}
    return result | {"nullable": True} if is_nullable else result


def _choice(values: Iterable[Any]) -> dict[str, Any]:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    kept = [value for value in plain if value is not None]
    kinds = list(dict.fromkeys(_BASIC.get(type(value), "string") for value in kept))
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    schema["enum"] = kept
    return schema | {"nullable": True} if len(kept) < len(plain) else schema


def _array(
    kind: Any, items: tuple[Any, ...], inside: tuple[Any, ...]
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    if kind is tuple and items and items[-1] is not Ellipsis:
        entries = [schema_of_type(item, inside) for item in items]
        is_alike = all(entry == entries[0] for entry in entries)
        schema["items"] = entries[0] if is_alike else {"anyOf": entries}
        return schema | {"minItems": len(items), "maxItems": len(items)}
    if items and (entry := schema_of_type(items[0], inside)):
        schema["items"] = entry
    if kind in _SETS:
        schema["uniqueItems"] = True
    return schema


def _mapping(arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if len(arguments) == 2 and (values := schema_of_type(arguments[1], inside)):
        schema["additionalProperties"] = values
    return schema


def _object(hint: type, fields: list[Field], inside: tuple[Any, ...]) -> dict[str, Any]:
    said = parse_docstring(hint.__dict__.get("__doc__"))
    properties = {}
    for field in fields:
        schema = schema_of_type(field.hint, inside)
        if field.name in said.parameters:
            schema["description"] = said.parameters[field.name]
        default = json_default(field.default)
        properties[field.name] = schema | default
    required = [field.name for field in fields if field.is_required]
    return {"type": "object", "properties": properties, "required": required}


def enum_values(hint: type[enum.Enum]) -> list[Any]:
    """How members are written: their values, or their names where JSON has no such."""
    values = [member.value for member in hint]
    if all(isinstance(value, str | int | float) for value in values):
        return values
    return [member.name for member in hint]


def fields_of(hint: Any) -> list[Field] | None:
    """The entries of a dataclass or a TypedDict; None for another type."""
    if dataclasses.is_dataclass(hint):
        return _dataclass_fields(hint)
    if not typing.is_typeddict(hint):
        return None
    hints = hints_of(hint)
    return [
        Field(name, inner, _is_required(inner, name in hint.__required_keys__))
        for name, inner in hints.items()
    ]


def _is_required(hint: Any, default: bool) -> bool:
    """By Required or NotRequired; Python does not look into hints that are text."""
    marks = {typing.Required: True, typing.NotRequired: False}
    while (origin := typing.get_origin(hint)) in (typing.Annotated, *marks):
        if origin in marks:
            return marks[origin]
        hint = hint.__origin__
    return default


def _dataclass_fields(hint: Any) -> list[Field]:
    hints = hints_of(hint)
    missing = dataclasses.MISSING
    return [
        Field(
            field.name,
            hints.get(field.name, field.type),
            field.default is missing and field.default_factory is missing,
            NO_DEFAULT if field.default is missing else field.default,
        )
        for field in dataclasses.fields(hint)
        if field.init
    ]


def hints_of(owner: Callable[..., Any] | type) -> dict[str, Any]:
    """The type hints of a function or class; those that name nothing are left out."""
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except Exception:  # hints are expressions of the caller's, evaluated
        annotations = getattr(owner, "__annotations__", {})
    names = getattr(owner, "__globals__", {})
    return {
        name: found
        for name, hint in annotations.items()
        if (found := _resolved(hint, names)) is not None
    }


def _resolved(hint: Any, names: Mapping[str, Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, globalns=dict(names), include_extras=True)[
            "hint"
        ]
    except Exception:  # as above
        return None


def json_default(value: Any) -> dict[str, Any]:
    """``{"default": value}`` where JSON can say it, else an empty dict."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, float) and not math.isfinite(value):
        return {}
    if isinstance(value, list | tuple):
        inner = [json_default(entry) for entry in value]
        return {"default": [i["default"] for i in inner]} if all(inner) else {}
    return {"default": value} if isinstance(value, str | int | float | bool) else {}
