"""Values of callers as plain, immutable ones: what is a list, an id, a text."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Literal, SupportsIndex

import numpy as np

from litert_lm.config import check_flag
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.sampling.constraint.spec import CONSTRAINT_KINDS, ConstraintSpec

__all__ = [
    "Candidates",
    "Prompt",
    "as_bias",
    "as_candidates",
    "as_constraint",
    "as_plain",
    "as_prompt",
    "as_tuple",
]

Prompt = str | Sequence[int]
Candidates = int | tuple[int, ...] | Literal["all"]

# A set has no order, and a mapping is rarely meant.
_NO_LISTS = (str, bytes, bytearray, Set, Mapping)
_MAX_ITEMS = 1 << 22  # of a list; no context holds as many tokens


def as_prompt(prompt: object) -> Prompt:
    """Text, or a tuple of at least one id."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, bytes | bytearray) or not isinstance(prompt, Iterable):
        raise InvalidArgumentError(
            f"prompt must be text or token ids, got {type(prompt).__name__}."
        )
    ids = as_tuple("prompt", prompt, int)
    if not ids:
        raise InvalidArgumentError("prompt holds no token ids; give at least one.")
    return ids  # type: ignore[return-value]


def as_plain(value: object) -> object:
    """A number of numpy's as one of Python's; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def as_tuple(name: str, values: object, kind: type) -> tuple[object, ...]:
    """A list's items as plain values of `kind`, int or str."""
    if isinstance(values, _NO_LISTS) or not isinstance(values, Iterable):
        raise InvalidArgumentError(
            f"{name} must be a list of {kind.__name__}, got {shown(values)}."
        )
    return tuple(_plain(name, item, kind) for item in _items(name, values))


def as_bias(values: object) -> tuple[tuple[int, float], ...]:
    """Pairs of a token id and what is added to its logit; the range comes later."""
    if not isinstance(values, Mapping):
        raise InvalidArgumentError(
            f"logit_bias must map token ids to numbers, got {shown(values)}."
        )
    pairs = []
    for token_id, bias in ((key, as_plain(value)) for key, value in values.items()):
        if isinstance(bias, bool) or not isinstance(bias, int | float):
            raise InvalidArgumentError(
                f"logit_bias must hold numbers, got {shown(bias)} for the id "
                f"{shown(token_id)}."
            )
        pairs.append((_plain("logit_bias", token_id, int), bias))
    return tuple(pairs)  # type: ignore[arg-type]


def as_candidates(name: str, value: object) -> Candidates:
    """A number of tokens, a tuple of ids, or "all"."""
    if isinstance(value, str) and value == "all":
        return "all"
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return _plain(name, value, int)  # type: ignore[return-value]
    if isinstance(value, _NO_LISTS) or not isinstance(value, Iterable):
        raise InvalidArgumentError(
            f'{name} must be a number of tokens, a list of ids or "all", got '
            f"{shown(value)}."
        )
    return as_tuple(name, value, int)  # type: ignore[return-value]


def as_constraint(given: Mapping[str, object]) -> ConstraintSpec | None:
    """The structured output that is asked for by one of CONSTRAINT_KINDS."""
    if "json_object" in given:
        check_flag("json_object", given["json_object"])
    names = [kind for kind in CONSTRAINT_KINDS if kind in given]
    names = [name for name in names if given[name] is not False]
    if not names:
        return None
    if len(names) > 1:
        raise InvalidArgumentError(
            f"{' and '.join(names)} are set; structured output takes one of them."
        )
    (name,) = names
    if name == "json_object":
        return ConstraintSpec(name)
    if name == "choice":
        return ConstraintSpec(name, _choices(given[name]))
    return ConstraintSpec(name, _source(name, given[name]))


def _choices(values: object) -> tuple[str, ...]:
    choices = as_tuple("choice", values, str)
    if not choices:
        raise InvalidArgumentError("choice holds no text; give at least one.")
    return choices  # type: ignore[return-value]


def _source(name: str, value: object) -> str:
    """The text of a schema, expression or grammar; a mapping as JSON."""
    if name in ("json", "structural_tag") and isinstance(value, Mapping):
        try:
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                f"{name} cannot be written as JSON: {error}; give plain values."
            ) from error
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be text, got {shown(value)}.")
    if not value.strip():
        raise InvalidArgumentError(f"{name} is blank; leave it out for free output.")
    return value


def _items(name: str, values: Iterable[object]) -> tuple[object, ...]:
    try:
        items = tuple(islice(values, _MAX_ITEMS + 1))
    except TypeError as error:  # an array without dimensions
        raise InvalidArgumentError(
            f"{name} must be a list, got {shown(values)}."
        ) from error
    if len(items) > _MAX_ITEMS:
        raise InvalidArgumentError(f"{name} has more than {_MAX_ITEMS} items.")
    return items


def _plain(name: str, item: object, kind: type) -> object:
    """The item as a plain str or int; numpy's integers are taken."""
    if isinstance(item, kind) and not isinstance(item, bool):
        return item
    try:
        if kind is int and not isinstance(item, bool):
            return operator.index(item)  # type: ignore[arg-type]
    except Exception as error:  # a class of the caller's decides which
        raise _wrong_item(name, item, kind) from error
    raise _wrong_item(name, item, kind)


def _wrong_item(name: str, item: object, kind: type) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} must hold {kind.__name__} values, got {shown(item)}."
    )
