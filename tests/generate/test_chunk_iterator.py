"""The iterator that callers hold: errors of the answer are the answer's own."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

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


def test_two_threads_do_not_share_a_stream() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def chunks() -> Generator[int, None, None]:
        begun.set()
        may_end.wait(10)
        yield 1

    stream = ChunkIterator(chunks(), never)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, stream)
        begun.wait(10)
        with pytest.raises(SessionStateError, match="Another thread"):
            next(stream)
        may_end.set()
        assert first.result() == 1
    assert list(stream) == []
