"""Grammars under which a model writes only tool calls that can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from litert_lm.chat.parsers.dialects import FC, JSON, PYTHON, Dialect
from litert_lm.chat.tools.tool import tool_name
from litert_lm.chat.tools.value_grammar import (
    RuleBook,
    Style,
    ValueRules,
    any_of,
    check_name,
    quoted,
)
from litert_lm.errors import InvalidArgumentError, UnsupportedModelError, shown

__all__ = ["chosen_tools", "tool_choice_grammar"]

_MODES = ("none", "auto", "required")
_PYTHON_STRING = r"""/"([^"\\\x00-\x1f]|\\["\\nrt])*"/"""
_XML_TEXT = r"/[^<&]+/"
_FC_KEY = "/[A-Za-z_][A-Za-z0-9_]{0,63}/"
_TEXT = "/(?s:.+)/"
_JSON_SPACING = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
}

_Tool = Mapping[str, Any]


def tool_choice_grammar(
    choice: str | Mapping[str, Any],
    tools: Sequence[_Tool],
    dialect: Dialect,
    *,
    special_id: Callable[[str], int | None] = lambda text: None,
    stop_ids: Collection[int] = (),
    channels: Sequence[tuple[str, str]] = (),
    is_parallel: bool = True,
) -> str:
    """A Lark grammar of llguidance for a reply: the kind ``grammar`` of a constraint.

    Every reply that fits it is read by ReplyParser without a parse_error, and calls
    have the names and types of the tools.

    Args:
        choice: ``none`` (text without calls), ``auto`` (text and calls), ``required``
            (calls only), or the call of one tool: its name, or OpenAI's
            ``{"type": "function", "function": {"name": ...}}``.
        tools: descriptions.
        dialect: how the model writes calls.
        special_id: the id of the special token that is spelled so; None for text.
        stop_ids: tokens that end a reply. A closing fence that is one of them is left
            to the end of the reply.
        channels: start and end markers of parts that may come before the calls, such as
            thoughts.
        is_parallel: whether there may be several calls.

    Raises:
        InvalidArgumentError: a choice or tool that does not exist, or whose name or
            enum cannot be written.
        UnsupportedModelError: the model's file describes its calls by expressions.
    """
    if dialect.is_fence_pattern or dialect.call_pattern:
        raise UnsupportedModelError(
            "tool_choice cannot constrain this model: its file describes tool calls by"
            " regular expressions. Use tool_choice auto without constrained decoding."
        )
    mode, allowed = chosen_tools(choice, tools)
    writer = _Writer(dialect, special_id, frozenset(stop_ids), channels)
    if mode == "none" or not allowed:
        return writer.book.text(writer.free())
    if mode == "auto":
        return writer.book.text(writer.mixed(allowed))
    return writer.book.text(
        writer.required(allowed, is_parallel=is_parallel and mode == "required")
    )


def chosen_tools(
    choice: str | Mapping[str, Any], tools: Sequence[_Tool]
) -> tuple[str, list[_Tool]]:
    """``none``, ``auto``, ``required`` or ``named``, and the tools that may be called.

    Raises InvalidArgumentError for another choice, and where calls are required of
    tools that do not exist.
    """
    if isinstance(choice, Mapping):
        choice, is_mode = tool_name(choice), False
    else:
        is_mode = choice in _MODES
    if is_mode and (tools or choice != "required"):
        return choice, [] if choice == "none" else list(tools)
    named = [tool for tool in tools if tool_name(tool) == choice]
    if not named:
        known = ", ".join(tool_name(tool) for tool in tools) or "none"
        raise InvalidArgumentError(
            f"tool_choice is {shown(choice)}. Give none, auto, required, or a tool's"
            f" name; the tools are: {known}."
        )
    return "named", named


class _Writer:
    """Writes the grammar of one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        special_id: Callable[[str], int | None],
        stop_ids: frozenset[int],
        channels: Sequence[tuple[str, str]],
    ) -> None:
        self.book = RuleBook()
        self.dialect = dialect
        self._special_id = special_id
        self._channels = channels
        self._ends_reply = special_id(dialect.fence_end) in stop_ids
        self._style = self._make_style()

    def free(self) -> str:
        """Text in which no fence opens."""
        fence = self.dialect.fence_start
        text = _TEXT
        if self._special_id(fence) is None:
            text = self.book.terminal(f"{_TEXT} & ~/(?s:.*){_escaped(fence)}(?s:.*)/")
        marks = [
            f"<[{number}]>"
            for pair in self._channels
            for mark in pair
            if (number := self._special_id(mark)) is not None
        ]
        words = self.book.rule(text)
        if not marks:
            return self.book.rule(f"{words}?")
        return self.book.rule(f"({words}? {any_of(marks)})* {words}?")

    def mixed(self, tools: Sequence[_Tool]) -> str:
        """Text and calls, in any order."""
        fence, free = self.dialect.fence_start, self.free()
        if self._special_id(fence) is None:
            before = self.book.up_to(fence)
        else:
            before = f"{free} {self._marker(fence)}"
        inside = self._inside(tools, is_parallel=True)
        if self._ends_reply:
            return f"({before} {inside} | {free})"
        return f"({before} {inside} {self._closing()})* {free}"

    def required(self, tools: Sequence[_Tool], *, is_parallel: bool) -> str:
        """Calls, after parts that have a channel."""
        opening = self._marker(self.dialect.fence_start)
        inside = self._inside(tools, is_parallel=is_parallel)
        call = self.book.rule(f"{opening} {inside} {self._closing()}")
        if is_parallel and not self._ends_reply:
            call = f"{call} ({self._between()}{call})*"
        return " ".join(
            [*(f"({self._channel(*pair)})*" for pair in self._channels), call]
        )

    def _between(self) -> str:
        return '"\\n" ' if self.dialect.syntax in (JSON, PYTHON) else ""

    def _closing(self) -> str:
        return '""' if self._ends_reply else self._marker(self.dialect.fence_end)

    def _channel(self, start: str, end: str) -> str:
        opening = self._marker(start)
        if self._special_id(end) is None:
            return f"{opening} {self.book.up_to(end)} /\\n{{0,2}}/"
        words = self.book.rule(_TEXT)
        return f"{opening} {words}? {self._marker(end)} /\\n{{0,2}}/"

    def _marker(self, text: str) -> str:
        """`text` as a literal, or as the special token that it is."""
        number = self._special_id(text)
        return quoted(text) if number is None else f"<[{number}]>"

    def _inside(self, tools: Sequence[_Tool], *, is_parallel: bool) -> str:
        """What lies between the fences."""
        calls = any_of([self._call(tool) for tool in tools])
        call = self.book.rule(calls)
        if self.dialect.syntax == JSON:
            return f'"\\n" {call} "\\n"'
        if self.dialect.syntax != PYTHON:
            return call
        comma, first, last = '"\\n"', '""', '""'
        if self.dialect.is_call_list:
            comma, first, last = '", "', '"["', '"]"'
        more = f"({comma} {call})*" if is_parallel else ""
        return f"{first} {call} {more} {last}"

    def _call(self, tool: _Tool) -> str:
        name = tool_name(tool)
        schema = tool.get("function", tool).get("parameters") or {}
        if self.dialect.syntax == JSON:
            return self._json_call(name, schema)
        check_name(name, "tool name")
        values = ValueRules(self.book, self._style, schema)
        properties = schema.get("properties") or {}
        pairs = {
            check_name(key, "parameter"): self._argument(values, key, inner)
            for key, inner in properties.items()
        }
        comma = {PYTHON: ", ", FC: ","}.get(self.dialect.syntax, "")
        arguments = values.entries(pairs, schema.get("required") or [], comma)
        before, after = {
            PYTHON: (f"{name}(", ")"),
            FC: (f"call:{name}{{", "}"),
        }.get(self.dialect.syntax, self._element(name))
        return self.book.rule(f"{quoted(before)} {arguments} {quoted(after)}")

    def _element(self, name: str) -> tuple[str, str]:
        """An XML call without what the fences already are."""
        if self.dialect.is_fence_syntax:
            return f' name="{name}">', ""
        return f'<function name="{name}">', "</function>"

    def _json_call(self, name: str, schema: Mapping[str, Any]) -> str:
        head = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '
        arguments = _strict({"type": "object", "properties": {}} | dict(schema))
        arguments["x-guidance"] = _JSON_SPACING
        body = json.dumps(arguments, ensure_ascii=False)
        return self.book.rule(f'{quoted(head)} %json {body} "}}"')

    def _argument(self, values: ValueRules, key: str, schema: Any) -> str:
        if self.dialect.syntax == PYTHON:
            return f"{quoted(key + '=')} {values.value(schema)}"
        if self.dialect.syntax == FC:
            return f"{quoted(key + ':')} {values.value(schema)}"
        opening, closing = f'<param name="{key}">', "</param>"
        return f"{quoted(opening)} {self._xml_value(values, schema)} {quoted(closing)}"

    def _xml_value(self, values: ValueRules, schema: Any) -> str:
        """Arrays and objects are JSON inside of XML."""
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        if kind in ("array", "object"):
            body = json.dumps(_strict(schema) | {"x-guidance": _JSON_SPACING})
            return self.book.rule(f"%json {body}")
        return values.value(schema)

    def _make_style(self) -> Style:
        if self.dialect.syntax == FC:
            return self._fc_style()
        if self.dialect.syntax == PYTHON:
            string = self.book.terminal(_PYTHON_STRING)
            literal = _python_literal
            words = ("True", "False", "None")
        else:
            string, literal = f"{self.book.terminal(_XML_TEXT)}?", _xml_literal
            words = ("true", "false", "null")
        return Style(string, literal, literal, string, words, ", ", ": ")

    def _fc_style(self) -> Style:
        opening = self._marker(self.dialect.open_quote)
        closing = self._marker(self.dialect.close_quote)
        if self._special_id(self.dialect.close_quote) is None:
            inside = self.book.up_to(self.dialect.close_quote)
        else:
            inside = f"{self.book.rule(_TEXT)}? {closing}"

        def literal(text: str) -> str:
            return f"{opening} {quoted(text)} {closing}"

        return Style(
            string=self.book.rule(f"{opening} {inside}"),
            literal=literal,
            key=lambda text: quoted(check_name(text, "parameter")),
            free_key=self.book.terminal(_FC_KEY),
            words=("true", "false", "null"),
            comma=",",
            colon=":",
        )


def _escaped(text: str) -> str:
    """`text` as a part of a regular expression between slashes."""
    return "".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)


def _python_literal(text: str) -> str:
    return quoted(json.dumps(text, ensure_ascii=False))


def _xml_literal(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;")):
        text = text.replace(character, entity)
    return quoted(text)


def _strict(schema: Any) -> Any:
    """The schema without properties that it does not name, and with ``nullable`` said
    in JSON Schema's own words."""
    if isinstance(schema, list):
        return [_strict(entry) for entry in schema]
    if not isinstance(schema, Mapping):
        return schema
    flag = schema.get("nullable")  # a schema, where a property is called so
    is_word = isinstance(flag, bool)
    inner = {
        key: _strict(value)
        for key, value in schema.items()
        if key != "nullable" or not is_word
    }
    if schema.get("type") == "object" and "properties" in schema:
        inner.setdefault("additionalProperties", False)
    return {"anyOf": [inner, {"type": "null"}]} if flag is True else inner
