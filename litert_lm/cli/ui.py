"""All output. What was asked for goes to stdout, everything else to stderr."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from litert_lm.errors import StorageError

__all__ = [
    "aside",
    "error",
    "flush",
    "note",
    "out",
    "out_json",
    "prepare_streams",
    "progress",
    "silence_stdout",
    "stream",
    "table",
    "wants_extras",
]

#: Control characters that could drive a terminal; tab and newline are harmless.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SPARSE_S = 15.0


def prepare_streams() -> None:
    """Make standard streams usable, whatever the caller left of them.

    Closed ones lead nowhere: a file opened later would take the place of one, and what
    native code notes on standard error would go into it. Characters that the
    terminal's encoding lacks come out as '?'.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    for file in (sys.stdout, sys.stderr):
        if hasattr(file, "reconfigure"):
            file.reconfigure(errors="replace")


def stream(text: str) -> None:
    """Add to the answer at once. A terminal gets no control characters."""
    with _stdout_errors():
        sys.stdout.write(_CONTROL.sub("", text) if sys.stdout.isatty() else text)
        sys.stdout.flush()


def out(text: str) -> None:
    """One line of what was asked for."""
    with _stdout_errors():
        print(_CONTROL.sub("?", text))


def out_json(value: object, *, indent: int | None = 2) -> None:
    """What was asked for, as JSON; on one line when `indent` is None."""
    with _stdout_errors():
        print(json.dumps(value, indent=indent, ensure_ascii=False))


def flush() -> None:
    """Write out what is buffered, so that a closed pipe shows before the exit code."""
    with _stdout_errors():
        sys.stdout.flush()


@contextmanager
def _stdout_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        raise StorageError(
            f"Standard output cannot be written: {error.strerror}."
        ) from error


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns, each as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        out("  ".join(cells).rstrip())


def note(text: str) -> None:
    """One line beside the answer; dropped where nobody can read it."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(_CONTROL.sub("?", text), file=sys.stderr, flush=True)


def aside(text: str) -> None:
    """Beside the answer, without a line's end; dropped where nobody can read it."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(_CONTROL.sub("", text), end="", file=sys.stderr, flush=True)


def error(text: str) -> None:
    """The one line that tells why a command failed."""
    note(f"error: {' '.join(text.split())}")


def wants_extras() -> bool:
    """Whether a person is watching, so that figures and bars are welcome."""
    return sys.stderr is not None and sys.stderr.isatty()


def silence_stdout() -> None:
    """Drop what is still buffered for a reader or disk that does not take it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class _Bar:
    """A bar for the current stage, on a terminal."""

    def __init__(self) -> None:
        self._stage = ""
        self._bar: Any = None

    def __call__(self, stage: str, fraction: float) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._bar = stage, _new_bar(stage)
        if self._bar is not None:
            self._bar.update(min(fraction, 1.0) - self._bar.n)

    def close(self) -> None:
        """Wipe the bar."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def _new_bar(stage: str) -> Any:
    from tqdm import tqdm

    layout = "{desc}  {percentage:3.0f} % {bar:30} {elapsed}"
    label = _CONTROL.sub("?", stage)
    return tqdm(total=1.0, desc=label, bar_format=layout, leave=False, file=sys.stderr)


class _Lines:
    """A line per stage, and one in a while within a stage, in a log."""

    def __init__(self, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._stage = ""
        self._last_s = 0.0

    def __call__(self, stage: str, fraction: float) -> None:
        now_s = time.monotonic()
        if stage == self._stage and now_s - self._last_s < _SPARSE_S:
            return
        percent = f" {fraction:.0%}" if stage == self._stage else ""
        self._stage, self._last_s = stage, now_s
        if self._is_shown:
            note(f"{stage} ...{percent}")

    def close(self) -> None:
        """Nothing is left open."""


@contextmanager
def progress(*, in_logs: bool = True) -> Iterator[_Bar | _Lines]:
    """A callable (stage, fraction) that shows where long work stands.

    Args:
        in_logs: print plain lines where stderr is no terminal.
    """
    shown = _Bar() if wants_extras() else _Lines(in_logs)
    try:
        yield shown
    finally:
        shown.close()
