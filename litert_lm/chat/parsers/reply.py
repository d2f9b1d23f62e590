"""Splits a reply into text and tool calls, whole or while it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert_lm.chat.parsers.base import MAX_CALLS, CallSyntaxError, clean_text
from litert_lm.chat.parsers.dialects import FC, JSON, PYTHON, XML, Dialect
from litert_lm.chat.parsers.fc_calls import parse_fc
from litert_lm.chat.parsers.fences import Strings, fences_of
from litert_lm.chat.parsers.json_calls import parse_json
from litert_lm.chat.parsers.pattern import Pattern
from litert_lm.chat.parsers.python_calls import parse_python
from litert_lm.chat.parsers.tool_call import ToolCall
from litert_lm.chat.parsers.typed_strings import typed_arguments
from litert_lm.chat.parsers.xml_calls import parse_xml

__all__ = ["CallParser", "ParsedReply", "ReplyParser", "parse_reply"]

#: A string is taken to hold so many closing fences at most; with more it is unclosed.
_MAX_FENCES_IN_STRING = 3


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply in parts.

    Attributes:
        parts: texts and calls in the order of the reply; no two texts follow each
            other. What could not be read as calls is text, fences included.
        parse_error: why the first such stretch is no call; None if all could be read.
    """

    parts: tuple[str | ToolCall, ...] = ()
    parse_error: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(part for part in self.parts if isinstance(part, str))

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Text up to `text_end`, then calls, which end at `end`."""

    text_end: int
    end: int
    calls: list[ToolCall]


def parse_reply(
    text: str, dialect: Dialect, tools: Sequence[Mapping[str, Any]] = ()
) -> ParsedReply:
    """The text and the calls of a whole reply; see ReplyParser."""
    parser = ReplyParser(dialect, tools)
    parser.feed(text)
    parser.finish()
    return parser.reply


class CallParser:
    """Reads what lies between the fences of a dialect.

    Args:
        dialect: how calls are written.
        tools: descriptions of the tools (``{"type": "function", "function": ...}``).
            They name arguments that come without names, give types to a dialect in
            which all values are strings, and tell ``api.f`` to be the tool ``f``.

    Raises ModelFileError for a regular expression of the model that cannot be used.
    """

    def __init__(
        self, dialect: Dialect, tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.dialect = dialect
        self._schemas = {
            str(function.get("name")): function.get("parameters") or {}
            for function in (tool.get("function", tool) for tool in tools)
        }
        self._parameters = {
            name: list(schema.get("properties") or ())
            for name, schema in self._schemas.items()
        }
        source = dialect.call_pattern
        self._pattern = Pattern(source, "tool_code_regex") if source else None

    def parse(self, text: str) -> list[ToolCall]:
        """The calls in `text`. Raises CallSyntaxError."""
        try:
            calls = self._read(text if self._pattern is None else self._picked(text))
        except RecursionError as error:
            raise CallSyntaxError("arguments are nested too deep.") from error
        for call in calls:
            call.name = self._tool_name(call.name)
            if self.dialect.syntax == XML:
                schema = self._schemas.get(call.name, {})
                call.arguments = typed_arguments(call.arguments, schema)
        return calls

    def _read(self, text: str) -> list[ToolCall]:
        if self.dialect.syntax == PYTHON:
            return parse_python(text, self._parameters)
        if self.dialect.syntax == JSON:
            return parse_json(text)
        if self.dialect.syntax == FC:
            return parse_fc(text, self.dialect.open_quote, self.dialect.close_quote)
        return parse_xml(text)

    def _picked(self, text: str) -> str:
        """What the model's own expression picks out of the text, a call per line."""
        if self._pattern is None:
            return text
        found = self._pattern.finds(clean_text(text))
        picked = [
            next((group for group in groups if group is not None), text[start:end])
            for start, end, groups in found
        ]
        if not picked:
            raise CallSyntaxError("the model's tool_code_regex finds no call.")
        return "\n".join(picked)

    def _tool_name(self, name: str) -> str:
        last = name.rpartition(".")[2]
        return last if name not in self._schemas and last in self._schemas else name


