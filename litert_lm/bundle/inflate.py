"""Decompression whose memory is bounded by a limit, not by what the file claims."""

from __future__ import annotations

import mmap
import zlib

from litert_lm.errors import ModelFileError, StorageError

__all__ = ["MAX_TOKENIZER", "inflate"]

MAX_TOKENIZER = 256 << 20
"""Bytes of a tokenizer.json; the largest known ones have 35 MB."""

_STEP = 1 << 20
_MAX_RATIO = 1032
"""No DEFLATE stream unfolds to more than this many times its size."""


def inflate(
    data: memoryview, size: int, limit: int, what: str, *, raw: bool = False
) -> memoryview:
    """The `size` bytes that `data` unfolds to, page-aligned and read-only.

    Args:
        data: a zlib stream, or DEFLATE without a frame when `raw`.
        size: bytes promised; ModelFileError unless exactly as many come out.
        limit: ModelFileError when `size` exceeds it.
        what: names the data in error messages.
    """
    if size > limit or size > (len(data) + 16) * _MAX_RATIO:
        raise ModelFileError(
            f"{what} claims to unfold from {len(data)} to {size} bytes, which is more "
            f"than it can or may ({limit}); get the file from a source you trust."
        )
    if size == 0:
        return memoryview(b"")
    try:
        target = mmap.mmap(-1, size)
    except OSError as error:
        raise StorageError(
            f"{what} needs {size} bytes of memory: {error.strerror}; free some."
        ) from error
    try:
        _fill(target, data, -zlib.MAX_WBITS if raw else zlib.MAX_WBITS, what)
    except zlib.error as error:
        raise ModelFileError(
            f"{what} is damaged: {error}; get the file again."
        ) from error
    return memoryview(target).toreadonly()


def _fill(target: mmap.mmap, data: memoryview, window_bits: int, what: str) -> None:
    """Unfolds `data` into `target`, which it must fill exactly."""
    stream = zlib.decompressobj(window_bits)
    size, filled = len(target), 0
    for start in range(0, len(data), _STEP):
        chunk: bytes | memoryview = data[start : start + _STEP]
        while len(chunk) and not stream.eof:
            part = stream.decompress(chunk, min(_STEP, size - filled + 1))
            if filled + len(part) > size:
                raise ModelFileError(
                    f"{what} unfolds to more than the {size} bytes it claims; "
                    "get the file again."
                )
            target[filled : filled + len(part)] = part
            filled += len(part)
            chunk = stream.unconsumed_tail
    if filled < size or not stream.eof:
        raise ModelFileError(
            f"{what} ends after {filled} of {size} bytes; get the file again."
        )
