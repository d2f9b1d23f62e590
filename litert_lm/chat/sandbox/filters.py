"""The filters of chat templates, each checked for the size of what it makes."""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jinja2 import Environment, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as DEFAULT_FILTERS

from litert_lm.chat.sandbox.budget import as_list, charge, check_size, deep_size

__all__ = ["FILTERS", "check_format", "joined", "replaced"]

#: Filters of Jinja whose result is no larger than what goes in.
_SMALL = (
    "abs",
    "attr",
    "capitalize",
    "count",
    "d",
    "default",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "title",
    "truncate",
    "upper",
    "wordcount",
)
#: Filters of Jinja that compare or print all of what goes in.
_DEEP = ("dictsort", "groupby", "max", "min", "sort", "string", "unique")

#: A width of four digits, or one that comes from an argument; in both dialects.
_WIDE_FIELDS = (
    re.compile(r"%[^A-Za-z%]*(?:\d{4}|\*)"),
    re.compile(r"\{[^{}]*(?::[^{}]*\d{4}|\{)"),
)
_MAX_ESCAPE_CHARS = 6
_MAX_INDENT = 64
_MAX_ROUNDING = 20
_MAX_TRIMMED = 256


def joined(separator: str, values: Iterable[Any]) -> str:
    """``separator.join(values)``, refused before it is made if it is too large."""
    num_chars = 0
    pieces = []
    for value in values:
        if not isinstance(value, str):
            charge(value, deep=True)
        pieces.append(str(value))
        num_chars += len(pieces[-1]) + len(separator)
        check_size(num_chars)
    result = separator.join(pieces)
    charge(result)
    return result


def replaced(text: str, old: str, new: str, count: int = -1) -> str:
    """``text.replace(old, new, count)``, refused if the result is too large."""
    num_found = text.count(old) if count is None or count < 0 else count
    check_size(len(text) + min(num_found, len(text) + 1) * len(new))
    return text.replace(old, new, -1 if count is None else count)


def check_format(text: str, values: Any) -> None:
    """Refuse a format whose fields are wide, or whose result is too large."""
    if any(pattern.search(text) for pattern in _WIDE_FIELDS):
        raise SecurityError(f"the template uses the format {text[:80]!r}")
    num_fields = text.count("%") + text.count("{")
    check_size(len(text) + num_fields * deep_size(values))


def _checked(function: Callable[..., Any], *, deep: bool) -> Callable[..., Any]:
    """`function` with its first arguments and its result charged for."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if deep:
            charge(args[:2], deep=True)
        result = function(*args, **kwargs)
        result = as_list(result) if isinstance(result, Iterator) else result
        charge(result)
        return result

    return run


def _escape(value: Any) -> str:
    """HTML-escaped; always plain text, so that what is added later stays as it is."""
    check_size(_MAX_ESCAPE_CHARS * len(str(value)))
    return html.escape(str(value))


def _format(text: Any, *args: Any, **kwargs: Any) -> str:
    check_format(str(text), [*args, *kwargs.values()])
    return str(text) % (kwargs or args)


def _indent(
    text: str, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    num_added = width if isinstance(width, int) else len(width)
    check_size(len(text) + (text.count("\n") + 1) * num_added)
    return str(DEFAULT_FILTERS["indent"](text, width, first, blank))


@pass_environment
def _join(
    environment: Environment, values: Any, d: str = "", attribute: Any = None
) -> str:
    if attribute is not None:
        values = (environment.getitem(value, attribute) for value in values)
    return joined(str(d), values)


def _round(value: float, precision: int = 0, method: Any = "common") -> float:
    if not -_MAX_ROUNDING <= precision <= _MAX_ROUNDING:
        raise SecurityError(f"the template rounds to {precision} places")
    return float(DEFAULT_FILTERS["round"](value, precision, method))


@pass_environment
def _sum(
    environment: Environment, values: Any, attribute: Any = None, start: Any = 0
) -> Any:
    if not isinstance(start, int | float):
        raise SecurityError("the template adds up values that are no numbers")
    return DEFAULT_FILTERS["sum"](environment, values, attribute, start)


def _trim(text: Any, chars: str | None = None) -> str:
    if chars is not None and len(chars) > _MAX_TRIMMED:
        raise SecurityError("the template trims too many different characters")
    return str(text).strip(chars)


def _tojson(
    value: Any,
    indent: int | None = None,
    ensure_ascii: bool = False,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Hugging Face's templates expect it: not escaped for HTML."""
    if indent is not None and not 0 <= indent <= _MAX_INDENT:
        raise SecurityError(f"the template indents JSON by {indent}")
    if separators is not None and max(map(len, separators)) > _MAX_INDENT:
        raise SecurityError("the template uses long separators in JSON")
    charge(value, deep=True)
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    return joined("", encoder.iterencode(value))


FILTERS: dict[str, Callable[..., Any]] = {
    **{name: _checked(DEFAULT_FILTERS[name], deep=False) for name in _SMALL},
    **{name: _checked(DEFAULT_FILTERS[name], deep=True) for name in _DEEP},
    "e": _escape,
    "escape": _escape,
    "format": _format,
    "indent": _indent,
    "join": _join,
    "replace": replaced,
    "round": _round,
    "safe": str,
    "sum": _sum,
    "tojson": _tojson,
    "trim": _trim,
}
