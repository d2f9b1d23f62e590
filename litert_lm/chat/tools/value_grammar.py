"""Grammar rules for values that fit a JSON schema, in the spelling of a dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["RuleBook", "Style", "ValueRules", "any_of", "check_name", "quoted"]

_NAME = re.compile(r"[^\W\d][\w.-]*")
_INTEGER = r"/-?(0|[1-9][0-9]{0,17})/"
_NUMBER = r"/-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][-+]?[0-9]{1,2})?/"
_MAX_SCHEMA_DEPTH = 12
_MAX_FREE_DEPTH = 4
_MAX_ITEMS = 64


def quoted(text: str) -> str:
    """`text` as a literal of the grammar."""
    return json.dumps(text, ensure_ascii=False)


def any_of(expressions: Sequence[str]) -> str:
    """One of the expressions."""
    unique = list(dict.fromkeys(expressions))
    return unique[0] if len(unique) == 1 else f"({' | '.join(unique)})"


class RuleBook:
    """The rules of one grammar; equal ones are kept once."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def rule(self, body: str, options: str = "") -> str:
        """The name of a rule with this body."""
        return self._names.setdefault((options, body), f"r{len(self._names)}")

    def terminal(self, body: str) -> str:
        """The name of a terminal with this body."""
        return self._names.setdefault(("T", body), f"T{len(self._names)}")

    def up_to(self, end: str) -> str:
        """Text up to the first `end`, and `end`."""
        return self.rule(f"/(?s:.*)/ {quoted(end)}", "[lazy]")

    def text(self, start: str) -> str:
        """The grammar whose output is `start`."""
        lines = [f"start: {start}"]
        for (options, body), name in self._names.items():
            lines.append(f"{name}{options if options != 'T' else ''}: {body}")
        return "\n".join([*lines, ""])


@dataclass(frozen=True, slots=True)
class Style:
    """How a dialect spells values.

    Attributes:
        string: expression of any string.
        literal: expression of one string.
        key: expression of an object's key.
        free_key: expression of any key.
        words: of true, false and null.
        comma, colon: between entries, and between key and value.
    """

    string: str
    literal: Callable[[str], str]
    key: Callable[[str], str]
    free_key: str
    words: tuple[str, str, str]
    comma: str
    colon: str


