"""Reads grammars written with `::=` into rules.

The notation: `name ::= alternatives`; `"text"` or `'text'`, `[a-z]` and `[^a-z]`, `.`
for any character, `( )`, `|`, and `* + ? {m} {m,} {m,n}` after a part; `#` starts a
comment. Escapes are those of GBNF: `\\n \\r \\t \\xHH \\uHHHH \\UHHHHHHHH` and a
backslash before any sign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "Choice",
    "GrammarError",
    "Literal",
    "Node",
    "Pattern",
    "Reference",
    "Repeat",
    "Sequence",
    "read_rules",
]

_MAX_DEPTH = 50
_MAX_REPEATS = 10_000
_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n]+|\#[^\n]*)
    |(?P<define>[A-Za-z_][\w.-]*[ \t\r\n]*::=)
    |(?P<name>[A-Za-z_][\w.-]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<set>\[\^?(?:[^\]\\\n]|\\.)*\])
    |(?P<count>\{[ \t]*\d{1,9}[ \t]*(?:,[ \t]*(?:\d{1,9})?[ \t]*)?\})
    |(?P<sign>[()|*+?.])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|([^\\])",
    re.DOTALL,
)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_SUFFIXES = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class GrammarError(Exception):
    """What is wrong with a grammar, as a clause without a full stop."""


@dataclass(frozen=True)
class Literal:
    """Exactly `text`."""

    text: str


@dataclass(frozen=True)
class Pattern:
    """One character that `regex` matches."""

    regex: str


@dataclass(frozen=True)
class Reference:
    """What the rule `name` matches."""

    name: str


@dataclass(frozen=True)
class Repeat:
    """`part` from `minimum` to `maximum` times; None is without end."""

    part: Node
    minimum: int
    maximum: int | None

    @property
    def suffix(self) -> str:
        """The repetition as Lark writes it."""
        maximum = "" if self.maximum is None else self.maximum
        return f"{{{self.minimum},{maximum}}}"


@dataclass(frozen=True)
class Sequence:
    """`parts` one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One of `parts`."""

    parts: tuple[Node, ...]


Node = Literal | Pattern | Reference | Repeat | Sequence | Choice


def read_rules(text: str) -> dict[str, Node]:
    """Rules by name, in the order of `text`.

    Raises:
        GrammarError: `text` is no such grammar.
    """
    return _Reader(text).rules()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


class _Reader:
    """Reads one grammar by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        while self._peek().kind != "end":
            token = self._take()
            if token.kind != "define":
                raise self._error(token, "a rule must start with `name ::=`")
            name = token.text[:-3].strip()
            if name in rules:
                raise self._error(token, f"rule {name!r} is defined twice")
            rules[name] = self._choice(0)
            if rules[name] == Sequence(()):
                raise self._error(token, f'rule {name!r} is empty; "" matches nothing')
            self._end_rule()
        return rules

    def _end_rule(self) -> None:
        if self._peek().kind not in ("define", "end"):
            raise self._error(self._peek(), "this does not belong into a rule")

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                token = _Token("", "", position)
                raise self._error(token, "nothing of EBNF starts here")
            if match.lastgroup != "skip":
                tokens.append(_Token(str(match.lastgroup), match[0], position))
            position = match.end()
        tokens.append(_Token("end", "", len(self._text)))
        return tokens

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _choice(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self._error(self._peek(), f"more than {_MAX_DEPTH} brackets are open")
        parts = [self._sequence(depth)]
        while self._peek().text == "|" and self._peek().kind == "sign":
            self._take()
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while (node := self._part(depth)) is not None:
            parts.append(self._repeated(node))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self, depth: int) -> Node | None:
        token = self._peek()
        if token.kind == "sign" and token.text == "(":
            return self._group(depth)
        if token.kind == "sign" and token.text != ".":
            return None
        if token.kind not in ("name", "text", "set", "sign"):
            return None
        self._take()
        if token.kind == "name":
            return Reference(token.text)
        if token.kind == "text":
            return Literal("".join(self._characters(token, token.text[1:-1])))
        return Pattern(self._set(token) if token.kind == "set" else "(?s:.)")

    def _group(self, depth: int) -> Node:
        opening = self._take()
        node = self._choice(depth + 1)
        if self._peek().text != ")":
            raise self._error(opening, "this bracket is not closed")
        self._take()
        return node

    def _repeated(self, node: Node) -> Node:
        while (bounds := self._bounds()) is not None:
            node = Repeat(node, *bounds)
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        token = self._peek()
        if token.kind == "sign" and token.text in _SUFFIXES:
            self._take()
            return _SUFFIXES[token.text]
        if token.kind != "count":
            return None
        self._take()
        first, comma, second = token.text[1:-1].replace(" ", "").partition(",")
        minimum = int(first)
        maximum = int(second) if second.strip() else None if comma else minimum
        if max(minimum, maximum or 0) > _MAX_REPEATS:
            raise self._error(token, f"counts go up to {_MAX_REPEATS}")
        if maximum is not None and maximum < minimum:
            raise self._error(token, "the maximum is below the minimum")
        return minimum, maximum

    def _characters(self, token: _Token, text: str) -> list[str]:
        """Characters that `text` spells; an escaped one comes as itself."""
        return [self._character(token, match) for match in _ESCAPE.finditer(text)]

    def _character(self, token: _Token, match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is None:
            return _CONTROLS.get(match[4], match[4]) if match[4] else match[5]
        value = int(code, 16)
        if value > 0x10FFFF or 0xD800 <= value < 0xE000:
            raise self._error(token, f"{match[0]} is no character")
        return chr(value)

    def _set(self, token: _Token) -> str:
        """The regular expression of `[...]`."""
        inner = token.text[1:-1]
        negated = "^" if inner.startswith("^") else ""
        signs = [
            (match[0] == "-", self._character(token, match))
            for match in _ESCAPE.finditer(inner[len(negated) :])
        ]
        if not signs:
            raise self._error(token, "an empty set matches nothing")
        return f"[{negated}{self._ranges(token, signs)}]"

    def _ranges(self, token: _Token, signs: list[tuple[bool, str]]) -> str:
        text = ""
        at = 0
        while at < len(signs):
            first = last = signs[at][1]
            if at + 2 < len(signs) and signs[at + 1][0]:
                last = signs[at + 2][1]
                at += 2
            if last < first:
                raise self._error(token, f"the range {first}-{last} is backwards")
            text += rf"\x{{{ord(first):X}}}-\x{{{ord(last):X}}}"
            at += 1
        return text

    def _error(self, token: _Token, reason: str) -> GrammarError:
        line = self._text.count("\n", 0, token.position) + 1
        column = token.position - self._text.rfind("\n", 0, token.position)
        rest = self._text[token.position : token.position + 20].split("\n")[0]
        return GrammarError(f"line {line}, column {column}, at {rest!r}: {reason}")
