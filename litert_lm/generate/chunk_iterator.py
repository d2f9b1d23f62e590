"""The iterator over an answer's chunks that callers hold."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

from litert_lm.errors import SessionStateError

__all__ = ["ChunkIterator"]

T = TypeVar("T")


class ChunkIterator(Iterator[T], Generic[T]):
    """Chunks as they are made, for one thread at a time.

    Args:
        chunks: makes them; closed with the iterator.
        cancel: ends a chunk that another thread waits for.
    """

    def __init__(
        self, chunks: Generator[T, None, object], cancel: Callable[[], None]
    ) -> None:
        self._chunks = chunks
        self._cancel = cancel
        self._reading = threading.Lock()

    def __next__(self) -> T:
        """The next chunk.

        Raises:
            SessionStateError: another thread waits for it already.
        """
        if not self._reading.acquire(blocking=False):
            raise SessionStateError(
                "Another thread reads this stream; use a session of its own for each."
            )
        try:
            return next(self._chunks)
        finally:
            self._reading.release()

    def close(self) -> None:
        """End the answer, also while another thread waits for its next chunk."""
        if not self._reading.acquire(blocking=False):
            self._cancel()
            return
        try:
            self._chunks.close()
        finally:
            self._reading.release()
