"""What one rendering of an untrusted template may cost.

A template comes with a model file, so it may loop for ever or grow without bound on
purpose. Every value that a template makes is charged here before or as it is made.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from jinja2.exceptions import SecurityError

from litert_lm.errors import PromptTooLongError

__all__ = [
    "as_list",
    "charge",
    "check_given",
    "check_size",
    "deep_size",
    "limited",
    "spend_steps",
]

#: Characters of one string; a list or dict entry counts as `_ENTRY_CHARS`.
_MAX_CHARS = 4_000_000
_ENTRY_CHARS = 32
_TOTAL_CHARS = 64_000_000
_TOTAL_STEPS = 5_000_000
_DEADLINE_S = 10.0
#: A check takes about as long as so many of a template's own steps.
_CHECK_STEPS = 10


@dataclass
class _Budget:
    """What is left for the rendering that runs in this context."""

    num_chars: int
    num_steps: int
    end_s: float


_BUDGET: ContextVar[_Budget] = ContextVar("template_budget")


@contextmanager
def limited() -> Iterator[None]:
    """Give the block a fresh budget.

    Outside of such a block every check raises LookupError, which also keeps Jinja's
    compiler from computing a template's constants ahead of time.
    """
    end_s = time.monotonic() + _DEADLINE_S
    token = _BUDGET.set(_Budget(_TOTAL_CHARS, _TOTAL_STEPS, end_s))
    try:
        yield
    finally:
        _BUDGET.reset(token)


def spend_steps(count: int) -> None:
    """Count `count` steps of work and look at the clock."""
    left = _BUDGET.get()
    left.num_steps -= count
    if left.num_steps < 0 or time.monotonic() > left.end_s:
        raise SecurityError("the template takes too many steps")


def check_size(count: int) -> None:
    """Refuse a value of `count` characters before it is made."""
    if count > _MAX_CHARS:
        raise SecurityError(f"the template makes a value of {count} characters")


def check_given(value: object) -> None:
    """Refuse what a caller gives to templates if it is too large for any of them.

    Raises:
        PromptTooLongError: it is.
    """
    if deep_size(value) > _MAX_CHARS:
        raise PromptTooLongError(
            f"The messages take more than the {_MAX_CHARS} characters that a chat "
            "template may print; shorten them, or leave old ones out."
        )


def charge(value: object, *, deep: bool = False) -> None:
    """Charge for a value that was made; `deep` walks into nested containers.

    A list is cheap to nest into itself and dear to print or compare, hence `deep` for
    whatever nests, prints or compares.
    """
    count = deep_size(value) if deep else _shallow_size(value)
    check_size(count)
    left = _BUDGET.get()
    left.num_chars -= count
    if left.num_chars < 0:
        raise SecurityError("the template makes too much text")
    spend_steps(_CHECK_STEPS)


def _shallow_size(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple):
        texts = sum(len(entry) for entry in value if isinstance(entry, str))
        return texts + _ENTRY_CHARS * len(value)
    if isinstance(value, Mapping):
        return _ENTRY_CHARS * len(value)
    return _ENTRY_CHARS


def as_list(values: Iterable[object]) -> list[object]:
    """The values, each charged as it is made."""
    made = []
    for value in values:
        charge(value)
        made.append(value)
    check_size(_shallow_size(made))
    return made


def deep_size(value: object) -> int:
    """Characters that printing the value would take, about; stops past the limit."""
    total = 0
    pending: list[Iterable[object]] = [[value]]
    while pending and total <= _MAX_CHARS:
        for entry in pending.pop():
            total += len(entry) if isinstance(entry, str | bytes) else _ENTRY_CHARS
            if isinstance(entry, Mapping):
                pending.extend((entry.keys(), entry.values()))
            elif isinstance(entry, list | tuple | set | frozenset):
                pending.append(entry)
            if total > _MAX_CHARS:
                break
    return total
