"""Ctrl-C at a chosen line of code."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def is_interrupted(
    call: Callable[[], object], is_here: Callable[[str, str], bool]
) -> bool:
    """Whether Ctrl-C came before `call` was over.

    It comes before the first line of which `is_here` says so, asked with the line's
    file and text.
    """

    def trace(frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        text = linecache.getline(file, frame.f_lineno).strip()
        if event == "line" and is_here(file, text):
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