class ValueRules:
    """Writes rules for schemas into a book.

    What a schema says beyond types, enums, properties, items and unions is not held.
    """

    def __init__(
        self, book: RuleBook, style: Style, root: Mapping[str, Any] | None = None
    ) -> None:
        self.book = book
        self.style = style
        self._root = root or {}
        self._references: dict[tuple[str, int], str] = {}

    def value(self, schema: Any, depth: int = 0) -> str:
        """The expression of the values that fit `schema`."""
        if not isinstance(schema, Mapping) or depth > _MAX_SCHEMA_DEPTH:
            return self.anything()
        expression = self._plain(schema, depth)
        if schema.get("nullable") is True:
            return any_of([expression, quoted(self.style.words[2])])
        return expression

    def _plain(self, schema: Mapping[str, Any], depth: int) -> str:
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), depth + 1)
        if isinstance(values := schema.get("enum"), list) and values:
            return any_of([self.constant(value) for value in values])
        if "const" in schema:
            return self.constant(schema["const"])
        for key in ("anyOf", "oneOf"):
            if isinstance(members := schema.get(key), list) and members:
                return any_of([self.value(member, depth + 1) for member in members])
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) and kinds else [kinds]
        return any_of([self._typed(kind, schema, depth) for kind in kinds])

    def _reference(self, reference: str, depth: int) -> str:
        if (reference, depth) not in self._references:
            found: Any = self._root
            for step in reference.removeprefix("#/").split("/"):
                found = found.get(step) if isinstance(found, Mapping) else None
            self._references[reference, depth] = self.value(found, depth)
        return self._references[reference, depth]

    def _typed(self, kind: Any, schema: Mapping[str, Any], depth: int) -> str:
        kind = kind.lower() if isinstance(kind, str) else kind
        if kind == "string":
            return self.style.string
        if kind == "integer":
            return self.book.terminal(_INTEGER)
        if kind == "number":
            return self.book.terminal(_NUMBER)
        if kind == "boolean":
            return any_of([quoted(word) for word in self.style.words[:2]])
        if kind == "null":
            return quoted(self.style.words[2])
        if kind == "array":
            return self._array(schema, depth)
        if kind == "object":
            return self._object(schema, depth)
        return self.anything()

    def constant(self, value: Any) -> str:
        """The expression of one value."""
        if isinstance(value, str):
            return self.style.literal(value)
        if isinstance(value, bool):
            return quoted(self.style.words[0 if value else 1])
        if value is None:
            return quoted(self.style.words[2])
        if isinstance(value, int | float):
            return quoted(json.dumps(value))
        raise InvalidArgumentError(
            f"An enum of a tool has the value {shown(value)}. Give text, numbers, true,"
            " false or null."
        )

    def _array(self, schema: Mapping[str, Any], depth: int) -> str:
        items = self.value(schema.get("items", True), depth + 1)
        low, high = _count(schema, "minItems", 0), _count(schema, "maxItems", None)
        low = min(low or 0, _MAX_ITEMS)
        if high is not None and high <= 0:
            return self.book.rule('"[" "]"')
        entry = self.book.rule(items)
        more = f"({quoted(self.style.comma)} {entry})"
        times = f"{{{max(low - 1, 0)},{'' if high is None else max(low, high) - 1}}}"
        body = f"{entry} {more}{times}"
        return self.book.rule(f'"[" {body} "]"' if low else f'"[" ({body})? "]"')

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            values = self.value(schema.get("additionalProperties", True), depth + 1)
            return self._free_object(values)
        pairs = {
            name: f"{self.style.key(name)} {quoted(self.style.colon)}"
            f" {self.value(inner, depth + 1)}"
            for name, inner in properties.items()
        }
        inside = self.entries(pairs, _required(schema), self.style.comma)
        return self.book.rule(f'"{{" {inside} "}}"')

    def entries(
        self, pairs: Mapping[str, str], required: Sequence[str], comma: str
    ) -> str:
        """The pairs in their order, the required ones always, with commas between."""
        before, first = '""', '""'
        separator = f"{quoted(comma)} " if comma else ""
        for name, pair in reversed(list(pairs.items())):
            if name in required:
                first = self.book.rule(f"{pair} {before}")
                before = self.book.rule(f"{separator}{pair} {before}")
            else:
                first = self.book.rule(any_of([f"{pair} {before}", first]))
                before = self.book.rule(f"({separator}{pair})? {before}")
        return first

    def _free_object(self, values: str) -> str:
        pair = self.book.rule(
            f"{self.style.free_key} {quoted(self.style.colon)} {values}"
        )
        more = f"({quoted(self.style.comma)} {pair})*"
        return self.book.rule(f'"{{" ({pair} {more})? "}}"')

    def anything(self, depth: int = 0) -> str:
        """Any value, nested to a few levels."""
        scalars = [
            self.style.string,
            self.book.terminal(_NUMBER),
            *(quoted(word) for word in self.style.words),
        ]
        if depth < _MAX_FREE_DEPTH:
            inner = self.anything(depth + 1)
            more = f"({quoted(self.style.comma)} {inner})*"
            scalars.append(self.book.rule(f'"[" ({inner} {more})? "]"'))
            scalars.append(self._free_object(inner))
        return self.book.rule(any_of(scalars))


def _count(schema: Mapping[str, Any], key: str, default: int | None) -> int | None:
    value = schema.get(key, default)
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return min(value, _MAX_ITEMS) if is_count and value is not None else default


def _required(schema: Mapping[str, Any]) -> Sequence[str]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def check_name(name: Any, what: str) -> str:
    """`name` if every dialect can spell it without quotes."""
    if isinstance(name, str) and len(name) <= 256 and _NAME.fullmatch(name):
        return name
    raise InvalidArgumentError(
        f"The {what} {shown(name)} cannot be written in a call. Use letters, digits,"
        " '_', '-' and '.', and begin with a letter."
    )
