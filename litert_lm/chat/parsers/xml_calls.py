"""Calls as MiniCPM writes them: <function name="f"><param name="a">v</param></...>."""

from __future__ import annotations

import re
from typing import Any

from litert_lm.chat.parsers.base import (
    CallSyntaxError,
    IncompleteCallError,
    call_name,
    clean_text,
)
from litert_lm.chat.parsers.cursor import Cursor
from litert_lm.chat.parsers.tool_call import ToolCall

__all__ = ["parse_xml"]

_NAME = r"""\s+name\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)')\s*>"""
_FUNCTION = re.compile("<(function)" + _NAME)
_PARAM = re.compile("<(param|parameter)" + _NAME)
_CDATA = "<![CDATA["
_ENTITY = re.compile(r"&(?:#x([\da-fA-F]{1,6})|#(\d{1,7})|(lt|gt|amp|quot|apos));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def parse_xml(text: str) -> list[ToolCall]:
    """The calls in `text`, all arguments as strings, white space included.

    A value may be, or hold, CDATA sections; elsewhere entities are resolved.

    Raises CallSyntaxError.
    """
    cursor = Cursor(text)
    found = []
    while cursor.peek():
        found.append(_function(cursor))
    if not found:
        raise CallSyntaxError("there is no call between the fences.")
    return found


def _function(cursor: Cursor) -> ToolCall:
    tag, name = _opened(cursor, _FUNCTION, "<function name=...>")
    arguments: dict[str, Any] = {}
    while not cursor.take(f"</{tag}>"):
        tag_inside, key = _opened(cursor, _PARAM, "<param name=...>")
        arguments[key] = _value(cursor, f"</{tag_inside}>")
    return ToolCall(call_name(name), arguments)


def _opened(cursor: Cursor, pattern: re.Pattern[str], what: str) -> tuple[str, str]:
    """Go past an opening tag; its word and the name it gives."""
    cursor.skip()
    found = pattern.match(cursor.text, cursor.position)
    if found is None:
        cursor.fail(f"expected {what}")
    cursor.position = found.end()
    tag, double, single = found.groups()
    return tag, _unescape(single if double is None else double).strip()


def _value(cursor: Cursor, end: str) -> str:
    pieces = []
    while True:
        tag = cursor.text.find("<", cursor.position)
        if tag < 0:
            raise IncompleteCallError(f"an argument is not closed by {end}.")
        pieces.append(_unescape(cursor.text[cursor.position : tag]))
        cursor.position = tag
        if cursor.text.startswith(_CDATA, tag):
            cursor.position += len(_CDATA)
            pieces.append(clean_text(cursor.until("]]>", "CDATA")))
        elif cursor.text.startswith(end, tag):
            cursor.position += len(end)
            return "".join(pieces)
        else:
            pieces.append("<")
            cursor.position += 1


def _unescape(text: str) -> str:
    return clean_text(_ENTITY.sub(_character, text))


def _character(found: re.Match[str]) -> str:
    hexadecimal, decimal, name = found.groups()
    if name:
        return _NAMED[name]
    code = int(hexadecimal, 16) if hexadecimal else int(decimal)
    return chr(code) if code <= 0x10FFFF else found.group()
