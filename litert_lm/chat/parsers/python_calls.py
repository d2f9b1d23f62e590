"""Calls as Python: f(a=1, b="x"), several lines, lists of calls, print(f(...))."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from litert_lm.chat.parsers.base import (
    MAX_DEPTH,
    CallSyntaxError,
    IncompleteCallError,
    clean_value,
    number,
    resolve_escape,
)
from litert_lm.chat.parsers.cursor import Cursor
from litert_lm.chat.parsers.tool_call import ToolCall

__all__ = ["parse_python"]

_TARGET = re.compile(r"[^\W\d]\w*\s*=(?!=)\s*")
_STRING = re.compile(r"([rRuU]?)(\"\"\"|'''|\"|')")
_NUMBER = re.compile(r"[-+]?[\w.]+(?:(?<=[eE])[-+]\w+)?")
_PLAIN = {
    '"': re.compile(r'[^"\\\n]+'),
    "'": re.compile(r"[^'\\\n]+"),
    '"""': re.compile(r'[^"\\]+|"(?!"")'),
    "'''": re.compile(r"[^'\\]+|'(?!'')"),
}
_WORDS: Mapping[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}


def parse_python(
    text: str, parameters: Mapping[str, Sequence[str]] | None = None
) -> list[ToolCall]:
    """The calls in `text`, strings with their escapes resolved.

    Statements stand on lines of their own or are parted by ``;``; a list may hold
    several calls, ``print(...)`` around a call is dropped, and so is a name that the
    result is assigned to.

    Args:
        parameters: parameter names by tool, in order; arguments without a name take
            theirs from here, and are an error for a tool that is not listed.

    Raises CallSyntaxError.
    """
    return _PythonParser(text, parameters or {}).calls()


class _PythonParser:
    def __init__(self, text: str, parameters: Mapping[str, Sequence[str]]) -> None:
        self.cursor = Cursor(text, has_comments=True)
        self.parameters = parameters

    def calls(self) -> list[ToolCall]:
        found = []
        while self.cursor.peek():
            found += self._statement()
            while self.cursor.take(";") or self.cursor.take(","):
                pass
        if not found:
            raise CallSyntaxError("there is no call between the fences.")
        return found

    def _statement(self) -> list[ToolCall]:
        if not self.cursor.take("["):
            self.cursor.match(_TARGET)
            return [self._call()]
        found = []
        while not self.cursor.take("]"):
            found.append(self._call())
            if not self.cursor.take(","):
                self.cursor.expect("]")
                break
        return found

    def _call(self, depth: int = 0) -> ToolCall:
        name = self.cursor.name()
        if name is None:
            self.cursor.fail("expected a call")
        self.cursor.expect("(")
        if name == "print" and "print" not in self.parameters and depth < MAX_DEPTH:
            call = self._call(depth + 1)
            self.cursor.take(",")
            self.cursor.expect(")")
            return call
        return ToolCall(name, clean_value(self._arguments(name)))

    def _arguments(self, tool: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        while not self.cursor.take(")"):
            key = self._keyword() or self._positional(tool, len(given))
            if key in given:
                raise CallSyntaxError(f"{tool} is given {key!r} twice.")
            given[key] = self._value()
            if not self.cursor.take(","):
                self.cursor.expect(")")
                break
        return given

    def _keyword(self) -> str | None:
        self.cursor.skip()
        found = self.cursor.match(_TARGET)
        return found.rstrip().removesuffix("=").rstrip() if found else None

    def _positional(self, tool: str, place: int) -> str:
        names = self.parameters.get(tool) or self.parameters.get(
            tool.rpartition(".")[2], ()
        )
        if place >= len(names):
            self.cursor.fail(f"an argument of {tool} has no name")
        return names[place]

    def _value(self, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise CallSyntaxError(f"arguments are nested more than {MAX_DEPTH} deep.")
        if self.cursor.take("["):
            return self._items("]", depth)
        if self.cursor.take("("):
            return self._items(")", depth)
        if self.cursor.take("{"):
            return self._entries(depth)
        if _STRING.match(self.cursor.text, self.cursor.position):
            return self._strings()
        return self._word()

    def _items(self, end: str, depth: int) -> Any:
        """A list, a tuple, or a value in brackets."""
        items: list[Any] = []
        is_value = end == ")"
        while not self.cursor.take(end):
            items.append(self._value(depth + 1))
            if not self.cursor.take(","):
                self.cursor.expect(end)
                return items[0] if is_value and len(items) == 1 else items
        return items

    def _entries(self, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while not self.cursor.take("}"):
            key = self._value(depth + 1)
            if isinstance(key, list | dict):
                raise CallSyntaxError("the key of a dict is a list or a dict.")
            self.cursor.expect(":")
            entries[str(key)] = self._value(depth + 1)
            if not self.cursor.take(","):
                self.cursor.expect("}")
                break
        return entries

    def _word(self) -> Any:
        start = self.cursor.position
        word = self.cursor.match(_NUMBER)
        if word and word in _WORDS:
            return _WORDS[word]
        value = number(word) if word else None
        if value is None:
            self.cursor.position = start
            self.cursor.fail("expected a value")
        return value

    def _strings(self) -> str:
        """String literals that follow each other are one string."""
        parts = []
        while found := self.cursor.match(_STRING):
            is_raw = found[0] in "rR"
            parts.append(self._string(found.lstrip("rRuU"), is_raw))
            self.cursor.skip()
        return "".join(parts)

    def _string(self, quote: str, is_raw: bool) -> str:
        text, pieces = self.cursor.text, []
        while True:
            plain = self.cursor.match(_PLAIN[quote])
            if plain is not None:
                pieces.append(plain)
                continue
            position = self.cursor.position
            if text.startswith(quote, position):
                self.cursor.position += len(quote)
                return "".join(pieces)
            pieces.append(self._odd(text, position, is_raw))

    def _odd(self, text: str, position: int, is_raw: bool) -> str:
        """A backslash with what it escapes, or a line break that models leave raw."""
        if position >= len(text) - 1:
            raise IncompleteCallError("a string is not closed.")
        if text[position] != "\\":
            self.cursor.position += 1
            return text[position]
        if is_raw:
            self.cursor.position += 2
            return text[position : position + 2]
        value, self.cursor.position = resolve_escape(text, position + 1)
        return value
