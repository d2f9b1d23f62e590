"""Tools that a model may call: what describes one, and what runs one."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from litert_lm.chat.tools.arguments import bind_arguments
from litert_lm.chat.tools.json_values import json_value
from litert_lm.chat.tools.schema import schema_of_function
from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "Tool",
    "ToolEventHandler",
    "as_tools",
    "description_of",
    "tool_from_function",
    "tool_name",
]


class Tool(ABC):
    """Something that a model may call; subclass it, or use tool_from_function."""

    @abstractmethod
    def get_tool_description(self) -> dict[str, Any]:
        """What the model is told: ``{"type": "function", "function": {"name": ...,
        "description": ..., "parameters": JSON schema of an object}}``."""

    @abstractmethod
    def execute(self, param: Mapping[str, Any]) -> Any:
        """The result for the arguments `param`, any value; may raise."""


class ToolEventHandler(ABC):
    """Sees the calls that a conversation makes by itself, and may stop or change them.

    A call has the shape of an entry of a message's ``tool_calls``. A response is what
    the tool returned, in JSON's types: a dict or any other value, and for a tool that
    raised the text ``Error: ...``.
    """

    @abstractmethod
    def approve_tool_call(self, tool_call: dict[str, Any]) -> bool:
        """Whether the tool may run."""

    @abstractmethod
    def process_tool_response(self, tool_response: dict[str, Any]) -> dict[str, Any]:
        """What the model is told in the place of `tool_response`."""


class _FunctionTool(Tool):
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._description = schema_of_function(function)

    def get_tool_description(self) -> dict[str, Any]:
        return self._description

    def execute(self, param: Mapping[str, Any]) -> Any:
        positional, named = bind_arguments(self._function, param)
        result = self._function(*positional, **named)
        return _waited_for(result) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def _waited_for(result: Any) -> Any:
    """What a coroutine returns; in a thread of its own where a loop runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(result))
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, _awaited(result)).result()


def tool_from_function(func: Callable[..., Any]) -> Tool:
    """A tool that calls `func`, described by its signature and docstring.

    Arguments are converted to the hints of `func`: enums, dataclasses, dates, numbers
    that came as text. A coroutine function is waited for.

    Raises InvalidArgumentError for what is no function or has no name.
    """
    if isinstance(func, type) and issubclass(func, Tool):
        raise InvalidArgumentError(
            f"{func.__name__} is a class of tools. Give a tool: {func.__name__}(...)."
        )
    if not callable(func):
        raise InvalidArgumentError(
            f"{shown(func)} is no function. Give a function, or a Tool."
        )
    return _FunctionTool(func)


def as_tools(
    tools: Sequence[Tool | Callable[..., Any]] | None,
) -> dict[str, Tool]:
    """The tools by name, functions wrapped.

    Raises InvalidArgumentError for what is no list, for two of one name, and for a
    description that is none.
    """
    if isinstance(tools, str | Mapping) or not isinstance(tools or (), Iterable):
        raise InvalidArgumentError(
            f"tools must be a list of functions and Tools, got {shown(tools)}."
        )
    found: dict[str, Tool] = {}
    for given in tools or ():
        tool = given if isinstance(given, Tool) else tool_from_function(given)
        name = tool_name(description_of(tool))
        if name in found:
            raise InvalidArgumentError(
                f"Two tools are called {name!r}. Give each a name of its own."
            )
        found[name] = tool
    return found


def description_of(tool: Tool) -> dict[str, Any]:
    """What a tool says of itself, in JSON's types.

    Raises InvalidArgumentError where that is no description.
    """
    given = tool.get_tool_description()
    try:
        said = json_value(given)
    except ValueError as error:
        raise InvalidArgumentError(
            f"A tool's description is no JSON: {error}. Give a flatter one."
        ) from error
    body = said.get("function", said) if isinstance(said, dict) else None
    schema = (body.get("parameters") or {}) if isinstance(body, dict) else None
    properties = (schema.get("properties") or {}) if isinstance(schema, dict) else None
    if not isinstance(said, dict) or not isinstance(properties, dict):
        raise InvalidArgumentError(
            f"A tool's description is no description: {shown(given)}. Give"
            ' {"type": "function", "function": {"name": ..., "parameters": ...}}.'
        )
    return said


def tool_name(description: Mapping[str, Any]) -> str:
    """The name in a tool's description, with or without OpenAI's ``function`` wrapper.

    Raises InvalidArgumentError where it has none.
    """
    inner = description.get("function", description)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(
            f"A tool's description has no name: {shown(description)}. Give"
            ' {"type": "function", "function": {"name": ..., "parameters": ...}}.'
        )
    return name
