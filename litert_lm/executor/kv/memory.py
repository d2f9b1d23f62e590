"""Memory of caches: large, zeroed, in huge pages where the system has them.

What a cache leaves waits for the next one of the same model. A system may take freed
memory back, a virtual machine's host too, and getting it again then costs more than
reading a prompt of a few hundred tokens does.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
import weakref

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ContextFullError

__all__ = ["SpareMemory", "paged"]

_HUGE_PAGE = 2 << 20  # bytes, the size of Linux' transparent huge pages
_MOST_SPARE = 64 << 20  # bytes that may wait: 1,000 tokens of a small model


class SpareMemory:
    """Gives memory to the caches of one model, and keeps some that they leave."""

    def __init__(self) -> None:
        # Changed by single calls only, because finalizers run in any thread.
        self._blocks: list[mmap.mmap] = []
        self._is_closed = False

    @property
    def nbytes(self) -> int:
        """Bytes that wait for a cache."""
        return sum(map(len, tuple(self._blocks)))

    def zeroed(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Bytes of their own, which begin at a huge page.

        Raises:
            ContextFullError: there is no such memory.
        """
        memory, is_new = self._taken(max(1, nbytes) + _HUGE_PAGE)
        whole = np.frombuffer(memory, np.uint8)
        finalizer = weakref.finalize(whole, self._keep, memory)
        finalizer.atexit = False
        start = -whole.ctypes.data % _HUGE_PAGE
        found = whole[start : start + nbytes]
        if not is_new:
            found.fill(0)
        return found

    def close(self) -> None:
        """Give back what waits, and what will be left from now on."""
        self._is_closed = True
        self._blocks.clear()

    def _keep(self, memory: mmap.mmap) -> None:
        # Smaller ones cost nothing to get again.
        if self._is_closed or not 2 * _HUGE_PAGE <= len(memory) <= _MOST_SPARE:
            return
        self._blocks.append(memory)
        while self.nbytes > _MOST_SPARE:
            with contextlib.suppress(IndexError):
                self._blocks.pop(0)

    def _taken(self, nbytes: int) -> tuple[mmap.mmap, bool]:
        """Memory of at least so many bytes, and whether it is new."""
        for memory in tuple(self._blocks):
            # Much more would lie in memory and be counted nowhere.
            if nbytes <= len(memory) <= nbytes + nbytes // 4:
                with contextlib.suppress(ValueError):  # another thread was first
                    self._blocks.remove(memory)
                    return memory, False
        return self._new(nbytes), True

    def _new(self, nbytes: int) -> mmap.mmap:
        try:
            try:
                return _mapped(nbytes)
            except OSError:
                self._blocks.clear()
                return _mapped(nbytes)
        except (OSError, ValueError, OverflowError) as error:
            raise ContextFullError(
                f"No memory for a KV cache of {(nbytes - _HUGE_PAGE) / 1e6:.0f} MB; "
                "use a shorter prompt or a smaller max_num_tokens."
            ) from error


def paged(nbytes: int) -> int:
    """Bytes of the pages that hold so many."""
    page = _HUGE_PAGE if nbytes >= _HUGE_PAGE else mmap.PAGESIZE
    return -(-nbytes // page) * page


def _mapped(nbytes: int) -> mmap.mmap:
    memory = _anonymous(nbytes)
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
