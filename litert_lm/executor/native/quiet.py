"""Keeps TFLite's notes off standard error.

The delegate announces itself on every compilation, below any log level that LiteRT lets
one set. What else is written meanwhile is passed on, and notes as well where somebody
set the logger ``litert_lm`` to INFO or below.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet_stderr"]

_STDERR = 2
# How TFLite, LiteRT and the GPU plugin begin lines that are no warnings.
_NOTES = (b"INFO:", b"I0000 ", b"WARNING: Logging before", b"Warning: max")
_lock = threading.Lock()


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Drop the notes among what is written to file descriptor 2."""
    if sys.__stderr__ is None or _are_notes_wanted():
        # Closed when Python started: what has the number now is another file.
        yield
        return
    with _lock, contextlib.ExitStack() as opened:
        try:
            caught = opened.enter_context(tempfile.TemporaryFile())
            saved = os.dup(_STDERR)
        except OSError:  # nowhere to keep them, or standard error is closed
            yield
            return
        opened.callback(os.close, saved)
        os.dup2(caught.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(saved, _STDERR)
            with contextlib.suppress(OSError):  # nobody can read them
                _pass_on(caught.fileno())


def _are_notes_wanted() -> bool:
    return 0 < logging.getLogger("litert_lm").level <= logging.INFO


def _pass_on(caught: int) -> None:
    os.lseek(caught, 0, os.SEEK_SET)
    with open(caught, "rb", closefd=False) as lines:
        for line in lines:
            if not line.startswith(_NOTES):
                os.write(_STDERR, line)
