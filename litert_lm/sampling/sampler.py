"""Samplers: from logits to a token id."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from litert_lm.config import check_count, check_number
from litert_lm.errors import InvalidArgumentError
from litert_lm.sampling.selection import (
    FloatArray,
    IdArray,
    Logits,
    checked_peak,
    largest_ids,
)

__all__ = ["Sampler", "is_greedy", "make_sampler"]

Sampler = Callable[[Logits], int]
"""Takes logits f32 [vocab_size], gives the id of the token.

Raises ExecutionError when a logit is NaN or no token is possible.
"""

_GREEDY_BELOW = 1e-5
_MIN_TEMPERATURE = 0.01
_MAX_TEMPERATURE = 1e30
"""Far beyond flat; larger ones leave float32 and turn masked logits into NaN."""
_BLOCK = 512
_FIRST_NUCLEUS = 1024

_TOP_P_SLACK = 1e-6
"""Float32 logits give probabilities to about this; 0.4 + 0.3 shall reach 0.7."""


def make_sampler(
    *,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Sampler:
    """A sampler that does only what is switched on, in the order of vLLM.

    Divide by temperature; drop what is below `min_p` times the best probability; keep
    the `top_k` best (ties with the last too); of the rest keep the smallest set of
    best tokens with at least `top_p` of its probability; draw. Each token takes one
    number from `rng`, whatever is switched on.

    Args:
        temperature: 0 (below 1e-5) is greedy: the best token, the lowest id of equals.
            Values below 0.01 are raised to it.
        top_k: 0 is off, 1 is greedy.
        top_p: 1 is off, 0 is greedy (as in the official runtime).
        min_p: 0 is off.
        rng: where chance comes from; only a greedy sampler needs none.

    Raises:
        InvalidArgumentError: a value out of range, or no `rng`.
    """
    check_number("temperature", temperature, 0.0, math.inf)
    check_count("top_k", top_k, minimum=0)
    check_number("top_p", top_p, 0.0, 1.0)
    check_number("min_p", min_p, 0.0, 1.0)
    if is_greedy(temperature, top_k, top_p):
        return greedy
    if rng is None:
        raise InvalidArgumentError(
            "Sampling needs a numpy.random.Generator; pass rng, or temperature=0."
        )
    temperature = min(max(temperature, _MIN_TEMPERATURE), _MAX_TEMPERATURE)
    if not top_k and not min_p and top_p == 1.0:
        return _FullSampler(temperature, rng)
    return _CutSampler(temperature, top_k, top_p, min_p, rng)


def is_greedy(temperature: float, top_k: int, top_p: float) -> bool:
    """Whether `make_sampler` takes the best token and needs no chance."""
    return temperature < _GREEDY_BELOW or top_k == 1 or top_p == 0.0


def greedy(logits: Logits) -> int:
    """The id of the largest logit, the lowest of equals."""
    token_id = int(logits.argmax())
    # argmax stops at the first NaN.
    if not math.isfinite(logits.item(token_id)):
        checked_peak(logits)
    return token_id


class _Weights:
    """exp((logits - peak) / temperature) of the whole vocabulary in one buffer."""

    def __init__(self, temperature: float) -> None:
        self._scale = np.float32(1.0 / temperature)
        self._size = 0
        self._buffer = np.zeros((0, _BLOCK), np.float32)

    def __call__(self, logits: Logits, peak: float) -> Logits:
        """Float32 [num_blocks, 512]; zero beyond the vocabulary."""
        if self._size != logits.size:
            self._size = logits.size
            self._buffer = np.zeros((-(-self._size // _BLOCK), _BLOCK), np.float32)
        weights = self._buffer.reshape(-1)[: self._size]
        with np.errstate(over="ignore"):
            np.subtract(logits, np.float32(peak), out=weights)
            if self._scale != 1.0:
                weights *= self._scale
        np.exp(weights, out=weights)
        return self._buffer


class _FullSampler:
    """Draws from all tokens."""

    def __init__(self, temperature: float, rng: np.random.Generator) -> None:
        self._weights = _Weights(temperature)
        self._rng = rng

    def __call__(self, logits: Logits) -> int:
        blocks = self._weights(logits, checked_peak(logits))
        return _draw_from_all(blocks, self._rng.random())


class _CutSampler:
    """Draws from the tokens that min-p, top-k and top-p leave."""

    def __init__(
        self,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        rng: np.random.Generator,
    ) -> None:
        self._temperature = temperature
        self._top_k = top_k
        self._top_p = top_p
        self._min_p = min_p
        self._rng = rng
        self._all_weights = _Weights(temperature)
        self._is_kept = np.zeros(0, bool)

    def __call__(self, logits: Logits) -> int:
        peak = checked_peak(logits)
        if self._keeps_all(logits):
            return _draw_from_all(self._all_weights(logits, peak), self._rng.random())
        ids, total = self._candidates(logits, peak)
        weights = self._weights(logits, ids, peak)
        if self._min_p:
            keep = weights >= self._min_p
            ids, weights = ids[keep], weights[keep]
        if self._top_p < 1.0:
            mass = float(weights.sum()) if total is None else total
            best = _nucleus(weights, (self._top_p - _TOP_P_SLACK) * mass)
            ids, weights = ids[best], weights[best]
        sums = weights.cumsum()
        return int(ids[_first_above(sums, self._rng.random() * sums[-1])])

    def _keeps_all(self, logits: Logits) -> bool:
        is_cut = self._min_p or self._top_p < 1.0
        return not is_cut and self._top_k >= logits.size

    def _candidates(self, logits: Logits, peak: float) -> tuple[IdArray, float | None]:
        """Ascending ids that hold all survivors, and the mass top-p is a part of.

        None stands for the mass of the candidates themselves.
        """
        if 0 < self._top_k < logits.size:
            return largest_ids(logits, self._top_k), None
        if self._min_p:
            return self._above(logits, peak), None
        total = float(self._all_weights(logits, peak).sum(axis=1).sum(dtype=np.float64))
        return self._nucleus_candidates(logits, peak, total), total

    def _above(self, logits: Logits, peak: float) -> IdArray:
        """Ids that min-p may keep; the exact test on the few follows in float64."""
        if self._is_kept.size != logits.size:
            self._is_kept = np.zeros(logits.size, bool)
        floor = peak + self._temperature * math.log(self._min_p)
        floor -= 1e-5 * max(1.0, abs(floor))
        np.greater_equal(logits, np.float32(floor), out=self._is_kept)
        return np.flatnonzero(self._is_kept)

    def _nucleus_candidates(self, logits: Logits, peak: float, total: float) -> IdArray:
        """Ids of the best tokens, enough of them to hold `top_p` of the mass."""
        k = _FIRST_NUCLEUS
        while True:
            ids = largest_ids(logits, k)
            mass = self._weights(logits, ids, peak).sum()
            if mass >= self._top_p * total or k >= logits.size:
                return ids
            k *= 8

    def _weights(self, logits: Logits, ids: IdArray, peak: float) -> FloatArray:
        scaled = (logits[ids].astype(np.float64) - peak) / self._temperature
        return np.exp(scaled)


def _draw_from_all(blocks: Logits, uniform: float) -> int:
    """Id at share `uniform` of all weights in the order of ids."""
    sums = blocks.sum(axis=1).cumsum(dtype=np.float64)
    target = uniform * sums[-1]
    block = _first_above(sums, target)
    if block:
        target -= sums[block - 1]
    inside = blocks[block].cumsum(dtype=np.float64)
    return block * _BLOCK + _first_above(inside, target)


def _nucleus(weights: FloatArray, mass: float) -> IdArray:
    """Ascending positions of the fewest largest weights whose sum reaches `mass`."""
    order = np.argsort(-weights, kind="stable")
    sums = weights[order].cumsum()
    num_kept = int(np.searchsorted(sums, mass)) + 1
    return np.sort(order[:num_kept])


def _first_above(sums: FloatArray, target: float) -> int:
    """Position whose share of the cumulative `sums` holds `target`."""
    at = int(np.searchsorted(sums, target, side="right"))
    # Rounding may put the target on the end; the last share that is not empty has it.
    return at if at < sums.size else int(np.searchsorted(sums, sums[-1]))
