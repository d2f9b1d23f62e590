"""Reads a text from left to right; what the hand-written parsers stand on."""

from __future__ import annotations

import re
from typing import NoReturn

from litert_lm.chat.parsers.base import CallSyntaxError, IncompleteCallError, shorten

__all__ = ["Cursor"]

_SPACE = re.compile(r"(?:\s|\\\n|#[^\n]*)*")
_NAME = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")


class Cursor:
    """A place in a text.

    Args:
        text: what is read.
        has_comments: skip ``#`` to the end of the line like white space.
    """

    def __init__(self, text: str, *, has_comments: bool = False) -> None:
        self.text = text
        self.position = 0
        self._space = _SPACE if has_comments else re.compile(r"\s*")

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self.text)

    def skip(self) -> None:
        """Go past white space."""
        found = self._space.match(self.text, self.position)
        self.position = found.end() if found else self.position

    def peek(self) -> str:
        """The next character after white space; empty at the end."""
        self.skip()
        return self.text[self.position : self.position + 1]

    def take(self, token: str) -> bool:
        """Go past white space and `token`, if that is what comes."""
        self.skip()
        if not self.text.startswith(token, self.position):
            return False
        self.position += len(token)
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.fail(f"expected {token!r}")

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Go past what `pattern` matches here, and give it."""
        found = pattern.match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        return found.group()

    def name(self) -> str | None:
        """Go past white space and an identifier, dots and hyphens included."""
        self.skip()
        return self.match(_NAME)

    def until(self, end: str, what: str) -> str:
        """Go past `end`; what lies before it."""
        found = self.text.find(end, self.position)
        if found < 0:
            raise IncompleteCallError(f"{what} is not closed by {shorten(end)}.")
        inside = self.text[self.position : found]
        self.position = found + len(end)
        return inside

    def fail(self, problem: str) -> NoReturn:
        """Raise a CallSyntaxError that says where."""
        if self.is_at_end:
            raise IncompleteCallError(f"{problem} where the call ends.")
        rest = shorten(self.text[self.position : self.position + 60])
        raise CallSyntaxError(f"{problem} at character {self.position}, {rest}.")
