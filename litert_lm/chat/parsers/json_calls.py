"""Calls as JSON objects: {"name": ..., "arguments": {...}}, one or several."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from litert_lm.chat.parsers.base import (
    CallSyntaxError,
    call_name,
    clean_text,
    clean_value,
    shorten,
)
from litert_lm.chat.parsers.tool_call import ToolCall

__all__ = ["parse_json"]

_BETWEEN = re.compile(r"[\s,;]*")
_DECODER = json.JSONDecoder(strict=False)  # models write raw newlines into strings


def parse_json(text: str) -> list[ToolCall]:
    """The calls in `text`: objects or arrays of objects, one after the other.

    ``arguments`` may be missing, and may be a string that holds the JSON of an object.
    ``parameters`` is read as its other spelling, and OpenAI's ``function`` wrapper is
    opened.

    Raises CallSyntaxError.
    """
    return [_call(entry) for entry in _entries(text)]


def _entries(text: str) -> Iterator[Any]:
    position = _skip(text, 0)
    if position == len(text):
        raise CallSyntaxError("there is no call between the fences.")
    while position < len(text):
        value, position = _decode(text, position)
        yield from value if isinstance(value, list) else [value]
        position = _skip(text, position)


def _skip(text: str, position: int) -> int:
    found = _BETWEEN.match(text, position)
    return found.end() if found else position


def _decode(text: str, position: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        rest = shorten(text[error.pos : error.pos + 60])
        raise CallSyntaxError(f"no JSON at character {error.pos}, {rest}.") from error
    except RecursionError as error:
        raise CallSyntaxError("arguments are nested too deep.") from error
    except ValueError as error:
        raise CallSyntaxError("a number has too many digits.") from error


def _call(entry: Any) -> ToolCall:
    if not isinstance(entry, Mapping):
        raise CallSyntaxError(f"a call is a JSON object, not {shorten(str(entry))}.")
    inner = entry.get("function")
    body = inner if isinstance(inner, Mapping) else entry
    name = body.get("name") or (inner if isinstance(inner, str) else None)
    given = body.get("arguments", body.get("parameters"))
    identity = entry.get("id")
    return ToolCall(
        call_name(name),
        clean_value(_arguments(given)),
        clean_text(identity) if isinstance(identity, str) and identity else None,
    )


def _arguments(given: Any) -> Mapping[str, Any]:
    if isinstance(given, str) and given.strip():
        given, _ = _decode(given, _skip(given, 0))
    if given is None or given == "":
        return {}
    if not isinstance(given, Mapping):
        raise CallSyntaxError(f"arguments are an object, not {shorten(str(given))}.")
    return given
