"""Where a stretch of tool calls begins and ends in a reply."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Protocol

from litert_lm.chat.parsers.base import clean_text
from litert_lm.chat.parsers.dialects import JSON, PYTHON, XML, Dialect
from litert_lm.chat.parsers.pattern import Pattern

__all__ = ["Fence", "Strings", "fences_of"]

_JSON_END = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_PYTHON_ENDS: Mapping[str, re.Pattern[str]] = {
    "#": re.compile(r"[^\n]*+"),
    '"': _JSON_END,
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL),
    '"""': re.compile(r'(?:[^"\\]++|\\.|"(?!""))*+"""', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]++|\\.|'(?!''))*+'''", re.DOTALL),
}


class Fence(Protocol):
    """A marker around calls."""

    @property
    def num_chars(self) -> int | None:
        """Length of the marker; None where it can be told at the reply's end only."""

    def find(self, text: str, position: int) -> tuple[int, int] | None:
        """Start and end of the first marker at `position` or behind it."""

    def held(self, text: str, position: int) -> int:
        """From where on `text`, which goes on, may be the beginning of a marker."""


class _LiteralFence:
    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.num_chars: int | None = len(marker)

    def find(self, text: str, position: int) -> tuple[int, int] | None:
        start = text.find(self.marker, position)
        return None if start < 0 else (start, start + len(self.marker))

    def held(self, text: str, position: int) -> int:
        start = max(position, len(text) - len(self.marker) + 1)
        while (start := text.find(self.marker[0], start)) >= 0:
            if self.marker.startswith(text[start:]):
                return start
            start += 1
        return len(text)


class _PatternFence:
    def __init__(self, source: str, field: str) -> None:
        self.pattern = Pattern(source, field)
        self.num_chars: int | None = None
        self._text: str | None = None
        self._found: list[tuple[int, int]] = []

    def find(self, text: str, position: int) -> tuple[int, int] | None:
        """As the protocol says; all places of a text are looked up once."""
        if text != self._text:
            self._text = text
            places = self.pattern.finds(clean_text(text))
            self._found = [(start, end) for start, end, _ in places]
        index = bisect_left(self._found, (position, 0))
        return self._found[index] if index < len(self._found) else None

    def held(self, text: str, position: int) -> int:
        return min(position, len(text))


def fences_of(dialect: Dialect) -> tuple[Fence, Fence]:
    """The markers before and after calls.

    A line break before the closing marker is left to the call, for models that close on
    the call's own line.
    """
    if dialect.is_fence_pattern:
        return (
            _PatternFence(dialect.fence_start, "code_fence_start"),
            _PatternFence(dialect.fence_end, "code_fence_end"),
        )
    end = dialect.fence_end.lstrip("\n") or dialect.fence_end
    return _LiteralFence(dialect.fence_start), _LiteralFence(end)


class Strings:
    """Tells whether a text ends inside of a string, where no fence ends."""

    def __init__(self, dialect: Dialect) -> None:
        self._ends = _string_ends(dialect)
        longest_first = sorted(self._ends, key=len, reverse=True)
        self._starts = re.compile("|".join(re.escape(s) for s in longest_first))

    def is_open_at_end(self, text: str) -> bool:
        """Whether a string that begins in `text` does not end in it."""
        position = 0
        while found := self._starts.search(text, position):
            end = self._ends[found.group()].match(text, found.end())
            if end is None:
                return True
            position = end.end()
        return False


def _string_ends(dialect: Dialect) -> Mapping[str, re.Pattern[str]]:
    """By the text that opens a string, what the string's rest looks like."""
    if dialect.syntax == PYTHON:
        return _PYTHON_ENDS
    if dialect.syntax == JSON:
        return {'"': _JSON_END}
    if dialect.syntax == XML:
        return {"<![CDATA[": _up_to("]]>")}
    return {'"': _JSON_END, dialect.open_quote: _up_to(dialect.close_quote)}


def _up_to(end: str) -> re.Pattern[str]:
    return re.compile(f"(?s:.*?){re.escape(end)}")
