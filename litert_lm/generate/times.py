"""How long a session's last prefill and decode took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from litert_lm.generate.response import SequenceOutput
from litert_lm.results import BenchmarkInfo

__all__ = ["Times"]


class Times:
    """Measures prefills and decodes, and keeps the last of each."""

    def __init__(self) -> None:
        self._prefill_start = 0.0
        self._prefill_seconds = 0.0
        self._prefill_count = 0
        self._first_token_seconds = 0.0
        self._decode_seconds = 0.0
        self._decode_count = 0

    @contextmanager
    def prefill(self, num_tokens: int) -> Iterator[None]:
        """Measure a prefill of that many tokens."""
        self._prefill_start = time.perf_counter()
        yield
        self._prefill_seconds = time.perf_counter() - self._prefill_start
        self._prefill_count = num_tokens
        self._decode_seconds, self._decode_count = 0.0, 0
        self._first_token_seconds = 0.0

    def decode(self, outputs: Iterator[SequenceOutput]) -> Iterator[SequenceOutput]:
        """Pass outputs on, counting time spent on making them."""
        begin = time.perf_counter()
        for output in outputs:
            now = time.perf_counter()
            self._decode_seconds += now - begin
            self._decode_count += output.num_tokens
            if not self._first_token_seconds:
                self._first_token_seconds = now - self._prefill_start
            yield output
            begin = time.perf_counter()

    def info(self, init_seconds: float) -> BenchmarkInfo:
        """The numbers in the official package's shape."""
        return BenchmarkInfo(
            init_time_in_second=init_seconds,
            time_to_first_token_in_second=self._first_token_seconds,
            last_prefill_token_count=self._prefill_count,
            last_prefill_tokens_per_second=_rate(
                self._prefill_count, self._prefill_seconds
            ),
            last_decode_token_count=self._decode_count,
            last_decode_tokens_per_second=_rate(
                self._decode_count, self._decode_seconds
            ),
        )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0
