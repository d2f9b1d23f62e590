"""The description of a tool, from the signature and docstring of a Python function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from litert_lm.chat.tools.docstrings import parse_docstring
from litert_lm.chat.tools.type_schema import (
    NO_DEFAULT,
    hints_of,
    json_default,
    schema_of_type,
)
from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "function_hints",
    "function_name",
    "function_parameters",
    "schema_of_function",
]

_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def schema_of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """The description of a tool: ``{"type": "function", "function": {...}}``.

    Type hints give the types, the docstring the descriptions. A parameter with a
    default is not required; ``*args`` and ``**kwargs`` are left out, and so are
    parameters that a ``functools.partial`` has filled.

    Raises InvalidArgumentError for what has no name or no signature.
    """
    body: dict[str, Any] = {"name": function_name(function)}
    said = parse_docstring(_doc(function))
    body["description"] = said.summary
    hints = function_hints(function)
    properties: dict[str, Any] = {}
    parameters = function_parameters(function)
    for parameter in parameters:
        schema = _schema_of(parameter, hints)
        if parameter.name in said.parameters:
            schema["description"] = said.parameters[parameter.name]
        properties[parameter.name] = schema
    required = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    body["parameters"] = {
        "type": "object",
        "properties": properties,
        "required": required,
    }
    return {"type": "function", "function": body}


def function_name(function: Callable[..., Any]) -> str:
    """The name by which a model calls `function`.

    Raises InvalidArgumentError for a function without one, such as a lambda.
    """
    inner = _inner(function)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    if name == "<lambda>":
        raise InvalidArgumentError(
            "A lambda has no name that a model could call. Use a function made by def."
        )
    return str(name)


def function_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that a model can give."""
    filled = function.keywords if isinstance(function, functools.partial) else {}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{shown(function)} is no function whose parameters are known. Wrap it in"
            " a function made by def."
        ) from error
    return [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind not in _MANY and parameter.name not in filled
    ]


def function_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The type hints of the function's parameters, where it has them."""
    inner = _inner(function)
    is_plain = inspect.isroutine(inner) or inspect.isclass(inner)
    owner = inner if is_plain else type(inner).__call__
    if inspect.isclass(owner):
        owner = owner.__init__
    return hints_of(inspect.unwrap(owner))


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _doc(function: Callable[..., Any]) -> str | None:
    """The function's own docstring, or that of its ``__call__``."""
    inner = _inner(function)
    if inspect.isroutine(inner) or inspect.isclass(inner):
        return inspect.getdoc(inner)
    return inspect.getdoc(type(inner).__call__) or inspect.getdoc(inner)


def _schema_of(parameter: inspect.Parameter, hints: dict[str, Any]) -> dict[str, Any]:
    """The schema of one parameter; without a hint its default tells the type."""
    has_default = parameter.default is not inspect.Parameter.empty
    hint = hints.get(parameter.name, inspect.Parameter.empty)
    if (
        hint is inspect.Parameter.empty
        and parameter.default is not None
        and has_default
    ):
        hint = type(parameter.default)
    default = parameter.default if has_default else NO_DEFAULT
    return schema_of_type(hint) | json_default(default)
