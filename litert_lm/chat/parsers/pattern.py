"""Regular expressions that come with a model file, matched in linear time by RE2."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from litert_lm.errors import MissingExtraError, ModelFileError, shown

__all__ = ["Pattern"]

_MAX_PATTERN_CHARS = 4096
#: A search costs at most the text's length times the size of RE2's program; this bounds
#: all searches of one text together.
_MAX_STEPS = 100_000_000


class Pattern:
    """A regular expression in RE2's syntax, the one of the official runtime.

    Args:
        source: the expression; ``.`` also matches line breaks.
        field: metadata field that errors name.

    Raises ModelFileError for what RE2 cannot compile, MissingExtraError without the
    package google-re2.
    """

    def __init__(self, source: str, field: str) -> None:
        self.field = field
        if len(source) > _MAX_PATTERN_CHARS:
            raise ModelFileError(
                f"The model's {field} has {len(source)} characters; at most"
                f" {_MAX_PATTERN_CHARS} are read. Correct the metadata."
            )
        re2 = _re2()
        options = re2.Options()
        options.log_errors = False
        options.dot_nl = True
        try:
            self._compiled: Any = re2.compile(source, options)
        except (re2.error, UnicodeError, RecursionError) as error:
            raise ModelFileError(
                f"The model's {field} is no regular expression of RE2's syntax:"
                f" {shown(source)} ({error}). Correct the metadata."
            ) from error

    def finds(self, text: str) -> Iterator[tuple[int, int, tuple[str | None, ...]]]:
        """Start, end and groups of each match that is not empty, left to right.

        `text` holds no lone surrogates. Raises ModelFileError where the expression is
        so large, or finds so much, that the search would take too long.
        """
        num_steps = self._steps(len(text), 0)
        for found in self._compiled.finditer(text):
            if found.end() > found.start():
                yield found.start(), found.end(), found.groups()
            num_steps = self._steps(len(text) - found.end(), num_steps)

    def _steps(self, num_chars: int, num_steps: int) -> int:
        """`num_steps` and those of one more search."""
        num_steps += num_chars * int(self._compiled.programsize)
        if num_steps > _MAX_STEPS:
            raise ModelFileError(
                f"The model's {self.field} takes too long on a reply of this length."
                " Correct the metadata, or ask for shorter replies."
            )
        return num_steps


def _re2() -> ModuleType:
    try:
        return importlib.import_module("re2")
    except ImportError as error:
        raise MissingExtraError.of(
            "A model whose metadata holds a regular expression", "google-re2", "tools"
        ) from error
