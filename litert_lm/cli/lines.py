"""Lines that somebody types, or that come from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress

from litert_lm.cli import ui
from litert_lm.errors import InvalidArgumentError

__all__ = ["is_typed", "piped_lines", "typed_line"]

_MAX_LINE_BYTES = 16 << 20


def is_typed() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def typed_line(mark: str) -> str | None:
    """What is typed behind a mark on standard error; None at the end (Ctrl-D).

    On a terminal that shows everything, lines can be edited and called back.

    Raises:
        InvalidArgumentError: what was typed is no text.
    """
    try:
        if sys.stdout.isatty() and ui.wants_extras():
            with suppress(ImportError):
                import readline  # noqa: F401 - input() takes it up
            return input(mark)
        ui.aside(mark)
        line = sys.stdin.readline()
    except EOFError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidArgumentError("What was typed is not UTF-8 text.") from error
    return line.rstrip("\n") if line else None


def piped_lines() -> Iterator[str]:
    """The lines of standard input.

    Raises:
        InvalidArgumentError: a line that is no text, or longer than any message.
    """
    if sys.stdin is None or sys.stdin.closed:
        return
    number = 0
    while data := sys.stdin.buffer.readline(_MAX_LINE_BYTES + 1):
        number += 1
        if len(data) > _MAX_LINE_BYTES:
            raise InvalidArgumentError(
                f"Line {number} of standard input has more than "
                f"{_MAX_LINE_BYTES >> 20} MB, too much for a message."
            )
        try:
            yield data.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(
                f"Line {number} of standard input is not UTF-8 text "
                f"(byte {error.start})."
            ) from error
