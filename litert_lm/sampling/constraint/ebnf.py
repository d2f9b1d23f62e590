"""Grammars written with `::=` (EBNF, GBNF), rewritten as Lark for llguidance.

Lark's terminals are matched greedily, so a part that is regular becomes one terminal as
a whole: inside it every way to match is tried, as EBNF means it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from litert_lm.sampling.constraint.ebnf_reader import (
    Choice,
    GrammarError,
    Literal,
    Node,
    Pattern,
    Reference,
    Repeat,
    Sequence,
    read_rules,
)

__all__ = ["ebnf_to_lark", "is_ebnf"]

_ROOT = "root"
_MAX_PASSES = 20
_DEFINITION = re.compile(r"^[ \t]*[A-Za-z_][\w.-]*[ \t]*::=", re.MULTILINE)


def is_ebnf(text: str) -> bool:
    """Whether `text` defines a rule with `::=`; Lark does so with a colon."""
    return _DEFINITION.search(text) is not None


def ebnf_to_lark(text: str) -> str:
    """Lark with the rule `start` for a grammar whose first symbol is `root`.

    Raises:
        GrammarError: what is wrong with the grammar, and where.
    """
    rules = read_rules(text)
    if _ROOT not in rules:
        raise GrammarError(f"there is no rule {_ROOT!r} to start with")
    for name, node in rules.items():
        missing = _references(node) - rules.keys()
        if missing:
            raise GrammarError(f"rule {name!r} uses {min(missing)!r}, which no rule is")
    if _ROOT not in _ending_rules(rules):
        raise GrammarError(f"no text of the rule {_ROOT!r} ever comes to an end")
    return _Writer(rules).write()


def _references(node: Node) -> set[str]:
    """Names of the rules that `node` uses."""
    return {part.name for part in _parts(node) if isinstance(part, Reference)}


def _parts(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, Choice | Sequence):
            stack.extend(part.parts)
        elif isinstance(part, Repeat):
            stack.append(part.part)


def _regular_rules(uses: Mapping[str, set[str]]) -> set[str]:
    """Names of the rules that never come back to themselves."""
    users: dict[str, list[str]] = {name: [] for name in uses}
    for name, used in uses.items():
        for other in used:
            users[other].append(name)
    num_open = {name: len(used) for name, used in uses.items()}
    ready = [name for name, count in num_open.items() if not count]
    regular: set[str] = set()
    while ready:
        name = ready.pop()
        regular.add(name)
        for user in users[name]:
            num_open[user] -= 1
            if not num_open[user]:
                ready.append(user)
    return regular


def _ending_rules(rules: Mapping[str, Node]) -> set[str]:
    """Names of the rules that match at least one text; all of them when in doubt."""
    ending: set[str] = set()
    names = list(rules)
    for _ in range(_MAX_PASSES):
        found = [n for n in names if n not in ending and _add(n, rules[n], ending)]
        if not found:
            return ending
        names.reverse()
    return set(rules)


def _add(name: str, node: Node, ending: set[str]) -> bool:
    if not _ends(node, ending):
        return False
    ending.add(name)
    return True


def _ends(node: Node, ending: set[str]) -> bool:
    if isinstance(node, Reference):
        return node.name in ending
    if isinstance(node, Repeat):
        return node.minimum == 0 or _ends(node.part, ending)
    if isinstance(node, Choice):
        return any(_ends(part, ending) for part in node.parts)
    if isinstance(node, Sequence):
        return all(_ends(part, ending) for part in node.parts)
    return True


@dataclass(frozen=True)
class _Names:
    """What each rule is called in Lark: terminals in capitals."""

    by_rule: dict[str, str]

    @classmethod
    def of(cls, rules: Iterable[str], regular: set[str]) -> _Names:
        numbered = enumerate(rules)
        return cls(
            {name: f"{'T' if name in regular else 'r'}{i}" for i, name in numbered}
        )


class _Writer:
    """Writes rules as Lark, each regular run of a recursive rule as a terminal."""

    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules
        self._regular = _regular_rules({n: _references(r) for n, r in rules.items()})
        self._names = _Names.of(rules, self._regular).by_rule
        self._lines: list[str] = []

    def write(self) -> str:
        for name, node in self._rules.items():
            body = self._expression(node) if name in self._regular else self._rule(node)
            self._lines.append(f"{self._names[name]}: {body}")
        return "\n".join([f"start: {self._names[_ROOT]}", *self._lines, ""])

    def _is_regular(self, node: Node) -> bool:
        return _references(node) <= self._regular

    def _rule(self, node: Node) -> str:
        """Body of a recursive rule, or of a part of one."""
        if self._is_regular(node):
            return self._terminal(node)
        if isinstance(node, Choice):
            return "(" + " | ".join(map(self._rule, node.parts)) + ")"
        if isinstance(node, Sequence):
            return " ".join(map(self._rule, self._runs(node)))
        if isinstance(node, Repeat):
            return f"({self._rule(node.part)}){node.suffix}"
        return self._expression(node)

    def _runs(self, node: Sequence) -> Iterator[Node]:
        """Parts of `node`, neighbours that are regular joined to one."""
        run: list[Node] = []
        for part in node.parts:
            if self._is_regular(part):
                run.append(part)
                continue
            if run:
                yield Sequence(tuple(run))
            run = []
            yield part
        if run:
            yield Sequence(tuple(run))

    def _terminal(self, node: Node) -> str:
        name = f"P{len(self._lines)}"
        self._lines.append(f"{name}: {self._expression(node)}")
        return name

    def _expression(self, node: Node) -> str:
        if isinstance(node, Literal):
            return json.dumps(node.text, ensure_ascii=False)
        if isinstance(node, Pattern):
            return f"/{node.regex}/"
        if isinstance(node, Reference):
            return self._names[node.name]
        if isinstance(node, Repeat):
            return f"({self._expression(node.part)}){node.suffix}"
        if isinstance(node, Choice):
            return "(" + " | ".join(map(self._expression, node.parts)) + ")"
        return " ".join(map(self._expression, node.parts)) or '""'
