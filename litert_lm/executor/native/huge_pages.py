"""Packed weights in huge pages, which make decoding faster.

Decoding reads all weights for every token, and with small pages much of that time goes
into looking up addresses and into reads that the CPU cannot foresee. A file is mapped
in huge pages where Linux holds it so, which takes a file system that can, and pieces as
large when it is written; private memory at the same address always can.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from litert_lm.bundle.atomic import replacing
from litert_lm.errors import BackendError

__all__ = ["map_pages", "move_to_huge_pages", "rewrite_in_huge_pages"]

_HUGE_PAGE = 2 << 20
_Range = tuple[int, int]
"""Addresses at which a mapping begins and ends."""

_PIECE = 4 * _HUGE_PAGE
_MAP_FAILED = ctypes.c_void_p(-1).value
_MADV_POPULATE_READ = 22  # Linux 5.14; older kernels refuse it, and lose nothing
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE if sys.platform != "win32" else 0


def move_to_huge_pages(path: str) -> int:
    """See to it that this process' mappings of a file are of huge pages.

    Those that are not are replaced by memory with the same content. Addresses stay, so
    the library that mapped the file notices nothing. The memory is private: it costs
    the size of the file.

    Args:
        path: the mapped file; it must not be written any more.

    Returns:
        Bytes moved.

    Raises:
        BackendError: not on this system, or there is no memory for it.
    """
    if not sys.platform.startswith("linux"):
        raise BackendError("Weights can be moved to huge pages on Linux only.")
    map_pages(path)
    ranges = _mappings(path)
    if _are_huge(ranges):
        return 0
    libc = _libc()
    return sum(_move(libc, begin, end) for begin, end in ranges)


def map_pages(path: str) -> None:
    """Enter a mapped file's pages into this process at once, where the kernel can.

    Touching them one by one, as the first steps would, takes several times as long.
    What is not in memory yet is read into huge pages, where the kernel can.
    """
    if sys.platform.startswith("linux"):
        _enter(_mappings(path))


def _enter(ranges: Iterable[_Range]) -> None:
    libc = _libc()
    for begin, end in ranges:
        libc.madvise(begin, end - begin, mmap.MADV_HUGEPAGE)
        libc.madvise(begin, end - begin, _MADV_POPULATE_READ)


def _are_huge(ranges: Collection[_Range]) -> bool:
    """Whether most of these mappings of files is entered in huge pages."""
    return 2 * _huge_bytes(ranges) > sum(end - begin for begin, end in ranges)


def _huge_bytes(ranges: Collection[_Range]) -> int:
    """Bytes of mappings of files that are entered in huge pages."""
    total, is_wanted = 0, False
    for line in _lines("smaps"):
        name, value, *_ = line.split(maxsplit=2)
        if not name.endswith(":"):  # the first line of the next mapping
            is_wanted = _range_of(name) in ranges
        elif is_wanted and name == "FilePmdMapped:":
            total += int(value) << 10
    return total


def rewrite_in_huge_pages(path: Path) -> None:
    """Put a copy that the kernel holds in huge pages in the place of a file.

    Nothing happens where it would not do so.

    Raises:
        StorageError: the copy cannot be written.
    """
    size = path.stat().st_size
    if size < _PIECE or not sys.platform.startswith("linux"):
        return
    with (
        contextlib.suppress(_SmallPagesError),
        path.open("rb") as file,
        replacing(path) as copy,
    ):
        # Pieces in memory of this process: while the kernel waits for pages of a
        # mapping it takes what it has got, and the rest begins in small pages.
        for begin in range(0, size, _PIECE):
            copy.write(memoryview(file.read(_PIECE)), begin)
            if begin == 0:
                _check_pages(copy.descriptor)


class _SmallPagesError(Exception):
    """The kernel holds the file in small pages."""


def _check_pages(descriptor: int) -> None:
    """Raise _SmallPagesError for a file that is mapped in small pages."""
    mapped = np.frombuffer(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ), np.uint8)
    size = -(-mapped.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    ranges = [(mapped.ctypes.data, mapped.ctypes.data + size)]
    _enter(ranges)
    if not _are_huge(ranges):
        raise _SmallPagesError


def _mappings(path: str) -> list[_Range]:
    real = str(Path(path).resolve())
    ranges = []
    for line in _lines("maps"):
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == real:
            ranges.append(_range_of(fields[0]))
    return ranges


def _range_of(text: str) -> _Range:
    begin, end = (int(part, 16) for part in text.split("-"))
    return begin, end


def _lines(name: str) -> list[str]:
    """What the kernel says of this process' memory; nothing where it is not asked."""
    try:
        return Path("/proc/self", name).read_text().splitlines()
    except OSError:
        return []


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
