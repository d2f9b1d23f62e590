"""What the parsers of all dialects share: their error, their limits, clean values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = [
    "MAX_CALLS",
    "MAX_DEPTH",
    "CallSyntaxError",
    "IncompleteCallError",
    "call_name",
    "clean_text",
    "clean_value",
    "number",
    "resolve_escape",
    "shorten",
]

#: Arguments are nested no deeper; more is no call that a tool could take.
MAX_DEPTH = 64
#: Calls of one reply.
MAX_CALLS = 1024
_MAX_DIGITS = 400
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*)?(?:\.\d*)?(?:[eE][-+]?\d+)?\Z", re.ASCII)
_BASED = re.compile(r"[-+]?0(?:[xX][\da-fA-F_]+|[oO][0-7_]+|[bB][01_]+)\Z")


class CallSyntaxError(ValueError):
    """The text between the fences is no call; becomes a reply's ``parse_error``."""


class IncompleteCallError(CallSyntaxError):
    """The text ends before the call does."""


def shorten(text: str, limit: int = 40) -> str:
    """`text` as an error names it: quoted, and cut to `limit` characters."""
    return repr(text if len(text) <= limit else f"{text[:limit]}...")


def call_name(value: object) -> str:
    """`value` if it can be the name of a tool."""
    if isinstance(value, str) and value.strip():
        return clean_text(value.strip())
    raise CallSyntaxError("a call has no name.")


def clean_text(text: str) -> str:
    """`text` with pairs of surrogates joined and lone ones replaced."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_value(value: Any, depth: int = 0) -> Any:
    """`value` as JSON can store it: valid text, finite numbers, keys that are text."""
    if depth > MAX_DEPTH:
        raise CallSyntaxError(f"arguments are nested more than {MAX_DEPTH} deep.")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise CallSyntaxError("a number is too large or is none.")
    if isinstance(value, list | tuple):
        return [clean_value(entry, depth + 1) for entry in value]
    if isinstance(value, Mapping):
        return {
            clean_text(str(key)): clean_value(entry, depth + 1)
            for key, entry in value.items()
        }
    return value


def number(text: str) -> int | float | None:
    """The number that `text` is in Python's or JSON's notation; None if it is none."""
    if len(text) > _MAX_DIGITS:
        return None
    if _BASED.match(text):
        return int(text, 0) if not text.endswith("_") else None
    if not _NUMBER.match(text) or not any(c.isdigit() for c in text):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


_SIMPLE = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
    "\n": "",
}
_CODE = re.compile(
    r"x([\da-fA-F]{2})|u([\da-fA-F]{4})|u\{([\da-fA-F]{1,6})\}|U([\da-fA-F]{8})"
)
_QUOTED_OR_SLASH = "'\"\\/"


def resolve_escape(text: str, start: int) -> tuple[str, int]:
    """What the escape after the backslash means, and where the text goes on.

    `start` is the place of the character after the backslash. An escape that neither
    Python nor JSON knows stands for itself, backslash and all, as in Python.
    """
    letter = text[start]
    if letter in _QUOTED_OR_SLASH:
        return letter, start + 1
    if letter in _SIMPLE:
        return _SIMPLE[letter], start + 1
    found = _CODE.match(text, start)
    if found is None:
        return "\\" + letter, start + 1
    code = int(next(group for group in found.groups() if group), 16)
    return (chr(code) if code <= 0x10FFFF else "�"), found.end()
