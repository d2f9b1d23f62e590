"""Matches a call's arguments with the parameters of a Python function."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from litert_lm.chat.tools.coercion import coerce
from litert_lm.chat.tools.schema import (
    function_hints,
    function_name,
    function_parameters,
)
from litert_lm.chat.tools.type_schema import without_annotation
from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["bind_arguments"]


def bind_arguments(
    function: Callable[..., Any], arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """What to call `function` with, positional and named, so that its hints hold.

    A null for a parameter whose hint does not allow it means the parameter's default.

    Raises InvalidArgumentError that names the parameter: one that is missing, unknown,
    or has a value that does not fit.
    """
    hints = function_hints(function)
    parameters = function_parameters(function)
    positional: list[Any] = []
    named = _unknown(function, parameters, arguments)
    for parameter in parameters:
        hint = hints.get(parameter.name, Any)
        value = arguments.get(parameter.name, parameter.default)
        if parameter.default is not inspect.Parameter.empty and (
            value is parameter.default or (value is None and not _takes_none(hint))
        ):
            value = parameter.default
        elif parameter.name not in arguments:
            raise InvalidArgumentError(
                f"{function_name(function)}: the parameter {parameter.name!r} is"
                f" missing. Give it; the parameters are {_listed(parameters)}."
            )
        else:
            path = f"{function_name(function)}: the parameter {parameter.name!r}"
            value = coerce(value, hint, path)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    return positional, named


def _unknown(
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Arguments that only ``**kwargs`` takes."""
    known = {parameter.name for parameter in parameters}
    extra = {name: value for name, value in arguments.items() if name not in known}
    signature = inspect.signature(function).parameters.values()
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature)
    if extra and not takes_all:
        raise InvalidArgumentError(
            f"{function_name(function)} has no parameter {shown(next(iter(extra)))}."
            f" Its parameters are {_listed(parameters)}."
        )
    return extra


def _listed(parameters: Sequence[inspect.Parameter]) -> str:
    return ", ".join(parameter.name for parameter in parameters) or "none"


def _takes_none(hint: Any) -> bool:
    plain, _ = without_annotation(hint)
    if typing.get_origin(plain) in (typing.Union, types.UnionType):
        return any(_takes_none(member) for member in typing.get_args(plain))
    if typing.get_origin(plain) is typing.Literal:
        return None in typing.get_args(plain)
    return plain in (Any, object, None, type(None))
