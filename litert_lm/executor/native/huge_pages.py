"""Moves packed weights into huge pages, where that makes decoding faster.

Decoding reads all weights for every token, and with small pages much of that time goes
into looking up addresses. The weight cache is a file mapping, which the kernel does not
back with huge pages; private memory at the same address it does. Linux only.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from typing import Any

from litert_lm.errors import BackendError

__all__ = ["map_pages", "move_to_huge_pages"]

_HUGE_PAGE = 2 << 20
_MAP_FAILED = ctypes.c_void_p(-1).value
_MADV_POPULATE_READ = 22  # Linux 5.14; older kernels refuse it, and lose nothing
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE if sys.platform != "win32" else 0


def move_to_huge_pages(path: str) -> int:
    """Replace this process' mappings of a file by huge pages with the same content.

    Addresses stay, so the library that mapped the file notices nothing. The memory is
    private: it costs the size of the file.

    Args:
        path: the mapped file; it must not be written any more.

    Returns:
        Bytes moved.

    Raises:
        BackendError: not on this system, or there is no memory for it.
    """
    if not sys.platform.startswith("linux"):
        raise BackendError("Weights can be moved to huge pages on Linux only.")
    libc = _libc()
    return sum(_move(libc, begin, end) for begin, end in _mappings(path))


def map_pages(path: str) -> None:
    """Enter a mapped file's pages into this process at once, where the kernel can.

    Touching them one by one, as the first steps would, takes several times as long.
    """
    if sys.platform.startswith("linux"):
        libc = _libc()
        for begin, end in _mappings(path):
            libc.madvise(begin, end - begin, _MADV_POPULATE_READ)


def _mappings(path: str) -> list[tuple[int, int]]:
    real = str(Path(path).resolve())
    ranges = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == real:
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            ranges.append((begin, end))
    return ranges


def _move(libc: Any, begin: int, end: int) -> int:
    """Copy one range into new memory, and put that in its place in one step."""
    size = end - begin
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    block = libc.mmap(None, size + _HUGE_PAGE, _PROTECTION, flags, -1, 0)
    if block == _MAP_FAILED:
        raise BackendError(f"No memory to move {size / 1e6:.0f} MB into huge pages.")
    # Huge pages survive the move only between equally aligned addresses.
    fresh = block + (begin - block) % _HUGE_PAGE
    libc.madvise(fresh, size, mmap.MADV_HUGEPAGE)
    ctypes.memmove(fresh, begin, size)
    moved = libc.mremap(fresh, size, size, _MREMAP_MAYMOVE | _MREMAP_FIXED, begin)
    if moved != begin:
        raise BackendError("The kernel refuses to move weights into huge pages.")
    for start, stop in ((block, fresh), (fresh + size, block + size + _HUGE_PAGE)):
        if stop > start:
            libc.munmap(start, stop - start)
    return size


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_long)
    libc.mmap.restype = pointer
    libc.madvise.argtypes = (pointer, size, number)
    libc.munmap.argtypes = (pointer, size)
    libc.mremap.argtypes = (pointer, size, size, number, pointer)
    libc.mremap.restype = pointer
    return libc
