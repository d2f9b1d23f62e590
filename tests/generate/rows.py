"""What the tests of the conformance table share. A, B and C are 'a', 'b' and 'c'."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fixtures.conformance import id_of, logits_after

__all__ = ["A", "B", "C", "finish_of", "ids_of", "logprobs_after"]

A, B, C = map(id_of, "abc")


def ids_of(response: Any) -> list[int]:
    """Token ids of the first answer."""
    return list(response.outputs[0].token_ids)


def finish_of(response: Any) -> tuple[str, Any]:
    """Reason of the first answer's end, and what stopped it."""
    info = response.outputs[0].finish_info
    stops = [info.stop_token_id, info.eos_token_id, info.stop_string]
    (stop,) = [stop for stop in stops if stop is not None] or [None]
    return info.finish_reason.name, stop


def logprobs_after(ids: Any) -> NDArray[np.float64]:
    """Log-probabilities of the next token: f64[V]."""
    logits = logits_after(ids).astype(np.float64)
    peak: NDArray[np.float64] = logits - np.log(np.exp(logits).sum())
    return peak
