"""Log-probabilities and ranks of tokens in a model's logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from litert_lm.errors import InvalidArgumentError
from litert_lm.sampling.selection import (
    FloatArray,
    IdArray,
    Logits,
    checked_peak,
    largest_ids,
)

__all__ = ["Logprobs", "TokenLogprobs"]

_MAX_COUNTED = 64
"""From so many tokens on, sorting the vocabulary beats counting for each."""


@dataclass(frozen=True)
class TokenLogprobs:
    """Tokens with their natural log-probabilities and ranks.

    Attributes:
        ids: token ids, [n].
        logprobs: float64 [n], at most 0; -inf for a token that is impossible.
        ranks: how many tokens have a logit at least as high, [n]; 1 is the best,
            ties share the worst rank of the tie (as in vLLM).
    """

    ids: IdArray
    logprobs: FloatArray
    ranks: IdArray


class Logprobs:
    """Log-softmax of logits f32 [vocab_size], only where it is asked for.

    Holds the working memory of one vocabulary, so one thread uses it at a time. Every
    method raises ExecutionError when the logits hold a NaN or nothing but -inf. Who
    asks twice about the same logits passes the first `logsumexp` on as `total`.
    """

    def __init__(self) -> None:
        self._exp = np.empty(0, np.float32)
        self._is_above = np.empty(0, bool)

    def logsumexp(self, logits: Logits) -> float:
        """log(sum(exp(logits)))."""
        peak = checked_peak(logits)
        if self._exp.size != logits.size:
            self._exp = np.empty(logits.size, np.float32)
        with np.errstate(over="ignore"):
            np.subtract(logits, np.float32(peak), out=self._exp)
        np.exp(self._exp, out=self._exp)
        return peak + math.log(self._exp.sum(dtype=np.float64))

    def token_logprob(
        self, logits: Logits, token_id: int, *, total: float | None = None
    ) -> float:
        """Log-probability of one token."""
        total = self.logsumexp(logits) if total is None else total
        return float(logits[token_id]) - total

    def token_rank(self, logits: Logits, token_id: int) -> int:
        """Number of tokens with a logit at least as high, itself included."""
        if self._is_above.size != logits.size:
            self._is_above = np.empty(logits.size, bool)
        np.greater_equal(logits, logits[token_id], out=self._is_above)
        return int(np.count_nonzero(self._is_above))

    def of(
        self, logits: Logits, token_ids: Sequence[int], *, total: float | None = None
    ) -> TokenLogprobs:
        """The given tokens, in their order.

        Raises:
            InvalidArgumentError: an id is not in 0..vocab_size-1.
        """
        ids = np.array(token_ids, np.intp).reshape(-1)
        if ids.size and not 0 <= ids.min() <= ids.max() < logits.size:
            bad = next(i for i in ids if not 0 <= i < logits.size)
            raise InvalidArgumentError(
                f"Token id {bad} is out of range: the model has ids 0 to "
                f"{logits.size - 1}."
            )
        total = self.logsumexp(logits) if total is None else total
        own = logits[ids].astype(np.float64)
        if ids.size < _MAX_COUNTED:
            ranks = np.array([self.token_rank(logits, int(i)) for i in ids], np.intp)
        else:
            ranks = _ranks(np.sort(logits), own)
        return TokenLogprobs(ids, own - total, ranks)

    def top(
        self, logits: Logits, num_tokens: int, *, total: float | None = None
    ) -> TokenLogprobs:
        """The most likely tokens, best first, the lowest id first among equals.

        Args:
            num_tokens: how many; all when it is at least vocab_size.
        """
        if num_tokens < 1:
            return self.of(logits, (), total=total)
        total = self.logsumexp(logits) if total is None else total
        # Ties with the last are among them, hence ranks come out of them alone.
        best = largest_ids(logits, num_tokens)
        values = logits[best].astype(np.float64)
        order = np.argsort(-values, kind="stable")[:num_tokens]
        ranks = _ranks(np.sort(values), values[order])
        return TokenLogprobs(best[order], values[order] - total, ranks)


def _ranks(
    ascending: npt.NDArray[np.floating], values: npt.NDArray[np.floating]
) -> IdArray:
    return ascending.size - np.searchsorted(ascending, values)
