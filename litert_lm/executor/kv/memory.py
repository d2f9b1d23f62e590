"""Memory of caches: large, zeroed, in huge pages where the system has them.

What nobody uses any more waits here for the next cache. A system may take freed memory
back, a virtual machine's host too, and getting it again then costs more than a prompt
of a few hundred tokens does.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
import weakref

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ContextFullError

__all__ = ["forget_spare_memory", "paged", "zeroed"]

_HUGE_PAGE = 2 << 20  # bytes, the size of Linux' transparent huge pages
_MOST_SPARE = 64 << 20  # bytes that may wait: 1,000 tokens of a small model

_spare: list[mmap.mmap] = []  # changed by single calls only: threads need no lock


def zeroed(nbytes: int) -> npt.NDArray[np.uint8]:
    """Bytes of their own, which begin at a huge page.

    Raises:
        ContextFullError: there is no such memory.
    """
    memory, is_new = _taken(max(1, nbytes) + _HUGE_PAGE)
    whole = np.frombuffer(memory, np.uint8)
    finalizer = weakref.finalize(whole, _keep, memory)
    finalizer.atexit = False
    start = -whole.ctypes.data % _HUGE_PAGE
    found = whole[start : start + nbytes]
    if not is_new:
        found.fill(0)
    return found


def paged(nbytes: int) -> int:
    """Bytes of the pages that hold so many."""
    page = _HUGE_PAGE if nbytes >= _HUGE_PAGE else mmap.PAGESIZE
    return -(-nbytes // page) * page


def forget_spare_memory() -> None:
    """Give back what waits."""
    _spare.clear()


def _keep(memory: mmap.mmap) -> None:
    if sum(map(len, _spare)) + len(memory) <= _MOST_SPARE:
        _spare.append(memory)


def _taken(nbytes: int) -> tuple[mmap.mmap, bool]:
    """Memory of at least so many bytes, and whether it is new."""
    for memory in tuple(_spare):
        # Twice as much would keep a long context's memory for short ones.
        if nbytes <= len(memory) < 2 * nbytes:
            with contextlib.suppress(ValueError):  # another thread was first
                _spare.remove(memory)
                return memory, False
    return _new(nbytes), True


def _new(nbytes: int) -> mmap.mmap:
    try:
        memory = _anonymous(nbytes)
    except (OSError, ValueError, OverflowError) as error:
        raise ContextFullError(
            f"No memory for a KV cache of {nbytes / 1e6:.0f} MB; use a shorter prompt "
            "or a smaller max_num_tokens."
        ) from error
    if hasattr(mmap, "MADV_HUGEPAGE") and nbytes >= 2 * _HUGE_PAGE:
        # A kernel without huge pages refuses; small ones work as well.
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _anonymous(nbytes: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, nbytes)
    # Python maps shared memory by default, which gets no huge pages.
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
