"""Gives freed memory back to the system."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["trim_heap"]


def trim_heap() -> None:
    """Return what the C heap holds but does not use.

    Parsing a tokenizer leaves tens of megabytes behind that glibc would keep for the
    life of the process. Other C libraries return memory by themselves.
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
