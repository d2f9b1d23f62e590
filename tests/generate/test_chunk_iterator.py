"""The iterator that callers hold: errors of the answer are the answer's own."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from litert_lm.errors import SessionStateError
from litert_lm.generate.chunk_iterator import ChunkIterator


def never() -> None:
    raise AssertionError("nobody else reads the stream")


def test_a_value_error_of_the_answer_stays_one() -> None:
    def chunks() -> Generator[int, None, None]:
        yield 1
        raise ValueError("wrong")

    stream = ChunkIterator(chunks(), never)
    assert next(stream) == 1
    with pytest.raises(ValueError, match="wrong"):
        next(stream)


def test_a_value_error_at_the_end_of_a_closed_answer_stays_one() -> None:
    def chunks() -> Generator[int, None, None]:
        try:
            yield 1
        finally:
            raise ValueError("wrong")

    stream = ChunkIterator(chunks(), never)
    next(stream)
    with pytest.raises(ValueError, match="wrong"):
        stream.close()


def test_a_stream_that_is_read_already_says_so() -> None:
    cancelled = []

    def chunks() -> Generator[int, None, None]:
        with pytest.raises(SessionStateError, match="Another thread"):
            next(stream)
        stream.close()
        yield 1

    stream = ChunkIterator(chunks(), lambda: cancelled.append(True))
    assert list(stream) == [1]
    assert cancelled == [True]