class ReplyParser:
    """Takes a reply in chunks and gives out text and calls as soon as they are sure.

    How the reply is cut into chunks makes no difference. Text that may open a fence is
    held back, and so is everything behind an opening fence until its calls are read. A
    stretch that is no call comes out as text, its fences included. A fence that is not
    closed when the reply ends counts as closed there if what it holds are calls, for
    models whose closing fence is a stop token.

    Args:
        dialect, tools: as for CallParser.
    """

    def __init__(
        self, dialect: Dialect, tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self._calls = CallParser(dialect, tools)
        self._start, self._end = fences_of(dialect)
        self._is_fence_syntax = dialect.is_fence_syntax
        self._strings = Strings(dialect)
        self._chunks: list[str] = []
        self._tail: str | None = None
        self._parts: list[list[str] | ToolCall] = []
        self._num_calls = 0
        self._parse_error: str | None = None

    @property
    def reply(self) -> ParsedReply:
        """What is sure so far."""
        parts = tuple(
            "".join(part) if isinstance(part, list) else part for part in self._parts
        )
        return ParsedReply(parts, self._parse_error)

    @property
    def parse_error(self) -> str | None:
        """Why the first stretch that looks like a call is none."""
        return self._parse_error

    def feed(self, text: str) -> list[str | ToolCall]:
        """Take the reply's next chunk; what became sure by it."""
        self._chunks.append(text)
        return self._settled() if self._may_settle(text) else []

    def finish(self) -> list[str | ToolCall]:
        """The reply has ended; what is left of it."""
        return self._settled(is_last=True)

    def _may_settle(self, text: str) -> bool:
        """Whether looking again is of use; so a long call is not read per chunk."""
        if self._end.num_chars is None:
            return False
        if self._tail is None:
            return True
        seen = self._tail + text
        self._tail = seen[max(0, len(seen) - self._end.num_chars + 1) :]
        return self._end.find(seen, 0) is not None

    def _settled(self, *, is_last: bool = False) -> list[str | ToolCall]:
        text, position = "".join(self._chunks), 0
        events: list[str | ToolCall] = []
        self._tail = None
        while opening := self._start.find(text, position):
            start, body = opening
            self._say(text[position:start], events)
            position = start
            stretch = self._stretch(text, start, body, is_last)
            if stretch is None:
                num_kept = (self._end.num_chars or 1) - 1
                self._tail = text[max(body, len(text) - num_kept) :]
                break
            self._say(text[position : stretch.text_end], events)
            self._call(stretch.calls, events)
            position = stretch.end
        else:
            end = len(text) if is_last else self._start.held(text, position)
            self._say(text[position:end], events)
            position = end
        self._chunks = [text[position:]]
        return events

    def _say(self, text: str, events: list[str | ToolCall]) -> None:
        if not text:
            return
        events.append(text)
        if self._parts and isinstance(self._parts[-1], list):
            self._parts[-1].append(text)
        else:
            self._parts.append([text])

    def _call(self, calls: Sequence[ToolCall], events: list[str | ToolCall]) -> None:
        events.extend(calls)
        self._parts.extend(calls)
        self._num_calls += len(calls)

    def _stretch(
        self, text: str, start: int, body: int, is_last: bool
    ) -> _Stretch | None:
        """What the fence at `start` holds; None where more text must come first."""
        first = end = self._end.find(text, body)
        for _ in range(_MAX_FENCES_IN_STRING + 1):
            if end is None or not self._strings.is_open_at_end(text[body : end[0]]):
                break
            end = self._end.find(text, end[1])
        if end is None and not is_last:
            return None
        inner_end, outer_end = end or (len(text), len(text))
        inside = slice(start, outer_end) if self._is_fence_syntax else None
        try:
            calls = self._parsed(text[inside or slice(body, inner_end)])
        except CallSyntaxError as error:
            problem = str(error) if first else f"the call is not closed: {error}"
            return self._no_call(text, body, first or (len(text), len(text)), problem)
        return _Stretch(start, outer_end, calls)

    def _parsed(self, text: str) -> list[ToolCall]:
        calls = self._calls.parse(text)
        if self._num_calls + len(calls) > MAX_CALLS:
            raise CallSyntaxError(f"the reply has more than {MAX_CALLS} calls.")
        return calls

    def _no_call(
        self, text: str, body: int, closing: tuple[int, int], problem: str
    ) -> _Stretch:
        """The stretch as text, up to a last opening fence in it, if there is one."""
        if self._parse_error is None:
            self._parse_error = f"The model's tool call cannot be read: {problem}"
        end, position = closing[1], body
        while (again := self._start.find(text, position)) and again[1] <= closing[0]:
            end = again[0]
            position = again[1]
        return _Stretch(end, end, [])
