"""Logits processors: changes to the logits before a token is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from litert_lm.sampling.penalties import Penalties
from litert_lm.sampling.selection import IdArray, Logits

__all__ = ["LogitsPipeline", "LogitsProcessor", "make_processors"]

_LARGEST = np.finfo(np.float32).max


class LogitsProcessor(Protocol):
    """One change to the logits; a stateless one does nothing in the last two."""

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        """Change `logits`, f32 [vocab_size], in place and return them.

        Args:
            output_ids: the tokens generated so far, without the prompt.
            logits: a private copy of the model's logits.
        """

    def accept(self, token_id: int) -> None:
        """Take note that `token_id` was generated."""

    def rollback(self, num_tokens: int) -> None:
        """Forget the last `num_tokens` accepted tokens."""


class _Stateless:
    def accept(self, token_id: int) -> None:
        """Nothing to note."""

    def rollback(self, num_tokens: int) -> None:
        """Nothing to forget."""


class _SuppressIds(_Stateless):
    """Makes tokens impossible."""

    def __init__(self, ids: IdArray) -> None:
        self._ids = ids

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        logits[self._ids] = -np.inf
        return logits


class _AllowIds(_Stateless):
    """Makes all other tokens impossible."""

    def __init__(self, ids: IdArray) -> None:
        self._ids = ids

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        kept = logits[self._ids]
        logits.fill(-np.inf)
        logits[self._ids] = kept
        return logits


class _Bias(_Stateless):
    """Adds to logits; a token that is impossible stays so."""

    def __init__(self, ids: IdArray, biases: Sequence[float]) -> None:
        self._ids = ids
        self._biases = np.array(biases, np.float32)

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        with np.errstate(over="ignore"):
            biased = logits[self._ids] + self._biases
        logits[self._ids] = np.minimum(biased, _LARGEST)
        return logits


class _MinNewTokens(_Stateless):
    """Makes the stop tokens impossible while the output is shorter than a minimum."""

    def __init__(self, stop_ids: IdArray, min_new_tokens: int) -> None:
        self._stop_ids = stop_ids
        self._min_new_tokens = min_new_tokens

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        if len(output_ids) < self._min_new_tokens:
            logits[self._stop_ids] = -np.inf
        return logits


class LogitsPipeline:
    """Processors in order, on one buffer that is used again for every token.

    Without processors the logits pass through, not copied.
    """

    def __init__(self, processors: Sequence[LogitsProcessor] = ()) -> None:
        self._processors = tuple(processors)
        self._buffer = np.empty(0, np.float32)

    def __bool__(self) -> bool:
        """Whether anything is switched on."""
        return bool(self._processors)

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        """The processed logits, f32 [vocab_size]; valid until the next call."""
        if not self._processors:
            return logits
        if self._buffer.size != logits.size:
            self._buffer = np.empty(logits.size, np.float32)
        np.copyto(self._buffer, logits)
        processed = self._buffer
        for processor in self._processors:
            processed = processor(output_ids, processed)
        return processed

    def followed_by(self, processors: Sequence[LogitsProcessor]) -> LogitsPipeline:
        """A pipeline of these processors and, behind them, further ones."""
        return LogitsPipeline([*self._processors, *processors])

    def accept(self, token_id: int) -> None:
        """Tell every processor that `token_id` was generated."""
        for processor in self._processors:
            processor.accept(token_id)

    def rollback(self, num_tokens: int) -> None:
        """Tell every processor to forget the last `num_tokens` tokens."""
        for processor in self._processors:
            processor.rollback(num_tokens)


def make_processors(
    *,
    vocab_size: int,
    suppressed_ids: Iterable[int] = (),
    allowed_ids: Iterable[int] = (),
    stop_ids: Iterable[int] = (),
    min_new_tokens: int = 0,
    bias: Mapping[int, float] | None = None,
    penalties: Penalties | None = None,
) -> LogitsPipeline:
    """A pipeline of the processors that are switched on, in the order of vLLM.

    Masks come first, so that no bias lifts a masked token; then bias, then penalties.

    Args:
        vocab_size: length of the logits. Ids beyond it are left out: the model cannot
            generate them.
        suppressed_ids: tokens that are never generated.
        allowed_ids: the only tokens that are; none at all is off.
        stop_ids: tokens that are not generated among the first `min_new_tokens`.
        min_new_tokens: 0 is off.
        bias: token id -> number added to its logit.
        penalties: of tokens that were there before.
    """
    processors: list[LogitsProcessor] = []
    suppressed = _ids_below(vocab_size, suppressed_ids)
    if suppressed.size:
        processors.append(_SuppressIds(suppressed))
    allowed = _ids_below(vocab_size, allowed_ids)
    if allowed.size:
        processors.append(_AllowIds(allowed))
    stops = _ids_below(vocab_size, stop_ids)
    if min_new_tokens > 0 and stops.size:
        processors.append(_MinNewTokens(stops, min_new_tokens))
    if bias:
        ids = _ids_below(vocab_size, bias)
        processors.append(_Bias(ids, [bias[int(i)] for i in ids]))
    if penalties is not None:
        processors.append(penalties)
    return LogitsPipeline(processors)


def _ids_below(vocab_size: int, ids: Iterable[int]) -> IdArray:
    known = sorted({token_id for token_id in ids if 0 <= token_id < vocab_size})
    return np.array(known, np.intp)
