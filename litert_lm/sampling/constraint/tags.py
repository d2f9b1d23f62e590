"""Structural tags: free text in which certain tags open constrained parts.

Two forms are read: {"structures": [{"begin", "schema", "end"}], "triggers": [...]} of
older vLLM, and {"type": "structural_tag", "format": {...}} of XGrammar.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from litert_lm.errors import shown
from litert_lm.sampling.constraint.ebnf import ebnf_to_lark, is_ebnf
from litert_lm.sampling.constraint.ebnf_reader import GrammarError
from litert_lm.sampling.constraint.regex import regex_to_lark

__all__ = ["structural_tag_grammars"]

_TEXT = r"/(?s:.*)/"
_MAX_DEPTH = 50
_UNBOUNDED = ("any_text", "triggered_tags")

_Json = dict[str, Any]


def structural_tag_grammars(value: object) -> list[_Json]:
    """llguidance's grammars, the main one first, for the JSON of a structural tag.

    Raises:
        GrammarError: what is wrong with it, and where.
    """
    if not isinstance(value, dict):
        raise GrammarError(f"it must be a JSON object, not {shown(value)}")
    writer = _Writer()
    if "structures" in value or "triggers" in value:
        start = writer.write(_from_legacy(value), "", None, 0)
    elif value.get("type") == "structural_tag":
        start = writer.write(value.get("format"), "format", None, 0)
    else:
        raise GrammarError(
            'it needs either "structures" and "triggers", or "type": "structural_tag" '
            'and "format"'
        )
    return writer.grammars(start)


def _from_legacy(value: _Json) -> _Json:
    """The older form as a format of the newer one."""
    structures = _list(value, "structures", "")
    triggers = _list(value, "triggers", "", str)
    tags = []
    for i, structure in enumerate(structures):
        path = f"structures[{i}]"
        _check_keys(structure, ("begin", "schema", "end"), path)
        begin, end = _text(structure, "begin", path), _text(structure, "end", path)
        if not begin.startswith(tuple(triggers)):
            raise GrammarError(f"{path}.begin {shown(begin)} starts with no trigger")
        schema = {"type": "json_schema", "json_schema": structure["schema"]}
        tags.append({"begin": begin, "end": end, "content": schema})
    return {"type": "triggered_tags", "tags": tags, "triggers": triggers}


def _check_keys(value: object, keys: Iterable[str], path: str) -> None:
    if not isinstance(value, dict):
        raise GrammarError(f"{path} must be a JSON object, not {shown(value)}")
    for key in keys:
        if key not in value:
            raise GrammarError(f"{path} lacks {key!r}")


def _list(value: _Json, key: str, path: str, kind: type = object) -> list[Any]:
    """The list at `key`, not empty."""
    items = value.get(key)
    where = f"{path}.{key}".lstrip(".")
    if not isinstance(items, list) or not items:
        raise GrammarError(f"{where} must be a list with at least one entry")
    for i, item in enumerate(items):
        if not isinstance(item, kind):
            raise GrammarError(f"{where}[{i}] must be a {kind.__name__}")
    return items


def _text(value: _Json, key: str, path: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise GrammarError(f"{path}.{key} must be text, not {shown(text)}")
    return text


def _flag(value: _Json, key: str, path: str) -> bool:
    flag = value.get(key, False)
    if not isinstance(flag, bool):
        raise GrammarError(f"{path}.{key} must be true or false, not {shown(flag)}")
    return flag


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _any_of(parts: Iterable[str]) -> str:
    return "(" + " | ".join(parts) + ")"


class _Writer:
    """Writes formats as rules of one Lark grammar, with schemas and others beside it.

    Each method returns the Lark expression of a format. `ends` are the texts that close
    the tag around a format without an end of its own; it then matches them too.
    """

    def __init__(self) -> None:
        self._rules: list[str] = []
        self._others: list[_Json] = []
        self._kinds: dict[str, Callable[[_Json, str, Any, int], str]] = {
            "any_text": self._any_text,
            "const_string": self._const_string,
            "grammar": self._grammar,
            "json_schema": self._json_schema,
            "optional": self._repeated,
            "or": self._or,
            "plus": self._repeated,
            "regex": self._regex,
            "sequence": self._sequence,
            "star": self._repeated,
            "tag": self._tag,
            "tags_with_separator": self._separated,
            "triggered_tags": self._triggered,
        }

    def grammars(self, start: str) -> list[_Json]:
        lark = "\n".join([f"start: {start}", *self._rules, ""])
        return [{"lark_grammar": lark}, *self._others]

    def write(self, value: Any, path: str, ends: list[str] | None, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise GrammarError(f"formats nest deeper than {_MAX_DEPTH}")
        path = path or "structural_tag"
        _check_keys(value, ("type",), path)
        kind = value["type"]
        if not isinstance(kind, str) or kind not in self._kinds:
            raise GrammarError(
                f"{path} has the type {shown(kind)}, which is not supported; supported "
                f"are {', '.join(self._kinds)}"
            )
        return self._kinds[kind](value, path, ends, depth)

    def _bounded(self, value: Any, path: str, depth: int) -> str:
        """A format in a place where another one follows."""
        if _is_unbounded(value):
            raise GrammarError(
                f"{path} never ends by itself, so nothing can follow it; put it last, "
                "or into a tag with an end"
            )
        return self.write(value, path, None, depth)

    def _rule(self, body: str, options: str = "") -> str:
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name}{options}: {body}")
        return name

    def _until(self, end: str) -> str:
        """Text up to and with the first `end`."""
        return self._rule(f"{_TEXT} {_quote(end)}", "[lazy]")

    def _other(self, grammar: _Json) -> str:
        name = f"g{len(self._others)}"
        self._others.append({**grammar, "name": name})
        return f"@{name}"

    def _const_string(self, value: _Json, path: str, _ends: Any, _depth: int) -> str:
        return _quote(_text(value, "value", path))

    def _json_schema(self, value: _Json, path: str, _ends: Any, _depth: int) -> str:
        schema = value.get("json_schema")
        if not isinstance(schema, dict | bool):
            raise GrammarError(f"{path}.json_schema must be a JSON Schema")
        if value.get("style", "json") != "json":
            raise GrammarError(
                f"{path}.style {shown(value['style'])} is not supported; 'json' is"
            )
        return self._other({"json_schema": schema})

    def _regex(self, value: _Json, path: str, _ends: Any, _depth: int) -> str:
        pattern = _text(value, "pattern", path)
        try:
            lark = regex_to_lark(pattern)
        except GrammarError as error:
            raise GrammarError(f"{path}.pattern, {error}") from error
        return self._other({"lark_grammar": lark})

    def _grammar(self, value: _Json, path: str, _ends: Any, _depth: int) -> str:
        text = _text(value, "grammar", path)
        try:
            lark = ebnf_to_lark(text) if is_ebnf(text) else text
        except GrammarError as error:
            raise GrammarError(f"{path}.grammar, {error}") from error
        return self._other({"lark_grammar": lark})

    def _any_text(self, value: _Json, path: str, ends: Any, _depth: int) -> str:
        if value.get("excludes"):
            raise GrammarError(f"{path}.excludes is not supported")
        return _any_of(map(self._until, ends)) if ends else self._free_text()

    def _free_text(self) -> str:
        return self._rule(_TEXT)

    def _sequence(self, value: _Json, path: str, ends: Any, depth: int) -> str:
        elements = _list(value, "elements", path)
        where = [f"{path}.elements[{i}]" for i in range(len(elements))]
        parts = [
            self._bounded(element, name, depth + 1)
            for element, name in zip(elements[:-1], where[:-1], strict=True)
        ]
        return " ".join(
            [*parts, self._closed(elements[-1], where[-1], ends, depth + 1)]
        )

    def _or(self, value: _Json, path: str, ends: Any, depth: int) -> str:
        elements = _list(value, "elements", path)
        return _any_of(
            self._closed(element, f"{path}.elements[{i}]", ends, depth + 1)
            for i, element in enumerate(elements)
        )

    def _repeated(self, value: _Json, path: str, _ends: Any, depth: int) -> str:
        sign = {"optional": "?", "plus": "+", "star": "*"}[value["type"]]
        content = self._bounded(value.get("content"), f"{path}.content", depth + 1)
        return f"({content}){sign}"

    def _closed(self, value: Any, path: str, ends: Any, depth: int) -> str:
        """A format that takes `ends` with it if something around it has them."""
        if _is_unbounded(value):
            return self.write(value, path, ends, depth)
        body = self.write(value, path, None, depth)
        return f"{body} {_any_of(map(_quote, ends))}" if ends else body

    def _tag(self, value: _Json, path: str, ends: Any, depth: int) -> str:
        begin = _text(value, "begin", path)
        return f"{_quote(begin)} {self._tail(value, path, ends, depth)}"

    def _tail(self, value: _Json, path: str, ends: Any, depth: int) -> str:
        """Content and end of a tag."""
        _check_keys(value, ("content", "end"), path)
        own = [value["end"]] if isinstance(value["end"], str) else None
        own = own if own is not None else _list(value, "end", path, str)
        if own == [""]:
            return self._closed(value["content"], f"{path}.content", ends, depth + 1)
        if "" in own:
            raise GrammarError(f"{path}.end holds an empty text among others")
        return self._closed(value["content"], f"{path}.content", own, depth + 1)

    def _separated(self, value: _Json, path: str, _ends: Any, depth: int) -> str:
        tag = _any_of(self._tags(value, path, depth))
        rest = ""
        if not _flag(value, "stop_after_first", path):
            rest = f" ({_quote(_text(value, 'separator', path))} {tag})*"
        body = self._rule(f"{tag}{rest}")
        return body if _flag(value, "at_least_one", path) else f"({body})?"

    def _tags(self, value: _Json, path: str, depth: int) -> list[str]:
        tags = _list(value, "tags", path, dict)
        where = [f"{path}.tags[{i}]" for i in range(len(tags))]
        return [
            self._bounded({**tag, "type": "tag"}, name, depth + 1)
            for tag, name in zip(tags, where, strict=True)
        ]

    def _triggered(self, value: _Json, path: str, ends: Any, depth: int) -> str:
        if value.get("excludes"):
            raise GrammarError(f"{path}.excludes is not supported")
        tags = [self._rule(body) for body in self._after_triggers(value, path, depth)]
        tag = _any_of(tags)
        last = _any_of(map(self._until, ends)) if ends else self._free_text()
        needs_tag = _flag(value, "at_least_one", path)
        if not _flag(value, "stop_after_first", path):
            return f"{tag}{'+' if needs_tag else '*'} {last}"
        after = _any_of(map(_quote, ends)) if ends else '""'
        return f"{tag} {after}" if needs_tag else f"({tag} {after} | {last})"

    def _after_triggers(self, value: _Json, path: str, depth: int) -> list[str]:
        """Per trigger: text up to it, and the rest of each tag that starts with it."""
        triggers = _list(value, "triggers", path, str)
        if "" in triggers:
            raise GrammarError(f"{path}.triggers holds an empty text")
        tails: dict[str, list[str]] = {}
        for i, tag in enumerate(_list(value, "tags", path, dict)):
            where = f"{path}.tags[{i}]"
            begin = _text(tag, "begin", where)
            found = [trigger for trigger in triggers if begin.startswith(trigger)]
            if not found:
                raise GrammarError(
                    f"{where}.begin {shown(begin)} starts with no trigger"
                )
            trigger = min(found, key=len)
            rest = {**tag, "type": "tag", "begin": begin[len(trigger) :]}
            tails.setdefault(trigger, []).append(self._bounded(rest, where, depth + 1))
        return [f"{self._until(t)} {_any_of(rest)}" for t, rest in tails.items()]


def _is_unbounded(value: Any) -> bool:
    """Whether a format may go on for ever."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "tag":
        return value.get("end") == "" and _is_unbounded(value.get("content"))
    if kind in ("sequence", "or"):
        elements = value.get("elements")
        last = elements if kind == "or" else elements and elements[-1:]
        return isinstance(last, list) and any(map(_is_unbounded, last))
    return kind in _UNBOUNDED
