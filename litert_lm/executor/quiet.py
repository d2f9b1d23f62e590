"""Keeps TFLite's notes off standard error.

The delegate announces itself on every compilation, below any log level that LiteRT lets
one set. What else is written meanwhile is passed on.
"""

from __future__ import annotations

import os
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
    with _lock:
        try:
            saved = os.dup(_STDERR)
        except OSError:  # standard error is closed
            yield
            return
        try:
            with tempfile.TemporaryFile() as caught:
                os.dup2(caught.fileno(), _STDERR)
                try:
                    yield
                finally:
                    os.dup2(saved, _STDERR)
                    _pass_on(caught.fileno())
        finally:
            os.close(saved)


def _pass_on(caught: int) -> None:
    os.lseek(caught, 0, os.SEEK_SET)
    with open(caught, "rb", closefd=False) as lines:
        for line in lines:
            if not line.startswith(_NOTES):
                os.write(_STDERR, line)
