"""From what a request asks for to a grammar that llguidance compiles."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.sampling.constraint.ebnf import ebnf_to_lark, is_ebnf
from litert_lm.sampling.constraint.ebnf_reader import GrammarError
from litert_lm.sampling.constraint.regex import regex_to_lark
from litert_lm.sampling.constraint.spec import ConstraintSpec
from litert_lm.sampling.constraint.tags import structural_tag_grammars

__all__ = ["make_grammar", "refuse"]

_MAX_CHARACTERS = 1 << 17
_MAX_TOTAL = 1 << 20
_MAX_PER_TEXT = {"regex": 1 << 15, "choice": 1 << 15, "grammar": 1 << 16}
"""Lower limits: a step looks at all that is left of a literal, and rules that use rules
are compiled in time that grows with the square of their number."""

_HINTS = {
    "json": 'Give a JSON Schema as JSON text, such as {"type": "object"}.',
    "json_object": "It has no value: the output is any JSON object.",
    "regex": (
        "Give a regular expression for the whole output, without look-around, word "
        "boundaries and back-references."
    ),
    "choice": "Give a list of texts, one of which the output will be.",
    "grammar": "Give Lark with a rule `start: ...`, or EBNF with `root ::= ...`.",
    "structural_tag": (
        'Give JSON text: {"structures": [{"begin": ..., "schema": {...}, "end": ...}], '
        '"triggers": [...]} or {"type": "structural_tag", "format": {...}}.'
    ),
}


def refuse(spec: ConstraintSpec, reason: str) -> NoReturn:
    """Raise the InvalidArgumentError that names the field and what would be right."""
    hint = _HINTS.get(spec.kind, f"Kinds are {', '.join(_HINTS)}.")
    value = "" if spec.kind == "json_object" else f" {shown(spec.value)}"
    raise InvalidArgumentError(f"{spec.kind}{value} is wrong: {reason}. {hint}")


def make_grammar(spec: ConstraintSpec, *, is_forcing: bool = True) -> str:
    """llguidance's JSON form of `spec`; what only llguidance can check is not checked.

    Args:
        spec: what the output must look like.
        is_forcing: let llguidance look for texts that must come next; for that it needs
            tokens for all bytes.

    Raises:
        InvalidArgumentError: `spec` is wrong; names the field.
        MissingExtraError: llguidance is not installed.
    """
    if spec.kind not in _MAKERS:
        refuse(spec, "there is no such kind of constraint")
    _check_value(spec)
    try:
        grammars = _MAKERS[spec.kind](spec)
    except GrammarError as error:
        refuse(spec, str(error))
    except RecursionError:
        refuse(spec, "it nests too deeply")
    if not is_forcing:
        grammars = _without_forcing(grammars)
    return _written(spec, {"grammars": grammars})


def _without_forcing(grammars: list[dict[str, Any]]) -> list[dict[str, Any]]:
    main, *others = grammars
    if "json_schema" in main:
        others = [{**main, "name": "schema"}]
        main = {"lark_grammar": "start: @schema\n"}
    # At the end, so that lines keep their numbers.
    option = '\n%llguidance {"no_forcing": true}\n'
    return [{**main, "lark_grammar": main["lark_grammar"] + option}, *others]


def _written(spec: ConstraintSpec, grammars: dict[str, Any]) -> str:
    """`grammars` as JSON that can be UTF-8."""
    try:
        text = json.dumps(grammars, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        refuse(spec, "it nests too deeply")
    except ValueError:
        refuse(spec, "a number in it is out of range")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        bad = text[error.start]
        refuse(spec, f"it holds the lone surrogate {bad!r}, written as an escape")
    return text


def _check_value(spec: ConstraintSpec) -> None:
    """Types, sizes and characters."""
    is_list = spec.kind == "choice"
    texts: Sequence[str] = spec.value if is_list else (spec.value,)  # type: ignore[assignment]
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        refuse(spec, "it must be a list of texts")
    if not texts:
        refuse(spec, "it is empty")
    for text in texts:
        if not isinstance(text, str):
            refuse(spec, f"it must be text, not {type(text).__name__}")
        _check_text(spec, text)
    if sum(map(len, texts)) > _MAX_TOTAL:
        refuse(spec, f"its texts are longer than {_MAX_TOTAL} characters in all")
    if not is_list and spec.kind != "json_object" and not str(spec.value).strip():
        refuse(spec, "it is blank")


def _check_text(spec: ConstraintSpec, text: str) -> None:
    limit = _MAX_PER_TEXT.get(spec.kind, _MAX_CHARACTERS)
    if len(text) > limit:
        refuse(spec, f"{len(text)} characters are more than the {limit} allowed")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        bad = text[error.start]
        refuse(spec, f"it holds the lone surrogate {bad!r} at position {error.start}")
    if spec.kind == "grammar" and "\0" in text:
        refuse(spec, f"it holds a NUL character at position {text.index(chr(0))}")


def _read_json(spec: ConstraintSpec) -> Any:
    try:
        return json.loads(str(spec.value), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        refuse(spec, f"it is no JSON: {error.msg} at {where}")
    except ValueError as error:
        refuse(spec, f"it is no JSON: {error}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _json(spec: ConstraintSpec) -> list[dict[str, Any]]:
    schema = _read_json(spec)
    if not isinstance(schema, dict | bool):
        refuse(spec, "a schema is an object, true or false")
    return [{"json_schema": schema}]


def _json_object(spec: ConstraintSpec) -> list[dict[str, Any]]:
    return [{"json_schema": {"type": "object"}}]


def _regex(spec: ConstraintSpec) -> list[dict[str, Any]]:
    return [{"lark_grammar": regex_to_lark(str(spec.value))}]


def _choice(spec: ConstraintSpec) -> list[dict[str, Any]]:
    # One terminal: apart, a text would hide the longer ones that start with it.
    texts = (json.dumps(text, ensure_ascii=False) for text in spec.value)
    return [{"lark_grammar": f"start: CHOICE\nCHOICE: {' | '.join(texts)}\n"}]


def _grammar(spec: ConstraintSpec) -> list[dict[str, Any]]:
    text = str(spec.value)
    return [{"lark_grammar": ebnf_to_lark(text) if is_ebnf(text) else text}]


def _structural_tag(spec: ConstraintSpec) -> list[dict[str, Any]]:
    return structural_tag_grammars(_read_json(spec))


_MAKERS: dict[str, Callable[[ConstraintSpec], list[dict[str, Any]]]] = {
    "json": _json,
    "json_object": _json_object,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "structural_tag": _structural_tag,
}
