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
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from litert_lm.bundle.atomic import replacing
from litert_lm.bundle.identity import file_identity, identity_of
from litert_lm.errors import BackendError, StorageError, read_errors

__all__ = [
    "map_pages",
    "move_to_huge_pages",
    "read_in_huge_pages",
    "rewrite_in_huge_pages",
]

_HUGE_PAGE = 2 << 20
_PIECE_BYTES = 4 * _HUGE_PAGE  # any multiple will do
_FEW = 16  # of so many pieces one in small pages costs less than to read it again
_HEADER = re.compile(
    r"(?P<begin>[0-9a-f]+)-(?P<end>[0-9a-f]+) (?:\S+ +){3}\d+ *(?P<path>.*)"
)
_MAP_FAILED = ctypes.c_void_p(-1).value
_MADV_POPULATE_READ = 22  # Linux 5.14; older kernels refuse it, and lose nothing
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE if sys.platform != "win32" else 0

_Range = tuple[int, int]
"""Addresses at which a mapping begins and ends."""


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
    try:
        _enter(_mappings(path))
        ranges = _mappings(path)  # those that touch may be one by now
        if _are_huge(ranges):
            return 0
    except OSError as error:
        raise BackendError(
            f"Where the weights are mapped is not known: {error.strerror}, "
            f"{error.filename}. Leave huge_pages off."
        ) from error
    libc = _libc()
    return sum(_move(libc, begin, end) for begin, end in ranges)


def map_pages(path: str) -> None:
    """Enter a mapped file's pages into this process at once, where the kernel can.

    Touching them one by one, as the first steps would, takes several times as long.
    What is not in memory yet is read into huge pages, where the kernel can.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            _enter(_mappings(path))


def read_in_huge_pages(path: Path) -> None:
    """Have the kernel hold a file in huge pages, where it can.

    To be done before the file is mapped by who does not ask for huge pages: what is
    touched there is read into small ones, and stays there. A kernel that is short of
    memory, or saves it, also takes huge pages apart. Such parts are read again where
    they are many enough to be felt.
    """
    if not sys.platform.startswith("linux"):
        return
    with (
        contextlib.suppress(OSError, ValueError),  # ValueError: it was cut to nothing
        open(path, "rb", opener=_open_at_once) as file,
    ):
        size = os.fstat(file.fileno()).st_size
        small = _small_pieces(file.fileno()) if size >= _PIECE_BYTES else []
        if len(small) > size // _HUGE_PAGE // _FEW and small[0] not in _read_again(
            file.fileno(), small[:1]
        ):
            _read_again(file.fileno(), small[1:])


def _read_again(descriptor: int, pieces: Iterable[int]) -> list[int]:
    """Read parts of a file again, and tell which ones lie in small pages then."""
    for begin in pieces:
        os.posix_fadvise(descriptor, begin, _HUGE_PAGE, os.POSIX_FADV_DONTNEED)
    return _small_pieces(descriptor)


def _small_pieces(descriptor: int) -> list[int]:
    """Read a file; where those pieces of a huge page's size begin that are in none."""
    mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_HUGEPAGE)
    mapped.madvise(_MADV_POPULATE_READ)
    pieces = range(0, len(mapped) - _HUGE_PAGE + 1, _HUGE_PAGE)
    for begin in pieces[1::2]:
        # Another advice makes it a mapping of its own, of which the kernel tells.
        mapped.madvise(mmap.MADV_SEQUENTIAL, begin, _HUGE_PAGE)
    address = np.frombuffer(mapped, np.uint8).ctypes.data
    huge = _huge_by_begin()
    return [begin for begin in pieces if not huge.get(address + begin)]


def _open_at_once(path: str, flags: int) -> int:
    """Open whatever it is; a pipe would wait for who writes into it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _enter(ranges: Iterable[_Range]) -> None:
    libc = _libc()
    for begin, end in ranges:
        libc.madvise(begin, end - begin, mmap.MADV_HUGEPAGE)
        libc.madvise(begin, end - begin, _MADV_POPULATE_READ)


def _are_huge(ranges: Collection[_Range]) -> bool:
    """Whether nine tenths of these mappings of files are entered in huge pages."""
    return 10 * _huge_bytes(ranges) > 9 * sum(end - begin for begin, end in ranges)


def _huge_bytes(ranges: Collection[_Range]) -> int:
    """Bytes of mappings of files that are entered in huge pages."""
    huge = _huge_by_begin()
    return sum(huge.get(begin, 0) for begin, _ in ranges)


def _huge_by_begin() -> dict[int, int]:
    """First address of each mapping -> its bytes that are entered in huge pages."""
    found, begin = {}, 0
    for line in _lines("smaps"):
        if line.startswith("FilePmdMapped:"):
            found[begin] = int(line.split()[1]) << 10
        elif not line[:1].isupper() and (header := _HEADER.match(line)):
            begin = _range_of(header)[0]
    return found


def rewrite_in_huge_pages(path: Path) -> None:
    """Put a copy that the kernel holds in huge pages in the place of a file.

    Nothing happens where it would not do so.

    Raises:
        StorageError: the file cannot be read or changes meanwhile, the copy cannot be
            written or would leave no room for another.
    """
    with (
        contextlib.suppress(_NoGainError),
        read_errors(path),
        path.open("rb") as file,
    ):
        identity = identity_of(os.fstat(file.fileno()))
        size = identity[2]
        if size < _PIECE_BYTES or not sys.platform.startswith("linux"):
            return
        if shutil.disk_usage(path.parent).free < 2 * size:
            raise StorageError(f"No room for a copy of {path}; free some.")
        with replacing(path) as copy:
            # Read first: where a mapping's page is missing the kernel cuts a write
            # short, and what follows lies in small pages.
            for begin in range(0, size, _PIECE_BYTES):
                copy.write(memoryview(file.read(_PIECE_BYTES)), begin)
                if begin == 0:
                    _check_pages(copy.descriptor)
            if file_identity(path) != identity:
                raise StorageError(f"{path} changed while it was copied; try again.")


class _NoGainError(Exception):
    """The copy is no better than the file."""


def _check_pages(descriptor: int) -> None:
    """Raise _NoGainError for a file that is mapped in small pages."""
    mapped = np.frombuffer(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ), np.uint8)
    size = -(-mapped.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    ranges = [(mapped.ctypes.data, mapped.ctypes.data + size)]
    _enter(ranges)
    if not _are_huge(ranges):
        raise _NoGainError


def _mappings(path: str) -> list[_Range]:
    real = str(Path(path).resolve())
    return [
        _range_of(header)
        for line in _lines("maps")
        if (header := _HEADER.match(line)) and header["path"] == real
    ]


def _range_of(header: re.Match[str]) -> _Range:
    return int(header["begin"], 16), int(header["end"], 16)


def _lines(name: str) -> list[str]:
    """What the kernel says of this process' memory; OSError where it does not."""
    data = Path("/proc/self", name).read_bytes()
    return os.fsdecode(data).split("\n")


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
