"""The iterator over an answer's chunks that callers hold."""

from __future__ import annotations

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

    def __next__(self) -> T:
        """The next chunk.

        Raises:
            SessionStateError: another thread waits for it already.
        """
        try:
            return next(self._chunks)
        except ValueError as error:
            if not _is_busy(error):
                raise
            raise SessionStateError(
                "Another thread reads this stream; use a session of its own for each."
            ) from None

    def close(self) -> None:
        """End the answer, also while another thread waits for its next chunk."""
        try:
            self._chunks.close()
        except ValueError as error:
            if not _is_busy(error):
                raise
            self._cancel()


def _is_busy(error: ValueError) -> bool:
    """Whether a generator was not entered, because it runs already.

    Python refuses that with an error whose trace has no frame of the generator.
    """
    trace = error.__traceback__
    return trace is not None and trace.tb_next is None
