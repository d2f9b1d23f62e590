"""Copies many arrays, on several threads where there is much to copy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["copy_arrays"]

_THREADED_BYTES = 8 << 20  # below, one thread is done before others have begun
_MAX_THREADS = 4  # more do not get more out of the memory

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def copy_arrays(pairs: Sequence[Pair]) -> None:
    """Copy the second array of each pair into the first, of the same shape.

    Touching new memory takes longer than copying does, and that too is shared out.
    """
    num_threads = min(_MAX_THREADS, os.cpu_count() or 1)
    nbytes = sum(target.nbytes for target, _ in pairs)
    if nbytes < _THREADED_BYTES or num_threads < 2:
        _copy(pairs)
        return
    with ThreadPoolExecutor(num_threads) as pool:
        parts = [pairs[number::num_threads] for number in range(num_threads)]
        for done in [pool.submit(_copy, part) for part in parts]:
            done.result()


def _copy(pairs: Sequence[Pair]) -> None:
    for target, source in pairs:
        np.copyto(target, source)
