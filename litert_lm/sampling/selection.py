"""The largest logits of a vocabulary, found without sorting it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ExecutionError, NoTokenLeftError

__all__ = ["FloatArray", "IdArray", "Logits", "checked_peak", "largest_ids"]

Logits = npt.NDArray[np.float32]
"""Scores of every token, shape [vocab_size]."""

IdArray = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]

_MAX_ROWS = 128


def checked_peak(logits: Logits) -> float:
    """The largest logit.

    Raises:
        NoTokenLeftError: all are -inf.
        ExecutionError: some are NaN or inf.
    """
    # A NaN anywhere makes the maximum NaN.
    peak = float(logits.max(initial=-math.inf))
    if math.isfinite(peak):
        return peak
    if peak == -math.inf:
        raise NoTokenLeftError(
            f"No token can be chosen: all {logits.size} logits are -inf. Loosen what "
            "forbids tokens: allowed_token_ids, min_new_tokens, structured output."
        )
    if math.isnan(peak):
        what = f"{np.count_nonzero(np.isnan(logits))} of {logits.size} are NaN"
    else:
        what = f"the largest of {logits.size} is {peak}"
    raise ExecutionError(
        f"No token can be chosen: {what} among the logits. The model file or its "
        "weight cache is damaged; fetch the model again."
    )


def largest_ids(values: npt.NDArray[np.floating], k: int) -> IdArray:
    """Ascending ids of the `k` largest values, and of every tie with the k-th.

    `values` has shape [vocab_size] and no NaN. The k-th largest of many group maxima
    bounds the k-th largest value from below, so that only few values are looked at.
    """
    size = values.size
    if k >= size:
        return np.arange(size)
    num_rows = min(_MAX_ROWS, size // (4 * k))
    if num_rows < 2:
        return np.flatnonzero(values >= _kth_largest(values, k))
    ids = _ids_from(values, num_rows, k)
    found = values[ids]
    if ids.size > k:
        ids = ids[found >= _kth_largest(found, k)]
    return ids


def _ids_from(values: npt.NDArray[np.floating], num_rows: int, k: int) -> IdArray:
    """Ascending ids of a set of at least `k` values that holds the `k` largest."""
    width = values.size // num_rows
    grid = values[: num_rows * width].reshape(num_rows, width)
    # A group is a column: maxima of whole rows are 2 to 5 times slower to take.
    maxima = grid.max(axis=0)
    floor = _kth_largest(maxima, k)
    columns = np.flatnonzero(maxima >= floor)
    row, column = np.nonzero(grid[:, columns] >= floor)
    rest = np.flatnonzero(values[num_rows * width :] >= floor)
    return np.concatenate((row * width + columns[column], rest + num_rows * width))


def _kth_largest(values: npt.NDArray[np.floating], k: int) -> np.floating:
    at = values.size - k
    return np.partition(values, at)[at]  # type: ignore[no-any-return]
