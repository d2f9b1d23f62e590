"""Calls as FunctionGemma and Gemma 4 write them: call:name{key:value,...}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from litert_lm.chat.parsers.base import (
    MAX_DEPTH,
    CallSyntaxError,
    IncompleteCallError,
    clean_text,
    clean_value,
    number,
    resolve_escape,
)
from litert_lm.chat.parsers.cursor import Cursor
from litert_lm.chat.parsers.tool_call import ToolCall

__all__ = ["parse_fc"]

_WORDS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
#: A value without quotes, of models that forget them; it ends where a value may.
_BARE = re.compile(r"[^\s,:{}\[\]\"'`<>|][^,{}\[\]\"`<>|\n]*")
_KEY = re.compile(r"[^\s,:{}\[\]\"'`<>|]+")
_CHUNK = re.compile(r'[^"\\]+')


def parse_fc(
    text: str, open_quote: str = "<escape>", close_quote: str = "<escape>"
) -> list[ToolCall]:
    """The calls in `text`; strings lie between the quotes and have no escapes.

    JSON's strings are read as well, and so is a plain word where a value belongs.

    Raises CallSyntaxError.
    """
    return _FcParser(text, open_quote, close_quote).calls()


class _FcParser:
    def __init__(self, text: str, open_quote: str, close_quote: str) -> None:
        self.cursor = Cursor(text)
        self.open_quote = open_quote
        self.close_quote = close_quote

    def calls(self) -> list[ToolCall]:
        found = []
        while self.cursor.peek():
            self.cursor.expect("call:")
            name = self.cursor.name()
            if name is None:
                self.cursor.fail("expected the name of a tool")
            self.cursor.expect("{")
            found.append(ToolCall(name, clean_value(self._entries(0))))
            while self.cursor.take(",") or self.cursor.take(";"):
                pass
        if not found:
            raise CallSyntaxError("there is no call between the fences.")
        return found

    def _entries(self, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while not self.cursor.take("}"):
            key = self._key()
            self.cursor.expect(":")
            entries[key] = self._value(depth + 1)
            if not self.cursor.take(","):
                self.cursor.expect("}")
                break
        return entries

    def _key(self) -> str:
        quoted = self._quoted()
        if quoted is not None:
            return quoted
        key = self.cursor.match(_KEY)
        if key is None:
            self.cursor.fail("expected the name of an argument")
        return key

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise CallSyntaxError(f"arguments are nested more than {MAX_DEPTH} deep.")
        if self.cursor.take("{"):
            return self._entries(depth)
        if self.cursor.take("["):
            return self._items(depth)
        quoted = self._quoted()
        return self._bare() if quoted is None else quoted

    def _items(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self.cursor.take("]"):
            items.append(self._value(depth + 1))
            if not self.cursor.take(","):
                self.cursor.expect("]")
                break
        return items

    def _quoted(self) -> str | None:
        """The string that comes next, if one does."""
        if self.cursor.take(self.open_quote):
            return clean_text(self.cursor.until(self.close_quote, "a string"))
        return self._json_string() if self.cursor.take('"') else None

    def _json_string(self) -> str:
        text, pieces = self.cursor.text, []
        while not text.startswith('"', self.cursor.position):
            chunk = self.cursor.match(_CHUNK)
            if chunk is not None:
                pieces.append(chunk)
            elif self.cursor.position >= len(text) - 1:
                raise IncompleteCallError("a string is not closed.")
            else:
                start = self.cursor.position + 1
                piece, self.cursor.position = resolve_escape(text, start)
                pieces.append(piece)
        self.cursor.position += 1
        return "".join(pieces)

    def _bare(self) -> Any:
        word = self.cursor.match(_BARE)
        if word is None:
            self.cursor.fail("expected a value")
        word = word.rstrip()
        if word in _WORDS:
            return _WORDS[word]
        value = number(word)
        return word if value is None else value
