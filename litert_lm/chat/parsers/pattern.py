"""Regular expressions that come with a model file, matched in linear time by RE2."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from litert_lm.errors import MissingExtraError, ModelFileError, shown

__all__ = ["Pattern"]

_MAX_PATTERN_CHARS = 4096
#: One match costs time in proportion to the text; this bounds all of them together.
_MAX_SCANNED_CHARS = 64_000_000


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

        `text` holds no lone surrogates. Raises ModelFileError where so many matches
        reach so far that the search would take too long.
        """
        budget = _MAX_SCANNED_CHARS
        for found in self._compiled.finditer(text):
            budget -= len(text) - found.start()
            if budget < 0:
                raise ModelFileError(
                    f"The model's {self.field} takes too long on a reply of"
                    f" {len(text)} characters. Correct the metadata."
                )
            if found.end() > found.start():
                yield found.start(), found.end(), found.groups()


def _re2() -> ModuleType:
    try:
        return importlib.import_module("re2")
    except ImportError as error:
        raise MissingExtraError.of(
            "A model whose metadata holds a regular expression", "google-re2", "tools"
        ) from error
